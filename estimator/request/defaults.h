/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "request/request.h"

/*
 * Stated defaults: every plan option that is still unset gets one, with origin P4D_BY_P4D, so that a request
 * can always be checked. They are listed in p4d.1 and shown by `p4d estimate`.
 *
 *   tp, cp, pp, vpp, micro-batch   1 (vpp 2 when the schedule is V-shaped)
 *   vocab-parallel      off
 *   seq-len             the model's maximum, at most 8192
 *   global-batch        published_batch (0: none is known) rounded up to what the layout can divide, else as
 * many micro-batches as the pipeline has stages schedule            interleaved when vpp > 1, else 1f1b
 *   framework           the first that can train the model: p4d for Llama-type models, megatron for others
 *   precision           bf16; fp32 on cpu
 *   grad-dtype          fp32; fp16 with that precision
 *   recompute           none
 *   sequence-parallel   on when tp > 1
 *   cross-entropy       the framework's default, swiglu fused, attention flash, te-wgrad on
 *   dropout             on for models with learned positions, else off
 *
 * world: number of ranks, for the default of global-batch; 0 leaves global-batch unset.
 */
void p4d_request_complete(p4d_request *request, uint32_t published_batch, uint64_t world);

/* Those that follow from tp, cp, pp and micro-batch, which are set: sequence-parallel, global-batch. */
void p4d_request_follow(p4d_request *request, uint32_t published_batch, uint64_t world);

/* The default of global-batch for one layout; what p4d_request_complete uses. All arguments > 0 except
 * published_batch. */
uint64_t p4d_defaults__global_batch(uint32_t published_batch, uint64_t world, uint64_t tp, uint64_t cp,
				    uint64_t pp, uint64_t micro_batch);
