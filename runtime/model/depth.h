/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * The third dimension (Z) of a tp-grid. Each rank of Z stores some rows of a layer's matrices, but computes
 * with all rows, on its own sequences. All rows of a layer are gathered into one of two places during the
 * previous layer's pass, and stay there until another layer needs the place. A rank computes gradients of all
 * rows. During the next layer's pass they are summed over Z, and each rank gets the sum for the rows that it
 * stores. Without Z these functions do nothing. Errors: RANK.
 */
enum { P4D_DEPTH_MATRICES = 4 };

/*
 * p4d_depth_gather starts to gather a layer, unless the layer is already in its place. Operations that are
 * queued after p4d_depth_await find all rows there.
 */
int p4d_depth_gather(p4d_net *net, uint32_t layer, p4d_error *err);
int p4d_depth_await(p4d_net *net, uint32_t layer, p4d_error *err);
/* Starts to sum a pass's gradients of a layer, and finishes the sum of the previous layer. */
int p4d_depth_reduce(p4d_net *net, uint32_t layer, p4d_error *err);
/* Finishes the last sum, at the end of a pass. */
int p4d_depth_end(p4d_net *net, p4d_error *err);
/* Call it when the parameters change: the gathered layers are then out of date. */
void p4d_depth__forget(p4d_net *net);

/*
 * Addresses for a matrix that is cut over Z. p4d_depth__weight: all its gathered rows. p4d_depth__gradient:
 * the gradient of all rows. p4d_depth__compute tells this file that the pass is about to compute that
 * gradient.
 */
void *p4d_depth__weight(const p4d_net *net, const p4d_weight *weight);
float *p4d_depth__gradient(const p4d_net *net, const p4d_weight *weight);
void p4d_depth__compute(p4d_net *net, const p4d_weight *weight);
