/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/cuda/sdpa_graph.h"

/*
 * How cuDNN computes a graph. Descriptors live as long as the graph.
 *
 * p4d_engine_choose returns the first of cuDNN's proposals whose workspace has at most most_bytes bytes.
 * device: NULL, or a device descriptor that replaces the GPU of the graph's handle. Errors: DEVICE (cuDNN
 * refuses the graph; returns NULL).
 */
cudnnBackendDescriptor_t p4d_engine_choose(p4d_sdpa_graph *graph, cudnnBackendDescriptor_t device,
					   uint64_t most_bytes, uint64_t *bytes, p4d_error *err);
/* Compiles a proposal, which takes about a second. Errors: DEVICE. */
cudnnBackendDescriptor_t p4d_engine_build(p4d_sdpa_graph *graph, cudnnBackendDescriptor_t device,
					  cudnnHandle_t handle, cudnnBackendDescriptor_t choice,
					  p4d_error *err);
