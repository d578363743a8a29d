/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training step of transformers' modules with FSDP2 as accelerate 1.15 sets it up (fsdp2_prepare_model).
 * Units are the layers, the embedding, and a tail of norm and head, which stays gathered from its forward to
 * its backward pass. With a shared table, the tail contains the embedding, the norm and the head. The root
 * has all other parameters. Parameters are gathered into one tensor and copied out of it; that tensor lives
 * until the next unit is gathered (PyTorch's _fsdp_param_group.py, _fsdp_collectives.py). In the backward
 * pass the next unit is gathered ahead, and gradients are reduced from a copy that lives until the next
 * unit's copy. All micro-batches except the last run without reductions (Accelerator.no_sync), so their
 * gradients add up unsharded.
 */
#include "framework/transformers.h"

typedef struct p4d_fsdp {
	p4d_transformers_step *s;
	int64_t shards;
	int64_t gathered; /* bytes of the buffer of the last gathered unit */
	int64_t reducing; /* bytes of the copy of gradients that is being reduced */
} fsdp;

static void peek(fsdp *f, p4d_transformers_moment *most)
{
	p4d_transformers__look(f->s, most, (p4d_tape_moment){0, 0});
}

/* Starts to gather a unit into a new buffer. */
static void gather(fsdp *f, p4d_transformers_moment *most, int64_t unit)
{
	f->s->now.live += unit + unit / f->shards;
	peek(f, most);
	f->s->now.live -= unit / f->shards;
}

/*
 * Copies a gathered unit out of the buffer. Frees the copies of the previous unit, which the pass no longer
 * needs.
 */
static void copy_out(fsdp *f, p4d_transformers_moment *most, int64_t unit)
{
	f->s->now.live += unit;
	peek(f, most);
}

static void forget_gathered(fsdp *f)
{
	f->s->now.live -= f->gathered;
	f->gathered = 0;
}

static void unshard(fsdp *f, p4d_transformers_moment *most, int64_t unit)
{
	gather(f, most, unit);
	forget_gathered(f);
	f->gathered = unit;
	copy_out(f, most, unit);
}

/*
 * Called before a unit's backward pass, for which the unit was gathered ahead. Starts to gather the next
 * unit, unless all units are still gathered.
 */
static void unshard_ahead(fsdp *f, int64_t unit, int64_t next)
{
	if (f->s->writer.layout->fsdp.keeps_gathered)
		return;
	copy_out(f, &f->s->backward, unit);
	forget_gathered(f);
	if (next)
		gather(f, &f->s->backward, next);
	f->gathered = next;
}

/*
 * Ends a unit's backward pass: frees its gathered parameters, and reduces its bf16 gradients to an fp32
 * shard. padded: bytes of the copy from which the gradients are reduced, including its padding.
 */
static void reduce(fsdp *f, int64_t unit, int64_t gradients, int64_t padded)
{
	p4d_transformers_step *s = f->s;

	s->now.live -= unit;
	if (!gradients)
		return;
	s->now.live += padded - f->reducing;
	f->reducing = padded;
	peek(f, &s->backward);
	s->now.gradients += padded / f->shards * 3 - gradients;
	peek(f, &s->backward);
	s->now.gradients -= padded / f->shards;
}

/* The units of a model, and their sizes. Layers are listed by kind. */
typedef struct units {
	int64_t root, table, layer[P4D_TRANSFORMERS_KINDS]; /* bytes of the gathered units */
	int64_t of_table,
	    of_layer[P4D_TRANSFORMERS_KINDS]; /* number of parameters with gradients in a unit */
	int64_t
	    plain[P4D_TRANSFORMERS_KINDS]; /* number of a layer's parameters without the padding of shards */
} units;

static units units_of(const p4d_tape_writer *w, const p4d_transformers_kinds *kinds, uint64_t shards)
{
	const p4d_layout *l = w->layout;
	units u = {.root = (int64_t)p4d_size_of_begin(l) * w->weight,
		   .table = (int64_t)(p4d_size_of_table(l) + p4d_size_of_end(l)) * w->weight};

	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++) {
		if (!kinds->layers[kind])
			continue;
		const int64_t adapters = (int64_t)p4d_transformers__layer_adapters(l, kind) * w->weight;
		u.layer[kind] = (int64_t)p4d_transformers__layer_size(l, kind, shards) * w->weight + adapters;
		u.of_layer[kind] = w->trains ? u.layer[kind] : adapters;
		u.plain[kind] =
		    w->trains ? (int64_t)p4d_transformers__layer_size(l, kind, 1) * w->weight : adapters;
	}
	u.of_table = w->trains ? u.table : 0;
	return u;
}

/* of: the passes of each kind of layer. all_need: the first layer's input needs a gradient. */
static void forward(fsdp *f, const units *u, const p4d_transformers_passes *of, bool all_need)
{
	p4d_transformers_step *s = f->s;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;

	if (u->root)
		unshard(f, &s->forward, u->root);
	unshard(f, &s->forward, u->table);
	s->now.live += (int64_t)(w->tokens * l->hidden * w->stream);
	peek(f, &s->forward);
	s->now.live -= l->tied || l->fsdp.keeps_gathered ? 0 : u->table;
	w->kind = p4d_transformers__kind_of(l, 0);
	p4d_transformers__layer(w, all_need);
	p4d_tape_pass pass = p4d_tape_forward(w->tape, !s->again, false, s->again);
	for (uint64_t i = 0; i < l->layers; i++) {
		const unsigned kind = p4d_transformers__kind_of(l, i);
		const p4d_tape_pass before = pass;
		unshard(f, &s->forward, u->layer[kind]);
		pass = i ? of[kind].forward : pass;
		p4d_transformers__go(s, &s->forward, pass);
		if (i)
			p4d_transformers__send_away(s, before);
		s->now.live -= l->fsdp.keeps_gathered ? 0 : u->layer[kind];
		s->now.live += i == 0 && s->again ? (int64_t)w->returned : 0;
	}
	s->now.live -= s->again ? (int64_t)w->returned : 0;
	s->saved = s->now.live - f->gathered;
	if (!l->tied)
		unshard(f, &s->forward, u->table);
	p4d_transformers__end(w);
	p4d_transformers__go(s, &s->loss, p4d_tape_forward(w->tape, true, false, false));
	forget_gathered(f);
}

static void backward(fsdp *f, const units *u, const p4d_transformers_passes *of, bool all_need)
{
	p4d_transformers_step *s = f->s;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;

	p4d_transformers__go(s, &s->head, p4d_tape_backward(w->tape, s->reduced, false));
	f->gathered = (int64_t)w->prefetched;
	if (!l->tied)
		reduce(f, u->table, u->of_table, u->of_table);
	else if (w->trains && s->reduced)
		s->now.gradients +=
		    u->table; /* the table's gradient exists until the embedding's gradient exists */
	for (uint64_t i = l->layers; i-- > 0;) {
		const unsigned kind = p4d_transformers__kind_of(l, i);
		const int64_t next = i         ? u->layer[p4d_transformers__kind_of(l, i - 1)]
				     : l->tied ? 0
					       : u->table;
		unshard_ahead(f, u->layer[kind], next);
		if (!i && !all_need)
			return; /* the first layer's backward pass needs less memory than that of later layers
				 */
		if (i < l->layers - 1)
			p4d_transformers__bring_back(s, of[kind].forward);
		if (s->again)
			p4d_transformers__go(s, &s->backward, of[kind].again);
		p4d_transformers__go(s, &s->backward, of[kind].back);
		reduce(f, u->layer[kind], u->plain[kind], u->of_layer[kind]);
	}
	if (!w->trains)
		return;
	if (!l->tied)
		unshard_ahead(f, u->table, 0);
	/* a shared table has two gradients, and their sum in addition */
	p4d_transformers__look(s, &s->backward,
			       (p4d_tape_moment){(int64_t)w->tokens * 32, (l->tied ? 2 : 1) * u->table});
	if (l->tied ==
	    s->reduced) /* one of the shared table's two gradients remains, or a new gradient is added */
		s->now.gradients += l->tied ? -u->table : u->table;
	reduce(f, u->table, u->table, u->table);
}

p4d_gathered p4d_transformers__gathered_by_fsdp(const p4d_layout *l, uint64_t shards)
{
	const p4d_tape_writer w = {.layout = l, .weight = 1, .trains = true};
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	const units u = units_of(&w, &kinds, shards);
	int64_t layer = 0;
	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++)
		layer = u.layer[kind] > layer ? u.layer[kind] : layer;
	/* the tail stays gathered from one forward pass to the next, since no backward pass releases it */
	const int64_t stays = u.root + u.table;
	/* the gathered tensor, and the copies of it */
	const int64_t of_table = stays + (l->tied ? 0 : 2 * u.table),
		      of_layer = stays + 2 * layer + layer / (int64_t)shards;

	return (p4d_gathered){.before = (uint64_t)(of_table > of_layer ? of_table : of_layer),
			      .layers = (uint64_t)(stays + 2 * layer),
			      .head = (uint64_t)(stays + layer)};
}

void p4d_transformers__play_fsdp(p4d_transformers_step *s, uint64_t shards)
{
	p4d_tape tape;
	p4d_tape_writer *w = &s->writer;
	fsdp f = {.s = s, .shards = (int64_t)shards};
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(w->layout);
	const units u = units_of(w, &kinds, shards);
	const bool all_need = w->trains || s->again;

	w->tape = &tape;
	if (!w->layout->fsdp.keeps_gathered)
		w->prefetched =
		    (uint64_t)u.layer[p4d_transformers__kind_of(w->layout, w->layout->layers - 1)];
	/* unreduced gradients of earlier micro-batches; they are neither sharded nor padded */
	int64_t earlier = 0;
	for (unsigned kind = 0; w->layout->micro_batches > 1 && kind < P4D_TRANSFORMERS_KINDS; kind++)
		earlier += u.plain[kind] * (int64_t)kinds.layers[kind];
	earlier += w->layout->micro_batches > 1 ? (w->layout->tied ? 1 : 2) * u.of_table : 0;
	s->now = (p4d_transformers_moment){(int64_t)p4d_transformers__inputs(w), earlier};
	p4d_transformers_passes of[P4D_TRANSFORMERS_KINDS] = {0};
	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++)
		if (kinds.layers[kind])
			of[kind] = p4d_transformers__passes_of(s, kind);
	forward(&f, &u, of, all_need);
	backward(&f, &u, of, all_need);
}
