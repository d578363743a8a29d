/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_reserved.h"

/* Whether p4d simulates layers with experts. */
bool p4d_megatron__plays_experts(const p4d_layout *layout);

/* The experts of a layer, after its second norm. saves: keeps blocks for a backward pass. Returns the result.
 */
p4d_allocated p4d_megatron__forward_experts(p4d_megatron_step *step, p4d_allocated *kept, bool saves);

/* Returns the gradient of the norm's result; the caller frees the gradient of the layer's result. */
p4d_allocated p4d_megatron__backward_experts(p4d_megatron_step *step, p4d_allocated *kept);
