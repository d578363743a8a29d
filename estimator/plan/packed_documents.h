/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"
#include "request/layout.h"

/*
 * Number of documents in a call of cuDNN's attention, for p4d-train on GPUs with packed documents of a known
 * mean length (document_len). It is a power of two, about the number of documents in a rank's micro-batch. A
 * micro-batch with more documents has several calls. 0: p4d's own kernels compute documents, as with context
 * parallelism, slices of sequences, fp32, and on GPUs on which cuDNN does not support documents.
 */
uint64_t p4d_packed_documents(const p4d_layout *layout, const p4d_gpu *gpu);
