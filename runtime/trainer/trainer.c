/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/parameters.h"
#include "trainer/trainer_parts.h"

static int check(const p4d_trainer_settings *set, p4d_error *err)
{
	const p4d_layout *l = set->layout;

	if (l->framework != P4D_FRAMEWORK_P4D)
		return p4d_fail(err, P4D_E_UNMODELLED, "p4d-train runs plans of framework p4d only");
	if (l->precision == P4D_FP16)
		return p4d_fail(err, P4D_E_UNMODELLED, "p4d-train computes in bf16 or fp32, not in fp16"),
		       p4d_fix(err, "--precision=bf16");
	if (!l->glu || l->norm_tensors != 1 || l->positions || l->bias == P4D_BIAS_ALL)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"p4d-train computes Llama-type models: RMSNorm, gated feed-forward, rotary "
				"positions, no bias outside of attention");
	if (l->head_dim % 2)
		return p4d_fail(err, P4D_E_WIDTH, "head-dim=%" PRIu64 " must be even to be rotated",
				l->head_dim);
	if (set->vocab == 0 || set->vocab > l->vocab)
		return p4d_fail(err, P4D_E_VALUE,
				"the vocabulary has %" PRIu64 " entries, the layout %" PRIu64, set->vocab,
				l->vocab);
	return 0;
}

static void fill_sizes(p4d_trainer *t)
{
	const p4d_layout *l = t->l;

	t->type = l->precision == P4D_FP32 ? P4D_DT_FP32 : P4D_DT_BF16;
	t->element = t->type == P4D_DT_FP32 ? 4 : 2;
	t->length = l->seq_len / l->cp;
	t->n = t->length * l->micro_batch;
	t->ns = l->sequence_parallel ? t->n / l->tp : t->n;
	t->h = l->hidden;
	t->f = l->ffn / l->tp;
	t->q = l->heads / l->tp * l->head_dim;
	t->kv = l->kv_heads / l->tp * l->head_dim;
	t->columns = t->q + 2 * t->kv;
	t->layers = l->stage_layers[t->place.pp] / l->vpp;
	t->shards = p4d_optimizer_shards(l);
	t->shard = t->shards > 1 ? t->place.cp + (uint32_t)l->cp * t->place.dp : 0;
	t->schedule = p4d_schedule_of(l);
	t->first = p4d_is_first(&t->schedule, t->place.pp);
	t->last = p4d_is_last(&t->schedule, t->place.pp);
	t->last_stage = p4d_stage_at(&t->schedule, p4d_positions(&t->schedule) - 1, NULL);
	t->tied_ends = l->tied && !l->vocab_parallel && t->last_stage != 0;
}

/* The list of this stage; those of the others are compiled with it, and dropped. */
static int compile(p4d_trainer *t, p4d_error *err)
{
	p4d_list *lists = calloc(t->schedule.stages, sizeof(*lists));

	if (!lists)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the lists of %u stages",
				t->schedule.stages);
	if (p4d_schedule_compile(&t->schedule, lists, err) < 0) {
		free(lists);
		return -1;
	}
	t->list = lists[t->place.pp];
	lists[t->place.pp] = (p4d_list){0};
	p4d_lists_free(lists, t->schedule.stages);
	free(lists);
	return 0;
}

static uint64_t copies_of(const p4d_trainer *t, p4d_buffer which)
{
	return t->row[which] ? t->row[which]->shape[0] : 1;
}

/* In the order of the sequences, and as attention takes them. */
static int allocate_documents(p4d_trainer *t, p4d_error *err)
{
	const uint64_t sequences = t->l->micro_batch * t->l->seq_len, *shape = t->row[B_DOCUMENTS]->shape;

	t->document_holder = calloc(shape[0], sizeof(*t->document_holder));
	if (t->set.document_mask)
		t->host_documents = malloc((sequences + shape[1] * shape[2]) * sizeof(*t->host_documents));
	if (t->document_holder && (t->host_documents || !t->set.document_mask))
		return 0;
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the documents of a micro-batch");
}

static uint64_t bytes_of(const p4d_trainer *t, p4d_buffer which)
{
	return t->row[which] ? t->row[which]->bytes : 0;
}

static int allocate(p4d_trainer *t, p4d_error *err)
{
	void *arena;

	t->host_tokens = malloc(t->n * sizeof(*t->host_tokens));
	t->host_labels = malloc(t->n * sizeof(*t->host_labels));
	t->token_holder = calloc(copies_of(t, B_TOKENS), sizeof(*t->token_holder));
	t->label_holder = calloc(copies_of(t, B_LABELS), sizeof(*t->label_holder));
	t->label_trained = calloc(copies_of(t, B_LABELS), sizeof(*t->label_trained));
	t->gathers = calloc(t->weights.segments, sizeof(*t->gathers));
	if (!t->host_tokens || !t->host_labels || !t->token_holder || !t->label_holder || !t->label_trained ||
	    !t->gathers)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a micro-batch");
	if (allocate_documents(t, err) < 0 || t->d->allocate(t->d, t->plan.arena_bytes, &arena, err) < 0)
		return -1;
	t->arena = arena;
	t->d->lend(t->d, p4d_at(t, B_LIBRARY), bytes_of(t, B_LIBRARY), p4d_at(t, B_REDUCTIONS),
		   bytes_of(t, B_REDUCTIONS));
	return 0;
}

static int fill_constants(p4d_trainer *t, p4d_error *err)
{
	const uint64_t *positions = t->row[B_POSITIONS]->shape, *rope = t->row[B_ROPE]->shape;
	const uint64_t count = positions[0] * positions[1], angles = rope[0] * rope[1];
	const uint64_t words = count > angles ? count : angles;
	void *scratch = malloc(words * sizeof(float));

	if (!scratch)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the positions");
	p4d_fill_positions(t, scratch);
	p4d_fill_rope(t, scratch);
	free(scratch);
	return 0;
}

static int open_parts(p4d_trainer *t, uint32_t rank, p4d_error *err)
{
	t->place = p4d_place_of(t->l, rank);
	fill_sizes(t);
	if (p4d_plan_build(t->l, t->set.gpu, t->place.pp, &t->plan, err) < 0 || compile(t, err) < 0 ||
	    p4d_weights_open(&t->weights, t->l, t->place.pp, err) < 0)
		return -1;
	p4d_find_buffers(t);
	if (t->weights.elements != t->row[B_PARAMETERS]->shape[0])
		return p4d_fail(err, P4D_E_PLAN_CHANGED,
				"the model has %" PRIu64 " parameters on stage %u, its plan %" PRIu64,
				t->weights.elements, t->place.pp, t->row[B_PARAMETERS]->shape[0]);
	if (allocate(t, err) < 0 || p4d_open_groups(t, err) < 0)
		return -1;
	if (p4d_warm_up(t, err) < 0)
		return -1;
	p4d_mark_arena(t);
	return fill_constants(t, err);
}

int p4d_trainer_open(p4d_trainer **trainer, const p4d_trainer_settings *set, p4d_error *err)
{
	const uint32_t rank = p4d_world_rank(set->world), size = p4d_world_size(set->world);
	p4d_trainer *t;

	if (check(set, err) < 0)
		return -1;
	if (size != set->layout->world)
		return p4d_fail(err, P4D_E_WORLD, "the plan is for %" PRIu64 " ranks, but there are %u",
				set->layout->world, size);
	t = calloc(1, sizeof(*t));
	if (!t)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a trainer");
	t->set = *set;
	t->l = set->layout;
	t->d = set->device;
	t->most_loss = INFINITY;
	if (open_parts(t, rank, err) < 0) {
		p4d_transport_break(set->transport);
		p4d_trainer_close(t);
		return -1;
	}
	*trainer = t;
	return 0;
}

void p4d_trainer_close(p4d_trainer *t)
{
	p4d_error err;

	if (!t)
		return;
	/*
	 * What is still on its way needs groups and arena. After an error it may never end, and a GPU that
	 * frees memory waits for it, deaf to the watch: then the arena stays, for the process is to end.
	 */
	const bool ended = t->arena && !p4d_transport_broken(t->set.transport) && t->d->sync(t->d, &err) == 0;
	p4d_close_groups(t);
	if (ended)
		t->d->release(t->d, t->arena);
	p4d_lists_free(&t->list, 1);
	p4d_weights_close(&t->weights);
	free(t->host_tokens);
	free(t->host_labels);
	free(t->token_holder);
	free(t->label_holder);
	free(t->label_trained);
	free(t->gathers);
	free(t->host_documents);
	free(t->document_holder);
	free(t);
}

static int run(p4d_trainer *t, uint64_t number, bool evaluating, p4d_batch_source source, void *context,
	       p4d_error *err)
{
	t->number = number;
	t->source = source;
	t->context = context;
	t->evaluating = evaluating;
	t->trained = 0;
	t->d->zero(t->d, p4d_at(t, B_SCALARS), sizeof(p4d_scalars));
	memset(t->token_holder, 0xff, copies_of(t, B_TOKENS) * sizeof(*t->token_holder));
	memset(t->label_holder, 0xff, copies_of(t, B_LABELS) * sizeof(*t->label_holder));
	memset(t->document_holder, 0xff, copies_of(t, B_DOCUMENTS) * sizeof(*t->document_holder));
	return p4d_execute(t, err);
}

int p4d_read_scalars(p4d_trainer *t, p4d_scalars *scalars, p4d_error *err)
{
	t->d->download(t->d, scalars, p4d_at(t, B_SCALARS), sizeof(*scalars));
	return t->d->sync(t->d, err);
}

int p4d_trainer_step(p4d_trainer *t, uint64_t number, float learning_rate, p4d_batch_source source,
		     void *context, p4d_step_result *out, p4d_error *err)
{
	t->learning_rate = learning_rate;
	t->d->zero(t->d, p4d_at(t, B_GRADIENTS), t->weights.elements * sizeof(float));
	if (run(t, number, false, source, context, err) < 0)
		return -1;
	*out = t->result;
	return 0;
}

void p4d_trainer_skip_above(p4d_trainer *t, double most)
{
	t->most_loss = most;
}

int p4d_trainer_evaluate(p4d_trainer *t, uint64_t step, p4d_batch_source source, void *context, double *loss,
			 p4d_error *err)
{
	p4d_scalars scalars;
	double sums[2];

	if (run(t, step, true, source, context, err) < 0 || p4d_read_scalars(t, &scalars, err) < 0)
		return -1;
	sums[0] = scalars.loss;
	sums[1] = (double)t->trained;
	if (p4d_all_reduce(t->world, sums, 2, P4D_DT_FP64, P4D_SUM, err) < 0)
		return -1;
	*loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
	return 0;
}

const p4d_weights *p4d_trainer_weights(const p4d_trainer *t)
{
	return &t->weights;
}

p4d_place p4d_trainer_place(const p4d_trainer *t)
{
	return t->place;
}

const float *p4d_trainer_gradients(const p4d_trainer *t)
{
	return p4d_at(t, B_GRADIENTS);
}

uint64_t p4d_trainer_arena_bytes(const p4d_trainer *t)
{
	return t->plan.arena_bytes;
}

const p4d_plan *p4d_trainer_plan(const p4d_trainer *t)
{
	return &t->plan;
}
