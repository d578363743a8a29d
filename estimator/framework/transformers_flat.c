/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training step of transformers' modules with FSDP1 (FullyShardedDataParallel) as accelerate 1.15 sets it
 * up. Units are the layers, and the root with everything else (tables, last norm, head), which stays gathered
 * from the forward pass to the end of the backward pass. Each side of an adapter is a separate unit. A unit's
 * parameters are views of one tensor, which is gathered from a shard in the type of the matmuls (PyTorch's
 * _flat_param.py). In the backward pass the next unit may be gathered ahead. Gradients of a unit wait until
 * all of them exist; they are then copied into one tensor, which is reduced to a shard in the type of the
 * parameters (_runtime_utils.py). The root's gradients are complete last, so the head's gradients wait while
 * all layers run backward. Without reductions (Accelerator.no_sync), micro-batches leave unsharded gradients
 * in the type of the matmuls.
 */
#include "framework/transformers.h"

/* Bytes of a unit's gathered parameters, and of the trained part of them. */
typedef struct unit {
	int64_t all, trained;
} unit;

typedef struct flat {
	p4d_transformers_step *s;
	int64_t shards;
	int64_t stored, computed; /* bytes of a parameter: as stored for training, and as gathered */
	bool casts;               /* units are gathered in another type than they are stored in */
	bool keeps;               /* units stay gathered from their forward to their backward pass */
	bool ahead_forward;       /* the next unit is gathered before a unit's forward pass */
	bool ahead;               /* the next unit is gathered before a unit's backward pass */
	unit root, layer[P4D_TRANSFORMERS_KINDS];
	p4d_transformers_passes of[P4D_TRANSFORMERS_KINDS];
	bool all_need; /* the first layer's input needs a gradient */
} flat;

/*
 * Whether unreduced gradients of earlier micro-batches exist (`later`), and whether the backward pass of this
 * micro-batch reduces the gradients (`last`).
 */
typedef struct turn {
	bool later, last;
} turn;

static void peek(const flat *f, p4d_transformers_moment *most)
{
	p4d_transformers__look(f->s, most, (p4d_tape_moment){0, 0});
}

static void gather(const flat *f, p4d_transformers_moment *most, unit u)
{
	/* without sharding, parameters are cast as a whole, or used as they are stored */
	const int64_t shard = f->casts && f->shards > 1 ? u.all / f->shards : 0;

	f->s->now.live += shard + (f->casts || f->shards > 1 ? u.all : 0);
	peek(f, most);
	f->s->now.live -= shard;
}

static void let_go(const flat *f, unit u)
{
	f->s->now.live -= f->casts || f->shards > 1 ? u.all : 0;
}

/*
 * Called when all gradients of a unit exist. Copies them into one tensor and reduces that. free: also frees
 * the unit's parameters.
 */
static void reduce(const flat *f, unit u, turn t, bool free)
{
	p4d_transformers_step *s = f->s;
	const int64_t shard = u.trained / f->shards, stored = shard / f->computed * f->stored;

	if (u.trained) {
		s->now.gradients += u.trained;
		peek(f, &s->backward);
		s->now.gradients -=
		    (t.later ? 2 : 1) * u.trained; /* also added to the gradients of earlier micro-batches */
	}
	if (free)
		let_go(f, u);
	if (!u.trained || !t.last)
		return;
	s->now.gradients += (f->shards > 1 ? shard : 0) + (f->stored > f->computed ? stored : 0);
	peek(f, &s->backward);
	s->now.gradients -= u.trained + (f->shards > 1 && f->stored > f->computed ? shard : 0);
	s->now.gradients += f->stored > f->computed || f->shards > 1 ? 0 : u.trained;
}

static void forward(const flat *f)
{
	p4d_transformers_step *s = f->s;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;

	gather(f, &s->forward, f->root);
	s->now.live += (int64_t)(w->tokens * l->hidden * w->between);
	w->kind = p4d_transformers__kind_of(l, 0);
	p4d_transformers__layer(w, f->all_need);
	p4d_tape_pass pass = p4d_tape_forward(w->tape, !s->again, false, s->again);
	int64_t cached = 0;
	for (uint64_t i = 0; i < l->layers; i++) {
		const unsigned kind = p4d_transformers__kind_of(l, i);
		const p4d_tape_pass before = pass;
		if (!f->ahead_forward || !i)
			gather(f, &s->forward, f->layer[kind]);
		if (f->ahead_forward && i + 1 < l->layers)
			gather(f, &s->forward, f->layer[p4d_transformers__kind_of(l, i + 1)]);
		pass = i ? f->of[kind].forward : pass;
		p4d_transformers__go(s, &s->forward, pass);
		if (i)
			p4d_transformers__send_away(s, before);
		if (!f->keeps)
			let_go(f, f->layer[kind]);
		s->now.live += i == 0 && s->again ? (int64_t)w->returned : 0;
		cached += pass.cached;
	}
	s->now.live -= s->again ? (int64_t)w->returned : 0;
	s->saved = s->now.live;
	p4d_transformers__end(w);
	p4d_transformers__go(s, &s->loss, p4d_tape_forward(w->tape, true, false, false));
	s->now.live -= cached;
}

static void backward(const flat *f, turn t)
{
	p4d_transformers_step *s = f->s;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;
	const int64_t table = (int64_t)(l->vocab * l->hidden * w->weight);
	const bool frees = t.last || !f->keeps;
	unit next = f->layer[p4d_transformers__kind_of(l, l->layers - 1)], before = {0, 0}, waiting = {0, 0};

	if (f->ahead && !f->keeps)
		gather(f, &s->head, next);
	p4d_transformers__go(s, &s->head, p4d_tape_backward(w->tape, false, false));
	for (uint64_t i = l->layers; i-- > 0;) {
		const unsigned kind = p4d_transformers__kind_of(l, i);
		const unit u = next;
		const bool there = f->keeps || (f->ahead && (w->trains || i == l->layers - 1));
		if (!there)
			gather(f, &s->backward, u);
		/* frozen parameters stay gathered until the next layer's pass begins */
		let_go(f, before);
		before = w->trains || !frees ? (unit){0, 0} : u;
		next = i ? f->layer[p4d_transformers__kind_of(l, i - 1)] : (unit){0, 0};
		if (f->ahead && !f->keeps && w->trains && i)
			gather(f, &s->backward, next);
		if (!i && !f->all_need)
			return; /* the first layer's backward pass needs less memory than that of later layers
				 */
		if (i < l->layers - 1)
			p4d_transformers__bring_back(s, f->of[kind].forward);
		if (s->again)
			p4d_transformers__go(s, &s->backward, f->of[kind].again);
		p4d_transformers__go(s, &s->backward, f->of[kind].back);
		/* autograd runs the most recent nodes first. The views of a unit that was gathered ahead
		 * are older than the whole layer before it, so the unit's gradients wait until that
		 * layer's pass is done */
		if (waiting.trained)
			reduce(f, waiting, t, frees);
		waiting = f->ahead_forward && w->trains && i ? u : (unit){0, 0};
		if (!waiting.trained)
			reduce(f, u, t, w->trains && frees);
	}
	let_go(f, before);
	if (!w->trains)
		return;
	/* Tied embeddings have three tensors of the table's size: the head's gradient, the embedding's
	 * gradient and their sum. Autograd cannot add into the head's gradient, because it is a view of a
	 * matmul's result. */
	p4d_transformers__look(s, &s->backward,
			       (p4d_tape_moment){(int64_t)w->tokens * 32, (l->tied ? 2 : 1) * table});
	s->now.gradients += l->tied ? 0 : table;
	reduce(f, f->root, t, true);
}

/* Simulates a micro-batch from its beginning. unreduced: bytes of gradients that exist before. */
static void play(const flat *f, turn t, int64_t unreduced)
{
	p4d_transformers_step *s = f->s;

	s->now =
	    (p4d_transformers_moment){(int64_t)p4d_transformers__inputs(&s->writer), t.later ? unreduced : 0};
	forward(f);
	backward(f, t);
}

/* Parameters of the root unit: all parameters outside of layers. */
static uint64_t size_of_root(const p4d_layout *l)
{
	return (uint64_t)(p4d_size_of_begin(l) + p4d_size_of_table(l) * (l->tied ? 1 : 2) +
			  p4d_size_of_end(l));
}

void p4d_transformers__play_flat(p4d_transformers_step *s, uint64_t shards, unsigned trained, unsigned frozen)
{
	p4d_tape tape;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	const int64_t root = (int64_t)size_of_root(l) * w->weight;
	flat f = {.s = s,
		  .shards = (int64_t)shards,
		  .stored = trained,
		  .computed = w->weight,
		  .casts = (w->trains ? trained : frozen) != w->weight,
		  .keeps = l->fsdp.keeps_gathered,
		  .ahead_forward = l->fsdp.prefetches_forward,
		  .ahead = !l->fsdp.never_prefetches,
		  .root = {root, w->trains ? root : 0},
		  .all_need = w->trains || s->again};
	int64_t unreduced = f.root.trained;

	w->tape = &tape;
	s->reduced = false; /* gradients are reduced only after all gradients of a unit exist */
	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++) {
		if (!kinds.layers[kind])
			continue;
		const int64_t all = (int64_t)p4d_transformers__layer_size(l, kind, 1) * w->weight;
		const int64_t adapters = (int64_t)p4d_transformers__layer_adapters(l, kind) * w->weight;
		f.layer[kind] = (unit){all, w->trains ? all : adapters};
		f.of[kind] = p4d_transformers__passes_of(s, kind);
		unreduced += f.layer[kind].trained * (int64_t)kinds.layers[kind];
	}
	/* a micro-batch that reduces nothing: the first one, or one that adds to earlier gradients */
	if (l->micro_batches > 1)
		play(&f, (turn){.later = l->micro_batches > 2}, unreduced);
	play(&f, (turn){.later = l->micro_batches > 1, .last = true}, unreduced);
}

p4d_gathered p4d_transformers__gathered_flat(const p4d_layout *l)
{
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	const uint64_t root = size_of_root(l);
	uint64_t layer = 0;

	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++) {
		const uint64_t size =
		    kinds.layers[kind] ? (uint64_t)p4d_transformers__layer_size(l, kind, 1) : 0;
		layer = size > layer ? size : layer;
	}
	layer *= l->fsdp.prefetches_forward && l->layers > 1 ? 2 : 1;
	return (p4d_gathered){.before = root + layer, .layers = root + layer, .head = root};
}
