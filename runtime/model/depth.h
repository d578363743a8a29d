/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * The third dimension (Z) of a tp-grid. Each rank of Z has some rows of a layer's matrices. They are gathered
 * into one of two places during the previous layer's pass, and stay there until another layer needs the
 * place. The gradients of all rows, from this rank's sequences, are summed into the gradients of its own rows
 * during the next layer's pass. Without Z these functions do nothing. Errors: RANK.
 */
enum { P4D_DEPTH_MATRICES = 4 };

/*
 * p4d_depth_gather starts to gather a layer, unless it is in a place already. Operations that are queued
 * after p4d_depth_await can use it.
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
 * The address of all gathered rows of a matrix; and the address of their gradient, for a pass that is about
 * to compute it.
 */
void *p4d_depth__weight(const p4d_net *net, const p4d_weight *weight);
float *p4d_depth__gradient(const p4d_net *net, const p4d_weight *weight);
void p4d_depth__compute(p4d_net *net, const p4d_weight *weight);
