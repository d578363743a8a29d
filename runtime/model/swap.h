/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Activations that leave the device. In plans with activation offload (plan/offload.h), the device has places
 * for the activations of a few layers, instead of slots for all layers. A forward pass fills a place for each
 * layer, and some are copied to the host during the following passes. A backward pass finds a layer still in
 * its place, or gets it copied back during the previous layer's pass, or recomputes it from its input, which
 * is in its slot. Without such places these functions do nothing.
 */

/* Errors: NO_MEMORY, DEVICE. */
int p4d_swap_open(p4d_net *m, p4d_error *err);
void p4d_swap_close(p4d_net *m);

/* Call the first when a forward pass is about to compute a layer of a slot, and the second when it has. */
void p4d_swap_begin(p4d_net *m, uint32_t slot, uint32_t layer);
void p4d_swap_end(p4d_net *m, uint32_t slot, uint32_t layer);

/*
 * A backward pass is about to use this layer, and then the layers before it. Returns whether the layer must
 * be recomputed.
 */
bool p4d_swap_use(p4d_net *m, uint32_t slot, uint32_t layer);

/* The place of a layer of a slot, or the last place that it had; 0: it never had one. */
uint32_t p4d_swap__place(const p4d_net *m, uint32_t slot, uint32_t layer);
