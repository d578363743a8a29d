/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM: memory of passes in addition to the slots. The rows of a live point exist at the same time. A
 * layer's backward pass counts only with its peak, minus the slot's tensors that the layer has freed by then.
 */
#include "framework/megatron_memory.h"
#include "request/routing.h"

#define IN_LAYER (1u << P4D_AT_EVALUATION_LAYER)
#define BUT_THE_HEAD \
	(1u << P4D_AT_EMBED | 1u << P4D_AT_FORWARD | 1u << P4D_AT_BACKWARD_FFN | \
	 1u << P4D_AT_BACKWARD_ATTENTION | 1u << P4D_AT_BATCH)
#define IN_HEAD (1u << P4D_AT_EVALUATION_HEAD)

/*
 * Inputs of passes, and their gradients, that belong to no slot but to which the schedule refers while the
 * pipeline is full. In every schedule this is the gradient that is being sent. With the interleaved schedule
 * (pipeline_parallel/schedules.py) these are also an output that is being sent and an input received ahead.
 * For every chunk there is also the last input whose backward pass is over, with its gradient, until the
 * chunk's next forward pass (set_input_tensor). The numbers are those of one rank, fitted to the memory of
 * all stages in pipelines of 2 to 8.
 */
uint64_t p4d_megatron__inputs_held(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const int64_t p = (int64_t)l->pp, v = (int64_t)l->vpp, behind = p - 1 - rows->stage;
	const int64_t warm_up = 2 * behind + (v - 1) * p, left = (int64_t)l->micro_batches * v - warm_up;

	if (v == 1)
		return rows->stage > 0 && l->micro_batches > rows->plan->slots.activation;
	const int64_t room = (v - 1) * p - 2 * behind, pairs = room > 0 ? (room + 2 * p - 1) / (2 * p) : 0;
	const int64_t all = 3 + 2 * pairs + (2 * rows->stage >= l->pp ? 2 : 0);
	if (l->micro_batches > l->pp || left > all)
		return (uint64_t)all;
	return left > 0 ? (uint64_t)left : 0;
}

/*
 * Elements that a layer's backward pass needs at its peak. If layers are recomputed, or only layers with
 * experts are, the backward pass also contains their forward pass.
 */
static p4d_wide widest_of_layer(const p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool again = l->recompute == P4D_RECOMPUTE_FULL || p4d_megatron__again(l, P4D_MODULE_MOE);

	if (!z->backward)
		return l->recompute >= P4D_RECOMPUTE_MLP
			   ? P4D_MOST(p4d_beyond(z->ffn_forward, (p4d_wide)z->own * z->h), z->ffn_backward)
			   : z->ffn_backward;
	/* the forward pass before its result exists, because the result has a row of its own */
	return again ? P4D_MOST(p4d_beyond(z->forward, (p4d_wide)z->own * z->h), z->backward) : z->backward;
}

/*
 * Memory of attention with context parallelism in addition to what it saves. All-gather, backward: keys and
 * values of all ranks, and their gradients in two steps and reordered. Ring, forward: buffers for the keys
 * and values of all ranks, and the results of all steps. These results are complete only on the last rank,
 * which attends to all keys. Ranks that exchange heads have more tokens and proportionally fewer columns, and
 * fewer steps.
 */
static p4d_wide exchange(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	if (l->cp == 1 || l->cp_comm == P4D_CP_A2A)
		return 0;
	return (p4d_wide)z->tokens *
	       (l->cp_comm == P4D_CP_ALL_GATHER
		    ? 4 * z->A + 7 * l->cp * z->G
		    : 2 * z->A + 4 * z->G + (l->cp / l->megatron.cp_heads - 1) * (z->A + 2 * z->G));
}

/*
 * Elements that exchanges between context-parallel ranks need in the backward pass. With recomputation, that
 * pass contains the forward pass.
 */
static p4d_wide backward_exchange(const p4d_rows *rows, const p4d_megatron_again *r,
				  const p4d_megatron_sizes *z, uint64_t inputs)
{
	const p4d_layout *l = rows->layout;
	const bool ring = l->cp_comm == P4D_CP_P2P, layers = r->groups && r->layers;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;

	if (!exchange(l, z) || (ring && !layers))
		return 0;
	return p4d_beyond(exchange(l, z) + z->again, z->ffn + (layers ? narrow : 0)) +
	       (inputs + (ring || !rows->last)) * narrow;
}

static p4d_wide backward_latent(const p4d_megatron_sizes *z, uint64_t inputs)
{
	const p4d_wide narrow = (p4d_wide)z->own * z->h;

	if (!z->attention)
		return 0;
	return p4d_beyond(z->attention + (1 + inputs) * narrow + z->again, z->ffn);
}

/*
 * Layers of multi-token prediction in the backward pass: gradients of all hidden states as one tensor. If
 * these layers share the model's embedding, the embedding's gradient waits for the gradient of the model's
 * input; by then the tensors that these layers saved are free.
 */
static void add_further(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide hidden = (1 + l->mtp_layers) * (p4d_wide)z->own * z->h;
	const p4d_wide table = rows->first ? (p4d_wide)l->vocab / l->tp * z->h : 0;
	const p4d_wide held = P4D_MOST(hidden, p4d_beyond(table, z->further));

	p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "further.gradients", "tp", P4D_PART_WORKING_SET, held);
	p4d_megatron_held(rows, P4D_AT_BACKWARD_ATTENTION, "further.attention", "tp", P4D_PART_WORKING_SET,
			  held);
	p4d_megatron_held(rows, P4D_AT_EMBED, "further.table", "tp", P4D_PART_WORKING_SET, table);
}

/*
 * Tensors left by the layers' dispatchers (megatron_experts.c, layers_left) while other layers run backward.
 * In the backward pass of the first recomputed layer, every later layer has one tensor more than its group
 * kept. One of these tensors is the gradient of the last result, and the schedule keeps the gradient that was
 * received. If only experts are recomputed, the chunk whose backward pass is over leaves pairs of tensors. In
 * the first half of the stages, the schedule refers to the last pair.
 */
static p4d_wide left_meanwhile(const p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;

	if (l->recompute == P4D_RECOMPUTE_FULL)
		return p4d_beyond(z->left, narrow) ? z->left - narrow - (rows->last ? narrow : 0) : 0;
	if (!p4d_megatron__again(l, P4D_MODULE_MOE) || l->vpp == 1 || l->micro_batches <= l->pp)
		return 0;
	const uint64_t layers = p4d_parameters_expert_layers(l, rows->stage, (uint32_t)l->vpp - 1);
	return 2 * p4d_beyond(layers, 2 * rows->stage < l->pp) * narrow;
}

static void add_passes(p4d_rows *rows, const p4d_megatron_again *r, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const uint64_t inputs = p4d_megatron__inputs_held(rows), received = !rows->last;
	const bool full = l->micro_batches > l->pp - rows->stage;
	/*
	 * the recomputed layers run backward after the only other layer of the chunk, and have a gradient of
	 * their own
	 */
	const bool second = r->groups && r->whole == 1 && received;
	const bool ring = l->cp_comm == P4D_CP_P2P, layers = r->groups && r->layers;
	const p4d_wide attention = p4d_beyond(exchange(l, z), z->ffn);
	const p4d_wide unfused = p4d_megatron__unfused_backward(rows, r, z, inputs);

	p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "schedule.inputs", ALONG, P4D_PART_WORKING_SET,
			  inputs * narrow);
	p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "backward.gradients", ACROSS, P4D_PART_WORKING_SET,
			  (1 + second) * narrow + widest_of_layer(rows, z));
	p4d_megatron_held(
	    rows, P4D_AT_BACKWARD_ATTENTION, "backward.attention", ACROSS, P4D_PART_ATTENTION,
	    P4D_MOST(P4D_MOST(backward_exchange(rows, r, z, inputs), unfused), backward_latent(z, inputs)));
	/*
	 * in the last layer, when all slots are taken: the last matmul's result and what follows it; a
	 * received gradient; without interleaving, also the input of the last backward pass
	 */
	p4d_megatron_held(
	    rows, P4D_AT_FORWARD, "forward.output", ALONG, P4D_PART_WORKING_SET,
	    P4D_MOST(P4D_MOST(P4D_MOST(z->ffn_forward, z->forward), ring && !layers ? attention : 0),
		     p4d_megatron__unfused_forward(rows, z)) +
		(inputs + (full && received) + (inputs && l->vpp == 1)) * narrow);
	/* after the last pass, chunks still refer to inputs and to gradients of inputs */
	p4d_megatron_held(rows, P4D_AT_OPTIMIZER, "experts.left", ALONG, P4D_PART_WORKING_SET, 2 * z->left);
	p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "experts.gradients", ALONG, P4D_PART_WORKING_SET,
			  left_meanwhile(rows, z));
	if (rows->last && l->mtp_layers)
		add_further(rows, z);
	if (l->pp > 1)
		p4d_megatron_held(rows, P4D_AT_OPTIMIZER, "schedule.left", ALONG, P4D_PART_WORKING_SET,
				  2 * (l->vpp - rows->first) * narrow);
}

/* ---- embedding and head ---- */

/*
 * Logits of the next token and of `further` more tokens. Unfused: the logits of at most two losses, with an
 * fp32 softmax of each.
 */
static void add_logits(p4d_rows *rows, unsigned live_range, const char *logits, const char *softmax,
		       uint64_t tokens, uint64_t further)
{
	const p4d_layout *l = rows->layout;
	const uint64_t V = (l->vocab + l->tp - 1) / l->tp;

	p4d_row_at(rows, live_range, logits, ACROSS, P4D_PART_LOGITS, p4d_dtype_of(l),
		   1 + (l->megatron.fused_cross_entropy ? further : P4D_LEAST(further, 1)), tokens, V);
	if (!l->megatron.fused_cross_entropy)
		p4d_row_at(rows, live_range, softmax, ACROSS, P4D_PART_LOGITS, P4D_DT_FP32, 1 + further,
			   tokens, V);
}

/*
 * The loss. If it is not fused, it has the softmax in fp32 next to the logits
 * (tensor_parallel/cross_entropy.py). In the head's backward pass, the gradient of the logits replaces the
 * logits, and the gradient of the hidden state exists. In addition there are the final norm's input and
 * output.
 */
static void add_head(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const uint64_t inputs = P4D_LEAST(p4d_megatron__inputs_held(rows), 4);
	const uint64_t V = (l->vocab + l->tp - 1) / l->tp;

	/* the hidden states of all further tokens as one tensor, and the inputs of the norms before it */
	const uint64_t further = l->mtp_layers ? 3 * l->mtp_layers - 1 : 0;

	add_logits(rows, 1u << P4D_AT_LOSS, "loss.logits", "loss.softmax", z->tokens, l->mtp_layers);
	p4d_megatron_held(rows, P4D_AT_LOSS, "loss.hidden", ALONG, P4D_PART_LOGITS,
			  (2 + inputs + (inputs && l->vpp == 1) + further) * narrow);
	p4d_row_at(rows, 1u << P4D_AT_HEAD, "head.logits", ACROSS, P4D_PART_LOGITS, p4d_dtype_of(l),
		   1 + l->mtp_layers, z->tokens, V);
	p4d_megatron_held(rows, P4D_AT_HEAD, "head.hidden", ALONG, P4D_PART_LOGITS,
			  (2 + inputs + further) * narrow);
	p4d_megatron_held(rows, P4D_AT_HEAD, "head.hidden_gradient", "cp", P4D_PART_LOGITS,
			  (p4d_wide)z->tokens * z->h + (z->gathers ? narrow : 0));
	if (!l->megatron.te_wgrad)
		p4d_megatron_held(rows, P4D_AT_HEAD, "head.weight_gradient", "tp", P4D_PART_LOGITS,
				  (p4d_wide)V * z->h);
}

p4d_wide p4d_megatron__slot_bytes(const p4d_rows *rows, const p4d_megatron_sizes *z)
{
	p4d_wide slot = 0;

	for (unsigned i = 0; i < rows->plan->count; i++)
		if (rows->plan->tensor[i].lifetime == P4D_LIVES_IN_SLOT)
			slot += (p4d_wide)rows->plan->tensor[i].bytes * rows->plan->tensor[i].layers;
	if (rows->layout->uneven_chunks || z->mixed) /* for these layouts the plan has a single slot, with the
							tensors of all micro-batches in flight */
		slot /= rows->plan->slots.activation;
	return slot;
}

/*
 * Backward pass of the embedding: the embedding's gradient, which autograd does not shard, and the gradient
 * of the embedding's output. The slot of the micro-batch is free by then, and so are tensors left by the last
 * forward pass.
 */
static void add_embedding(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const uint64_t slots = rows->plan->slots.activation;
	const uint64_t left = l->micro_batches * l->vpp - (l->vpp - 1) * l->pp;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const p4d_wide table = (p4d_wide)l->vocab / l->tp * z->h;
	const p4d_wide output = (p4d_wide)z->tokens * z->h +
				(!rows->last + P4D_LEAST(p4d_megatron__inputs_held(rows), 3)) * narrow;
	/* if head and embedding are tied, autograd adds the head's gradient, with the sum in a third
	 * tensor */
	const p4d_wide held = l->tied && rows->last ? P4D_MOST(table + output, 2 * table) : table + output;
	const p4d_wide free = p4d_megatron__slot_bytes(rows, z) * (1 + (slots > left ? slots - left : 0));
	const p4d_wide bytes = (held + 2 * z->left) * (dtype == P4D_DT_FP32 ? 4 : 2);
	rows->overflow = rows->overflow || bytes >> 62 || free >> 62;
	if (bytes > free && !rows->overflow)
		p4d_row_at(rows, 1u << P4D_AT_EMBED, "embedding.gradient", "tp", P4D_PART_WORKING_SET,
			   P4D_DT_BYTES, (uint64_t)(bytes - free), 0, 0);
}

/* ---- evaluation ---- */

/*
 * Columns per token that a layer's attention or its feed-forward part needs in a forward pass without a
 * backward pass; the larger of both.
 */
static uint64_t widest_forward(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const uint64_t gathered = l->cp_comm == P4D_CP_ALL_GATHER ? 2 * l->cp * 2 * z->G : 0;
	const p4d_megatron_scores s = p4d_megatron__scores(l, z, false);
	const uint64_t element = l->precision == P4D_FP32 ? 4 : 2;
	const uint64_t scores =
	    l->flash_attention ? 0 : (s.saved + s.forward) / element * (l->heads / l->tp) * l->seq_len;
	const uint64_t heads = 2 * z->A + 2 * z->G + gathered + scores;
	const uint64_t ffn = (l->glu ? (l->fused_swiglu ? 3 : 4) : 2) * z->F;

	return heads > ffn ? heads : ffn;
}

/*
 * evaluate() of training.py: forward passes in micro-batches of their own size, under no_grad() and without
 * dropout. So nothing is saved, and recomputation has no effect. A layer holds the residual and its norm
 * (gathered under sequence parallelism) and its widest part; the head holds the same as in training. Compared
 * with rehearsals of Megatron-Core's layers (tests/data/rehearsed_phases.csv).
 */
static void add_evaluation(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	p4d_megatron_sizes z = p4d_framework__megatron_sizes(l, l->eval_micro_batch);

	if (!l->pattern_length)
		p4d_megatron__size_experts(rows, &z);
	p4d_row_at(rows, IN_LAYER | IN_HEAD, "evaluation.hidden", ALONG, P4D_PART_WORKING_SET, dtype, 2,
		   z.own, z.h);
	if (z.gathers)
		p4d_row_at(rows, IN_LAYER | IN_HEAD, "evaluation.gathered", "cp", P4D_PART_WORKING_SET, dtype,
			   z.tokens, z.h, 0);
	/* with experts, their input is added, because evaluation has no slot that contains it */
	const p4d_wide experts = z.forward ? z.forward + p4d_routed_of(l, z.own).gathered * z.h : 0;
	const p4d_wide layer = P4D_MOST((p4d_wide)z.tokens * widest_forward(l, &z), experts);
	rows->overflow = rows->overflow || layer >> 62;
	if (!rows->overflow)
		p4d_row_at(rows, IN_LAYER, "evaluation.layer", ACROSS, P4D_PART_WORKING_SET, dtype,
			   (uint64_t)layer, 0, 0);
	if (rows->last)
		add_logits(rows, IN_HEAD, "evaluation.logits", "evaluation.softmax", z.tokens, l->mtp_layers);
}

/*
 * If chunks differ, fewer layers are alive when the last stage has logits than at the peak of its other
 * passes. The slots then count only these layers. The tensors of the other layers become rows of the other
 * live points.
 */
static void put_fewer_at_head(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	p4d_plan *plan = rows->plan;
	p4d_wide more = 0;

	if (!rows->last || !l->uneven_chunks || z->mixed || l->pattern_length)
		return;
	const uint64_t alive = p4d_schedule_layers_alive_at_head(&rows->schedule, l->chunk_layers);
	for (unsigned i = 0; i < plan->count; i++) {
		p4d_tensor *row = &plan->tensor[i];
		if (row->lifetime != P4D_LIVES_IN_SLOT || row->layers != rows->slot_layers ||
		    row->layers <= alive)
			continue;
		more += (p4d_wide)row->bytes * (row->layers - alive);
		row->layers = (uint32_t)alive;
	}
	rows->overflow = rows->overflow || more >> 62;
	if (more && !rows->overflow)
		p4d_row_at(rows, BUT_THE_HEAD, "slots.others", ACROSS, P4D_PART_ACTIVATIONS, P4D_DT_BYTES,
			   (uint64_t)more, 0, 0);
}

void p4d_framework__megatron_passes(p4d_rows *rows, const p4d_megatron_again *r, const p4d_megatron_sizes *z)
{
	add_passes(rows, r, z);
	if (rows->last)
		add_head(rows, z);
	if (rows->first)
		add_embedding(rows, z);
	add_evaluation(rows);
	p4d_megatron__mask(rows, r, z);
	put_fewer_at_head(rows, z);
}
