/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of a chunk's passes, from those of its layers, embedding and head; and of what a step does once.
 */
#include "cost/cost.h"

#include <string.h>

#include "cost/cost_internal.h"
#include "plan/optimizer.h"
#include "plan/parameters.h"

/* Additional seconds per step of models with experts, from DeepSeek V2 with 4 layers on 8 B200 (SimuMax). */
#define STEP_OF_EXPERTS 15e-3

/*
 * Bytes of memory that the optimizer moves per parameter of the rank: gradient and states read, states
 * written, the parameter written (2), norm and clipping of the gradient (12).
 */
static double optimizer_bytes(const p4d_layout *l)
{
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const double moments = (o->bits ? o->bits / 8.0 : l->half_moments ? 2 : 4) * (o->states - 1);
	/* 2 bytes: the bits of the master weight that the 16-bit parameter lacks; 4 bytes: a complete master
	 * weight */
	const bool remainder = p4d_precise_optimizer(l) && !p4d_framework_of(l->framework)->rounds_moments;

	return 4 + 2 * (moments + (remainder ? 2 : 4)) + 2 + 12;
}

/* Passes of a layout's distinct parts (layer, embedding, head), with their time split by component. */
typedef struct parts {
	p4d_cost_part layer, expert_layer, embedding, head;
} parts;

static void find_parts(const p4d_layout *l, const p4d_cost_rates *r, parts *p)
{
	p4d_cost__layer(l, r, &p->layer);
	p->expert_layer = (p4d_cost_part){0};
	if (l->experts)
		p4d_cost__expert_layer(l, r, &p->expert_layer);
	if (l->vocab_parallel) {
		p->embedding = p->head = (p4d_cost_part){0};
		return;
	}
	p4d_cost__embedding(l, r, &p->embedding);
	p4d_cost__head(l, r, &p->head);
}

void p4d_cost__passes_add(p4d_cost_passes *to, const p4d_cost_passes *from, double times)
{
	to->forward += times * from->forward;
	to->input += times * from->input;
	to->weight += times * from->weight;
	to->alone += times * from->alone;
}

static bool holds_embedding(uint32_t stage, uint32_t chunk)
{
	return stage == 0 && chunk == 0;
}

static bool holds_head(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	return l->local_loss ||
	       (chunk == l->vpp - 1 && stage == (p4d_is_v_shaped(l->schedule) ? 0 : l->pp - 1));
}

p4d_cost_passes p4d_cost__layers_passes(const p4d_cost_terms *t, double layers, double with_experts)
{
	p4d_cost_passes y = {0};

	p4d_cost__passes_add(&y, &t->layer, layers - with_experts);
	p4d_cost__passes_add(&y, &t->expert_layer, with_experts);
	return y;
}

p4d_cost_passes p4d_cost__chunk_passes(const p4d_layout *l, const p4d_cost_terms *t, uint32_t stage,
				       uint32_t chunk)
{
	p4d_cost_passes y = p4d_cost__layers_passes(t, p4d_chunk_layers(l, stage, chunk),
						    p4d_parameters_expert_layers(l, stage, chunk));

	y.forward += t->maxima;
	y.input += t->maxima;
	if (holds_embedding(stage, chunk))
		p4d_cost__passes_add(&y, &t->embedding, 1);
	if (holds_head(l, stage, chunk))
		p4d_cost__passes_add(&y, &t->head, 1);
	return y;
}

/* ---- between stages ---- */

/*
 * The transfer of a residual stream to the next stage. Stages are tp*cp*dp ranks apart. If the job has
 * several nodes, some of these transfers leave the node, and the slowest one sets the pace. Frameworks that
 * send each rank's shard gather it on the other side, unless sequence parallelism keeps it sharded (PTD-P's
 * scatter/gather optimization).
 */
static double transfer_seconds(const p4d_layout *l, const p4d_cost_rates *r)
{
	double whole = r->element * (double)p4d_rank_batch(l) * (double)p4d_pass_tokens(l) / (double)l->cp *
		       (double)p4d_rank_hidden(l);
	bool scatters = p4d_framework_of(l->framework)->cost.scatters_sends,
	     cut = l->sequence_parallel || scatters;
	double bytes = cut ? whole / (double)l->tp : whole;
	double seconds = p4d_cost__transfer_seconds(r, l->world <= l->link_domain, bytes);

	if (scatters && !l->sequence_parallel)
		seconds += p4d_cost__gather_seconds(r, p4d_cost__ring_of(l, l->tp, 1), whole);
	return seconds;
}

/* ---- once per step ---- */

/*
 * Parameters of a stage on one rank, not counting experts. Norms and biases are omitted because they are few.
 */
static double stage_elements(const p4d_layout *l, const p4d_cost_terms *t, uint32_t stage, double with)
{
	double n =
	    (l->stage_layers[stage] - with) * t->once.layer_elements + with * t->once.expert_layer_elements;
	double table = t->once.table_elements;
	uint32_t last = p4d_is_v_shaped(l->schedule) ? 0 : (uint32_t)l->pp - 1;

	if (l->vocab_parallel)
		return n + (l->tied ? 1 : 2) * table;
	if (stage == 0)
		n += table;
	if (l->local_loss || (stage == last && (!l->tied || stage != 0)))
		n += table;
	if (stage == last) /* layers of multi-token prediction */
		n += (double)l->mtp_layers * t->once.expert_layer_elements +
		     (l->mtp_layers && stage && !l->tied ? table : 0);
	return n;
}

/* A linear cost: a constant, and a slope per parameter. */
static p4d_cost_line line_of(double latency, double seconds, double elements)
{
	return (p4d_cost_line){latency, (seconds - latency) / elements};
}

/* Adds the time to sum each shard over the replicas of the model, once after all passes. */
static void add_copies(const p4d_layout *l, const p4d_cost_rates *r, uint64_t shards, p4d_cost_line *reduce)
{
	const uint64_t copies = shards > 1 ? l->dp * l->cp / shards : 1;
	const p4d_cost_ring others = p4d_cost__ring_of(l, copies, l->tp * shards);
	const double many = 1e9, latency = 2 * p4d_cost__gather_seconds(r, others, 0);
	const double bytes = p4d_cost__gradient_bytes(l) * many / (double)shards;

	if (copies < 2)
		return;
	const p4d_cost_line line = line_of(latency, 2 * p4d_cost__gather_seconds(r, others, bytes), many);
	reduce->latency += line.latency;
	reduce->each += line.each;
}

/*
 * Experts for domains (DEMix, arXiv 2108.05036): neighbouring ranks have the same feed-forward layers, whose
 * gradients they reduce among themselves.
 */
static void set_domains(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_update *out)
{
	const double many = 1e9, feed = (l->glu ? 3.0 : 2.0) * (double)l->hidden * (double)l->ffn;
	const double table = (l->tied ? 1 : 2) * (double)l->vocab * (double)l->hidden;
	const double layers = (double)l->layers,
		     share = layers * feed / (layers * p4d_cost__layer_matrices(l) + table);
	const p4d_cost_ring own = p4d_cost__ring_of(l, l->dp / l->expert_domains, 1);
	const double latency = p4d_cost__gather_seconds(r, own, 0);
	const p4d_cost_line line =
	    line_of(latency, p4d_cost__gather_seconds(r, own, p4d_cost__gradient_bytes(l) * many), many);

	out->reduce.latency += latency;
	out->reduce.each = (1 - share) * out->reduce.each + share * line.each;
}

/*
 * Data parallelism: gradients are reduced and parameters gathered over the ranks with the same parameters;
 * `shards` of these ranks shard the optimizer states.
 */
static void set_update(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_ring group, uint64_t shards,
		       p4d_cost_update *out)
{
	const double many = 1e9, gradient = p4d_cost__gradient_bytes(l);
	const double latency = p4d_cost__gather_seconds(r, group, 0);

	out->reduce = line_of(latency, p4d_cost__gather_seconds(r, group, gradient * many), many);
	const double stored = l->fp8_params ? r->operand : r->element;
	out->gather = line_of(latency, p4d_cost__gather_seconds(r, group, stored * many), many);
	if (p4d_cost__gathers_for_passes(l))
		out->gather = (p4d_cost_line){0, 0};
	if (p4d_cost__reduces_for_passes(l))
		out->reduce = (p4d_cost_line){0, 0};
	if (l->expert_domains > 1)
		set_domains(l, r, out);
	if (!l->optimizer_sharding) { /* then gradients are all-reduced, instead of reduce-scatter and
					 all-gather */
		out->gather = (p4d_cost_line){0, 0};
		out->reduce.latency *= 2;
		out->reduce.each *= 2;
	}
	if (p4d_cost__adds_copies_once(l))
		add_copies(l, r, shards, &out->reduce);
	/* the optimizer first zeroes the gradients of the whole stage */
	out->optimizer.latency = 2 * P4D_LAUNCH_SECONDS + p4d_framework_of(l->framework)->cost.step_seconds;
	out->optimizer.each = (optimizer_bytes(l) / (double)shards + gradient) * r->hbm;
	/*
	 * with offloading, the GPU zeroes gradients and reads them for their norm. No pass overlaps with the
	 * update on host and GPU
	 */
	if (r->host_update > 0)
		out->optimizer.each = r->host_update / (double)shards + 2 * gradient * r->hbm;
	/* once per step, parameters are cast to FP8 in both orientations, or FP8 parameters are transposed */
	if (l->precision == P4D_FP8 && !p4d_framework_of(l->framework)->cost.casts_each_product)
		out->optimizer.each += (l->fp8_params ? 2 : 4) * r->hbm;
}

static void set_once(const p4d_layout *l, p4d_cost_once *once, const p4d_cost_rates *r)
{
	const double tables = (double)l->tp * (l->vocab_parallel ? (double)l->pp : 1);
	const double hidden = (double)p4d_rank_hidden(l);

	*once = (p4d_cost_once){.layer_elements = p4d_cost__layer_matrices(l) / (double)p4d_tp_ranks(l),
				.table_elements = (double)l->vocab * hidden / tables};
	if (p4d_cost__freezes(l)) {
		once->layer_elements = p4d_cost__adapters(l) / (double)l->tp;
		once->table_elements = 0;
	}
	const uint64_t shards = p4d_optimizer_shards(l);
	const bool apart = p4d_cost__adds_copies_once(l) && shards > 1;
	set_update(l, r, p4d_cost__ring_of(l, apart ? shards : l->dp * l->cp, p4d_tp_ranks(l)), shards,
		   &once->all);
	if (l->experts) {
		/* experts have an optimizer of their own; the routers' losses are summed over all ranks;
		 * experts' gradients are scaled */
		once->expert_layer_elements = p4d_cost__expert_layer_matrices(l) / (double)l->tp;
		once->expert_elements =
		    p4d_cost__expert_matrices(l) * (double)(l->experts / l->ep) / (double)l->etp;
		set_update(l, r, p4d_cost__ring_of(l, l->expert_dp, l->ep * l->etp), p4d_expert_shards(l),
			   &once->experts);
		once->experts.optimizer.latency = STEP_OF_EXPERTS;
		once->experts.optimizer.each += 2 * p4d_cost__gradient_bytes(l) * r->hbm;
	}
	/* the first and the last stage add their gradients of a tied table */
	bool twice = l->tied && !p4d_cost__freezes(l) && l->pp > 1 && !l->vocab_parallel &&
		     !p4d_is_v_shaped(l->schedule);
	once->tied = twice ? p4d_cost__transfer_seconds(r, l->world <= l->link_domain,
							p4d_cost__gradient_bytes(l) * once->table_elements)
			   : 0;
	once->tied += p4d_cost__tables_seconds(l, r, once->table_elements);
	once->values = p4d_cost__values_update(l, r);
	once->muon = p4d_cost__muon_seconds(l, r);
	once->casts = p4d_cost__weight_casts(l, r);
}

/*
 * The exposed part of a collective that overlaps, layer by layer, with the first and the last pass of a
 * stage. It is the larger of two times. One is the time of the collective of the first layer (and of the
 * table, if there is one). The other is the time by which the collectives of the other layers take longer
 * than their passes.
 */
static double exposed(const p4d_layout *l, const p4d_cost_rates *r, double all, double own, double pass)
{
	const double seen = own > all - pass ? own : all - pass;

	return l->overlap_dp ? seen + p4d_cost__beside_seconds(l, r, all - seen) : all;
}

static double seconds_of(p4d_cost_line line, double elements)
{
	return elements > 0 ? line.latency + elements * line.each : 0;
}

p4d_cost_step_ends p4d_cost__step_ends_of(const p4d_layout *l, const p4d_cost_terms *t, uint32_t stage)
{
	const p4d_cost_once *once = &t->once;
	const double with = p4d_parameters_expert_layers_of_stage(l, stage), layers = l->stage_layers[stage];
	const double n = stage_elements(l, t, stage, with), experts = with * once->expert_elements;
	const double others = layers > 1 ? layers - 1 : 0, dense = layers - with;
	/* assumes that the first layer has experts only if all layers have */
	const double first_experts = dense > 0 ? 0 : once->expert_elements;
	const double others_with = dense > 0 ? with : others;
	const double first =
	    n - (others - others_with) * once->layer_elements - others_with * once->expert_layer_elements;
	const p4d_cost_passes rest = p4d_cost__layers_passes(t, others, others_with);
	const bool end = stage == 0 || stage == l->pp - 1;

	return (p4d_cost_step_ends){
	    .gather = exposed(
		l, &t->rates, seconds_of(once->all.gather, n) + seconds_of(once->experts.gather, experts),
		seconds_of(once->all.gather, first) + seconds_of(once->experts.gather, first_experts),
		rest.forward),
	    .reduce =
		exposed(l, &t->rates,
			seconds_of(once->all.reduce, n) + seconds_of(once->experts.reduce, experts),
			seconds_of(once->all.reduce, first) + seconds_of(once->experts.reduce, first_experts),
			rest.input + rest.weight) +
		(end ? once->tied : 0),
	    .optimizer = seconds_of(once->all.optimizer, n) + seconds_of(once->experts.optimizer, experts) +
			 once->values + layers * (once->muon + once->casts)};
}

/* ---- all terms ---- */

/* Fills the seconds of transfers between stages. DualPipe overlaps them with passes, like exchanges of
 * tokens. */
static void set_links(const p4d_layout *l, p4d_cost_terms *t)
{
	double seconds = l->pp > 1 ? transfer_seconds(l, &t->rates) : 0;
	bool overlaps = l->megatron.overlap_p2p || p4d_schedule_kinds[l->schedule]->crosswise ||
			p4d_framework_of(l->framework)->cost.overlaps_pipeline;

	t->send = overlaps ? seconds : 0;
	t->recv = overlaps ? 0 : seconds;
	t->maxima = p4d_cost__maxima_seconds(l);
	t->vocabulary = (p4d_cost_vocabulary_passes){0};
	if (l->vocab_parallel)
		p4d_cost__vocabulary(l, &t->rates, &t->vocabulary);
}

/*
 * Key of the costs that occur once per step. It contains what they depend on: a stage's parameters and the
 * ranks that share them. Micro-batch and recomputation do not matter, except that recompute=keep keeps the
 * weights' FP8 codes.
 */
static uint64_t once_key_of(const p4d_layout *l)
{
	const unsigned cut = l->vocab_parallel != P4D_VOCAB_OFF, v_shaped = p4d_is_v_shaped(l->schedule);
	const uint64_t keeps = l->recompute == P4D_RECOMPUTE_KEEP;

	const uint64_t spread = keeps << 63 | (l->ep << 11 | l->etp) << 37;

	return spread | (((l->tp << 13 | l->cp) << 11 | l->pp) << 2 | cut << 1 | v_shaped);
}

static void recall_once(const p4d_layout *l, p4d_cost_cache *memory, p4d_cost_terms *t)
{
	const uint64_t key = once_key_of(l);

	if (p4d_tp_ranks(l) !=
	    l->tp) /* layouts with a tp-grid are not cached, because the key has no room for the grid */
		memory = NULL;
	if (memory && memory->once_key == key) {
		t->once = memory->once;
		return;
	}
	set_once(l, &t->once, &t->rates);
	if (memory) {
		memory->once = t->once;
		memory->once_key = key;
	}
}

static void set_parts(const p4d_layout *l, p4d_cost_cache *memory, p4d_cost_terms *t)
{
	memory = l->slices > 1 ? NULL : memory; /* with slices nothing is cached, because the slices of a
						   sequence have different times */
	t->layer = p4d_cost__layer_passes(l, &t->rates, memory);
	t->expert_layer = (p4d_cost_passes){0};
	if (l->experts)
		t->expert_layer = p4d_cost__expert_layer_passes(l, &t->rates, memory);
	t->embedding = t->head = (p4d_cost_passes){0};
	if (l->vocab_parallel)
		return;
	t->embedding = p4d_cost__embedding_passes(l, &t->rates, memory);
	t->head = p4d_cost__head_passes(l, &t->rates, memory);
}

/* Copies the layout and sets the copy to one slice. */
static void slice_of(const p4d_layout *l, uint32_t number, p4d_layout *one)
{
	memcpy(one, l, sizeof(*one));
	if (l->slices == 1)
		return;
	one->slice_begin = 0;
	for (uint32_t i = 0; i < number; i++)
		one->slice_begin += l->slice_tokens[i];
	one->slice_len = l->slice_tokens[number];
}

/* The terms of one pass. memory: a cache; may be NULL. */
static void terms_of(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_cache *memory, p4d_cost_terms *t)
{
	t->rates = p4d_cost__recall_rates(l, gpu, memory);
	set_parts(l, memory, t);
	p4d_cost__add_gathers(l, t);
	p4d_cost__add_swaps(l, gpu, t);
	set_links(l, t);
	recall_once(l, memory, t);
}

void p4d_cost__whole_terms(const p4d_layout *l, const p4d_gpu *gpu, p4d_cost_cache *memory,
			   p4d_cost_terms *whole, p4d_cost_terms *first)
{
	p4d_cost_terms t;
	p4d_layout one;

	if (l->slices == 1) {
		terms_of(l, gpu, memory, first);
		*whole = *first;
		return;
	}
	for (uint32_t i = 0; i < l->slices; i++) {
		slice_of(l, i, &one);
		terms_of(&one, gpu, memory, i ? &t : first);
		if (i == 0) {
			*whole = *first;
			continue;
		}
		p4d_cost__passes_add(&whole->layer, &t.layer, 1);
		p4d_cost__passes_add(&whole->embedding, &t.embedding, 1);
		p4d_cost__passes_add(&whole->head, &t.head, 1);
		whole->send += t.send;
		whole->recv += t.recv;
	}
}

/* ---- the interface ---- */

static void add_share(p4d_cost_passes_of_chunk *out, const p4d_cost_share *share, double times)
{
	out->gemm += times * share->gemm;
	out->attention += times * share->attention;
	out->memory_bound += times * share->memory_bound;
	out->tensor_comm += times * share->tensor_comm;
	out->context_comm += times * share->context_comm;
	out->host += times * share->host;
}

static void add_part(p4d_cost_passes_of_chunk *out, const p4d_cost_part *part, double times)
{
	add_share(out, &part->forward, times);
	add_share(out, &part->backward_input, times);
	add_share(out, &part->backward_weight, times);
	out->recompute += times * p4d_cost_share_seconds(&part->recompute);
}

/* Adds the time of a pass of a chunk, for one slice or the whole sequence. */
static void add_pass(const p4d_layout *l, const p4d_gpu *gpu, uint32_t stage, uint32_t chunk,
		     p4d_cost_passes_of_chunk *out)
{
	p4d_cost_terms t = {.rates = p4d_cost__rates_of(l, gpu)};
	parts p;

	find_parts(l, &t.rates, &p);
	set_parts(l, NULL, &t);
	p4d_cost__add_gathers(l, &t);
	p4d_cost__add_swaps(l, gpu, &t);
	t.maxima = p4d_cost__maxima_seconds(l);
	p4d_cost_passes seconds = p4d_cost__chunk_passes(l, &t, stage, chunk);
	out->forward += seconds.forward;
	out->backward_input += seconds.input;
	out->backward_weight += seconds.weight;
	out->tensor_comm += 2 * t.maxima;
	const uint32_t with = p4d_parameters_expert_layers(l, stage, chunk);
	add_part(out, &p.layer, p4d_chunk_layers(l, stage, chunk) - with);
	add_part(out, &p.expert_layer, with);
	out->data_comm +=
	    t.layer_data * (p4d_chunk_layers(l, stage, chunk) - with) + t.expert_layer_data * with;
	out->recompute += t.layer_again * p4d_chunk_layers(l, stage, chunk);
	if (holds_embedding(stage, chunk)) {
		add_part(out, &p.embedding, 1);
		out->data_comm += t.table_data;
	}
	if (holds_head(l, stage, chunk))
		add_part(out, &p.head, 1);
}

void p4d_cost__pass(const p4d_layout *l, const p4d_gpu *gpu, uint32_t stage, uint32_t chunk,
		    p4d_cost_passes_of_chunk *out)
{
	p4d_layout one;

	*out = (p4d_cost_passes_of_chunk){0};
	for (uint32_t i = 0; i < l->slices; i++) {
		slice_of(l, i, &one);
		add_pass(&one, gpu, stage, chunk, out);
	}
}

size_t p4d_cost_storage(const p4d_layout *l)
{
	return 4 * (size_t)l->pp * (size_t)l->vpp * (size_t)l->slices + 3 * (size_t)l->pp;
}

void p4d_cost_durations(const p4d_layout *l, const p4d_gpu *gpu, double *storage, p4d_durations *out)
{
	size_t passes = (size_t)l->pp * (size_t)l->vpp * (size_t)l->slices;
	double *forward = storage, *input = forward + passes, *weight = input + passes;
	double *alone = weight + passes, *gather = alone + passes, *reduce = gather + l->pp,
	       *optimizer = reduce + l->pp;
	double send = 0, recv = 0;
	p4d_cost_terms t, of_slice;
	p4d_layout one;

	slice_of(l, 0, &one);
	terms_of(&one, gpu, NULL, &t);
	for (uint32_t stage = 0; stage < l->pp; stage++) {
		p4d_cost_step_ends ends = p4d_cost__step_ends_of(l, &t, stage);
		gather[stage] = ends.gather;
		reduce[stage] = ends.reduce;
		optimizer[stage] = ends.optimizer;
	}
	for (uint32_t slice = 0; slice < l->slices; slice++) {
		if (slice)
			slice_of(l, slice, &one);
		if (slice)
			terms_of(&one, gpu, NULL, &of_slice);
		else
			of_slice = t;
		send += of_slice.send / (double)l->slices;
		recv += of_slice.recv / (double)l->slices;
		for (uint32_t i = 0; i < l->pp * l->vpp; i++) {
			const uint32_t stage = i / (uint32_t)l->vpp, chunk = i % (uint32_t)l->vpp;
			const p4d_cost_passes seconds = p4d_cost__chunk_passes(l, &of_slice, stage, chunk);
			forward[i * l->slices + slice] = seconds.forward;
			input[i * l->slices + slice] = seconds.input;
			weight[i * l->slices + slice] = seconds.weight;
			alone[i * l->slices + slice] = seconds.alone;
		}
	}
	*out = (p4d_durations){
	    .forward = forward,
	    .backward_input = input,
	    .backward_weight = weight,
	    .alone = p4d_cost__pairs(l) ? alone : NULL,
	    .send = send,
	    .recv = recv,
	    .vocabulary_forward = t.vocabulary.forward,
	    .vocabulary_backward = t.vocabulary.backward,
	    .vocabulary_sync = t.vocabulary.sync,
	    .embed_forward = t.vocabulary.embed_forward,
	    .embed_backward = t.vocabulary.embed_backward,
	    .gather = gather,
	    .reduce = reduce,
	    .optimizer = optimizer,
	};
}
