/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_reserved.h"

/* Attention of a layer. saves: keeps blocks for a backward pass. */
void p4d_megatron__forward_attention(p4d_megatron_step *step, p4d_allocated *kept, bool saves);

/*
 * gradient: of attention's result. Returns the gradient of the layer's input. If `into` is true, this is the
 * block of `gradient`, to which attention's part is added; otherwise it is a new block, and `gradient` is
 * freed.
 */
p4d_allocated p4d_megatron__backward_attention(p4d_megatron_step *step, p4d_allocated *kept,
					       p4d_allocated gradient, bool into);

/* The backward pass of a norm and the matmul after it. Frees the norm's result and `product`, the gradient of
 * the matmul's result. Returns the gradient of the norm's input. dummy, weight: the name of the weight's
 * dummy gradient, and its elements. */
p4d_allocated p4d_megatron__backward_norm(p4d_megatron_step *step, p4d_allocated *norm,
					  p4d_allocated *product, const char *dummy, p4d_wide weight);
