/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/torch.h"

#include "plan/optimizer.h"
#include "request/architecture.h"
#include "request/framework.h"

const p4d_torch_modules *const p4d_torch__modules[P4D_MODEL_CODES] = {
    [P4D_MODEL_CODE_TORCHTITAN] = &p4d_torch__torchtitan,
    [P4D_MODEL_CODE_TRANSFORMERS] = &p4d_torch__transformers,
    [P4D_MODEL_CODE_LITGPT] = &p4d_torch__litgpt,
};

#define ALONG "sp cp"
#define TRAINING \
	(1u << P4D_AT_EMBED | 1u << P4D_AT_FORWARD | 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD | \
	 1u << P4D_AT_BACKWARD_FFN | 1u << P4D_AT_BACKWARD_ATTENTION)

/* A parameter is cut by rows; shards of rows that do not divide are padded. */
static p4d_wide padded(p4d_wide rows, p4d_wide columns, uint64_t shards)
{
	return p4d_div_up(rows, shards) * shards * columns;
}

static p4d_wide padded_layer(const p4d_layout *l, const p4d_torch_sizes *z)
{
	const p4d_wide up = (l->glu ? 2 : 1) * z->F, product = z->A + 2 * z->G;
	const p4d_wide matrices = product * z->h + z->A * z->h + up * z->h + z->F * z->h;
	/* gate and up are two parameters */
	const p4d_wide whole = padded(product, z->h, z->shards) + padded(z->h, z->A, z->shards) +
			       (l->glu ? 2 : 1) * padded(z->F, z->h, z->shards) +
			       padded(z->h, z->F, z->shards);

	return whole + p4d_size_of_layer(l) - matrices;
}

static p4d_torch_sizes sizes_of(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	p4d_torch_sizes z = {.tokens = l->seq_len / l->cp * l->micro_batch,
			     .h = l->hidden,
			     .A = l->heads / l->tp * l->head_dim,
			     .G = l->kv_heads / l->tp * l->head_dim,
			     .F = l->ffn / l->tp,
			     .V = (l->vocab + l->tp - 1) / l->tp,
			     .heads = l->heads / l->tp,
			     .gathers = l->sequence_parallel,
			     .element = l->precision == P4D_FP32 ? 4 : 2,
			     .param = l->param_dtype == P4D_PARAM_FP32 || l->precision == P4D_FP32 ? 4 : 2,
			     .reduced = l->grad_dtype == P4D_GRAD_FP32 ? 4 : 2};

	z.own = l->sequence_parallel ? z.tokens / l->tp : z.tokens;
	z.shards = l->shard_degree ? l->shard_degree : l->dp * l->cp;
	z.layer = padded_layer(l, &z);
	z.gathered = z.layer * (l->fp8_params ? 1 : z.element);
	z.table = padded(z.V, z.h, z.shards);
	z.whole_layer = p4d_size_of_layer(l);
	z.whole_table = (p4d_wide)z.V * z.h;
	if (l->tied && rows->first && rows->last)
		z.together = p4d_torch__modules[l->model_code]->unties && (l->cp == 1 || l->tp > 1) ? 2 : 1;
	z.stage = l->stage_layers[rows->stage] * z.layer + (rows->first ? z.table : 0) +
		  (rows->last ? z.h + (z.together == 1 ? 0 : z.table) : 0);
	z.gathered_stage = z.stage;
	if (l->vpp > P4D_TORCH_ACTIVE_CHUNKS)
		z.gathered_stage -=
		    l->stage_layers[rows->stage] / l->vpp * (l->vpp - P4D_TORCH_ACTIVE_CHUNKS) * z.layer;
	z.accumulates = l->micro_batches > 1;
	z.adds = z.accumulates && l->pp > 1;
	z.keeps_shards = !z.accumulates || z.shards < l->dp * l->cp;
	return z;
}

p4d_wide p4d_torch__moments(const p4d_layout *l, p4d_wide elements, unsigned element)
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

static void always(p4d_rows *rows, const char *name, p4d_memory_class part, p4d_wide bytes, bool later)
{
	rows->overflow = rows->overflow || bytes >> 62;
	p4d_row(rows, name, "tp pp dp cp", part, P4D_DT_BYTES, rows->overflow ? 0 : (uint64_t)bytes, 0, 0)
	    ->at_first_step = later;
}

/*
 * Parameters, their gradients and the optimizer. What --zero-stage shards is a rank's share of it. DeepSpeed
 * keeps an fp32 master copy and moments of its own.
 */
static void add_states(p4d_rows *rows, const p4d_torch_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool master = l->framework == P4D_FRAMEWORK_DEEPSPEED && z->param < 4;
	const p4d_wide share = p4d_div_up(z->stage, z->shards);
	const p4d_wide optimizer = l->zero_stage > 0 ? share : z->stage;
	const p4d_wide gradients = (l->zero_stage > 1 ? share : z->stage) * z->param;
	const bool on_host = l->offload & P4D_OFFLOAD_OPTIMIZER;

	if (l->offload & P4D_OFFLOAD_PARAMS) { /* with gradients and moments */
		const p4d_wide host = 2 * share * z->param + p4d_torch__moments(l, share, z->param);
		rows->overflow = rows->overflow || host >> 62;
		rows->plan->host_bytes = rows->overflow ? 0 : (uint64_t)host;
	}
	if (!(l->offload & P4D_OFFLOAD_PARAMS))
		always(rows, "parameters", P4D_PART_PARAMS, (l->zero_stage > 2 ? share : z->stage) * z->param,
		       false);
	if (!on_host) {
		if (master)
			always(rows, "optimizer.master", P4D_PART_OPTIMIZER, optimizer * 4, false);
		always(rows, "optimizer.moments", P4D_PART_OPTIMIZER,
		       p4d_torch__moments(l, optimizer, master ? 4 : z->param), true);
	}
	if (l->offload & P4D_OFFLOAD_PARAMS)
		return;
	if (l->optimizer_foreach)
		p4d_torch_held(rows, 1u << P4D_AT_OPTIMIZER, "update", "tp pp dp cp", P4D_PART_WORKING_SET,
			       optimizer * z->param);
	if ((z->accumulates && l->pp == 1) || master)
		always(rows, "gradients", P4D_PART_GRADS, gradients, true);
	else
		p4d_torch_held(rows, 1u << P4D_AT_OPTIMIZER, "gradients", "tp pp dp cp", P4D_PART_GRADS,
			       gradients);
}

/* Slots of activations: of them the last layer's pass begins with all taken. */
static p4d_wide slots_of(const p4d_rows *rows, const p4d_torch_layer *layer)
{
	return layer->saved * rows->slot_layers * rows->slots;
}

/* At a live point, what is needed instead of the slots and beside them. */
static void instead(p4d_rows *rows, const p4d_torch_layer *layer, p4d_live_point point, const char *name,
		    p4d_wide bytes)
{
	const p4d_wide slots = slots_of(rows, layer);

	if (bytes > slots)
		p4d_torch_held(rows, 1u << point, name, "tp pp", P4D_PART_WORKING_SET, bytes - slots);
}

static p4d_wide larger(p4d_wide a, p4d_wide b)
{
	return a > b ? a : b;
}

/*
 * The end of the backward pass: the first layer's, when all other gradients are there, and the embedding's,
 * whose gradient autograd hands over as a whole. Of tables that are gathered as one both are reduced then,
 * the head's if its loss was not in chunks (`whole`: its elements).
 */
static void add_embedding(p4d_rows *rows, const p4d_torch_sizes *z, const p4d_torch_layer *y, p4d_wide whole)
{
	const uint64_t layers = rows->layout->stage_layers[rows->stage];
	/* what copies of the model sum is freed as a pass of autograd ends, and chunks have theirs */
	const bool summed = z->accumulates && rows->layout->chunked_loss;
	const p4d_wide kept = z->together ? whole : 0;
	const p4d_wide head = rows->last && !kept && !summed ? z->table : 0;
	const p4d_wide states = z->keeps_shards ? (layers * z->layer + head) * z->param / z->shards : 0;
	const p4d_wide own = z->keeps_shards ? z->layer * z->param / z->shards : 0;
	const p4d_wide table = rows->first ? z->table : 0, gathered = z->together ? 0 : table * z->element;
	const p4d_wide reduced = layers > 1 ? z->layer * z->reduced : 0;
	const p4d_wide first =
	    states - own + reduced + z->gathered + gathered + kept * z->element + y->backward + y->saved;
	/* of one shared table two gradients, and their sum, which is reduced */
	const p4d_wide sum = z->together == 1 ? kept : 0;
	const p4d_wide tables = (rows->first ? 1 : 0) + (kept ? 1 : 0) + (sum ? 1 : 0);
	const p4d_wide before = z->layer * z->reduced + gathered + tables * z->whole_table * z->element;
	/* tables that are gathered as one are freed before they are reduced */
	const p4d_wide after = (table + kept - sum) * (z->element + z->reduced);
	const p4d_wide freed = z->together * table * z->element;
	const p4d_wide embedding = states + y->ends + larger(before, after > freed ? after - freed : 0);

	instead(rows, y, P4D_AT_EMBED, "backward.embedding", larger(first, rows->first ? embedding : 0));
}

/* The head, while the loss is computed and while its gradient is: chunks' gradients are summed in the type
 * that is reduced. */
static void add_head(p4d_rows *rows, const p4d_torch_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide table = z->table * z->element;

	if (!z->together)
		p4d_torch_held(rows, 1u << P4D_AT_LOSS | (l->chunked_loss ? 1u << P4D_AT_HEAD : 0),
			       "gathered.head", "tp", P4D_PART_WORKING_SET, table);
	if (l->chunked_loss) {
		p4d_torch_held(rows, 1u << P4D_AT_LOSS, "head.sum", "tp", P4D_PART_WORKING_SET,
			       z->whole_table * z->reduced);
		p4d_torch_held(rows, 1u << P4D_AT_HEAD, "head.sums", "tp", P4D_PART_WORKING_SET,
			       2 * z->whole_table * z->reduced + z->whole_table * z->element);
	} else /* the last layer is being gathered; the head is not, any more */
		p4d_torch_held(rows, 1u << P4D_AT_HEAD, "head.gradient", "tp", P4D_PART_WORKING_SET,
			       z->gathered + z->whole_table * z->element +
				   (z->together ? 0 : z->table * z->reduced));
}

/*
 * Results of a stage, and gradients of its inputs, that are there when its last forward pass runs: results of
 * passes in flight; with several chunks (_PipelineScheduleRuntime) all that was sent, until the step ends. On
 * the last stage the losses, which stay, refer to their chunk's inputs.
 */
static uint64_t outputs_of(const p4d_rows *rows, uint64_t slots)
{
	const p4d_layout *l = rows->layout;
	const uint64_t passes = l->micro_batches * l->vpp;
	const uint64_t done = passes > slots ? passes - slots : 0;
	const uint64_t of_losses = rows->last ? l->micro_batches - 1 : 0;

	if (l->vpp == 1)
		return rows->last ? of_losses : slots;
	return l->micro_batches * (l->vpp - rows->last) + done * (l->vpp - rows->first) / l->vpp + of_losses;
}

/*
 * Gradients of a stage's parameters beside as many slots as there are, or as are left: those of chunk after
 * chunk, from the last one on, are there when its first backward pass is over; with the last chunk the
 * head's, with the first one the embedding's. Where there are no more micro-batches than stages a chunk's are
 * reduced, from a copy of one layer's, before the next one's begin.
 */
static p4d_wide whole_gradients(const p4d_rows *rows, const p4d_torch_sizes *z, const p4d_torch_layer *y)
{
	const p4d_layout *l = rows->layout;
	const uint64_t passes = l->micro_batches * l->vpp;
	const uint64_t done = passes > rows->slots ? passes - rows->slots : 0;
	const bool at_once = l->vpp > 1 && l->micro_batches <= l->pp;
	const p4d_wide layers = l->stage_layers[rows->stage] * z->whole_layer / l->vpp;
	p4d_wide all = rows->last ? z->h + (l->chunked_loss ? 0 : z->whole_table) : 0, most = 0;

	for (uint64_t chunk = 0; chunk < (at_once ? 1 : l->vpp); chunk++) {
		const uint64_t before = chunk * l->pp + 1, fewer = before > done ? before - done : 0;
		const p4d_wide less = fewer * y->saved * rows->slot_layers;
		all += layers + (rows->first && chunk == l->vpp - 1 ? z->whole_table : 0);
		most = larger(most, all * z->reduced > less ? all * z->reduced - less : 0);
	}
	if (at_once) {
		const p4d_wide less =
		    (l->micro_batches > done ? l->micro_batches - done : 0) * y->saved * rows->slot_layers +
		    z->gathered + y->backward;
		const p4d_wide copied = (all + z->layer) * z->reduced;
		most = larger(most, copied > less ? copied - less : 0);
	}
	return most;
}

/*
 * The head of a pipeline whose loss is in chunks: the sum over chunks, and the copy from which that of the
 * micro-batch before is being reduced, for no other unit is until the step ends. Shards: the head's gradient,
 * and, as the last norm has none before the second micro-batch, what was reduced then, which that one's is a
 * part of; with copies of the model (HSDP) what they sum, too. The schedule still refers to what the stage
 * returned, the loss's input.
 */
static void add_chunked_head(p4d_rows *rows, const p4d_torch_sizes *z)
{
	enum { BEFORE = 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD };
	const p4d_layout *l = rows->layout;
	const p4d_wide table = z->table * z->element, head = z->table * z->reduced;
	const uint64_t most = z->shards < l->dp * l->cp ? 3 : 2, passes = l->micro_batches;
	const p4d_wide shard = head / z->shards, earlier = passes > 1 ? head : 0;

	p4d_torch_held(rows, BEFORE, "head.sum", "tp", P4D_PART_WORKING_SET,
		       head + earlier + (passes - 1 < most ? passes - 1 : most) * shard);
	p4d_torch_held(rows, 1u << P4D_AT_HEAD, "head.gradient", "tp", P4D_PART_WORKING_SET, head + table);
	p4d_torch_held(rows, TRAINING & ~(unsigned)BEFORE, "head.reduced", "tp", P4D_PART_WORKING_SET,
		       head + (passes < most ? passes : most) * shard);
	p4d_torch_held(rows, TRAINING & ~(unsigned)BEFORE, "output", ALONG, P4D_PART_STAGING,
		       (p4d_wide)z->tokens * z->h * z->element);
}

/* Parameters of a stage, gathered, and what it sends and receives. */
static void add_stage(p4d_rows *rows, const p4d_torch_sizes *z, uint64_t slots)
{
	p4d_torch_held(rows, TRAINING, "gathered.stage", "tp pp", P4D_PART_WORKING_SET,
		       z->gathered_stage * z->element);
	/* the next one, or the gradient of the one before; others are what slots and losses keep */
	if (!rows->first)
		p4d_torch_held(rows, TRAINING, "received.input", ALONG, P4D_PART_STAGING,
			       (p4d_wide)z->own * z->h * z->element);
	p4d_torch_held(
	    rows, TRAINING, "outputs", ALONG, P4D_PART_STAGING,
	    (p4d_wide)outputs_of(rows, slots) * z->own * z->h * z->element +
		(rows->last && !rows->layout->chunked_loss ? (p4d_wide)z->tokens * z->V * z->element : 0));
}

/*
 * A stage of a pipeline keeps its parameters gathered, sums the gradients of its micro-batches unsharded, in
 * the type that is reduced, and reduces them after the last one; those of a head whose loss is in chunks
 * after each. Inputs that other stages send stay until the step ends.
 */
static void add_pipeline(p4d_rows *rows, const p4d_torch_sizes *z, const p4d_torch_layer *y)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide chunked = rows->last && l->chunked_loss ? z->table : 0;
	const p4d_wide layer = z->gathered, table = z->table * z->element;
	const p4d_wide slots = slots_of(rows, y);

	/* slots that are free when the first chunk's first pass is at the embedding; of other chunks, what
	 * was gathered is free, too, and of gradients there are shards */
	const bool at_once = l->vpp > 1 && l->micro_batches <= l->pp;
	const uint64_t passes = l->micro_batches * l->vpp;
	const uint64_t first = (l->vpp - 1) * (at_once ? l->micro_batches : l->pp) + 1;
	const uint64_t done = passes > rows->slots ? passes - rows->slots : 0;
	const p4d_wide freed = (first > done + 1 ? first - done : 1) * y->saved * rows->slot_layers;
	const p4d_wide others = at_once ? l->stage_layers[rows->stage] * z->layer / l->vpp * (l->vpp - 1) : 0;
	p4d_wide whole = 0, beside = 0;

	add_stage(rows, z, rows->slots);
	if (z->accumulates) {
		whole = l->stage_layers[rows->stage] * z->whole_layer * z->reduced +
			(rows->first ? z->whole_table : 0) * z->reduced +
			(rows->last ? z->h + (l->chunked_loss ? 0 : z->whole_table) : 0) * z->reduced;
		beside = whole_gradients(rows, z, y);
		p4d_torch_held(rows, TRAINING, "gradients.whole", "tp pp", P4D_PART_GRADS, beside);
	}
	instead(rows, y, P4D_AT_BACKWARD_FFN, "backward.ffn", slots + y->backward);
	instead(rows, y, P4D_AT_BACKWARD_ATTENTION, "backward.end",
		slots - y->saved + larger(y->ends + (z->adds ? 0 : layer), y->attention));
	/* in the end a layer's gradients are reduced from a copy; its parameters are free */
	const p4d_wide copied = whole ? whole + z->layer * z->reduced - layer : 0;
	const p4d_wide embedding =
	    rows->first ? table + (slots > freed ? slots - freed : 0) + y->ends + whole : 0;
	const p4d_wide most = larger(embedding, copied),
		       less = beside + others * (z->reduced + z->element) - others * z->param / z->shards;
	instead(rows, y, P4D_AT_EMBED, "backward.embedding", most > less ? most - less : 0);
	if (!rows->last)
		return;
	if (chunked)
		add_chunked_head(rows, z);
}

/*
 * FSDP2's buffers: parameters of a layer are gathered in the type of activations while the next one's arrive
 * (backward: those of the one before); its gradients leave as they are and are reduced in a copy, which stays
 * until those of the next are. With the last layer that is the head's, if its loss was not in chunks. The
 * widest moments are those of the last layer, the one before it, and the first.
 */
static void add_gathered(p4d_rows *rows, const p4d_torch_sizes *z, const p4d_torch_layer *y)
{
	const p4d_layout *l = rows->layout;
	const uint64_t layers = l->stage_layers[rows->stage];
	const p4d_wide slots = slots_of(rows, y), gathered = z->gathered, table = z->table * z->element;
	const p4d_wide whole = rows->last && !l->chunked_loss ? z->table : 0;
	const p4d_wide head = whole * (z->together ? z->element : z->reduced), kept = z->together ? head : 0;
	const p4d_wide before = layers > 1 ? gathered : rows->first && !z->together ? table : 0;
	/* the product's gradient is what attention's backward pass comes before */
	const p4d_wide gradients = z->whole_layer * z->element;
	const p4d_wide product = (z->A + 2 * z->G) * (p4d_wide)z->h * z->element;
	const p4d_wide ends = larger(y->ends, y->attention > product ? y->attention - product : 0);
	p4d_wide ffn = head + gathered + before + slots + y->backward;
	p4d_wide end = head + gathered + gradients + before + slots - y->saved + ends +
		       (z->keeps_shards ? whole * z->param / z->shards : 0);

	if (layers > 1) {
		const p4d_wide sharded = z->keeps_shards ? z->layer * z->param / z->shards : 0;
		const p4d_wide reduced = kept + z->layer * z->reduced + sharded;
		const p4d_wide next = layers > 2 ? gathered : rows->first && !z->together ? table : 0;
		ffn = larger(ffn, reduced + next + gathered + slots - y->saved + y->backward);
		end = larger(end, reduced + next + gathered + gradients + slots - 2 * y->saved + ends);
	}
	instead(rows, y, P4D_AT_BACKWARD_FFN, "backward.ffn", ffn);
	instead(rows, y, P4D_AT_BACKWARD_ATTENTION, "backward.end", end);
	add_embedding(rows, z, y, whole);
	if (z->together)
		p4d_torch_held(rows, TRAINING, "gathered.tables", "tp", P4D_PART_WORKING_SET,
			       z->together * table);
	if (rows->last)
		add_head(rows, z);
}

/*
 * FSDP2 gathers and reduces on streams of their own, and gradients' shards are made on that which reduces:
 * while the loss is computed, that is memory which no other stream can use. Gradients that accumulate are
 * there anyway.
 */
static void add_idle(p4d_rows *rows, const p4d_torch_sizes *z)
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

/* cuBLAS's workspace on Hopper, from the first product on (PyTorch's CublasHandlePool.cpp). */
static void add_libraries(p4d_rows *rows)
{
	const bool before_hopper = rows->gpu && rows->gpu->sm && rows->gpu->sm < 90;

	p4d_row(rows, "workspace", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
		before_hopper ? (8 << 20) + (1 << 17) : 32 << 20, 0, 0)
	    ->at_first_step = true;
}

void p4d_torch__rows(p4d_rows *rows)
{
	const p4d_torch_modules *modules = p4d_torch__modules[rows->layout->model_code];
	p4d_torch_sizes z = sizes_of(rows);
	p4d_torch_layer layer = {0};

	if (modules->write_sparse && (rows->layout->experts || rows->layout->kv_rank || 1)) {
		add_libraries(rows);
		modules->write_sparse(rows, &z);
		if (rows->layout->pp > 1)
			add_stage(rows, &z, rows->plan->slots.activation);
		if (rows->last && rows->layout->pp == 1)
			add_head(rows, &z);
		else if (rows->last && rows->layout->chunked_loss)
			add_chunked_head(rows, &z);
		if (rows->layout->pp == 1)
			add_idle(rows, &z);
		return;
	}
	if (modules->whole) {
		add_libraries(rows);
		modules->write(rows, &z, &layer);
		return;
	}
	add_states(rows, &z);
	add_libraries(rows);
	modules->write(rows, &z, &layer);
	rows->overflow = rows->overflow || layer.saved >> 40 || layer.always >> 60 || layer.backward >> 60;
	if (rows->overflow)
		return;
	p4d_row_in_slot(rows, "layer.saved", "tp cp", P4D_DT_BYTES, (uint64_t)layer.saved, 0, 0);
	always(rows, "layers", P4D_PART_LIBRARIES, layer.always, false);
	if (rows->layout->pp > 1)
		add_pipeline(rows, &z, &layer);
	else
		add_gathered(rows, &z, &layer);
	if (rows->layout->pp == 1)
		add_idle(rows, &z);
}
