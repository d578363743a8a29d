/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_reserved.h"

/* Elements of the vocabulary's table. */
uint64_t p4d_megatron__table(const p4d_megatron_step *step);
/* Allocates parameters, gradients and master weights. */
void p4d_megatron__load(p4d_megatron_step *step);
/*
 * The update, which allocates the moments in the first step, and zero_grad(), which frees fp32 copies of
 * gradients.
 */
void p4d_megatron__update(p4d_megatron_step *step, bool first);
/* The largest number of layers for whose matrices and activations the allocator has records. */
uint32_t p4d_megatron__depth(const p4d_megatron_step *step);
