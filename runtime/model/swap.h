/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Activation offload (plan/offload.h). The device has places for the activations of a few layers, instead of
 * slots for all layers. A forward pass fills a place for each layer. The activations of some layers are
 * copied to the host during the following passes. In the backward pass a layer's activations are still in
 * their place, or were copied back during the previous layer's pass, or are recomputed from the layer's
 * input, which is in its slot. Without such places these functions do nothing.
 */

/* Errors: NO_MEMORY, DEVICE. */
int p4d_swap_open(p4d_net *m, p4d_error *err);
void p4d_swap_close(p4d_net *m);

/*
 * Call p4d_swap_begin when a forward pass is about to compute a layer of a slot, and p4d_swap_end when it has
 * computed it.
 */
void p4d_swap_begin(p4d_net *m, uint32_t slot, uint32_t layer);
void p4d_swap_end(p4d_net *m, uint32_t slot, uint32_t layer);

/*
 * Call it when a backward pass is about to use a layer; the layers before it must follow. Returns whether the
 * layer must be recomputed.
 */
bool p4d_swap_use(p4d_net *m, uint32_t slot, uint32_t layer);

/* The place of a layer of a slot, or the last place that it had. 0 if it never had one. */
uint32_t p4d_swap__place(const p4d_net *m, uint32_t slot, uint32_t layer);
