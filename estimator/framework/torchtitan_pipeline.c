/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage of torchtitan's pipelines (PyTorch's distributed/pipelining, _fsdp_param_group.py): parameters stay
 * gathered; gradients of all micro-batches are added up, whole, in the type in which they are reduced, and
 * leave behind a chunk's last backward pass, layer after layer. What layers of one kind hold is the same, so
 * that a pass of a chunk is a few numbers.
 */
#include "base/wide.h"
#include "framework/torchtitan.h"
#include "plan/parameters.h"

#define ALONG "sp cp"

/* Rounds of micro-batches that are played: the third is as all later ones. With 1F1B a round is one of them,
 * behind those that fill the pipeline. GPipe has one round. */
enum { ROUNDS = 3 };

typedef struct stage {
	p4d_torchtitan_step *p;
	const p4d_rows *rows;
	int64_t wide, hidden; /* of all ranks of tensor parallelism, and of this one */
	int64_t layers;       /* of a chunk, if all have as many and no experts; else 0 */
} stage;

static bool is_first(const stage *s, uint32_t chunk)
{
	return s->rows->first && chunk == 0;
}

static bool is_last(const stage *s, uint32_t chunk)
{
	return s->rows->last && chunk + 1 == s->p->l->vpp;
}

/* Layers of a chunk, those without experts first. */
static void layers_of(const stage *s, uint32_t chunk, int64_t layers[2])
{
	const p4d_layout *l = s->p->l;

	layers[0] = s->layers;
	layers[1] = 0;
	if (s->layers)
		return;
	layers[1] = l->experts ? (int64_t)p4d_parameters_expert_layers(l, s->rows->stage, chunk) : 0;
	layers[0] = (int64_t)p4d_chunk_layers(l, s->rows->stage, chunk) - layers[1];
}

/* So many layers; the first of them, or the last, needs most. */
static void go(p4d_torchtitan_step *p, int64_t *most, int64_t layers, p4d_tape_pass pass)
{
	const int64_t end = pass.end.live + pass.end.weights, widest = pass.most.live + pass.most.weights;

	if (!layers)
		return;
	p4d_torchtitan__peek(p, widest, most);
	p4d_torchtitan__peek(p, (layers - 1) * end + widest, most);
	p->live += layers * end;
	p4d_torchtitan__peek(p, 0, most);
}

static void forward(stage *s, uint32_t chunk)
{
	p4d_torchtitan_step *p = s->p;
	const bool tensors = p->l->sequence_parallel;
	int64_t layers[2];

	layers_of(s, chunk, layers);
	p->live += s->hidden;
	p4d_torchtitan__peek(p, is_first(s, chunk) && tensors ? 2 * s->wide - s->hidden : 0, &p->forward);
	for (int sparse = 0; sparse < 2; sparse++)
		go(p, &p->forward, layers[sparse], p->of[sparse].forward);
	/* the norm, and, gathered, what it gave */
	p4d_torchtitan__peek(p, is_last(s, chunk) ? s->hidden + (tensors ? 2 * s->wide : 0) : 0, &p->forward);
	p->live -= s->hidden; /* what is sent has a row */
	if (is_last(s, chunk))
		p4d_torchtitan__peek(p, 0, &p->loss);
}

/* A unit is no longer gathered, and its gradients are reduced from copies. */
static void reduce(p4d_torchtitan_step *p, const p4d_torchtitan_unit *u)
{
	const int64_t reduced = p->z->reduced;

	for (int i = u->groups; i-- > 0;) {
		const p4d_torchtitan_group *g = &u->group[i];
		p->live -= g->padded * g->element;
		if (i == u->groups - 1) {
			p->live -= p->reducing;
			p->reducing = 0;
		}
		p->live += g->padded * reduced;
		p->reducing += g->padded * reduced;
		p4d_torchtitan__peek(p, 0, &p->backward);
		p->live += (g->share - g->whole) * reduced;
		p4d_torchtitan__peek(p, 0, &p->backward);
	}
}

static void reduce_chunk(stage *s, uint32_t chunk, const int64_t layers[2])
{
	p4d_torchtitan_step *p = s->p;

	if (is_last(s, chunk) && !p->l->torch.chunked_loss)
		reduce(p, &p->head);
	else if (is_last(s, chunk)) /* the copy of a head's that has a row */
		p->live -= p->head.group[0].padded * p->z->reduced;
	for (int sparse = 2; sparse-- > 0;) {
		for (int64_t i = 0; i < layers[sparse]; i++)
			reduce(p, &p->layer[sparse]);
		if (chunk >= P4D_TORCHTITAN_ACTIVE_CHUNKS) /* another is gathered in its place */
			p->live += layers[sparse] * p4d_torchtitan__gathered(&p->layer[sparse]);
	}
	if (is_first(s, chunk))
		reduce(p, &p->embedding);
	p->live -= p->reducing; /* a schedule of chunks waits for it */
	p->reducing = 0;
}

static void backward(stage *s, uint32_t chunk, bool first, bool last)
{
	p4d_torchtitan_step *p = s->p;
	const int64_t element = p->z->element, reduced = first ? p->z->reduced : 0;
	int64_t layers[2];

	layers_of(s, chunk, layers);
	if (is_last(s, chunk)) {
		const int64_t whole = p->l->torch.chunked_loss ? 0 : p->head.group[0].whole;
		p4d_torchtitan__peek(p, whole * (element + reduced), &p->head_backward);
		p->live += whole * reduced;
	}
	p->live += s->hidden;
	for (int sparse = 2; sparse-- > 0;) {
		const p4d_torchtitan_passes *of = &p->of[sparse];
		go(p, &p->backward, layers[sparse], first ? of->first : of->back);
	}
	if (is_first(s, chunk)) {
		const int64_t whole = p->embedding.group[0].whole, tokens = (int64_t)p->t.w.tokens;
		p->live += whole * reduced;
		p4d_torchtitan__peek(p, whole * element + tokens * 32 + s->wide - s->hidden, &p->backward);
	}
	p->live -= s->hidden;
	if (last)
		reduce_chunk(s, chunk, layers);
}

/* The passes of a stage. So many forward passes come first, then a backward and a forward pass in turn. */
typedef struct passes {
	uint32_t count, ahead;      /* of each kind; forward passes up to the first backward pass */
	uint32_t group, chunks;     /* micro-batches that go through a chunk before the next has its turn */
	uint32_t forward, backward; /* done */
} passes;

static passes passes_of(const p4d_rows *rows)
{
	const bool in_groups = rows->layout->schedule == P4D_INTERLEAVED;
	p4d_schedule s = rows->schedule;
	const uint32_t ahead = p4d_schedule_slots(&s, rows->stage).activation;

	if (in_groups)
		s.micro_batches = P4D_LEAST(s.micro_batches, ROUNDS * p4d_schedule_group(&s));
	else
		s.micro_batches = P4D_LEAST(s.micro_batches, ahead + ROUNDS);
	return (passes){.count = s.micro_batches * s.chunks,
			.ahead = P4D_LEAST(ahead, s.micro_batches * s.chunks),
			.group = in_groups ? p4d_schedule_group(&s) : s.micro_batches,
			.chunks = s.chunks};
}

/* Of passes of one kind, those from number i on that are alike: of one chunk, and of micro-batches between
 * the first and the last, or one of these. */
static uint32_t alike(const passes *o, uint32_t i)
{
	const uint32_t member = i % o->group, begun = i / (o->group * o->chunks) * o->group;
	const uint32_t left = o->group - member;
	const bool ends = begun + o->group == o->count / o->chunks;

	return !begun && !member ? 1 : ends && left > 1 ? left - 1 : left;
}

/* The next pass of each kind that is wanted. */
static void next(stage *s, passes *o, bool forwards, bool backwards)
{
	const uint32_t i = o->backward;

	if (forwards)
		forward(s, o->forward++ / o->group % o->chunks);
	if (!backwards)
		return;
	const uint32_t micro_batch = i / (o->group * o->chunks) * o->group + i % o->group;
	o->backward++;
	backward(s, o->chunks - 1 - i / o->group % o->chunks, !micro_batch,
		 micro_batch + 1 == o->count / o->chunks);
}

/*
 * The next passes that are alike, or pairs of them. With each, what is held grows or shrinks by as much: the
 * first or the last needs most. False: too much for 64 bits.
 */
static bool play_alike(stage *s, passes *o)
{
	const bool backwards = o->forward + 1 >= o->ahead, forwards = o->forward < o->count;
	const int64_t before = s->p->live;
	uint32_t n = forwards ? alike(o, o->forward) : UINT32_MAX;
	int64_t between;

	n = P4D_LEAST(n, backwards ? alike(o, o->backward) : o->ahead - 1 - o->forward);
	next(s, o, forwards, backwards);
	const int64_t change = s->p->live - before;
	const uint32_t skipped = n < 2 ? 0 : change ? n - 2 : n - 1;
	o->forward += forwards ? skipped : 0;
	o->backward += backwards ? skipped : 0;
	if (__builtin_mul_overflow(change, (int64_t)skipped, &between) ||
	    __builtin_add_overflow(s->p->live, between, &s->p->live))
		return false;
	if (n > 1 && change)
		next(s, o, forwards, backwards);
	return true;
}

bool p4d_torchtitan__play_stage(p4d_torchtitan_step *p, const p4d_rows *rows)
{
	passes o = passes_of(rows);
	stage s = {.p = p,
		   .rows = rows,
		   .wide = (int64_t)(p->t.w.tokens * p->l->hidden * p->z->element),
		   .hidden = (int64_t)(p->t.own * p->l->hidden * p->z->element)};

	if (!p->l->experts && !p->l->uneven_chunks)
		s.layers = p4d_chunk_layers(p->l, rows->stage, 0);

	while (o.backward < o.count)
		if (!play_alike(&s, &o))
			return false;
	return true;
}

/*
 * Results of a stage, and gradients of its inputs, that are there when its last forward pass runs: results of
 * passes in flight; with several chunks (_PipelineScheduleRuntime) all that was sent, until the step ends. On
 * the last stage the losses, which stay, refer to their chunk's inputs.
 */
static uint64_t outputs_of(const p4d_rows *rows, uint64_t slots)
{
	const p4d_layout *l = rows->layout;
	const uint64_t all = l->micro_batches * l->vpp;
	const uint64_t done = all > slots ? all - slots : 0;
	const uint64_t of_losses = rows->last ? l->micro_batches - 1 : 0;

	if (l->vpp == 1)
		return rows->last ? of_losses : slots;
	return l->micro_batches * (l->vpp - rows->last) + done * (l->vpp - rows->first) / l->vpp + of_losses;
}

void p4d_torchtitan__stage_rows(p4d_rows *rows, const p4d_torchtitan_sizes *z)
{
	p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING, "gathered.stage", "tp pp", P4D_PART_WORKING_SET,
		       z->gathered_stage);
	/* the next one, or the gradient of the one before; others are what slots and losses keep */
	if (!rows->first)
		p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING, "received.input", ALONG, P4D_PART_STAGING,
			       (p4d_wide)z->own * z->h * z->element);
	p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING, "outputs", ALONG, P4D_PART_STAGING,
		       (p4d_wide)outputs_of(rows, rows->plan->slots.activation) * z->own * z->h * z->element +
			   (rows->last && !rows->layout->torch.chunked_loss
				? (p4d_wide)z->tokens * z->V * z->element
				: 0));
}
