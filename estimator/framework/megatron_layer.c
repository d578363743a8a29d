/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM: the tensors that layers save. Each tensor has a row, because CUDA graphs capture some of them,
 * recomputation drops some, and the allocator is simulated with them. A tape would give only one sum. Derived
 * from the code of Megatron-Core 0.16.1 (transformer/attention.py, multi_latent_attention.py, moe).
 */
#include "framework/megatron_memory.h"

#include "request/routing.h"

bool p4d_megatron__again(const p4d_layout *l, unsigned module)
{
	const unsigned modules = l->megatron.recompute_modules;

	if (modules)
		return modules & module;
	return (l->recompute == P4D_RECOMPUTE_SELECTIVE && module == P4D_MODULE_CORE_ATTENTION) ||
	       (l->recompute == P4D_RECOMPUTE_MLP && module == P4D_MODULE_MLP);
}

/*
 * Layers whose tensors become rows: in slots, with one copy for each layer, or as the sum over all layers of
 * a stage. For recomputation: the layers that the backward pass recomputes together.
 */
typedef struct kept_layers {
	p4d_rows *rows;
	enum { EACH, SUMMED, AGAIN } as;
	uint64_t layers, experts; /* number of all these layers; number of those with experts */
} kept_layers;

/* Adds a row for a tensor that n of these layers save. */
static void keep(const kept_layers *k, p4d_megatron_group g, uint64_t n, const char *name, const char *shard,
		 p4d_dtype dtype, p4d_wide elements)
{
	p4d_rows *rows = k->rows;
	const p4d_wide all = elements * (k->as == EACH ? 1 : n);

	rows->overflow = rows->overflow || all >> 62;
	if (!n || !all || rows->overflow)
		return;
	if (k->as == AGAIN) {
		p4d_row_at(rows, 1u << P4D_AT_BACKWARD_FFN, name, shard, P4D_PART_ACTIVATIONS, dtype,
			   (uint64_t)all, 0, 0);
		return;
	}
	p4d_tensor *row = p4d_row_in_slot(rows, name, shard, dtype, (uint64_t)all, 0);
	row->layers = k->as == EACH ? (uint32_t)n : 1;
	row->slots = k->as == EACH ? row->slots : 1;
	p4d_megatron__captured(rows, g, row);
}

/* ---- how many layers ---- */

/*
 * Maximum number of a stage's layers between their forward and backward passes, among layers with experts or
 * among layers without.
 */
static uint64_t most_alive(const p4d_rows *rows, bool experts)
{
	const p4d_layout *l = rows->layout;
	uint16_t chunks[P4D_MAX_UNEVEN_CHUNKS];
	uint64_t before = 0, experts_before = 0;

	/*
	 * visits chunks in the model's order, because p4d_parameters_first_layer would visit all earlier
	 * stages for each chunk
	 */
	for (uint64_t i = 0; i < l->pp * l->vpp; i++) {
		const uint32_t layers = p4d_chunk_layers(l, (uint32_t)(i % l->pp), (uint32_t)(i / l->pp));
		const uint64_t after = p4d_expert_layers_before(l, before += layers);
		const uint64_t with = after - experts_before;
		chunks[i] = (uint16_t)(experts ? with : layers - with);
		experts_before = after;
	}
	return p4d_schedule_layers_alive(&rows->schedule, rows->stage, chunks);
}

/*
 * Layers whose tensors are in slots: those of the whole stage if layers differ, otherwise those of one slot.
 * If layers with and without experts alternate, the kind that saves more counts.
 */
static kept_layers alive_of(p4d_rows *rows, const p4d_megatron_again *r, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t whole = r->whole < rows->slot_layers ? r->whole : rows->slot_layers;
	const p4d_wide dense =
	    p4d_megatron__again(l, P4D_MODULE_MLP) ? 0 : z->tokens * (p4d_wide)(z->up + z->product);
	kept_layers a = {rows, z->mixed ? SUMMED : EACH, whole * (z->mixed ? rows->slots : 1), 0};

	if (!l->experts || !whole)
		return a;
	if (l->dense_layers == 0 && l->expert_every == 1)
		a.experts = a.layers;
	else if (l->vpp == 1)
		a.experts =
		    (uint64_t)P4D_LEAST(p4d_parameters_expert_layers(l, rows->stage, 0), whole) * rows->slots;
	else if (l->pp * l->vpp > P4D_MAX_UNEVEN_CHUNKS)
		a.experts = a.layers;
	else if (p4d_megatron__saved_by_experts(l, z) >= dense) /* assume the kind of layer that saves more */
		a.experts = P4D_LEAST(a.layers, most_alive(rows, true));
	else
		a.experts = a.layers - P4D_LEAST(a.layers, most_alive(rows, false));
	return a;
}

/* ---- attention ---- */

/*
 * Latent attention saves: the result of the norm, which is the input of both matmuls to lower ranks; the
 * results of these matmuls, and their norms; queries, keys and values, with the rotated part of a key copied
 * to every head; the output.
 */
static void keep_latent(const kept_layers *k, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = k->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide heads = l->heads / l->tp, t = z->tokens, own = z->own;
	const bool up = p4d_megatron__again(
	    l, P4D_MODULE_MLA_UP); /* everything from the latent vectors on is recomputed */

	keep(k, HEADS, k->layers, "layer.latent", ALONG, dtype,
	     own * (l->q_rank + l->kv_rank + (up ? 0 : p4d_megatron__fp8_kept(l, l->q_rank + l->kv_rank))));
	keep(k, HEADS, k->layers, "layer.latent_statistics", ALONG, P4D_DT_FP32, own * (l->q_rank ? 2 : 1));
	keep(k, HEADS, k->layers, "layer.rope", "cp", dtype, t * 2 * l->rope_dim);
	keep(k, HEADS, k->layers, "layer.query_and_key", ACROSS, dtype,
	     up ? 0 : t * heads * 2 * (l->head_dim + l->rope_dim));
	keep(k, HEADS, k->layers, "layer.value_and_output", ACROSS, dtype,
	     t * heads * (up ? 1 : 2) * l->v_dim);
	/* a ring has its own copies */
	keep(k, HEADS, k->layers, "layer.ring", ACROSS, dtype,
	     up && l->cp > 1 && !p4d_megatron__again(l, P4D_MODULE_CORE_ATTENTION) ? t * 2 * z->G : 0);
	keep(k, HEADS, k->layers, "layer.softmax_statistics", ACROSS, P4D_DT_FP32, t * heads);
}

/*
 * Unfused attention saves the softmax of all query-key pairs and, with dropout, also dropout's mask and
 * result.
 */
static void keep_scores(const kept_layers *k, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = k->rows->layout;
	const p4d_megatron_scores s = p4d_megatron__scores(l, z, l->megatron.attention_dropout);

	keep(k, STATISTICS, k->layers, "layer.scores", ACROSS, P4D_DT_BYTES, s.saved * s.pairs);
	if (!s.kernel)
		keep(k, STATISTICS, k->layers, "layer.scores_mask", "", P4D_DT_BYTES, s.mask);
}

/*
 * With rotary embeddings, checkpointed attention keeps the first matmul's output, which has queries and keys
 * before the rotation; values are a view of it. If tensor-parallel ranks hold copies of key/value heads, the
 * output of all ranks is gathered (attention.py, get_query_key_value_tensors). Without positions
 * (P4D_NO_POSITIONS), queries, keys and values are views of the first matmul's output, so nothing more is
 * kept. If a rank has several key/value heads, its queries are copied (split_qkv).
 */
uint64_t p4d_megatron__product(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	if (l->architecture->positions == P4D_NO_POSITIONS)
		return z->G > l->head_dim ? z->A : 0;
	return l->kv_heads < l->tp ? (l->heads + 2 * l->kv_heads) * l->head_dim - z->G : z->A + z->G;
}

/*
 * Attention keeps queries, keys and values after RoPE, and its output, which is also the next matmul's input.
 * With checkpointing (recompute=selective) it keeps its inputs. All-to-all keeps the output before and after
 * the exchange. All-gather keeps the outputs of both halves of the sequence and the whole output
 * (attention/dot_product_attention/context_parallel.py), unless that is kept in FP8. Norms of queries and
 * keys keep their inputs.
 */
static void keep_attention(const kept_layers *k, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = k->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const bool core = p4d_megatron__again(l, P4D_MODULE_CORE_ATTENTION);
	const bool repeats =
	    !l->flash_attention && !core; /* keys and values are copied for all query heads */
	const p4d_wide t = z->tokens;
	const uint64_t n = k->layers, heads = l->heads / l->tp;

	keep(k, HEADS, n, "layer.query_and_output", ACROSS, dtype, t * (1 + (core ? 1 : z->outputs)) * z->A);
	keep(k, HEADS, n, "layer.key_and_value", ACROSS, dtype, t * 2 * (repeats ? z->A : z->G));
	if (l->qk_norm) {
		keep(k, HEADS, n, "layer.normed_product", ACROSS, dtype, t * (z->A + z->G));
		keep(k, HEADS, n, "layer.qk_statistics", ACROSS, P4D_DT_FP32,
		     t * l->norm_tensors * (heads + p4d_rank_kv_heads(l)));
	}
	if (l->architecture->gated_attention) /* the gates, and attention's result before it is multiplied by
						 the gates */
		keep(k, HEADS, n, "layer.gates", ACROSS, dtype, t * 2 * z->A);
	if (core)
		keep(k, HEADS, n, "layer.product", ACROSS, dtype, t * p4d_megatron__product(l, z));
	else if (l->flash_attention)
		keep(k, STATISTICS, n, "layer.softmax_statistics", ACROSS, P4D_DT_FP32, t * heads);
	else
		keep_scores(k, z);
}

/* ---- feed-forward parts ---- */

/*
 * Columns that the activation function of an expert, or of the shared experts, saves: its inputs and its
 * result. Without a gate, also an expert's result before the multiplication by the token's score.
 */
static uint64_t of_activation(const p4d_layout *l)
{
	const uint64_t F = l->expert_ffn / l->etp;

	return 2 * F + (p4d_megatron__again(l, P4D_MODULE_MOE_ACTIVATION)
			    ? 0
			    : (uint64_t)p4d_megatron__fp8_kept(l, F));
}

static uint64_t of_shared(const p4d_layout *l)
{
	const uint64_t S = l->shared_ffn / l->tp;

	return p4d_megatron__again(l, P4D_MODULE_SHARED_EXPERTS)
		   ? 0
		   : (l->glu ? 2 : 1) * S + (uint64_t)p4d_megatron__fp8_kept(l, S);
}

p4d_wide p4d_megatron__saved_by_experts(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	if (p4d_megatron__again(l, P4D_MODULE_MOE))
		return 0;
	return p4d_routed_of(l, z->own).gathered * (p4d_megatron__fp8_kept(l, z->h) + of_activation(l)) +
	       (p4d_wide)z->tokens * of_shared(l);
}

/*
 * Bytes of the router and the dispatcher: scores in fp32 and in the type of parameters, and both transposed,
 * like the choice of experts; the chosen experts; and the destinations of tokens. With all-gather these
 * tensors are for all tokens and this rank's experts. With DeepEP they are for received tokens, in fp32. If
 * tokens are dropped, scores before and after dropping are kept.
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

static void keep_experts(const kept_layers *k, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = k->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_routed t = p4d_routed_of(l, z->own);

	keep(k, FFN, k->experts, "layer.router", ALONG, P4D_DT_BYTES, of_router(l, &t));
	keep(k, FFN, k->experts, "layer.expert_input", ALONG, dtype,
	     t.gathered * p4d_megatron__fp8_kept(l, z->h));
	keep(k, FFN, k->experts, "layer.expert_ffn", ALONG, dtype, t.gathered * of_activation(l));
	/* with overlap, shared experts gather their input before the matmul, which saves it */
	keep(k, FFN, k->experts, "layer.shared_input", "cp", dtype,
	     l->megatron.shared_overlap && z->gathers ? (p4d_wide)z->tokens * z->h : 0);
	keep(k, FFN, k->experts, "layer.shared_ffn", ACROSS, dtype, (p4d_wide)z->tokens * of_shared(l));
}

/* Rows of the feed-forward part, for n layers without experts. */
static void keep_dense(const kept_layers *k, const p4d_megatron_sizes *z, uint64_t n)
{
	const p4d_dtype dtype = p4d_dtype_of(k->rows->layout);

	keep(k, FFN, n, "layer.second_norm", ALONG, dtype, (p4d_wide)z->own * z->norm);
	keep(k, FFN, n, "layer.ffn", ACROSS, dtype, (p4d_wide)z->tokens * (z->up + z->product));
}

/* ---- layers ---- */

static void keep_layers(const kept_layers *k, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = k->rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const bool norms = p4d_megatron__again(l, P4D_MODULE_LAYERNORM), latent = l->kv_rank;
	const uint64_t n = k->layers, dense = n - k->experts;

	/* a norm that Transformer Engine fuses with the next matmul saves nothing by itself */
	keep(k, NORM, norms && latent ? 0 : n, "layer.norm", ALONG, dtype,
	     (latent && p4d_megatron__fp8(l) ? 2 : 1) * (p4d_wide)z->own * z->norm);
	keep(k, HEADS, p4d_megatron__fp8_saves_output(l) ? n : 0, "layer.output_fp8", ACROSS, P4D_DT_BYTES,
	     (p4d_wide)z->tokens * z->A);
	if (latent)
		keep_latent(k, z);
	else
		keep_attention(k, z);
	keep(k, MIDDLE, n, "layer.middle", ALONG, dtype, narrow);
	keep(k, NORM, n, "layer.norm_statistics", ALONG, P4D_DT_FP32, 2 * (p4d_wide)l->norm_tensors * z->own);
	keep(k, NORM, l->dropout ? n : 0, "layer.dropout_masks", ALONG, P4D_DT_BYTES, 2 * narrow);
	keep_dense(k, z, p4d_megatron__again(l, P4D_MODULE_MLP) ? 0 : dense);
	keep(k, FFN, norms ? 0 : k->experts, "layer.router_norm", ALONG, dtype, narrow);
	if (!p4d_megatron__again(l, P4D_MODULE_MOE))
		keep_experts(k, z);
}

/* Rows of experts that are recomputed: during the backward pass, the recomputed result also exists. */
static void keep_experts_again(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const kept_layers second = {rows, AGAIN, 1, 1};

	p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.output", ALONG, P4D_PART_ACTIVATIONS,
			  (p4d_wide)z->own * z->h);
	keep_experts(&second, z);
}

/*
 * Layers for multi-token prediction. Their tensors exist once, because the last stage runs a micro-batch
 * backward immediately. Each layer saves the embedding of the shifted tokens, the results of both norms as
 * one tensor (the matmul's input) and, with tp, all of that matmul's result, a part of which is the layer's
 * input. With recomputation it saves only the embedding. This function also adds the input and the result of
 * the model's last norm, which the head then does not save.
 */
static void keep_further(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const uint64_t n = p4d_megatron__further(rows);
	const kept_layers further = {rows, SUMMED, n, n};
	const p4d_wide narrow = (p4d_wide)z->own * z->h, whole = (p4d_wide)z->tokens * z->h;

	keep(&further, FFN, n > 0, "further.hidden", ALONG, dtype, 2 * narrow);
	keep(&further, FFN, n, "further.embedding", ALONG, dtype, narrow);
	if (l->recompute == P4D_RECOMPUTE_FULL || !n)
		return;
	keep(&further, FFN, n, "further.concatenated", ALONG, dtype, 2 * narrow);
	keep(&further, FFN, n, "further.input", ALONG, dtype, l->tp > 1 ? whole : narrow);
	keep_layers(&further, z);
}

/* Rows of single modules that the backward pass of a layer recomputes. */
static void keep_modules_again(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const kept_layers second = {rows, AGAIN, 1, 0};

	if (p4d_megatron__again(l, P4D_MODULE_LAYERNORM) && with)
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.norm", ALONG, P4D_PART_ACTIVATIONS,
				  TWICE * narrow);
	if (p4d_megatron__again(l, P4D_MODULE_MLP) &&
	    !with) { /* not added with experts, because the gradients of experts need more memory */
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.output", ALONG, P4D_PART_ACTIVATIONS,
				  narrow);
		keep_dense(&second, z, 1);
	}
	if (p4d_megatron__again(l, P4D_MODULE_MOE) && with)
		keep_experts_again(rows, z);
}

/* Sum of the elements of all rows from number `first` on. */
static p4d_wide elements_since(const p4d_rows *rows, unsigned first)
{
	p4d_wide bytes = 0;

	for (unsigned i = first; i < rows->plan->count; i++)
		bytes += rows->plan->tensor[i].bytes;
	return bytes / (p4d_dtype_of(rows->layout) == P4D_DT_FP32 ? 4 : 2);
}

void p4d_megatron__layers(p4d_rows *rows, const p4d_megatron_again *r, p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	const kept_layers slots = alive_of(rows, r, z);
	const uint64_t with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const kept_layers group = {rows, AGAIN, r->layers, P4D_LEAST(r->layers, with)};

	if (r->groups) { /* whole layers are recomputed (tensor_parallel/random.py, CheckpointFunction) */
		keep(&slots, INPUT, slots.as == SUMMED ? rows->slots : 1, "group.inputs", ALONG, dtype,
		     r->groups * narrow);
		/* Each recomputed layer except the first makes its own input again. The last layer's output
		 * also exists. */
		p4d_megatron_held(rows, P4D_AT_BACKWARD_FFN, "again.inputs", ALONG, P4D_PART_ACTIVATIONS,
				  r->layers * narrow);
		const unsigned first = rows->plan->count;
		keep_layers(&group, z);
		z->again = elements_since(rows, first) + r->layers * narrow;
		if (with) /* the part of the group's last layer that the backward pass frees first */
			z->ffn = 2 * narrow + p4d_megatron__saved_by_experts(l, z);
	}
	keep(&slots, INPUT, slots.layers, "layer.input", ALONG, dtype, narrow);
	keep_layers(&slots, z);
	const unsigned further = rows->plan->count;
	keep_further(rows, z);
	z->further = elements_since(rows, further);
	keep_modules_again(rows, z);
}

/* ---- hybrid models ---- */

void p4d_megatron__keep_blocks(p4d_rows *rows, const char *name, const char *shard, p4d_dtype dtype,
			       uint64_t blocks, p4d_wide elements)
{
	const kept_layers all = {.rows = rows, .as = SUMMED};

	keep(&all, FFN, blocks * rows->slots, name, shard, dtype, elements);
}

void p4d_megatron__keep_attention(p4d_rows *rows, const p4d_megatron_sizes *z, uint64_t blocks)
{
	const kept_layers all = {rows, SUMMED, blocks * rows->slots, 0};

	keep_attention(&all, z);
}

void p4d_megatron__keep_experts(p4d_rows *rows, const p4d_megatron_sizes *z, uint64_t layers)
{
	const kept_layers all = {rows, SUMMED, 0, layers * rows->slots};

	if (!p4d_megatron__again(rows->layout, P4D_MODULE_MOE))
		keep_experts(&all, z);
	else if (layers)
		keep_experts_again(rows, z);
}
