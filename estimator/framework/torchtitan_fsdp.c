/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of torchtitan with experts or latent attention under FSDP2, without tp, cp and pipelines
 * (torchtitan/distributed/fsdp.py; PyTorch's _fsdp_state.py, _fsdp_param_group.py, _fsdp_collectives.py).
 * Units are the embedding, the layers, and norm and head as one. With ep a layer's experts are a group of
 * their own, sharded over the ranks that have the same ones, and units are gathered ahead in both passes;
 * else backward only. Where experts are fewer than ranks their matrices are cut by rows instead.
 */
#include "framework/torchtitan.h"

/* What is gathered and reduced as one, in elements. */
typedef struct fsdp_group {
	int64_t whole, padded;
	int64_t share;   /* of the first rank */
	int64_t largest; /* parameter */
	int64_t ranks;
	bool cut; /* not by the first dimension: put together from copies */
} fsdp_group;

typedef struct unit {
	fsdp_group group[2];
	int groups;
} unit;

typedef struct titan_step {
	const p4d_layout *l;
	const p4d_torch_sizes *z;
	p4d_torchtitan_writer t;
	int64_t live, forward, backward;
	int64_t state;    /* forward: the buffer of what was gathered last */
	int64_t reducing; /* backward: copies of what is reduced */
	bool ahead;       /* forward: units are gathered ahead */
	bool keeps;       /* shards that were reduced stay: see p4d_torch_sizes */
	bool recomputes, selects;
} titan_step;

static void peek(titan_step *p, int64_t *most)
{
	if (p->live > *most)
		*most = p->live;
}

static void go(titan_step *p, int64_t *most, p4d_tape_pass pass)
{
	const int64_t at = p->live + pass.most.live + pass.most.weights;

	if (at > *most)
		*most = at;
	p->live += pass.end.live + pass.end.weights;
	peek(p, most);
}

/* ---- units ---- */

static void add(fsdp_group *g, uint64_t rows, uint64_t columns)
{
	const int64_t share = (int64_t)((rows + (uint64_t)g->ranks - 1) / (uint64_t)g->ranks * columns);

	g->whole += (int64_t)(rows * columns);
	g->padded += share * g->ranks;
	g->share += share;
	if ((int64_t)(rows * columns) > g->largest)
		g->largest = (int64_t)(rows * columns);
}

static void add_attention(fsdp_group *g, const p4d_layout *l)
{
	const uint64_t h = l->hidden, A = l->heads * l->head_dim, G = l->kv_heads * l->head_dim;
	const uint64_t wide = l->heads * (l->head_dim + l->rope_dim);

	if (!l->kv_rank) {
		add(g, A + 2 * G, h);
		add(g, h, A);
		for (int i = 0; l->qk_norm && i < 2; i++)
			add(g, l->head_dim, 1);
		return;
	}
	if (l->q_rank) {
		add(g, l->q_rank, h);
		add(g, l->q_rank, 1);
	}
	add(g, wide, l->q_rank ? l->q_rank : h);
	add(g, l->kv_rank + l->rope_dim, h);
	add(g, l->kv_rank, 1);
	add(g, l->heads * (l->head_dim + l->v_dim), l->kv_rank);
	add(g, h, l->heads * l->v_dim);
}

static void add_experts(fsdp_group *g, const p4d_layout *l)
{
	const uint64_t h = l->hidden, F = l->expert_ffn, mine = l->experts / l->ep;

	/* the other dimension divides */
	for (int i = 0; i < 3; i++)
		if (g->cut)
			add(g, i < 2 ? F : h, mine * (i < 2 ? h : F));
		else
			add(g, mine, F * h);
}

static unit layer_of(const p4d_layout *l, const p4d_torch_sizes *z, bool sparse)
{
	unit u = {.groups = sparse && l->ep > 1 ? 2 : 1};
	const uint64_t h = l->hidden, f = sparse ? l->shared_ffn : l->ffn;
	fsdp_group *own = &u.group[0], *of_experts = &u.group[u.groups - 1];

	own->ranks = (int64_t)z->shards;
	of_experts->ranks = (int64_t)(u.groups > 1 && z->shards > l->ep ? z->shards / l->ep
				      : u.groups > 1                    ? 1
									: z->shards);
	add_attention(own, l);
	add(own, h, 2); /* norms */
	if (f) {
		add(own, 2 * f, h);
		add(own, h, f);
	}
	if (sparse) {
		add(own, l->experts, h);
		own->largest = 0;
		of_experts->cut = z->shards > l->experts;
		add_experts(of_experts, l);
	}
	return u;
}

static unit table_of(const p4d_layout *l, const p4d_torch_sizes *z, bool norm)
{
	unit u = {.group = {{.ranks = (int64_t)z->shards}}, .groups = 1};

	add(&u.group[0], l->vocab, l->hidden);
	if (norm)
		add(&u.group[0], l->hidden, 1);
	return u;
}

static int64_t sum_of(const unit *u, bool share)
{
	int64_t sum = 0;

	for (int i = 0; i < u->groups; i++)
		sum += share ? u->group[i].share : u->group[i].padded;
	return sum;
}

/* ---- gathering and reducing ---- */

/* Starts to gather: into a buffer, from a copy of the shard in the type of activations. */
static void gather(titan_step *p, int64_t *most, const unit *u)
{
	for (int i = 0; i < u->groups; i++) {
		const fsdp_group *g = &u->group[i];
		const int64_t buffer = g->ranks > 1 ? g->padded * p->z->element : 0;
		p->live += buffer;
		p->live += buffer ? buffer / g->ranks : 0;
		peek(p, most);
		p->live -= buffer ? buffer / g->ranks : 0;
	}
}

/* What is gathered is copied out; forward the buffer stays until the next one is. */
static void copy_out(titan_step *p, int64_t *most, const unit *u, bool forward)
{
	const int64_t element = p->z->element;

	for (int i = 0; i < u->groups; i++) {
		const fsdp_group *g = &u->group[i];
		const int64_t bytes = g->padded * element, buffer = g->ranks > 1 ? bytes : 0;
		/* a group that no other rank has is copied one by one; what was cut is put together from
		 * copies, of experts alone */
		int64_t beside = g->ranks > 1 ? 0 : g->largest * element;
		if (g->cut && g->ranks > 1)
			beside = (int64_t)(p->l->experts / p->l->ep * p->l->expert_ffn * p->l->hidden * 3) *
				 element;
		if (forward) {
			p->live -= p->state;
			p->state = 0;
		}
		p->live += bytes + beside;
		peek(p, most);
		p->live -= beside;
		if (forward)
			p->state = buffer;
		else
			p->live -= buffer;
	}
}

static void reshard(titan_step *p, const unit *u)
{
	p->live -= sum_of(u, false) * p->z->element;
}

/* A unit's gradients leave: its copies go, then gradients are reduced out of a copy of theirs. */
static void reduce(titan_step *p, const unit *u)
{
	const int64_t element = p->z->element, reduced = p->z->reduced, stored = p->z->param;

	for (int i = u->groups; i-- > 0;) {
		const fsdp_group *g = &u->group[i];
		p->live -= g->padded * element;
		if (i == u->groups - 1) {
			p->live -= p->reducing;
			p->reducing = 0;
		}
		if (g->cut && g->ranks > 1) {
			p->live += g->largest * element;
			peek(p, &p->backward);
			p->live -= g->largest * element;
		}
		p->live += g->padded * reduced;
		p->reducing += g->padded * reduced;
		peek(p, &p->backward);
		p->live += g->share * reduced - g->whole * element;
		if (stored < reduced) {
			p->live += g->share * stored;
			peek(p, &p->backward);
			p->live -= g->share * reduced;
		}
		peek(p, &p->backward);
		p->live -= p->keeps ? 0 : g->share * stored;
	}
}

/* ---- passes ---- */

typedef struct passes {
	p4d_tape_pass forward, again, back;
} passes;

static passes passes_of(titan_step *p, bool sparse)
{
	p4d_tape *tape = p->t.w.tape;
	passes of = {0};

	p4d_torchtitan__layer(&p->t, sparse);
	const p4d_tape_operation *last = &tape->operation[tape->operations - 1];
	if (p->selects) {
		of.forward = p4d_tape_selected(tape);
		of.again = p4d_tape_again_selected(tape);
	} else {
		of.forward = p4d_tape_forward(tape, !p->recomputes, false, p->recomputes);
		of.again = p4d_tape_forward(tape, true, false, true);
		of.again.end.live -= (int64_t)tape->value[last->out].bytes;
	}
	of.back = p4d_tape_backward(tape, false, p->recomputes);
	return of;
}

static void play(titan_step *p, const unit layer[2], const passes of[2], int64_t *saved)
{
	const p4d_layout *l = p->l;
	const unit embedding = table_of(l, p->z, false), head = table_of(l, p->z, true);
	const int64_t hidden = (int64_t)(p->t.w.tokens * l->hidden * p->z->element);
	const bool begins = p4d_transformers__sparse(l, 0);

	gather(p, &p->forward, &embedding);
	copy_out(p, &p->forward, &embedding, true);
	if (p->ahead)
		gather(p, &p->forward, &layer[begins]);
	p->live += hidden;
	peek(p, &p->forward);
	reshard(p, &embedding);
	for (uint64_t i = 0; i < l->layers; i++) {
		const bool sparse = p4d_transformers__sparse(l, i);
		if (!p->ahead)
			gather(p, &p->forward, &layer[sparse]);
		copy_out(p, &p->forward, &layer[sparse], true);
		if (p->ahead)
			gather(p, &p->forward,
			       i + 1 < l->layers ? &layer[p4d_transformers__sparse(l, i + 1)] : &head);
		go(p, &p->forward, of[sparse].forward);
		reshard(p, &layer[sparse]);
	}
	if (!p->ahead)
		gather(p, &p->forward, &head);
	copy_out(p, &p->forward, &head, true);
	p->live += hidden;
	peek(p, &p->forward);
	p->live -= p->state + hidden;
	p->state = 0;
	reshard(p, &head);
	*saved = p->live - hidden;

	/* backward, from the gradient of the last layer's result, which is free; the head's is being reduced,
	 * or was, chunk by chunk */
	const bool keeps = l->chunked_loss ? !p->z->accumulates : p->keeps;
	p->live += keeps ? head.group[0].share * p->z->param : 0;
	if (!l->chunked_loss)
		p->live += p->reducing = head.group[0].padded * p->z->reduced;
	for (uint64_t i = l->layers; i-- > 0;) {
		const bool sparse = p4d_transformers__sparse(l, i);
		if (i == l->layers - 1)
			gather(p, &p->backward, &layer[sparse]);
		copy_out(p, &p->backward, &layer[sparse], false);
		gather(p, &p->backward, i ? &layer[p4d_transformers__sparse(l, i - 1)] : &embedding);
		if (p->recomputes)
			go(p, &p->backward, of[sparse].again);
		go(p, &p->backward, of[sparse].back);
		reduce(p, &layer[sparse]);
	}
	copy_out(p, &p->backward, &embedding, false);
	p->live += embedding.group[0].whole * p->z->element + (int64_t)p->t.w.tokens * 32;
	peek(p, &p->backward);
	p->live -= (int64_t)p->t.w.tokens * 32 + hidden;
	reduce(p, &embedding);
}

/* ---- rows ---- */

static void always(p4d_rows *rows, const char *name, p4d_memory_class part, int64_t bytes, bool later)
{
	if (bytes > 0)
		p4d_row(rows, name, "dp cp", part, P4D_DT_BYTES, (uint64_t)bytes, 0, 0)->at_first_step =
		    later;
}

static int64_t share_of_model(const p4d_rows *rows, const p4d_torch_sizes *z, const unit layer[2])
{
	const p4d_layout *l = rows->layout;
	const int64_t with = (int64_t)p4d_expert_layers_before(l, l->layers);
	const unit embedding = table_of(l, z, false), head = table_of(l, z, true);

	return ((int64_t)l->layers - with) * sum_of(&layer[0], true) + with * sum_of(&layer[1], true) +
	       sum_of(&embedding, true) + sum_of(&head, true);
}

static void held(p4d_rows *rows, p4d_live_point point, const char *name, int64_t bytes)
{
	p4d_torch_held(rows, 1u << point, name, "", P4D_PART_ACTIVATIONS, (p4d_wide)(bytes > 0 ? bytes : 0));
}

/* Angles, which each layer has of its own: sines and cosines of a head in fp32, or complex numbers. */
static int64_t angles_of(const p4d_layout *l)
{
	return (int64_t)(l->layers * l->seq_len * (l->kv_rank ? l->rope_dim * 4 : l->head_dim * 8));
}

void p4d_torchtitan__sparse_rows(p4d_rows *rows, p4d_torch_sizes *z)
{
	const p4d_layout *l = rows->layout;

	if (!p4d_transformers__countable(l)) {
		rows->overflow = true;
		return;
	}
	const unit layer[2] = {layer_of(l, z, false), layer_of(l, z, l->experts > 0)};
	const int64_t share = share_of_model(rows, z, layer);
	p4d_tape tape;
	passes of[2] = {0};
	int64_t saved = 0;
	titan_step p = {.l = l,
			.z = z,
			.t = {.w = p4d_transformers__writer(l, &tape)},
			.ahead = l->ep > 1,
			.keeps = z->keeps_shards,
			.recomputes = l->recompute != P4D_RECOMPUTE_NONE,
			.selects = l->recompute == P4D_RECOMPUTE_SELECTIVE};

	p.t.w.masked = false;
	for (int sparse = 0; sparse < 2; sparse++)
		if (p4d_transformers__has(l, sparse))
			of[sparse] = passes_of(&p, sparse);
	rows->overflow = rows->overflow || tape.overflow;
	play(&p, layer, of, &saved);
	always(rows, "parameters", P4D_PART_PARAMS, share * z->param, false);
	always(rows, "optimizer.moments", P4D_PART_OPTIMIZER,
	       (int64_t)p4d_torch__moments(l, (p4d_wide)share, z->param), true);
	always(rows, "angles", P4D_PART_LIBRARIES, angles_of(l), false);
	if (z->accumulates)
		always(rows, "gradients", P4D_PART_GRADS, share * z->param, true);
	else
		p4d_torch_held(rows, 1u << P4D_AT_OPTIMIZER, "gradients", "dp cp", P4D_PART_GRADS,
			       (p4d_wide)(share * z->param));
	held(rows, P4D_AT_FORWARD, "forward", p.forward);
	held(rows, P4D_AT_LOSS, "loss.layers", saved);
	held(rows, P4D_AT_HEAD, "head.layers", saved);
	held(rows, P4D_AT_BACKWARD_FFN, "backward", p.backward);
	p4d_torchtitan__loss(rows, z);
	z->layer = (p4d_wide)sum_of(&layer[p4d_transformers__sparse(l, l->layers - 1)], false);
	z->gathered = z->layer * z->element;
	z->stage = (p4d_wide)share * z->shards;
}
