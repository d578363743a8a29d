/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/serving.h"
#include "plan/stage_memory.h"

/*
 * Reinforcement learning (--workload rl): each GPU holds the trained model (actor), a frozen copy of it
 * (reference), with PPO a model that learns values (critic), and an inference engine that generates the
 * training data. The memory of each:
 *
 *                 generating training
 *   actor what it keeps its plan's peak
 *   reference its share its share
 *   critic what it keeps what it keeps, or its peak while the actor keeps
 *   engine its fraction the same, or nothing if it sleeps
 *
 * Between its steps a model keeps parameters and optimizer states, except those that are swapped to the host.
 * The numbers come from the plans and from the engine's formulas (serving.h). Nobody has compared their sum
 * with a real run. As in vLLM (gpu_worker.py), the engine's budget is a fraction of the whole GPU's memory,
 * not of the free memory. The engine does not start if the other models leave less than this budget.
 *
 * p4d assumes transformers' loss for the actor. With FSDP and no padding (--packing on) it assumes verl's
 * loss: logits in 16 bits, and flash-attn's cross-entropy, whose gradient overwrites the logits (verl 0.7,
 * logprobs_from_logits). With an entropy term, verl keeps more.
 *
 * Preference training (--workload preference: DPO) has a policy and a frozen copy of it, in the type in which
 * the policy is stored. The policy processes the chosen and the rejected sequences of a micro-batch in one
 * pass. The copy's pass comes first and keeps nothing. p4d assumes that the loss needs as much memory as in
 * training (TRL 1.10, dpo_trainer.py: concatenated sequences, log-probabilities of the logits). With adapters
 * the copy is the policy without adapters.
 *
 * TRL 1.10's loss, run on a simulated GPU that counts allocations, took 0.9 to 1.3 % more than policy and
 * reference here, in four configurations (fp32 logits, all parameters or LoRA, with and without
 * recomputation). It holds the logits of both passes and, for its metrics, a third copy. In bf16 without
 * autocast the logits stay in 16 bits; p4d's figure is 32 % too large for that case.
 *
 * p4d assumes that the critic has the actor's size and sharding.
 */
typedef struct p4d_colocated {
	struct {
		uint64_t actor, reference, critic, engine, sum;
	} generating, training;  /* bytes on the fullest GPU */
	uint64_t host_bytes;     /* host memory for all that one GPU swaps out */
	uint64_t capacity_bytes; /* the GPU's memory */
	bool pairs;              /* preference training, so nothing generates */
	uint64_t engine_tp, replicas;
	p4d_serving serving; /* the engine; max_model_len 0: it has GPUs of its own */
} p4d_colocated;

/*
 * Sets the defaults of --workload rl and preference, in a request whose model is known, on `world` GPUs: a
 * colocated engine that sleeps, a reference, and one micro-batch per rank (in a pipeline, one per stage). The
 * default is one micro-batch because of memory: with more micro-batches, FSDP as accelerate runs it (TRL)
 * sums unsharded gradients. verl reduces gradients after each micro-batch.
 */
void p4d_colocated_complete(p4d_request *request, uint64_t world);

/*
 * The estimate for a complete request and its layout. gpu: not NULL. Errors: those of p4d_memory_estimate and
 * p4d_serving_estimate.
 */
int p4d_colocated_estimate(const p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu,
			   p4d_colocated *colocated, p4d_error *err);

/* A fix with a smaller micro-batch starts so. The global batch stays. */
#define P4D_FIX_MICRO_BATCH "--p4d-micro-batch="

/* Fails (DOES_NOT_FIT) if a sum exceeds the fraction `limit` of the GPU, or the engine has no room for a
 * sequence. The text lists the parts. If a single option is enough, it is the fix. */
int p4d_colocated_check(const p4d_request *request, const p4d_layout *layout, const p4d_gpu *gpu,
			const p4d_colocated *colocated, double limit, p4d_error *err);
