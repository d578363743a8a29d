/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of torchtitan under FSDP2, without pipelines (torchtitan/distributed/fsdp.py; PyTorch's
 * _fsdp_state.py, _fsdp_param_group.py, _fsdp_collectives.py). Units are the embedding, each layer, and norm
 * and head together. With ep, a layer's experts are a separate group of parameters, sharded over the ranks
 * with the same experts. With ep, units are gathered ahead in both passes; without ep, only in the backward
 * pass. If there are fewer experts than ranks, their matrices are cut by rows instead.
 */
#include <string.h>

#include "framework/torchtitan.h"
#include "plan/optimizer.h"
#include "plan/parameters.h"

typedef p4d_torchtitan_step titan_step;

static void peek(titan_step *p, int64_t *most)
{
	p4d_torchtitan__peek(p, 0, most);
}

static void go(titan_step *p, int64_t *most, p4d_torchtitan_pass pass)
{
	p4d_torchtitan__peek(p, pass.most, most);
	p->live += pass.end;
	peek(p, most);
}

/* ---- gathering and reducing ---- */

/*
 * Starts to gather a unit: copies the shard in the type of activations, and allocates the buffer that
 * receives all shards.
 */
static void gather(titan_step *p, int64_t *most, const p4d_torchtitan_unit *u)
{
	for (int i = 0; i < u->groups; i++) {
		const p4d_torchtitan_group *g = &u->group[i];
		const int64_t buffer = g->ranks > 1 ? g->padded * g->element : 0;
		p->live += buffer;
		p->live += buffer ? buffer / g->ranks : 0;
		peek(p, most);
		p->live -= buffer ? buffer / g->ranks : 0;
	}
}

/* Copies a gathered unit out of the buffer. In the forward pass the buffer stays until the next gather. */
static void copy_out(titan_step *p, int64_t *most, const p4d_torchtitan_unit *u, bool forward)
{
	for (int i = 0; i < u->groups; i++) {
		const p4d_torchtitan_group *g = &u->group[i];
		const int64_t element = g->element, bytes = g->padded * element,
			      buffer = g->ranks > 1 ? bytes : 0;
		/*
		 * a group on one rank copies its tensors one by one. A group that is cut by rows (only
		 * experts are) is put together from copies
		 */
		int64_t beside = g->ranks > 1 ? 0 : g->largest * element;
		if (g->cut && g->ranks > 1)
			beside = (int64_t)(p->l->experts / p->l->ep * p4d_torchtitan__expert_columns(p->l) *
					   p->l->hidden * 3) *
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

static void reshard(titan_step *p, const p4d_torchtitan_unit *u)
{
	p->live -= p4d_torchtitan__gathered(u);
}

/*
 * Called when all gradients of a unit exist. Frees its gathered parameters, and reduces a copy of its
 * gradients.
 */
static void reduce(titan_step *p, const p4d_torchtitan_unit *u)
{
	const int64_t element = p->z->element, reduced = p->z->reduced, stored = p->z->param;

	for (int i = u->groups; i-- > 0;) {
		const p4d_torchtitan_group *g = &u->group[i];
		p->live -= g->padded * g->element;
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

static p4d_torchtitan_pass sum_of(p4d_tape_pass pass)
{
	return (p4d_torchtitan_pass){pass.most.live + pass.most.weights, pass.end.live + pass.end.weights};
}

/* Number of layers with experts, or with a memory, among the first n. */
static uint64_t others_before(const p4d_layout *l, uint64_t n)
{
	return l->memory.keys ? p4d_layers_with_memory(l, n) : p4d_expert_layers_before(l, n);
}

static bool is_sparse(const p4d_layout *l, uint64_t layer)
{
	return others_before(l, layer + 1) > others_before(l, layer);
}

/*
 * The passes of a layer of one kind. Pipelines sum gradients in the type of the reduction, in one tensor that
 * is allocated with the first gradients of a layer.
 */
static p4d_torchtitan_passes passes_of(titan_step *p, bool sparse)
{
	enum { WHOLE, OF_OTHERS, OF_FIRST, WAYS };
	const p4d_tape_weights way[WAYS] = {
	    [OF_OTHERS] = {.reduced = true},
	    [OF_FIRST] = {.element = p->z->element, .sum = p->z->reduced},
	};
	p4d_tape *tape = p->t.w.tape;
	p4d_tape_pass forward, again, back[WAYS];

	/* layers with a memory are not checkpointed */
	const bool recomputes = p->recomputes && !(sparse && p->l->memory.keys);

	p4d_torchtitan__layer(&p->t, sparse);
	if (recomputes) { /* recomputes the whole layer to its end (early_stop=False) */
		forward = p4d_tape_selected(tape);
		again = p4d_tape_again_selected(tape);
	} else
		forward = p4d_tape_forward(tape, true, false, false);
	p4d_tape_backward_in(tape, recomputes ? &again : NULL, recomputes, way, WAYS, back);
	return (p4d_torchtitan_passes){.forward = sum_of(forward),
				       .back = sum_of(back[WHOLE]),
				       .others = sum_of(back[OF_OTHERS]),
				       .first = sum_of(back[OF_FIRST])};
}

/* Bytes of a layout's layers, which are stored in a memo. */
typedef struct played {
	p4d_torchtitan_passes of[2];
	bool overflow;
} played;
_Static_assert(sizeof(played) <= P4D_PLAN_MEMO_BYTES, "a memo has room for layers");

static void play_layers(titan_step *p, p4d_rows *rows)
{
	const p4d_layout *l = p->l;
	bool known = false;
	played own = {.overflow = false}, *of = p4d_plan_memo_numbers(rows->memo, l, rows->gpu, &known);
	p4d_tape tape;

	of = of ? of : &own;
	p->t.w.tape = &tape;
	tape.overflow = false;
	if (!known) {
		*of = (played){.overflow = false};
		if (others_before(l, l->layers) < l->layers)
			of->of[0] = passes_of(p, false);
		if (l->experts > 0 || l->memory.keys)
			of->of[1] = passes_of(p, true);
		of->overflow = tape.overflow;
	}
	memcpy(p->of, of->of, sizeof(p->of));
	rows->overflow = rows->overflow || of->overflow;
}

/* Bytes of a hidden state on all tensor-parallel ranks together. */
static int64_t wide_of(const titan_step *p)
{
	return (int64_t)(p->t.w.tokens * p->l->hidden * p->z->element);
}

static int64_t hidden_of(const titan_step *p)
{
	return (int64_t)(p->t.own * p->l->hidden * p->z->element);
}

/* The embedding's forward pass. With tensor parallelism, its output is reduce-scattered. */
static void begin(titan_step *p)
{
	const int64_t hidden = hidden_of(p),
		      scattered = p->l->sequence_parallel ? 2 * wide_of(p) - hidden : 0;

	gather(p, &p->forward, &p->embedding);
	copy_out(p, &p->forward, &p->embedding, true);
	if (p->ahead)
		gather(p, &p->forward, &p->layer[is_sparse(p->l, 0)]);
	p->live += hidden + scattered;
	peek(p, &p->forward);
	p->live -= scattered;
	if (!p->z->together)
		reshard(p, &p->embedding);
}

/* Whether layers from..to-1 are of one kind. */
static bool are_alike(const p4d_layout *l, uint64_t from, uint64_t to)
{
	const uint64_t with = others_before(l, to) - others_before(l, from);

	return !with || with == to - from;
}

/*
 * Skips layers instead of simulating them. The next n layers are alike, and the first one was simulated;
 * p->live was `before` at its start. Each layer changes the memory by the same amount, so the peak is at the
 * first or the last. Returns the number of skipped layers.
 */
static uint64_t skip(titan_step *p, uint64_t n, int64_t before)
{
	const uint64_t between = n > 2 ? n - 2 : 0;

	p->live += (int64_t)between * (p->live - before);
	return between;
}

static void forward(titan_step *p)
{
	const p4d_layout *l = p->l;
	/* with sequence parallelism, ranks gather the head's input */
	const int64_t head = hidden_of(p) + (l->sequence_parallel ? 2 * wide_of(p) : 0);

	for (uint64_t i = 0; i < l->layers; i++) {
		const bool sparse = is_sparse(l, i);
		const int64_t before = p->live;
		if (!p->ahead)
			gather(p, &p->forward, &p->layer[sparse]);
		copy_out(p, &p->forward, &p->layer[sparse], true);
		if (p->ahead)
			gather(p, &p->forward, i + 1 < l->layers ? &p->layer[is_sparse(l, i + 1)] : &p->head);
		go(p, &p->forward, p->of[sparse].forward);
		reshard(p, &p->layer[sparse]);
		if (i && are_alike(l, i - 1, l->layers))
			i += skip(p, l->layers - 1 - i, before);
	}
	if (!p->ahead)
		gather(p, &p->forward, &p->head);
	copy_out(p, &p->forward, &p->head, true);
	p->live += head;
	peek(p, &p->forward);
	p->live -= p->state + head;
	p->state = 0;
	reshard(p, &p->head);
	p->loss = p->head_backward = p->live - hidden_of(p);
}

/* Whether embedding and head share a table: the head's gradient then waits for the embedding's gradient. */
static bool waits(const titan_step *p)
{
	return p->z->together && !p->l->torch.chunked_loss;
}

/*
 * The backward passes of the layers. They start from the gradient of the last layer's result; that result
 * itself is free. The head's gradient is being reduced, or was reduced chunk by chunk.
 */
static void backward(titan_step *p)
{
	const p4d_layout *l = p->l;
	const bool keeps = l->torch.chunked_loss ? !p->z->accumulates : p->keeps;

	p->live += keeps ? p->head.group[0].share * p->z->param : 0;
	if (!l->torch.chunked_loss)
		p->live += p->reducing = p->head.group[0].padded * p->z->reduced;
	p->live += waits(p) ? p->embedding.group[0].largest * p->z->element : 0;
	for (uint64_t i = l->layers; i-- > 0;) {
		const bool sparse = is_sparse(l, i);
		const uint64_t first = i < l->dense_layers ? 0 : l->dense_layers;
		const int64_t before = p->live;
		if (i == l->layers - 1)
			gather(p, &p->backward, &p->layer[sparse]);
		copy_out(p, &p->backward, &p->layer[sparse], false);
		if (i || !p->z->together)
			gather(p, &p->backward, i ? &p->layer[is_sparse(l, i - 1)] : &p->embedding);
		go(p, &p->backward, p->of[sparse].back);
		reduce(p, &p->layer[sparse]);
		if (i < l->layers - 1 && are_alike(l, first, i + 2))
			i -= skip(p, i - first, before);
	}
}

/*
 * The backward pass of the embedding. If the head shares the table, there are two gradients of the table, and
 * their sum.
 */
static void end(titan_step *p)
{
	const int64_t table = p->embedding.group[0].largest * p->z->element;
	const int64_t scratch = (int64_t)p->t.w.tokens * 32 + wide_of(p);
	const bool sums = waits(p) && p->z->together == 1;
	p4d_torchtitan_unit of_tables = p->embedding;

	if (!p->z->together)
		copy_out(p, &p->backward, &p->embedding, false);
	p->live += (sums ? 2 : 1) * table + scratch - hidden_of(p);
	peek(p, &p->backward);
	p->live -= scratch + (sums ? 2 * table : 0);
	if (p->z->together == 2 && !waits(p)) { /* the head's gradient was already reduced separately */
		of_tables = p4d_torchtitan__table_unit(p->l, p->z, 1, false);
		p->live -= p4d_torchtitan__gathered(&p->embedding) - p4d_torchtitan__gathered(&of_tables);
	}
	reduce(p, &of_tables);
}

static void play(titan_step *p)
{
	begin(p);
	forward(p);
	backward(p);
	end(p);
}

/* ---- rows ---- */

void p4d_torchtitan__always(p4d_rows *rows, const char *name, p4d_memory_class part, p4d_wide bytes,
			    bool later)
{
	rows->overflow = rows->overflow || bytes >> 62;
	if (bytes)
		p4d_row(rows, name, "tp pp dp cp", part, P4D_DT_BYTES, rows->overflow ? 0 : (uint64_t)bytes,
			0, 0)
		    ->at_first_step = later;
}

static void held(p4d_rows *rows, p4d_live_point point, const char *name, int64_t bytes)
{
	p4d_torch_held(rows, 1u << point, name, "", P4D_PART_ACTIVATIONS, (p4d_wide)(bytes > 0 ? bytes : 0));
}

static int64_t share_of(const p4d_torchtitan_unit *u)
{
	return p4d_torchtitan__elements(u, true);
}

/* The sum of a number over all FSDP units of a stage. */
static int64_t of_stage(const p4d_rows *rows, const titan_step *p,
			int64_t (*of_unit)(const p4d_torchtitan_unit *u))
{
	const p4d_layout *l = rows->layout;
	const int64_t with = l->memory.keys /* only without pipelines, which have no memory layers */
				 ? (int64_t)p4d_layers_with_memory(l, l->layers)
				 : (int64_t)p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const int64_t others = (int64_t)rows->layout->stage_layers[rows->stage] - with;

	return others * of_unit(&p->layer[0]) + with * of_unit(&p->layer[1]) +
	       (rows->first ? of_unit(&p->embedding) : 0) + (rows->last ? of_unit(&p->head) : 0);
}

/* Bytes of the gathered stage, limited to the number of chunks that are gathered at a time. */
static int64_t gathered_stage(const p4d_rows *rows, const titan_step *p)
{
	const p4d_layout *l = rows->layout;
	int64_t bytes = of_stage(rows, p, p4d_torchtitan__gathered);

	for (uint64_t chunk = P4D_TORCHTITAN_ACTIVE_CHUNKS; chunk < l->vpp; chunk++) {
		const int64_t with = (int64_t)p4d_parameters_expert_layers(l, rows->stage, (uint32_t)chunk);
		const int64_t others = (int64_t)p4d_chunk_layers(l, rows->stage, (uint32_t)chunk) - with;
		bytes -= others * p4d_torchtitan__gathered(&p->layer[0]) +
			 with * p4d_torchtitan__gathered(&p->layer[1]);
	}
	return bytes;
}

/* Cosines and sines of a head in fp32, or complex numbers of the same size. */
p4d_wide p4d_torchtitan__angles(const p4d_layout *l)
{
	return (p4d_wide)l->seq_len *
	       (l->kv_rank ? l->rope_dim * 4 : l->head_dim * (l->experts || l->qk_norm ? 8 : 4));
}

p4d_wide p4d_torchtitan__moments(const p4d_layout *l, p4d_wide elements, unsigned element)
{
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const unsigned count = o->states - 1;

	if (o->paged)
		return 0;
	if (o->bits)
		return count * p4d_torch_quantized_moment(o, elements);
	if (o->factored)
		return count * (elements / (l->hidden ? l->hidden : 1)) * 4;
	return count * elements * element;
}

/*
 * Adds rows for this rank's share of parameters, gradients and optimizer states. Offloaded ones are on the
 * host. init_states() ties the two tables of a tied model again (decoder.py): from then on the two tables are
 * one parameter with one pair of moments. The gradient of this parameter is a view of FSDP2's reduced tensor,
 * which has room for both tables.
 */
static void add_states(p4d_rows *rows, const p4d_torchtitan_sizes *z, p4d_wide share)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide tied = z->together == 2 ? z->table / z->shards : 0;
	const p4d_wide parameters = (share - tied) * z->param, gradients = share * z->param;
	const p4d_wide moments = p4d_torchtitan__moments(l, share - tied, z->param);

	if (l->offload & P4D_OFFLOAD_PARAMS) {
		const p4d_wide host = parameters + gradients + moments;
		rows->overflow = rows->overflow || host >> 62;
		rows->plan->host_bytes = rows->overflow ? 0 : (uint64_t)host;
		return;
	}
	p4d_torchtitan__always(rows, "parameters", P4D_PART_PARAMS, parameters, false);
	if (!(l->offload & P4D_OFFLOAD_OPTIMIZER))
		p4d_torchtitan__always(rows, "optimizer.moments", P4D_PART_OPTIMIZER, moments, true);
	if (l->torch.optimizer_foreach)
		p4d_torch_held(rows, 1u << P4D_AT_OPTIMIZER, "update", "tp pp dp cp", P4D_PART_WORKING_SET,
			       parameters);
	if (z->accumulates && l->pp == 1)
		p4d_torchtitan__always(rows, "gradients", P4D_PART_GRADS, gradients, true);
	else
		p4d_torch_held(rows, 1u << P4D_AT_OPTIMIZER, "gradients", "tp pp dp cp", P4D_PART_GRADS,
			       gradients);
}

/*
 * FSDP2 gathers and reduces on separate streams, and shards of gradients are allocated on the reducing
 * stream. While the loss is computed, no other stream can use that memory. If gradients accumulate, they
 * exist anyway.
 */
static void add_idle(p4d_rows *rows, const p4d_torchtitan_sizes *z)
{
	const p4d_wide largest = z->layer > z->table ? z->layer : z->table;
	const p4d_wide shards = z->accumulates ? 0 : z->stage * z->param / z->shards;
	const p4d_wide reduced = largest * z->reduced, gathered = 2 * z->gathered;
	const p4d_wide passes = shards + reduced - z->layer * z->reduced;

	rows->overflow = rows->overflow || (shards + reduced + gathered) >> 60;
	if (rows->overflow)
		return;
	rows->plan->idle[P4D_AT_LOSS] = rows->plan->idle[P4D_AT_HEAD] =
	    (uint64_t)(shards + reduced + gathered);
	rows->plan->idle[P4D_AT_BACKWARD_FFN] = rows->plan->idle[P4D_AT_BACKWARD_ATTENTION] =
	    (uint64_t)passes;
}

static p4d_torchtitan_sizes sizes_of(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_torch_types types = p4d_torch__types(l);
	p4d_torchtitan_sizes z = {.tokens = l->seq_len / l->cp * l->micro_batch,
				  .h = l->hidden,
				  .V = (l->vocab + l->tp - 1) / l->tp,
				  .element = types.element,
				  .param = types.param,
				  .reduced = types.reduced,
				  .shards = l->shard_degree ? l->shard_degree : l->dp * l->cp,
				  .accumulates = l->micro_batches > 1};

	z.own = l->sequence_parallel ? z.tokens / l->tp : z.tokens;
	z.table = p4d_div_up(z.V, z.shards) * z.shards * (p4d_wide)z.h;
	z.whole_table = (p4d_wide)z.V * z.h;
	/* otherwise the uses are on two stages, and sharded as separate tables */
	if (l->tied && rows->first && rows->last)
		z.together = l->cp == 1 || l->tp > 1 ? 2 : 1;
	z.keeps_shards = !z.accumulates || z.shards < l->dp * l->cp;
	return z;
}

static void begin_step(titan_step *p, const p4d_layout *l, const p4d_torchtitan_sizes *z)
{
	const unsigned together = z->together;

	p->l = l;
	p->z = z;
	p->t = p4d_torchtitan__writer(l, NULL);
	p->layer[0] = p4d_torchtitan__layer_unit(l, z, false);
	p->layer[1] = l->experts || l->memory.keys ? p4d_torchtitan__layer_unit(l, z, true) : p->layer[0];
	/* the shared table and the norm are one unit, which stays gathered */
	p->embedding = p4d_torchtitan__table_unit(l, z, together ? together : 1, together);
	p->head = p4d_torchtitan__table_unit(l, z, !together, !together);
	p->live = p->forward = p->loss = p->head_backward = p->backward = p->state = p->reducing = 0;
	p->ahead = l->ep > 1;
	p->keeps = z->keeps_shards;
	p->recomputes = l->recompute != P4D_RECOMPUTE_NONE;
}

/*
 * Whether a pipeline stage needs memo->enough bytes or more. Its exact size then does not matter to the
 * caller, and this function writes a row with a lower bound.
 */
static bool is_enough(p4d_rows *rows, const titan_step *p)
{
	const uint64_t enough = rows->memo ? rows->memo->enough : 0;

	if (!enough || rows->layout->pp == 1 || rows->overflow)
		return false;
	const double least = p4d_torchtitan__least_of_stage(p, rows) + (double)gathered_stage(rows, p);
	if (least <= (double)enough || least >= (double)P4D_MOST_BYTES)
		return false;
	p4d_torchtitan__always(rows, "least", P4D_PART_ACTIVATIONS, (p4d_wide)least, false);
	return true;
}

void p4d_torchtitan__write(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	p4d_torchtitan_sizes z = sizes_of(rows);

	if (!p4d_transformers__countable(l)) {
		rows->overflow = true;
		return;
	}
	titan_step p;
	begin_step(&p, l, &z);
	play_layers(&p, rows);
	if (is_enough(rows, &p))
		return;
	if (l->pp > 1)
		rows->overflow = !p4d_torchtitan__play_stage(&p, rows) || rows->overflow;
	else
		play(&p);

	const p4d_wide share = (p4d_wide)of_stage(rows, &p, share_of);
	const p4d_torchtitan_unit *last = &p.layer[is_sparse(l, l->layers - 1)];
	z.layer = (p4d_wide)p4d_torchtitan__elements(last, false);
	z.gathered = (p4d_wide)p4d_torchtitan__gathered(last);
	z.stage = share * z.shards;
	z.gathered_stage = (p4d_wide)gathered_stage(rows, &p);
	add_states(rows, &z, share);
	p4d_torchtitan__memory_rows(rows);
	p4d_torchtitan__always(rows, "angles", P4D_PART_LIBRARIES,
			       l->stage_layers[rows->stage] * p4d_torchtitan__angles(l), false);
	held(rows, P4D_AT_FORWARD, "forward", p.forward);
	held(rows, P4D_AT_LOSS, "loss.layers", p.loss);
	held(rows, P4D_AT_HEAD, "head.layers", p.head_backward);
	held(rows, P4D_AT_BACKWARD_FFN, "backward", p.backward);
	if (l->pp > 1)
		p4d_torchtitan__stage_rows(rows, &z);
	if (rows->last)
		p4d_torchtitan__head_rows(rows, &z);
	if (l->pp == 1)
		add_idle(rows, &z);
}
