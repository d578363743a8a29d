/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage of torchtitan's pipelines (PyTorch's distributed/pipelining, _fsdp_param_group.py). Parameters stay
 * gathered. Gradients of all micro-batches are summed unsharded, in the type of the reduction, and are
 * reduced layer by layer after a chunk's last backward pass. Layers of one kind need equal amounts of memory,
 * so a few numbers describe a chunk's pass.
 */
#include "base/wide.h"
#include "framework/torchtitan.h"
#include "plan/parameters.h"

#define ALONG "sp cp"

/*
 * Number of rounds that are simulated; all later rounds are like the third. With 1F1B a round is one
 * micro-batch after those that fill the pipeline. GPipe has one round.
 */
enum { ROUNDS = 3 };

/*
 * How a pass changes the memory, in bytes. at_head: the peak while the loss or the head runs. most: the peak
 * of the pass. end: the change after the pass.
 */
typedef struct change {
	int64_t at_head, most, end;
} change;

/* Less than any change, so that it can start a maximum. */
#define NOTHING INT64_MIN

/* Properties that distinguish passes of a stage whose chunks have equally many layers. */
enum {
	HAS_EMBEDDING = 1,
	HAS_HEAD = 2,
	GATHERED_LATER = 4,
	BACKWARD = 8,
	OF_FIRST = 16, /* a pass of the first micro-batch */
	OF_LAST = 32,
	KINDS = 64
};

typedef struct stage {
	p4d_torchtitan_step *p;
	const p4d_rows *rows;
	int64_t wide, hidden; /* bytes of a hidden state: of all tensor-parallel ranks together, and of
			       * this one */
	int64_t layers;       /* layers of a chunk, if all chunks have equally many and no experts; else 0 */
	uint32_t from, to;    /* range of chunks that have neither embedding nor head */
	uint64_t known;       /* mask of the kinds of passes whose change is known */
	change of[KINDS];
} stage;

static bool is_first(const stage *s, uint32_t chunk)
{
	return s->rows->first && chunk == 0;
}

static bool is_last(const stage *s, uint32_t chunk)
{
	return s->rows->last && chunk + 1 == s->p->l->vpp;
}

/* Counts the layers of a chunk: without experts, with experts. */
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

/* Runs this many equal layers. The peak is at the first or at the last layer. */
static void go(p4d_torchtitan_step *p, int64_t *most, int64_t layers, p4d_torchtitan_pass pass)
{
	if (!layers)
		return;
	p4d_torchtitan__peek(p, pass.most, most);
	p4d_torchtitan__peek(p, (layers - 1) * pass.end + pass.most, most);
	p->live += layers * pass.end;
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
	/* the last norm's result, and the same tensor gathered over tensor-parallel ranks */
	p4d_torchtitan__peek(p, is_last(s, chunk) ? s->hidden + (tensors ? 2 * s->wide : 0) : 0, &p->forward);
	p->live -= s->hidden; /* tensors that are sent have a row of their own */
	if (is_last(s, chunk))
		p4d_torchtitan__peek(p, 0, &p->loss);
}

/* Frees a gathered unit, and reduces a copy of its gradients. */
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

/*
 * Reduces this many layers. From the second layer on, each changes the memory by the same amount, so the peak
 * is at the second or at the last.
 */
static void reduce_layers(p4d_torchtitan_step *p, const p4d_torchtitan_unit *u, int64_t layers)
{
	if (layers > 0)
		reduce(p, u);
	if (layers < 2)
		return;
	const int64_t before = p->live;
	reduce(p, u);
	if (layers < 3)
		return;
	p->live += (layers - 3) * (p->live - before);
	reduce(p, u);
}

static void reduce_chunk(stage *s, uint32_t chunk, const int64_t layers[2])
{
	p4d_torchtitan_step *p = s->p;

	if (is_last(s, chunk) && !p->l->torch.chunked_loss)
		reduce(p, &p->head);
	else if (is_last(s, chunk)) /* the copy of the head's gradient has a row of its own */
		p->live -= p->head.group[0].padded * p->z->reduced;
	for (int sparse = 2; sparse-- > 0;) {
		reduce_layers(p, &p->layer[sparse], layers[sparse]);
		if (chunk >= P4D_TORCHTITAN_ACTIVE_CHUNKS) /* when it is done, another chunk is gathered in
							      its place */
			p->live += layers[sparse] * p4d_torchtitan__gathered(&p->layer[sparse]);
	}
	if (is_first(s, chunk))
		reduce(p, &p->embedding);
	p->live -= p->reducing; /* a schedule with several chunks waits for the reduction */
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
		go(p, &p->backward, layers[sparse], first ? of->first : of->others);
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

/* ---- the order of passes ---- */

/* Progress of the passes of one kind (forward or backward): how many are done, and which is next. */
typedef struct pass_turn {
	uint32_t done;
	uint32_t chunk, member, begun; /* chunk of the next pass, and its index within the group of
					  micro-batches; first micro-batch of the group */
	uint32_t alike;   /* number of passes, from the next one on, that change the memory equally */
	const change *of; /* the change of each of these passes */
} pass_turn;

/* The passes of a stage: first `ahead` forward passes, then backward and forward passes alternate. */
typedef struct passes {
	uint32_t count, ahead;  /* number of forward (or backward) passes; number of forward passes before the
				   first backward pass */
	uint32_t group, chunks; /* micro-batches that pass a chunk before the next chunk runs */
	uint32_t micro_batches;
	pass_turn forward, backward; /* in backward, the last chunk comes first */
} passes;

static passes passes_of(const p4d_rows *rows)
{
	const bool in_groups = rows->layout->schedule == P4D_INTERLEAVED;
	p4d_schedule s = rows->schedule;
	const uint32_t ahead = rows->plan->slots.activation;

	if (in_groups)
		s.micro_batches = P4D_LEAST(s.micro_batches, ROUNDS * p4d_schedule_group(&s));
	else
		s.micro_batches = P4D_LEAST(s.micro_batches, ahead + ROUNDS);
	return (passes){.count = s.micro_batches * s.chunks,
			.ahead = P4D_LEAST(ahead, s.micro_batches * s.chunks),
			.group = in_groups ? p4d_schedule_group(&s) : s.micro_batches,
			.chunks = s.chunks,
			.micro_batches = s.micro_batches};
}

/*
 * Number of passes of one kind, from the next one on, that are alike: passes of equal chunks. Backward passes
 * must also all belong to micro-batches between the first and the last, or all to one of these two.
 */
static uint32_t alike(const stage *s, const passes *o, const pass_turn *t, uint32_t chunk, bool backwards)
{
	const uint32_t left = o->group - t->member;

	if (backwards && !t->begun && !t->member)
		return 1;
	if (backwards && t->begun + o->group == o->micro_batches)
		return left > 1 ? left - 1 : 1;
	if ((backwards && !t->begun) || chunk < s->from || chunk >= s->to)
		return left;
	return left + o->group * (backwards ? chunk - s->from : s->to - 1 - chunk);
}

/* Simulates one pass. */
static change change_of(stage *s, uint32_t chunk, bool backwards, bool first, bool last)
{
	p4d_torchtitan_step *p = s->p;
	const int64_t live = p->live, most[] = {p->forward, p->loss, p->head_backward, p->backward};

	p->live = 0;
	p->forward = p->loss = p->head_backward = p->backward = NOTHING;
	if (backwards)
		backward(s, chunk, first, last);
	else
		forward(s, chunk);
	const change c = {backwards ? p->head_backward : p->loss, backwards ? p->backward : p->forward,
			  p->live};
	p->live = live;
	p->forward = most[0];
	p->loss = most[1];
	p->head_backward = most[2];
	p->backward = most[3];
	return c;
}

/* Finds how many of the next passes are alike, and simulates one of them for all. */
static void look_ahead(stage *s, const passes *o, pass_turn *t, bool backwards)
{
	const uint32_t chunk = backwards ? o->chunks - 1 - t->chunk : t->chunk,
		       micro_batch = t->begun + t->member;
	const bool first = backwards && !micro_batch, last = backwards && micro_batch + 1 == o->micro_batches;
	unsigned kind = (backwards ? BACKWARD : 0) | (first ? OF_FIRST : 0) | (last ? OF_LAST : 0);

	kind |= (is_first(s, chunk) ? HAS_EMBEDDING : 0) | (is_last(s, chunk) ? HAS_HEAD : 0) |
		(last && chunk >= P4D_TORCHTITAN_ACTIVE_CHUNKS ? GATHERED_LATER : 0);
	if (!(s->known >> kind & 1)) {
		s->of[kind] = change_of(s, chunk, backwards, first, last);
		s->known |= s->layers ? (uint64_t)1 << kind : 0;
	}
	t->of = &s->of[kind];
	t->alike = alike(s, o, t, chunk, backwards);
}

static void advance(stage *s, const passes *o, pass_turn *t, uint32_t n, bool backwards)
{
	t->done += n;
	t->alike -= n;
	t->member += n;
	if (t->member >= o->group) {
		t->chunk += t->member / o->group;
		t->member %= o->group;
	}
	if (t->chunk == o->chunks) {
		t->chunk = 0;
		t->begun += o->group;
	}
	if (!t->alike && t->done < o->count)
		look_ahead(s, o, t, backwards);
}

static void raise(int64_t *most, int64_t live, int64_t by)
{
	if (by != NOTHING && live + by > *most)
		*most = live + by;
}

/*
 * Simulates the next passes that are alike, or pairs of them. Each changes the memory by the same amount, so
 * the peak is at the first or at the last. False: the result does not fit 64 bits.
 */
static bool play_alike(stage *s, passes *o)
{
	p4d_torchtitan_step *p = s->p;
	const bool backwards = o->forward.done + 1 >= o->ahead, forwards = o->forward.done < o->count;
	const change *f = forwards ? o->forward.of : NULL, *b = backwards ? o->backward.of : NULL;
	const int64_t of_forward = f ? f->end : 0, each = of_forward + (b ? b->end : 0);
	uint32_t n = f ? o->forward.alike : UINT32_MAX;
	int64_t all;

	n = P4D_LEAST(n, b ? o->backward.alike : o->ahead - 1 - o->forward.done);
	if (__builtin_mul_overflow(each, (int64_t)n, &all) || __builtin_add_overflow(p->live, all, &all))
		return false;
	const int64_t widest = each > 0 ? all - each : p->live;
	if (f) {
		raise(&p->loss, widest, f->at_head);
		raise(&p->forward, widest, f->most);
		advance(s, o, &o->forward, n, false);
	}
	if (b) {
		raise(&p->head_backward, widest + of_forward, b->at_head);
		raise(&p->backward, widest + of_forward, b->most);
		advance(s, o, &o->backward, n, true);
	}
	p->live = all;
	return true;
}

bool p4d_torchtitan__play_stage(p4d_torchtitan_step *p, const p4d_rows *rows)
{
	passes o = passes_of(rows);
	stage s; /* large; only the entries of `known` are initialized */

	s.p = p;
	s.rows = rows;
	s.wide = (int64_t)(p->t.w.tokens * p->l->hidden * p->z->element);
	s.hidden = (int64_t)(p->t.own * p->l->hidden * p->z->element);
	s.layers =
	    !p->l->experts && !p->l->uneven_chunks ? (int64_t)p4d_chunk_layers(p->l, rows->stage, 0) : 0;
	s.from = s.layers && rows->first;
	s.to = s.layers ? o.chunks - rows->last : 0;
	s.known = 0;
	if (!o.count)
		return true;
	look_ahead(&s, &o, &o.forward, false);
	look_ahead(&s, &o, &o.backward, true);
	while (o.backward.done < o.count)
		if (!play_alike(&s, &o))
			return false;
	return true;
}

/*
 * A lower bound: the larger of the bytes at two moments. One is the last forward pass before the first
 * backward pass. The other is the first pass after which all chunks have gradients, if none of these was
 * reduced before.
 */
double p4d_torchtitan__least_of_stage(const p4d_torchtitan_step *p, const p4d_rows *rows)
{
	const p4d_layout *l = p->l;
	const passes o = passes_of(rows);
	const p4d_torchtitan_passes *of = &p->of[0];

	if (l->experts || l->uneven_chunks)
		return 0;
	const double layers = p4d_chunk_layers(l, rows->stage, 0);
	const double backward = (double)o.group * (o.chunks - 1) + 1, forward = o.ahead + backward;
	const double before = o.ahead * layers * (double)of->forward.end;
	const bool kept = o.chunks == 1 ? o.micro_batches > 1 : o.micro_batches > o.group;
	if (!kept || forward > o.count)
		return before;
	const double behind =
	    layers * (forward * (double)of->forward.end + backward * (double)of->others.end +
		      o.chunks * ((double)of->first.end - (double)of->others.end));
	return behind > before ? behind : before;
}

/*
 * Results of a stage, and gradients of its inputs, that exist when its last forward pass runs. With one chunk
 * these are the results of passes in flight. With several chunks (_PipelineScheduleRuntime) they are all
 * tensors that were sent, which exist until the step ends. On the last stage, the losses stay and refer to
 * their chunk's inputs.
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
	/* the next result, or the previous gradient; slots and losses hold the others */
	if (!rows->first)
		p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING, "received.input", ALONG, P4D_PART_STAGING,
			       (p4d_wide)z->own * z->h * z->element);
	p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING, "outputs", ALONG, P4D_PART_STAGING,
		       (p4d_wide)outputs_of(rows, rows->plan->slots.activation) * z->own * z->h * z->element +
			   (rows->last && !rows->layout->torch.chunked_loss
				? (p4d_wide)z->tokens * z->V * z->element
				: 0));
}
