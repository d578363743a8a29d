/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"
#include "request/layout.h"

/*
 * p4d-train on GPUs, with packed documents of a known mean length (document_len): the documents that cuDNN
 * computes in a call (cudnn_workspace.h). A power of two, about as many as a rank's micro-batch has; a
 * micro-batch with more of them has several calls. 0: p4d's own kernels compute documents, as with context
 * parallelism, slices of sequences, fp32, and on GPUs for which cuDNN does not.
 */
uint64_t p4d_packed_documents(const p4d_layout *layout, const p4d_gpu *gpu);
