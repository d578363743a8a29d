/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "request/request.h"

/*
 * Stated defaults: every plan option that is still unset gets one, with origin P4D_BY_P4D, so that a request
 * can always be checked. They are listed in p4d.1 and shown by `p4d estimate`.
 *
 *   tp, cp, pp, vpp, micro-batch   1 (vpp 2 when the schedule is V-shaped)
 *   vocab-parallel      off
 *   seq-len             the model's maximum, at most 8192
 *   global-batch        p4d_request_default_batch
 *   schedule            interleaved when vpp > 1, else 1f1b
 *   framework           the first that can train the model: p4d for Llama-type models, megatron for others
 *   precision           bf16; fp32 on cpu
 *   grad-dtype          fp32; fp16 with that precision
 *   tp-comm-overlap     off
 *   overlap-p2p         on, as in Megatron-LM
 *   overlap-dp          as tp-comm-overlap
 *   recompute           none
 *   sequence-parallel   on when tp > 1
 *   cross-entropy       the framework's default, swiglu fused, attention flash, te-wgrad on
 *   dropout             on for models with learned positions, else off
 *
 * world: number of ranks, for the default of global-batch; 0 leaves global-batch unset.
 */
void p4d_request_complete(p4d_request *request, uint32_t published_batch, uint64_t world);

/* What follows from tp, which is set: sequence-parallel. */
void p4d_request_follow(p4d_request *request);

/* What a step has when nothing tells: a batch in use for models from 1B to 400B. */
#define P4D_TOKENS_PER_STEP (UINT64_C(4) << 20)

/*
 * The default of global-batch: published_batch, else (0) P4D_TOKENS_PER_STEP, at least one sequence for each
 * rank, and on the host just that. It depends on the world and the sequence, not on the layout, so that
 * layouts compare: it is rounded to a multiple of the world (of as many ranks as have a sequence, where the
 * published batch has fewer). Only a micro-batch or data-parallel size that does not divide it raises it.
 * Frameworks with a rank_batch have so many sequences for each rank, or the micro-batch that was asked for:
 * they accumulate no gradients unless told to.
 * replicas: data-parallel size, or 1 while it is open. The request needs all else.
 */
void p4d_request_default_batch(p4d_request *request, uint32_t published_batch, uint64_t world,
			       uint64_t replicas);

/* "512 (assumed: 4.2M tokens a step; --global-batch sets it)": the batch of a complete request, and whose it
 * is. prefix: of options. */
const char *p4d_defaults_batch_text(const p4d_request *request, const char *prefix, char *buf, size_t size);
