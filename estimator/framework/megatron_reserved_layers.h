/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_reserved.h"

/*
 * The layers of a chunk. forward keeps `input` and returns the output. backward returns the gradient of the
 * input. It frees the input and `gradient`, the gradient of the output, unless they are held: then the caller
 * frees them.
 */
p4d_allocated p4d_megatron__forward(p4d_megatron_step *step, uint32_t chunk, unsigned slot,
				    p4d_allocated input);
p4d_allocated p4d_megatron__backward(p4d_megatron_step *step, uint32_t chunk, unsigned slot,
				     p4d_allocated gradient, bool input_held, bool gradient_held);
