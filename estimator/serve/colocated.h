/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/serving.h"
#include "plan/stage_memory.h"

/*
 * Reinforcement learning (--workload rl): on each GPU stand the model that is trained (actor), a frozen copy
 * of it (reference), with PPO another that learns values (critic), and an inference engine that generates
 * what they learn from. Which of them is there when:
 *
 *                 generating        training
 *   actor         what it keeps     its plan's peak
 *   reference     its share         its share
 *   critic        what it keeps     what it keeps, or its peak while the actor keeps
 *   engine        its fraction      the same, or nothing where it sleeps
 *
 * What a model keeps between its steps are parameters and the optimizer's states, less what is swapped to the
 * host. The numbers are those of the plans and of the engine's formulas (serving.h); their sum was compared
 * with nothing. The engine takes its fraction of the whole GPU, as vLLM does (gpu_worker.py), so that it does
 * not start where the others leave less.
 *
 * The actor's loss is taken to be transformers', but with FSDP and no padding (--packing on) verl's: logits
 * in 16 bits, and flash-attn's cross entropy, whose gradient takes their place (verl 0.7,
 * logprobs_from_logits); with a term of entropy more is kept.
 *
 * Preference training (--workload preference: DPO) has the policy, which takes the chosen and the rejected
 * sequences of a micro-batch in one pass, and the frozen copy, in the type that the policy is stored in,
 * whose pass comes first and keeps nothing. Their loss is taken to hold what that of training does (TRL 1.10,
 * dpo_trainer.py: concatenated sequences, log-probabilities of the logits). With adapters the copy is the
 * policy without them.
 *
 * TRL 1.10's loss, run on a GPU that only counts, took 0.9 to 1.3 % more than policy and reference here, in
 * four configurations (fp32 logits, all parameters or LoRA, with and without recomputation). It holds the
 * logits of both passes and, for its metrics, a third copy. In bf16 without autocast the logits stay in
 * 16 bits: p4d's figure is 32 % too large there.
 *
 * The critic is taken to be of the actor's size, and to be sharded like it.
 */
typedef struct p4d_colocated {
	struct {
		uint64_t actor, reference, critic, engine, sum;
	} generating, training;  /* bytes of one GPU, the fullest */
	uint64_t host_bytes;     /* of what one GPU swaps */
	uint64_t capacity_bytes; /* of the GPU */
	bool pairs;              /* preference training: nothing generates */
	uint64_t engine_tp, replicas;
	p4d_serving serving; /* of the engine; max_model_len 0: it has GPUs of its own */
} p4d_colocated;

/*
 * Defaults of --workload rl and preference, in a request whose model is known, on so many GPUs (world): a
 * colocated engine that sleeps, a reference, one micro-batch of each rank, of a pipeline one of each stage.
 * With more of them FSDP as accelerate runs it (TRL) sums whole gradients; verl reduces after each.
 */
void p4d_colocated_complete(p4d_request *request, uint64_t world);

/*
 * Of a complete request and its layout. gpu: known. Errors: those of p4d_memory_estimate and
 * p4d_serving_estimate.
 */
int p4d_colocated_estimate(const p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu,
			   p4d_colocated *colocated, p4d_error *err);

/* DOES_NOT_FIT with the parts, and a fix if one is enough, where a sum is more than `limit` of the GPU, or
 * the engine has no room for a sequence. */
int p4d_colocated_check(const p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu,
			const p4d_colocated *colocated, double limit, p4d_error *err);
