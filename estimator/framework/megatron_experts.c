/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM: tensors that layers with experts or latent attention save, and the peaks of their passes.
 * Derived from the code of Megatron-Core 0.16.1 (transformer/moe, multi_latent_attention.py) and, except for
 * DeepEP, compared with what that code allocates (tests/data/megatron_experts.csv). Experts are Transformer
 * Engine's grouped matmuls; permutation is Megatron's own code, not fused.
 *
 * Layers of both kinds may be in one chunk, so each row is the sum over the stage: its numbers of layers and
 * slots are 1.
 */
#include "framework/megatron_memory.h"
#include "request/routing.h"

/* A recomputed tensor is copied to its former place (tensor_parallel/random.py, CheckpointWithoutOutput). */
enum { TWICE = 2 };

static bool again(const p4d_layout *l, unsigned module)
{
	return l->megatron.recompute_modules & module;
}

/* ---- moments ---- */

/*
 * Peak of the forward pass on top of saved tensors. Variables hold the copies of tokens, and received tokens
 * that are not themselves the experts' input, until the end of the layer (MoELayer.forward). Gathered tokens
 * are in a buffer that stays. In addition there are, one after another: the experts' results, as computed and
 * sorted back, before a reduce-scatter over etp; the results that are sent back; their sum. With other
 * dispatchers than all-to-all, results are first summed for all received tokens, and then exchanged. The
 * shared experts' result exists from the beginning.
 */
static p4d_wide forward_of_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_routed t = p4d_routed_of(l, z->own);
	const bool copied = l->megatron.dispatcher == P4D_ALL_TO_ALL;
	const bool input = copied && !t.sorted && l->etp == 1; /* received tokens */
	const bool variable = t.exchanged && !input && l->megatron.dispatcher != P4D_ALL_GATHER;
	const bool fp8 = p4d_megatron__fp8(l); /* a variable also holds the experts' input after its cast */
	const p4d_wide held = t.permuted + (variable ? t.received : 0) + (fp8 ? t.gathered : 0);
	const p4d_wide second = /* the second matmul's input, itself and as copies, and its result */
	    fp8 ? t.gathered * (z->h + 2 * (p4d_wide)(l->expert_ffn / l->etp)) : 0;
	const p4d_wide results = copied ? t.gathered * (t.sorted ? 2 : 1) + (l->etp > 1 ? t.received : 0)
					: t.gathered + t.received;
	const p4d_wide back = t.received + (!t.exchanged ? 0 : copied ? t.permuted : t.own);
	/* tensors that recomputation drops exist until their matmul, or the layer, is done */
	const p4d_wide activation =
	    again(l, P4D_MODULE_MOE_ACTIVATION) ? t.gathered * (z->h + l->expert_ffn / l->etp) : 0;

	/* scores of all experts for all tokens */
	const p4d_wide scores =
	    l->megatron.dispatcher == P4D_ALL_GATHER && t.exchanged ? t.received * l->experts : 0;

	return scores +
	       (held + (l->shared_ffn && !l->megatron.shared_overlap ? z->own : 0) +
		(again(l, P4D_MODULE_LAYERNORM) ? z->own : 0)) *
		   z->h +
	       P4D_MOST(P4D_MOST(results, back) * z->h, P4D_MOST(activation, second));
}

/*
 * Peak of the backward pass: gradients of the results as returned, received, gathered and sorted; the
 * gradient of the second matmul; the gradient of the activation, whose result is free by then.
 */
static p4d_wide backward_of_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_routed t = p4d_routed_of(l, z->own);
	const p4d_wide F = l->expert_ffn / l->etp, g = t.gathered, h = z->h;
	const unsigned more = again(l, P4D_MODULE_MOE_ACTIVATION) ? TWICE : 0; /* result of the activation */
	const bool fp8 = p4d_megatron__fp8(l); /* gradients are cast, into at most two copies */
	p4d_wide widest = fp8 ? P4D_MOST(g * (2 * h + (1 + more) * F), g * (h + 2 * F) + g * F / 2)
			      : P4D_MOST(g * (h + (1 + more) * F), g * (2 + more) * F);

	if (l->megatron.dispatcher != P4D_ALL_TO_ALL)
		widest = P4D_MOST(widest, (g + t.received) * h);
	else if (t.exchanged)
		widest = P4D_MOST(widest, (t.permuted + t.received) * h);
	if (t.sorted)
		widest = P4D_MOST(widest, 2 * g * h);
	return widest;
}

/* Columns that the activation of an expert, or of the shared experts, saves: its inputs and its result.
 * Without a gate, also an expert's result before the multiplication by the token's score. */
static uint64_t of_activation(const p4d_layout *l)
{
	const uint64_t F = l->expert_ffn / l->etp;

	return 2 * F + (again(l, P4D_MODULE_MOE_ACTIVATION) ? 0 : (uint64_t)p4d_megatron__fp8_kept(l, F));
}

static uint64_t of_shared(const p4d_layout *l)
{
	const uint64_t S = l->shared_ffn / l->tp;

	return again(l, P4D_MODULE_SHARED_EXPERTS)
		   ? 0
		   : (l->glu ? 2 : 1) * S + (uint64_t)p4d_megatron__fp8_kept(l, S);
}

p4d_wide p4d_megatron__saved_by_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	if (again(l, P4D_MODULE_MOE))
		return 0;
	return p4d_routed_of(l, z->own).gathered * (p4d_megatron__fp8_kept(l, z->h) + of_activation(l)) +
	       (p4d_wide)z->tokens * of_shared(l);
}

/*
 * Backward pass of latent attention: gradients of its output, queries, keys and values. In a ring, keys and
 * values are sent and received together with their gradients, each in a double buffer, and the gradients of
 * queries are summed over the steps.
 */
static p4d_wide backward_of_latent(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_wide Q = l->heads / l->tp * (l->head_dim + l->rope_dim);
	/* recomputed: queries, keys and values; tensors that a ring keeps; the norm */
	const bool ring = again(l, P4D_MODULE_MLA_UP) && again(l, P4D_MODULE_CORE_ATTENTION) && l->cp > 1;
	const p4d_wide more =
	    (again(l, P4D_MODULE_MLA_UP) ? TWICE * z->tokens * (Q + 2 * z->G) : 0) +
	    (ring ? z->tokens * (z->A + 2 * z->G) : 0) +
	    (again(l, P4D_MODULE_LAYERNORM) && l->kv_rank ? TWICE * (p4d_wide)z->own * z->h : 0);

	return more + z->tokens * (l->cp > 1 ? z->A + 2 * Q + 10 * z->G : z->A + Q + 2 * z->G);
}

/* Number of layers for multi-token prediction on this stage. */
static uint64_t further_of(const p4d_rows *rows)
{
	return rows->last ? rows->layout->mtp_layers : 0;
}

/*
 * The dispatcher of a layer keeps its last probabilities until the layer's next forward pass. If these were
 * recomputed, it also keeps the checkpoint's detached input and that input's gradient.
 */
static uint64_t layers_left(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const uint64_t with = p4d_parameters_expert_layers_of_stage(l, rows->stage) + further_of(rows);

	if (l->recompute == P4D_RECOMPUTE_FULL)
		return (with + l->megatron.recompute_layers - 1) / l->megatron.recompute_layers;
	return again(l, P4D_MODULE_MOE) ? with : 0;
}

void p4d_megatron__size_experts(const p4d_rows *rows, p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const bool dense =
	    p4d_parameters_expert_layers_of_stage(l, rows->stage) < l->stage_layers[rows->stage];

	z->mixed = l->experts || l->kv_rank;
	if (l->kv_rank) {
		z->A = l->heads / l->tp * l->v_dim;
		z->G = l->heads / l->tp * (l->head_dim + l->rope_dim + l->v_dim) / 2;
	}
	if (with)
		z->ffn = (again(l, P4D_MODULE_LAYERNORM) ? 1 : 2) * (p4d_wide)z->own * z->h +
			 (dense ? P4D_LEAST(z->tokens * (p4d_wide)(z->up + z->product),
					    p4d_megatron__saved_by_experts(l, z))
				: p4d_megatron__saved_by_experts(l, z));
	if (l->kv_rank)
		z->attention = backward_of_latent(l, z);
	if (l->kv_rank)
		z->attention_saved =
		    (p4d_wide)z->own * (z->h + 2 * (l->q_rank + l->kv_rank)) +
		    (p4d_wide)z->tokens * (l->heads / l->tp * (l->head_dim + l->rope_dim) + z->A + 2 * z->G);
	z->left = layers_left(rows) * (p4d_wide)z->own * z->h;
	if (!with)
		return;
	z->forward = forward_of_experts(l, z);
	z->backward = backward_of_experts(l, z);
}

/* ---- saved tensors ---- */

/* Layers of a stage that are alive, and how many of them have experts. */
typedef struct alive {
	uint64_t layers, experts;
} alive;

/*
 * Maximum number of layers of a stage that are alive together, among those with experts or among the others.
 */
static uint64_t most_alive(const p4d_rows *rows, bool experts)
{
	const p4d_layout *l = rows->layout;
	uint16_t chunks[P4D_MAX_UNEVEN_CHUNKS];
	uint64_t before = 0, experts_before = 0;

	/* in the model's order, because finding the start of each chunk would visit all earlier stages */
	for (uint64_t i = 0; i < l->pp * l->vpp; i++) {
		const uint32_t layers = p4d_chunk_layers(l, (uint32_t)(i % l->pp), (uint32_t)(i / l->pp));
		const uint64_t after = p4d_expert_layers_before(l, before += layers);
		const uint64_t with = after - experts_before;
		chunks[i] = (uint16_t)(experts ? with : layers - with);
		experts_before = after;
	}
	return p4d_schedule_layers_alive(&rows->schedule, rows->stage, chunks);
}

static alive alive_of(const p4d_rows *rows, const p4d_megatron_again *r, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t whole = r->whole < rows->slot_layers ? r->whole : rows->slot_layers;
	const p4d_wide dense = again(l, P4D_MODULE_MLP) ? 0 : z->tokens * (p4d_wide)(z->up + z->product);
	alive a = {.layers = whole * rows->slots};

	if (!l->experts || !whole)
		return a;
	if (l->dense_layers == 0 && l->expert_every == 1)
		a.experts = a.layers;
	else if (l->vpp == 1)
		a.experts =
		    (uint64_t)P4D_LEAST(p4d_parameters_expert_layers(l, rows->stage, 0), whole) * rows->slots;
	else if (l->pp * l->vpp > P4D_MAX_UNEVEN_CHUNKS)
		a.experts = a.layers;
	else if (p4d_megatron__saved_by_experts(l, z) >= dense) /* layers of the kind that saves more */
		a.experts = P4D_LEAST(a.layers, most_alive(rows, true));
	else
		a.experts = a.layers - P4D_LEAST(a.layers, most_alive(rows, false));
	return a;
}

/* Elements of `layers` layers: in the slots, or in a recomputed group. */
typedef struct stored {
	p4d_rows *rows;
	bool again;
} stored;

static void keep(const stored *p, const char *name, const char *shard, p4d_dtype dtype, uint64_t layers,
		 p4d_wide elements)
{
	const p4d_wide all = elements * layers;

	p->rows->overflow = p->rows->overflow || all >> 62;
	if (!all || p->rows->overflow)
		return;
	if (p->again) {
		p4d_row_at(p->rows, 1u << P4D_AT_BACKWARD_FFN, name, shard, P4D_PART_ACTIVATIONS, dtype,
			   (uint64_t)all, 0, 0);
		return;
	}
	p4d_tensor *row = p4d_row_in_slot(p->rows, name, shard, dtype, (uint64_t)all, 0, 0);
	row->layers = row->slots = 1;
}

/*
 * Latent attention saves: the result of the norm, which is the input of both matmuls to lower ranks; their
 * results, and the norms of these; queries, keys and values, with the rotated part of a key copied to every
 * head; the output.
 */
static void keep_latent(const stored *p, const p4d_megatron_sizes *z, uint64_t n)
{
	const p4d_layout *l = p->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide heads = l->heads / l->tp, t = z->tokens, own = z->own;
	const bool up = again(l, P4D_MODULE_MLA_UP); /* from the latent vectors on */

	keep(p, "layer.latent", ALONG, dtype, n,
	     own * (l->q_rank + l->kv_rank + (up ? 0 : p4d_megatron__fp8_kept(l, l->q_rank + l->kv_rank))));
	keep(p, "layer.latent_statistics", ALONG, P4D_DT_FP32, n, own * (l->q_rank ? 2 : 1));
	keep(p, "layer.rope", "cp", dtype, n, t * 2 * l->rope_dim);
	keep(p, "layer.query_and_key", ACROSS, dtype, n,
	     up ? 0 : t * heads * 2 * (l->head_dim + l->rope_dim));
	keep(p, "layer.value_and_output", ACROSS, dtype, n, t * heads * (up ? 1 : 2) * l->v_dim);
	/* a ring has its own copies */
	keep(p, "layer.ring", ACROSS, dtype, n,
	     up && l->cp > 1 && !again(l, P4D_MODULE_CORE_ATTENTION) ? t * 2 * z->G : 0);
	keep(p, "layer.softmax_statistics", ACROSS, P4D_DT_FP32, n, t * heads);
}

static void keep_attention(const stored *p, const p4d_megatron_sizes *z, uint64_t n)
{
	const p4d_layout *l = p->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide t = z->tokens;
	const uint64_t heads = l->heads / l->tp + p4d_rank_kv_heads(l);

	keep(p, "layer.query_and_output", ACROSS, dtype, n, t * 2 * z->A);
	keep(p, "layer.key_and_value", ACROSS, dtype, n, t * 2 * z->G);
	if (l->qk_norm) {
		keep(p, "layer.product", ACROSS, dtype, n, t * (z->A + z->G));
		keep(p, "layer.qk_statistics", ACROSS, P4D_DT_FP32, n, t * heads);
	}
	/* with checkpointing, attention keeps its inputs; values are a view of the matmul's result */
	if (again(l, P4D_MODULE_CORE_ATTENTION))
		keep(p, "layer.whole_product", ACROSS, dtype, n, t * p4d_megatron__product(l, z));
	else
		keep(p, "layer.softmax_statistics", ACROSS, P4D_DT_FP32, n, t * (l->heads / l->tp));
}

/*
 * Bytes of the router and the dispatcher: scores in fp32 and in the type of parameters, both and the choice
 * transposed; the chosen experts, and the destinations of tokens. All-gather has them for all tokens and this
 * rank's experts instead; DeepEP has them for received tokens, in fp32. If tokens are dropped, scores before
 * and after dropping are kept.
 */
static p4d_wide of_router(const p4d_layout *l, const p4d_routed *t)
{
	const p4d_wide scores = t->own * l->experts, chosen = t->own * l->experts_per_token;
	const p4d_wide here = t->received * (l->experts / l->ep),
		       dropped = l->megatron.expert_capacity > 0 ? 3 * scores : 0;

	switch (l->megatron.dispatcher) {
	case P4D_ALL_GATHER:
		return 4 * scores + 4 * here + 12 * chosen + t->gathered * 10 + dropped;
	case P4D_DEEPEP:
		return 4 * scores + 26 * chosen + 10 * here + t->received * l->experts_per_token * 12 +
		       t->gathered * 12 + dropped;
	default:
		return 10 * scores + 12 * chosen + t->permuted * (l->megatron.pads_experts ? 16 : 8) +
		       t->gathered * 2 + dropped;
	}
}

static void keep_experts(const stored *p, const p4d_megatron_sizes *z, uint64_t n)
{
	const p4d_layout *l = p->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_routed t = p4d_routed_of(l, z->own);

	keep(p, "layer.router", ALONG, P4D_DT_BYTES, n, of_router(l, &t));
	keep(p, "layer.expert_input", ALONG, dtype, n, t.gathered * p4d_megatron__fp8_kept(l, z->h));
	keep(p, "layer.expert_ffn", ALONG, dtype, n, t.gathered * of_activation(l));
	/* with overlap, shared experts gather their input before the matmul, which saves it */
	keep(p, "layer.shared_input", "cp", dtype, n,
	     l->megatron.shared_overlap && z->gathers ? (p4d_wide)z->tokens * z->h : 0);
	keep(p, "layer.shared_ffn", ACROSS, dtype, n, (p4d_wide)z->tokens * of_shared(l));
}

/* The feed-forward part of layers without experts. */
static void keep_dense(const stored *p, const p4d_megatron_sizes *z, uint64_t n)
{
	const p4d_layout *l = p->rows->layout;

	keep(p, "layer.second_norm", ALONG, p4d_dtype_of(l), n,
	     p4d_megatron__fp8_kept(l, (p4d_wide)z->own * z->h));
	keep(p, "layer.ffn", ACROSS, p4d_dtype_of(l), n, (p4d_wide)z->tokens * (z->up + z->product));
}

/* All tensors that these layers save. Layers without experts have the feed-forward part of dense models. */
static void keep_layers(const stored *p, const p4d_megatron_sizes *z, alive a, bool all)
{
	const p4d_layout *l = p->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const bool norms = again(l, P4D_MODULE_LAYERNORM), mlp = again(l, P4D_MODULE_MLP);
	const uint64_t dense = a.layers - a.experts;

	if (all) {
		/* if the norm is fused with the next matmul, it is no module of its own */
		keep(p, "layer.norm", ALONG, dtype, norms && l->kv_rank ? 0 : a.layers,
		     l->kv_rank ? 2 * p4d_megatron__fp8_kept(l, narrow) / (p4d_megatron__fp8(l) ? 1 : 2)
				: p4d_megatron__fp8_kept(l, narrow));
		if (p4d_megatron__fp8_saves_output(l))
			keep(p, "layer.output_fp8", ACROSS, P4D_DT_BYTES, a.layers,
			     (p4d_wide)z->tokens * z->A);
		if (l->kv_rank)
			keep_latent(p, z, a.layers);
		else
			keep_attention(p, z, a.layers);
		keep(p, "layer.middle", ALONG, dtype, a.layers, narrow);
		keep_dense(p, z, mlp ? 0 : dense);
		keep(p, "layer.router_norm", ALONG, dtype, norms ? 0 : a.experts, narrow);
		keep(p, "layer.norm_statistics", ALONG, P4D_DT_FP32, a.layers, 2 * (p4d_wide)z->own);
	}
	if (!all || !again(l, P4D_MODULE_MOE))
		keep_experts(p, z, a.experts);
}

void p4d_megatron__keep_experts(p4d_rows *rows, const p4d_megatron_sizes *z, uint64_t layers)
{
	const p4d_layout *l = rows->layout;
	const stored slots = {rows, false}, second = {rows, true};

	if (!again(l, P4D_MODULE_MOE)) {
		keep_experts(&slots, z, layers);
	} else if (layers) {
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.output", ALONG, P4D_PART_ACTIVATIONS,
				  (p4d_wide)z->own * z->h);
		keep_experts(&second, z, 1);
	}
}

/*
 * Layers for multi-token prediction. Their tensors exist once, because the last stage runs a micro-batch
 * backward immediately. Each layer saves the embedding of the shifted tokens, the results of both norms as
 * one tensor (the matmul's input) and, with tp, all of that matmul's result, a part of which is the layer's
 * input. With recomputation it saves only the first of these. In addition, the input and the result of the
 * model's last norm are saved here instead of in the head.
 */
static void keep_further(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const stored slots = {rows, false};
	const uint64_t n = further_of(rows);
	const p4d_wide narrow = (p4d_wide)z->own * z->h, whole = (p4d_wide)z->tokens * z->h;
	const bool again_all = l->recompute == P4D_RECOMPUTE_FULL;

	keep(&slots, "further.hidden", ALONG, p4d_dtype_of(l), n > 0, 2 * narrow);
	keep(&slots, "further.embedding", ALONG, p4d_dtype_of(l), n, narrow);
	if (again_all || !n)
		return;
	keep(&slots, "further.concatenated", ALONG, p4d_dtype_of(l), n, 2 * narrow);
	keep(&slots, "further.input", ALONG, p4d_dtype_of(l), n, l->tp > 1 ? whole : narrow);
	keep_layers(&slots, z, (alive){n, n}, true);
}

void p4d_megatron__expert_layers(p4d_rows *rows, const p4d_megatron_again *r, p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const uint64_t with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const stored slots = {rows, false}, second = {rows, true};
	const alive a = alive_of(rows, r, z);

	if (r->groups) {
		keep(&slots, "group.inputs", ALONG, dtype, r->groups * rows->slots, narrow);
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.inputs", ALONG, P4D_PART_ACTIVATIONS,
				  r->layers * narrow);
		keep_layers(&second, z, (alive){r->layers, P4D_LEAST(r->layers, with)}, true);
	}
	keep(&slots, "layer.input", ALONG, dtype, a.layers, narrow);
	if (a.layers)
		keep_layers(&slots, z, a, true);
	const unsigned before = rows->plan->count;
	keep_further(rows, z);
	for (unsigned i = before; i < rows->plan->count; i++)
		z->further += rows->plan->tensor[i].bytes / 2;
	if (again(l, P4D_MODULE_LAYERNORM) && with)
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.norm", ALONG, P4D_PART_ACTIVATIONS,
				  TWICE * narrow);
	if (again(l, P4D_MODULE_MLP) && !with) { /* otherwise the gradient of the experts is wider */
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.output", ALONG, P4D_PART_ACTIVATIONS,
				  narrow);
		keep_dense(&second, z, 1);
	}
	if (again(l, P4D_MODULE_MOE) && with) {
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.output", ALONG, P4D_PART_ACTIVATIONS,
				  narrow);
		keep_layers(&second, z, (alive){1, 1}, false);
	}
}
