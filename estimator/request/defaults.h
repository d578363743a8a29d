/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "request/request.h"

/*
 * Gives every plan option that is still unset a default, with origin P4D_BY_P4D, so that p4d can check any
 * request. p4d-options(7) lists the defaults, and `p4d estimate` prints them.
 *
 *   tp, cp, pp, vpp, micro-batch   1 (vpp 2 when the schedule is V-shaped)
 *   vocab-parallel      off
 *   seq-len             the model's maximum, at most 8192
 *   global-batch        p4d_request_default_batch
 *   schedule            interleaved when vpp > 1, else 1f1b
 *   framework           the first that can train the model: p4d-train if it can
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

/* Sets the options whose default follows from tp: sequence-parallel. tp must be set. */
void p4d_request_follow(p4d_request *request);

/* Tokens of a step if nothing else decides: a usual batch for models from 1B to 400B. */
#define P4D_TOKENS_PER_STEP (UINT64_C(4) << 20)

/*
 * The default of global-batch: published_batch, or P4D_TOKENS_PER_STEP if that is 0, but at least one
 * sequence per rank. On the host it is one sequence per rank. It depends on the world and the sequence length
 * and not on the layout, so that layouts are comparable. It is rounded to a multiple of the world. If the
 * published batch has fewer sequences than ranks, it is rounded to a multiple of the ranks that have a
 * sequence. If the micro-batch or the data-parallel size does not divide it, it is raised.
 *
 * For frameworks with a rank_batch, the default is rank_batch sequences per rank, or the requested
 * micro-batch: by default they do not accumulate gradients.
 *
 * replicas: data-parallel size, or 1 while it is open. The request must have all other options.
 */
void p4d_request_default_batch(p4d_request *request, uint32_t published_batch, uint64_t world,
			       uint64_t replicas);

/*
 * The batch of a complete request, and the reason for it: "512 (assumed: 4.2M tokens a step; --global-batch
 * sets it)". prefix: the prefix of options.
 */
const char *p4d_defaults_batch_text(const p4d_request *request, const char *prefix, char *buf, size_t size);
