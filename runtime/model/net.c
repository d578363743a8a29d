/* SPDX-License-Identifier: Apache-2.0 */
#include "model/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/buffers.h"
#include "model/depth.h"
#include "model/document_groups.h"
#include "model/gradient_window.h"
#include "model/parallel.h"
#include "model/sequence_order.h"
#include "model/swap.h"
#include "model/weight_codes.h"
#include "model/window.h"
#include "plan/parameters.h"
#include "request/fp8.h"

static int fail_recipe(int recipe, const p4d_device *device, p4d_error *err)
{
	const int there = p4d_fp8_recipe_for(device->sm);

	p4d_fail(err, P4D_E_PRECISION, "%s: cuBLASLt has no matmuls for fp8-recipe=%s on this GPU",
		 device->text, p4d_fp8_recipes[recipe].name);
	return there < 0 ? p4d_fix(err, "--precision=bf16")
			 : p4d_fix(err, "--fp8-recipe=%s", p4d_fp8_recipes[there].name);
}

static int check(const p4d_net_settings *set, p4d_error *err)
{
	const p4d_layout *l = set->layout;

	if (l->framework != P4D_FRAMEWORK_P4D)
		return p4d_fail(err, P4D_E_UNMODELLED, "p4d-train runs only plans of framework p4d");
	if (l->precision == P4D_FP8 && set->device->sm && !p4d_fp8_trains(l->fp8_recipe, set->device->sm))
		return fail_recipe(l->fp8_recipe, set->device, err);
	if (l->head_dim % 2)
		return p4d_fail(err, P4D_E_WIDTH, "head-dim=%" PRIu64 " must be even for rotary embeddings",
				l->head_dim);
	if (l->pairs && !set->document_mask)
		return p4d_fail(err, P4D_E_UNMODELLED, "the answers of a pair would see each other"),
		       p4d_fix(err, "--document-mask=on");
	if (set->vocab == 0 || set->vocab > l->vocab)
		return p4d_fail(err, P4D_E_VALUE,
				"the vocabulary has %" PRIu64 " entries, but the layout has %" PRIu64,
				set->vocab, l->vocab);
	return 0;
}

static void fill_sizes(p4d_net *m)
{
	const p4d_layout *l = m->l;
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);

	m->type = z.dtype;
	m->element = m->type == P4D_DT_FP32 ? 4 : 2;
	m->length = p4d_pass_tokens(l) / l->cp;
	m->whole = l->seq_len / l->cp * z.batch;
	m->batch = z.batch;
	m->n = z.n;
	m->ns = z.ns;
	m->h = z.h;
	m->f = z.f;
	m->up = z.up;
	m->q = z.q;
	m->kv = z.kv;
	m->columns = z.columns;
	m->layers = l->stage_layers[m->place.pp] / l->vpp;
	m->shards = p4d_optimizer_shards(l);
	m->parts = l->tp_comm_overlap ? P4D_TP_PARTS : 1;
	m->schedule = p4d_schedule_of(l);
	m->first = m->place.pp == 0;
	m->last = p4d_schedule_is_last(&m->schedule, m->place.pp);
	m->last_stage = p4d_schedule_stage_at(&m->schedule, p4d_schedule_positions(&m->schedule) - 1, NULL);
	m->tied_ends = l->tied && !l->vocab_parallel && m->last_stage != 0;
}

/* Compiles the instruction lists of all stages, and keeps this stage's. */
static int compile(p4d_net *m, p4d_error *err)
{
	p4d_instruction_list *lists = calloc(m->schedule.stages, sizeof(*lists));

	if (!lists)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the lists of %u stages",
				m->schedule.stages);
	if (p4d_schedule_compile(&m->schedule, lists, err) < 0) {
		free(lists);
		return -1;
	}
	m->list = lists[m->place.pp];
	lists[m->place.pp] = (p4d_instruction_list){0};
	p4d_schedule_lists_free(lists, m->schedule.stages);
	free(lists);
	return 0;
}

static uint64_t copies_of(const p4d_net *m, p4d_buffer which)
{
	return m->row[which] ? m->row[which]->shape[0] : 1;
}

/*
 * Allocates the documents of a micro-batch's tokens, in the order of the sequences and in the order that
 * attention uses.
 */
static int allocate_documents(p4d_net *m, p4d_error *err)
{
	const uint64_t sequences = m->batch * m->l->seq_len, *shape = m->row[B_DOCUMENTS]->shape;

	m->document_holder = calloc(shape[0], sizeof(*m->document_holder));
	if (m->set.document_mask)
		m->host_documents =
		    malloc((2 * sequences + shape[1] * shape[2]) * sizeof(*m->host_documents));
	if (m->document_holder && (m->host_documents || !m->set.document_mask))
		return p4d_document_groups__open(m, err);
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the documents of a micro-batch");
}

static int allocate(p4d_net *m, p4d_error *err)
{
	void *arena;

	m->host_tokens = malloc(2 * m->whole * sizeof(*m->host_tokens));
	m->host_labels = malloc(2 * m->whole * sizeof(*m->host_labels));
	m->token_holder = calloc(copies_of(m, B_TOKENS), sizeof(*m->token_holder));
	m->label_holder = calloc(copies_of(m, B_LABELS), sizeof(*m->label_holder));
	m->label_trained = calloc(copies_of(m, B_LABELS), sizeof(*m->label_trained));
	m->begun = calloc(m->weights.trained + 1, sizeof(*m->begun));
	if (m->l->pairs)
		m->host_reference = malloc(2 * m->batch * sizeof(*m->host_reference));
	if ((m->l->pairs && !m->host_reference) || !m->host_tokens || !m->host_labels || !m->token_holder ||
	    !m->label_holder || !m->label_trained || !m->begun)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a micro-batch");
	if (allocate_documents(m, err) < 0 || m->d->allocate(m->d, m->plan.arena_bytes, &arena, err) < 0)
		return -1;
	m->arena = arena;
	if (m->plan.host_bytes && m->d->host_allocate(m->d, m->plan.host_bytes, &arena, err) < 0)
		return -1;
	m->host_arena = m->plan.host_bytes ? arena : NULL;
	m->d->set_workspace(m->d, p4d_buffers_at(m, B_LIBRARY), p4d_net_bytes(m, B_LIBRARY),
			    p4d_buffers_at(m, B_REDUCTIONS), p4d_net_bytes(m, B_REDUCTIONS));
	return 0;
}

/* The angle by which a table of RoPE rotates pair j of a head at a position; 0 for learned positions. */
static double angle_of(const p4d_net *m, uint64_t table, uint64_t position, uint64_t j)
{
	const p4d_architecture *a = m->l->architecture;
	const p4d_rope windows = {.theta = a->window_theta > 0 ? (double)a->window_theta : m->set.rope.theta};

	if (m->l->positions || (table && !a->plain_windows))
		return 0;
	return (double)position * p4d_rope_frequency(table ? &windows : &m->set.rope, m->l->head_dim, j);
}

static void fill_rope(p4d_net *m, float *scratch)
{
	const uint64_t *shape = m->row[B_ROPE]->shape, rows = shape[0], d = shape[1], half = d / 2;
	const uint64_t length = rows / p4d_rope_tables(m->l);

	for (uint64_t i = 0; i < rows; i++) {
		const uint64_t position = p4d_sequence__place(m->l, m->place.cp, i % length);
		for (uint64_t j = 0; j < half; j++) {
			const double angle = angle_of(m, i / length, position, j);
			scratch[i * d + j] = (float)cos(angle);
			scratch[i * d + half + j] = (float)sin(angle);
		}
	}
	m->d->upload(m->d, p4d_buffers_at(m, B_ROPE), scratch, rows * d * sizeof(*scratch));
}

static int fill_constants(p4d_net *m, p4d_error *err)
{
	const uint64_t *positions = m->row[B_POSITIONS]->shape, *rope = m->row[B_ROPE]->shape;
	const uint64_t count = positions[0] * positions[1], angles = rope[0] * rope[1];
	const uint64_t words = count > angles ? count : angles;
	void *scratch = malloc(words * sizeof(float));

	if (!scratch)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the positions");
	p4d_sequence__fill_positions(m, scratch);
	fill_rope(m, scratch);
	free(scratch);
	return 0;
}

static int check_quantized(const p4d_net *m, p4d_error *err)
{
	const p4d_tensor *row = m->row[B_QUANTIZED];
	const uint64_t planned = row ? row->shape[0] * row->shape[1] : 0;

	if (m->weights.quantized_bytes == planned)
		return 0;
	return p4d_fail(err, P4D_E_PLAN_CHANGED,
			"quantized weights on stage %u have %" PRIu64 " bytes, in the plan %" PRIu64,
			m->place.pp, m->weights.quantized_bytes, planned);
}

/*
 * Checks that the plan's parameters and gradients have the size that this layout needs: all elements, or this
 * rank's shards.
 */
static int check_plan(const p4d_net *m, p4d_error *err)
{
	const uint64_t all = m->weights.elements + m->weights.frozen, trained = m->weights.elements;
	const uint64_t planned =
	    m->row[B_PARAMETERS]->shape[0] * (p4d_shards_parameters(m->l) ? m->shards : 1);
	const uint64_t planned_trained =
	    m->l->evaluates ? trained
			    : m->row[B_GRADIENTS]->shape[0] * (p4d_shards_gradients(m->l) ? m->shards : 1);

	if (check_quantized(m, err) < 0)
		return -1;
	if (all == planned && trained == planned_trained)
		return 0;
	return p4d_fail(err, P4D_E_PLAN_CHANGED,
			"the model has %" PRIu64 " parameters on stage %u, and trains %" PRIu64
			"; the plan has %" PRIu64 ", and trains %" PRIu64,
			all, m->place.pp, trained, planned, planned_trained);
}

static void find_head(p4d_net *m)
{
	m->head.norm = P4D_W_FINAL_NORM;
	m->head.table = p4d_weights__find(&m->weights, P4D_W_HEAD, 0) ? P4D_W_HEAD : P4D_W_EMBEDDING;
	for (uint32_t i = 0; i < m->weights.count; i++)
		if (m->weights.weight[i].kind == P4D_W_LOCAL_HEAD) {
			m->head.norm = P4D_W_LOCAL_NORM;
			m->head.table = P4D_W_LOCAL_HEAD;
			m->head.layer = m->weights.weight[i].layer;
		}
}

static int open_windows(p4d_net *m, p4d_error *err)
{
	const bool host = p4d_streams_parameters(m->l);

	if (host && p4d_host_link__open(&m->lift, m->d, err) < 0)
		return -1;
	if (p4d_window_open(m, host ? &p4d_window_host : &p4d_window_gather, err) < 0)
		return -1;
	return p4d_gradient_window_open(m, err) < 0 ? -1 : p4d_swap_open(m, err);
}

int p4d_net_open(p4d_net *m, const p4d_net_settings *set, uint32_t rank, p4d_error *err)
{
	if (check(set, err) < 0)
		return -1;
	m->set = *set;
	m->l = set->layout;
	m->d = set->device;
	m->host = set->host ? set->host : set->device;
	m->place = p4d_place_of(m->l, rank);
	fill_sizes(m);
	if (p4d_plan_build(m->l, m->set.gpu, m->place.pp, &m->plan, err) < 0 || compile(m, err) < 0 ||
	    p4d_weights_open(&m->weights, m->l, m->place.pp, err) < 0)
		return -1;
	p4d_buffers__find(m);
	find_head(m);
	if (check_plan(m, err) < 0 || allocate(m, err) < 0 || p4d_parallel__open(m, err) < 0 ||
	    open_windows(m, err) < 0)
		return -1;
	if (p4d_weight_codes__open(m, err) < 0 || p4d_net__warm_up(m, err) < 0)
		return -1;
	p4d_arena_use__mark(m);
	return fill_constants(m, err);
}

void p4d_net_close(p4d_net *m)
{
	p4d_error err;

	/*
	 * Queued operations use the groups and the arena, so wait for them first. After an error they may
	 * never end, and freeing GPU memory would wait for them without the watch. So after an error the
	 * arena is not freed; the process is about to end.
	 */
	const bool ended =
	    m->arena && !p4d_comm_transport_broken(m->set.transport) && m->d->sync(m->d, &err) == 0;
	p4d_parallel__close(m);
	if (ended)
		m->d->release(m->d, m->arena);
	if (ended && m->host_arena)
		m->d->host_release(m->d, m->host_arena);
	p4d_window_close(m);
	p4d_gradient_window_close(m);
	p4d_swap_close(m);
	p4d_weight_codes__close(m);
	p4d_schedule_lists_free(&m->list, 1);
	p4d_weights_close(&m->weights);
	free(m->host_tokens);
	free(m->host_labels);
	free(m->token_holder);
	free(m->label_holder);
	free(m->label_trained);
	free(m->block_scales);
	free(m->begun);
	free(m->host_documents);
	p4d_document_groups__close(m);
	free(m->host_reference);
	free(m->document_holder);
}

void p4d_net_begin(p4d_net *m, uint64_t number, bool evaluating, p4d_batch_source source, void *context)
{
	m->number = number;
	m->source = source;
	m->context = context;
	m->evaluating = evaluating;
	m->trained = 0;
	p4d_window_begin(m);
	p4d_depth__forget(m);
	p4d_weight_codes__forget(m);
	m->d->zero(m->d, p4d_buffers_at(m, B_SCALARS), sizeof(p4d_scalars));
	memset(m->token_holder, 0xff, copies_of(m, B_TOKENS) * sizeof(*m->token_holder));
	memset(m->label_holder, 0xff, copies_of(m, B_LABELS) * sizeof(*m->label_holder));
	memset(m->document_holder, 0xff, copies_of(m, B_DOCUMENTS) * sizeof(*m->document_holder));
}

void p4d_net_begin_pass(p4d_net *m, uint32_t micro_batch)
{
	const p4d_layout *l = m->l;
	const uint32_t slice = p4d_schedule_slice_of(&m->schedule, micro_batch);

	m->micro_batch = micro_batch / l->slices;
	if (l->slices == 1)
		return;
	m->before = 0;
	for (uint32_t i = 0; i < slice; i++)
		m->before += l->slice_tokens[i];
	m->length = l->slice_tokens[slice];
	m->n = l->micro_batch * m->length;
	m->ns = l->sequence_parallel ? m->n / l->tp : m->n;
	m->slice_first = l->micro_batch * m->before;
	m->sequences = micro_batch / (uint32_t)l->slices % m->plan.slots.sequences;
}

int p4d_net_read_scalars(p4d_net *m, p4d_scalars *scalars, p4d_error *err)
{
	m->d->download(m->d, scalars, p4d_buffers_at(m, B_SCALARS), sizeof(*scalars));
	return m->d->sync(m->d, err);
}
