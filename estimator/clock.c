/* SPDX-License-Identifier: Apache-2.0 */
/* From the passes of layers and ends to those of chunks, and from those to the step. */
#include "clock.h"

#include <string.h>

#include "clock_forms.h"
#include "schedule.h"

/* A step's work outside of the schedule: data, logging, synchronization with the host. */
static const double megatron_step_seconds = 5e-3, p4d_step_seconds = 1e-3;

/*
 * Bytes of the optimizer per parameter it owns: gradient, master copy and two moments read, three written
 * (28), the parameter written (2), norm and clipping of the gradient (12).
 */
static const double adam_bytes = 42;

/* Costs of a layout's distinct parts; everything else is sums of these. */
typedef struct parts {
	p4d_rates rates;
	p4d_part_cost layer, embedding, head;
} parts;

/* Passes in seconds. */
typedef struct passes {
	double forward, input, weight;
} passes;

static void find_parts(const p4d_layout *l, const p4d_gpu *gpu, parts *p)
{
	p->rates = p4d_rates_of(l, gpu);
	p4d_layer_cost(l, &p->rates, &p->layer);
	if (l->vocab_parallel) {
		p->embedding = p->head = (p4d_part_cost){0};
		return;
	}
	p4d_embedding_cost(l, &p->rates, &p->embedding);
	p4d_head_cost(l, &p->rates, &p->head);
}

static passes passes_of(const p4d_part_cost *part)
{
	return (passes){p4d_share_seconds(&part->forward),
			p4d_share_seconds(&part->backward_input) + p4d_share_seconds(&part->recompute),
			p4d_share_seconds(&part->backward_weight)};
}

static void add(passes *to, const passes *from, double times)
{
	to->forward += times * from->forward;
	to->input += times * from->input;
	to->weight += times * from->weight;
}

/* The passes of parts, each worked out once. */
typedef struct chunk_parts {
	passes layer, embedding, head;
} chunk_parts;

static chunk_parts chunk_parts_of(const parts *p)
{
	return (chunk_parts){passes_of(&p->layer), passes_of(&p->embedding), passes_of(&p->head)};
}

static bool holds_embedding(uint32_t stage, uint32_t chunk)
{
	return stage == 0 && chunk == 0;
}

static bool holds_head(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	return chunk == l->vpp - 1 && stage == (p4d_is_v_shaped(l->schedule) ? 0 : l->pp - 1);
}

static passes chunk_passes(const p4d_layout *l, const chunk_parts *p, uint32_t stage, uint32_t chunk)
{
	passes y = {0};

	add(&y, &p->layer, (double)l->stage_layers[stage] / (double)l->vpp);
	if (holds_embedding(stage, chunk))
		add(&y, &p->embedding, 1);
	if (holds_head(l, stage, chunk))
		add(&y, &p->head, 1);
	return y;
}

/* ---- between stages ---- */

/*
 * The transfer of a residual stream to the next stage. Stages lie tp*cp*dp ranks apart. Megatron-LM sends
 * each rank's part and, without sequence parallelism, gathers it again on the other side (PTD-P's
 * scatter/gather optimization).
 */
static double transfer_seconds(const p4d_layout *l, const p4d_rates *r)
{
	double whole =
	    r->element * (double)l->micro_batch * (double)l->seq_len / (double)l->cp * (double)l->hidden;
	bool megatron = l->framework == P4D_FRAMEWORK_MEGATRON, cut = l->sequence_parallel || megatron;
	double bytes = cut ? whole / (double)l->tp : whole;
	double seconds = p4d_transfer_seconds(r, l->world <= l->gpus_per_node, bytes);

	if (megatron && !l->sequence_parallel)
		seconds += p4d_gather_seconds(r, p4d_ring_of(l, l->tp, 1), whole);
	return seconds;
}

/* Megatron-LM waits for its transfers; p4d-train computes meanwhile. */
static void set_transfers(const p4d_layout *l, const p4d_rates *r, double *send, double *recv)
{
	double seconds = l->pp > 1 ? transfer_seconds(l, r) : 0;
	bool waits = l->framework == P4D_FRAMEWORK_MEGATRON;

	*send = waits ? 0 : seconds;
	*recv = waits ? seconds : 0;
}

/* ---- once per step ---- */

typedef struct step_ends {
	double gather, reduce, optimizer;
} step_ends;

static double stage_elements(const p4d_layout *l, uint32_t stage)
{
	double t = (double)l->tp, table = (double)l->vocab * (double)l->hidden / t;
	double n = (double)l->stage_layers[stage] * p4d_layer_matrices(l) / t;
	uint32_t last = p4d_is_v_shaped(l->schedule) ? 0 : (uint32_t)l->pp - 1;

	if (l->vocab_parallel)
		return n + (l->tied ? 1 : 2) * table / (double)l->pp;
	if (stage == 0)
		n += table;
	if (stage == last && (!l->tied || stage != 0))
		n += table;
	return n;
}

/*
 * Data parallelism: gradients reduced and parameters gathered over dp*cp. Megatron-LM does both between the
 * steps (its default); p4d-train hides all but the last chunk's and the first chunk's behind the passes of
 * the other chunks.
 */
static step_ends ends_of(const p4d_layout *l, const p4d_rates *r, uint32_t stage)
{
	double n = stage_elements(l, stage), gradient = l->precision == P4D_FP16 ? 2 : 4;
	bool megatron = l->framework == P4D_FRAMEWORK_MEGATRON;
	double exposed = megatron ? 1 : 1 / (double)l->vpp;
	p4d_ring group = p4d_ring_of(l, l->dp * l->cp, l->tp);
	double owned = l->optimizer_sharding ? n / group.ranks : n;
	step_ends y;

	y.reduce = p4d_gather_seconds(r, group, gradient * n) * exposed;
	y.gather = p4d_gather_seconds(r, group, r->element * n) * exposed;
	if (!l->optimizer_sharding) { /* an all-reduce instead */
		y.gather = 0;
		y.reduce *= 2;
	}
	/* a tied table: both ends add their gradients */
	if (l->tied && l->pp > 1 && !l->vocab_parallel && !p4d_is_v_shaped(l->schedule) &&
	    (stage == 0 || stage == l->pp - 1))
		y.reduce +=
		    p4d_transfer_seconds(r, l->world <= l->gpus_per_node,
					 gradient * (double)l->vocab * (double)l->hidden / (double)l->tp);
	/* gradients of the whole stage are cleared */
	y.optimizer = p4d_memory_seconds(r, adam_bytes * owned) + p4d_memory_seconds(r, gradient * n) +
		      (megatron ? megatron_step_seconds : p4d_step_seconds);
	return y;
}

/* ---- the interface ---- */

static void add_share(p4d_pass_cost *out, const p4d_share *share, double times)
{
	out->gemm += times * share->gemm;
	out->attention += times * share->attention;
	out->memory_bound += times * share->memory_bound;
	out->tensor_comm += times * share->tensor_comm;
	out->context_comm += times * share->context_comm;
}

static void add_part(p4d_pass_cost *out, const p4d_part_cost *part, double times)
{
	add_share(out, &part->forward, times);
	add_share(out, &part->backward_input, times);
	add_share(out, &part->backward_weight, times);
	out->recompute += times * p4d_share_seconds(&part->recompute);
}

void p4d_clock_pass(const p4d_layout *l, const p4d_gpu *gpu, uint32_t stage, uint32_t chunk,
		    p4d_pass_cost *out)
{
	parts p;

	find_parts(l, gpu, &p);
	chunk_parts each = chunk_parts_of(&p);
	passes seconds = chunk_passes(l, &each, stage, chunk);
	*out = (p4d_pass_cost){
	    .forward = seconds.forward, .backward_input = seconds.input, .backward_weight = seconds.weight};
	add_part(out, &p.layer, (double)l->stage_layers[stage] / (double)l->vpp);
	if (holds_embedding(stage, chunk))
		add_part(out, &p.embedding, 1);
	if (holds_head(l, stage, chunk))
		add_part(out, &p.head, 1);
}

size_t p4d_clock_storage(const p4d_layout *l)
{
	return 3 * (size_t)l->pp * (size_t)l->vpp + 3 * (size_t)l->pp;
}

void p4d_clock_durations(const p4d_layout *l, const p4d_gpu *gpu, double *storage, p4d_durations *out)
{
	size_t chunks = (size_t)l->pp * (size_t)l->vpp;
	double *forward = storage, *input = forward + chunks, *weight = input + chunks;
	double *gather = weight + chunks, *reduce = gather + l->pp, *optimizer = reduce + l->pp;
	parts p;

	find_parts(l, gpu, &p);
	chunk_parts each = chunk_parts_of(&p);
	for (uint32_t stage = 0; stage < l->pp; stage++) {
		step_ends ends = ends_of(l, &p.rates, stage);
		gather[stage] = ends.gather;
		reduce[stage] = ends.reduce;
		optimizer[stage] = ends.optimizer;
		for (uint32_t chunk = 0; chunk < l->vpp; chunk++) {
			passes seconds = chunk_passes(l, &each, stage, chunk);
			size_t i = stage * (size_t)l->vpp + chunk;
			forward[i] = seconds.forward;
			input[i] = seconds.input;
			weight[i] = seconds.weight;
		}
	}
	*out = (p4d_durations){.forward = forward,
			       .backward_input = input,
			       .backward_weight = weight,
			       .gather = gather,
			       .reduce = reduce,
			       .optimizer = optimizer};
	set_transfers(l, &p.rates, &out->send, &out->recv);
	if (l->vocab_parallel) {
		p4d_vocabulary_cost v;
		p4d_vocabulary_seconds(l, &p.rates, &v);
		out->vocabulary_forward = v.forward;
		out->vocabulary_backward = v.backward;
		out->vocabulary_sync = v.sync;
		out->embed_forward = v.embed_forward;
		out->embed_backward = v.embed_backward;
	}
}
