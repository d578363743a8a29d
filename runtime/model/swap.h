/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Activations that leave the device, if the plan has them in places for a few layers instead of in slots
 * (plan/offload.h). A forward pass fills a place for each layer, and some are copied to the host during the
 * following passes. A backward pass finds a layer still in its place, or has it copied back during the layer
 * before, or recomputes it from its input, which is in its slot. Without such places these functions do
 * nothing.
 */

/* Errors: NO_MEMORY, DEVICE. */
int p4d_swap_open(p4d_net *m, p4d_error *err);
void p4d_swap_close(p4d_net *m);

/* A forward pass is about to fill a layer of a slot; and has. */
void p4d_swap_begin(p4d_net *m, uint32_t slot, uint32_t layer);
void p4d_swap_end(p4d_net *m, uint32_t slot, uint32_t layer);

/* A backward pass is about to use it, and then the layers before it; whether it has to be computed again. */
bool p4d_swap_use(p4d_net *m, uint32_t slot, uint32_t layer);

/* The place of a layer of a slot, or that which it last had; 0: never had one. */
uint32_t p4d_swap__place(const p4d_net *m, uint32_t slot, uint32_t layer);
