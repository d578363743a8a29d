/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM's layers as blocks of Transformer Engine's modules, simulated as tapes: the feed-forward part
 * of all models, and the blocks of hybrid models. Hybrid models are MambaModel, whose layers are one block
 * each (ssm/mamba_block.py), and GPTModel with gated delta nets (ssm/gated_delta_net.py), whose layers are
 * two blocks. This file computes the saved tensors of blocks and the peaks of their passes. Derived from the
 * code of Megatron-Core 0.16.1, of mamba-ssm 2.3.2 (ops/triton/ssd_combined.py,
 * MambaSplitConv1dScanCombinedFn) and of flash-linear-attention (ops/gated_delta_rule/chunk.py), and compared
 * with what these allocate (tests/data/megatron_hybrids.csv, megatron_hybrid_experts.csv).
 *
 * Layers differ, so a row is the sum over all layers of a kind: its numbers of layers and slots are 1.
 */
#include "framework/megatron_memory.h"

#include <string.h>

#include "tape/op.h"

static bool is_delta_net(const p4d_layout *l)
{
	return memchr(l->pattern, 'G', l->pattern_length);
}

p4d_megatron_widths p4d_megatron__widths(const p4d_layout *l)
{
	const p4d_wide heads = l->state.heads / l->tp, groups = p4d_div_up(l->state.groups, l->tp);
	p4d_megatron_widths w = {
	    .values = heads * l->state.head_dim, .heads = heads, .scores = groups * l->state.chunk};

	w.mixed = w.values + 2 * groups * l->state.size;
	w.all = w.mixed + w.values + (is_delta_net(l) ? 2 : 1) * heads;
	w.states = p4d_div_up(w.values * l->state.size, l->state.chunk);
	return w;
}

/* Elements that a layer saves, and the peaks of its passes on top of the saved elements. */
typedef struct block_memory {
	p4d_wide saved, forward, backward;
} block_memory;

/*
 * A block of Transformer Engine's modules: a norm with the first matmul, the mixing operations, and the last
 * matmul.
 */
typedef struct te_block {
	p4d_tape_writer w;
	const p4d_megatron_sizes *z;
	unsigned element; /* bytes */
	unsigned copies,
	    gathered; /* in FP8: number of FP8 copies of an input, and of a gathered input; without FP8: 0 */
} te_block;

static te_block block_of(const p4d_rows *rows, const p4d_megatron_sizes *z, p4d_tape *tape)
{
	const p4d_layout *l = rows->layout;
	const bool fp8 = p4d_megatron__fp8(l);

	return (te_block){.w = {.tape = tape, .layout = l},
			  .z = z,
			  .element = p4d_dtype_of(l) == P4D_DT_FP32 ? 4 : 2,
			  .copies = fp8 ? p4d_megatron__fp8_copies(rows) : 0,
			  .gathered = fp8 ? p4d_megatron__fp8_gathered(rows) : 0};
}

/*
 * A matmul. It keeps its input or, in FP8, one copy of it. After the matmul, the other FP8 copies of its
 * input and all those of the gradient are freed. The weight's gradient is a tensor of its own, unless it is
 * added to the main gradient.
 */
static p4d_tape_operation *product(te_block *b, p4d_tape_tensor x, uint64_t in, p4d_tape_tensor y,
				   uint64_t out)
{
	p4d_tape_operation *o = p4d_op_append(&b->w, x, y, P4D_NEW_GRADIENT);

	if (b->copies) {
		o->kept = p4d_megatron__fp8_bytes(b->w.layout, x.elements);
		o->scratch = (b->copies - 1) * x.elements;
		o->back_scratch = b->copies * y.elements;
	} else {
		o->saved[0] = x.value;
	}
	o->weight = b->w.layout->megatron.te_wgrad ? 0 : in * out * b->element;
	return o;
}

/*
 * LayerNormLinear (module/layernorm_linear.py) saves its input, the normed input, and statistics. With
 * sequence parallelism the normed input is gathered in both passes, and the gradient is reduce-scattered.
 */
static p4d_tape_tensor norm_and_product(te_block *b, uint64_t columns)
{
	p4d_tape_writer *w = &b->w;
	const p4d_megatron_sizes *z = b->z;
	const uint64_t wide = z->tokens * z->h;

	w->tokens = z->own;
	const p4d_tape_tensor x = p4d_op_begin(w, z->h, b->element, true);
	const p4d_tape_tensor normed = p4d_op_map(w, x, true, !b->copies);
	p4d_op_last(w)->kept = z->own * 4;
	const p4d_tape_tensor y = p4d_op_made(w, z->tokens * columns, b->element, true);
	p4d_tape_operation *o = product(b, normed, z->h, y, columns);
	const uint64_t input =
	    wide *
	    (b->copies ? b->gathered : b->element); /* the input, gathered over the tensor-parallel ranks */
	o->scratch += z->gathers ? input : 0;
	o->back_scratch += z->gathers ? input + wide * b->element : 0;
	return y;
}

/* Appends an operation that saves its input and `kept` further bytes. */
static p4d_tape_tensor mixed(te_block *b, p4d_tape_tensor x, uint64_t columns, p4d_wide kept,
			     p4d_wide scratch, p4d_wide back_scratch)
{
	const p4d_tape_tensor y = p4d_op_made(&b->w, b->z->tokens * columns, b->element, true);
	p4d_tape_operation *o = p4d_op_append(&b->w, x, y, P4D_NEW_GRADIENT);

	o->saved[0] = x.value;
	o->kept = (uint64_t)kept * b->element;
	o->scratch = (uint64_t)scratch * b->element;
	o->back_scratch = (uint64_t)back_scratch * b->element;
	return y;
}

/*
 * Linear (module/linear.py): its result is reduce-scattered. The backward pass gathers the gradient or, in
 * FP8, the gradient's FP8 copies.
 */
static block_memory with_last_product(te_block *b, p4d_tape_tensor y, uint64_t columns)
{
	p4d_tape_writer *w = &b->w;
	const p4d_megatron_sizes *z = b->z;
	const uint64_t wide = z->tokens * z->h, narrow = z->own * z->h;
	const bool at_once = z->gathers && b->copies;
	p4d_tape_tensor out = p4d_op_made(w, at_once ? narrow : wide, b->element, true);

	p4d_tape_operation *o = product(b, y, columns, out, z->h);
	if (at_once) {
		o->scratch += wide * b->element;
		o->back_scratch = b->copies * wide;
	} else if (z->gathers) {
		const p4d_tape_tensor own = p4d_op_made(w, narrow, b->element, true);
		p4d_op_append(w, out, own, P4D_NEW_GRADIENT);
		out = own;
	}
	p4d_op_plus(w, out, (p4d_tape_tensor){.value = 0, .element = (unsigned char)b->element});
	const p4d_tape_pass forward = p4d_tape_forward(w->tape, true, false, false);
	const p4d_tape_pass backward = p4d_tape_backward(w->tape, true, false);
	const int64_t result = (int64_t)(narrow * b->element);
	/* the saved input is as large as the result, which is not saved */
	return (block_memory){
	    .saved = (p4d_wide)(forward.end.live / b->element),
	    .forward = (p4d_wide)((forward.most.live - forward.end.live + result) / b->element),
	    .backward = (p4d_wide)((backward.most.live + backward.most.weights) / b->element)};
}

/*
 * Mamba-2. Saved: the result of the first matmul; the scan's result before and after its gate; and the normed
 * result, which is the last matmul's input. Backward, at the time when gradients of states are passed from
 * chunk to chunk: the convolution's result (recomputed) and its gradient; states and their gradients in fp32
 * and in 16 bits; scores and steps in fp32. The last two saved results are free then.
 */
static block_memory of_mamba2(const p4d_layout *l, te_block *b)
{
	const p4d_megatron_widths w = p4d_megatron__widths(l);
	const p4d_wide t = b->z->tokens;
	const p4d_tape_tensor all = norm_and_product(b, (uint64_t)w.all);

	return with_last_product(b,
				 mixed(b, all, (uint64_t)w.values, t * 2 * w.values,
				       t * (w.mixed + 3 * w.states),
				       t * (2 * w.mixed + 6 * w.states + 2 * w.scores + 9 * w.heads)),
				 (uint64_t)w.values);
}

/*
 * Elements that a gated delta net saves per token, in the order of the sum (an fp32 number is two elements):
 * - w.mixed: the convolution's input.
 * - w.mixed - w.values: queries and keys, normed.
 * - 2 * keys: queries and keys, copied to every value head.
 * - 4 * w.values: values, gates, the rule's result, and the norm of the result, which the last matmul reads.
 * - w.heads * chunk: the inverse of a chunk.
 * - w.heads * 7: a strength; and in fp32 the step before its softplus, after it, and summed.
 * - 4 * groups: statistics of two norms in fp32.
 */
static p4d_wide saved_by_delta_net(const p4d_layout *l)
{
	const p4d_megatron_widths w = p4d_megatron__widths(l);
	const p4d_wide keys = w.heads * l->state.size;

	return w.mixed + (w.mixed - w.values) + 2 * keys + 4 * w.values + w.heads * (l->state.chunk + 7) +
	       4 * w.scores / l->state.chunk;
}

/*
 * The backward pass needs most memory when the gradients of states exist. Then there are states and their
 * gradients (2 * w.states), and results and gradients of the rule: six as wide as the keys, and five as wide
 * as the values. Three of the latter are free by then. w.all is subtracted, because the tape adds the
 * gradient of the first matmul's result, which does not exist yet.
 */
static block_memory of_delta_net(const p4d_layout *l, te_block *b)
{
	const p4d_megatron_widths w = p4d_megatron__widths(l);
	const p4d_wide t = b->z->tokens, keys = w.heads * l->state.size;
	const p4d_wide kept = p4d_beyond(saved_by_delta_net(l), w.all + w.values);
	const p4d_tape_tensor all = norm_and_product(b, (uint64_t)w.all);

	return with_last_product(b,
				 mixed(b, all, (uint64_t)w.values, t * kept,
				       t * (2 * keys + w.values + w.states),
				       t * p4d_beyond(6 * keys + 2 * w.values + 2 * w.states, w.all)),
				 (uint64_t)w.values);
}

/*
 * Columns that attention saves per token. Norms of queries and keys also save their inputs. Gated attention
 * also saves the gates, and its result before it is multiplied by the gates.
 */
static p4d_wide attention_columns(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	return 2 * z->A + 2 * z->G + (l->qk_norm ? z->A + z->G : 0) +
	       (l->architecture->gated_attention ? 2 * z->A : 0);
}

/*
 * If attention is recomputed, its result exists twice, and keys and values are copied into the kernel's
 * order. The kernel's fp32 gradients of queries, with a sum per row, are freed when the gradients of queries,
 * keys and values exist.
 */
static block_memory of_attention(const p4d_layout *l, te_block *b)
{
	const p4d_megatron_sizes *z = b->z;
	const uint64_t all = (l->architecture->gated_attention ? 2 : 1) * z->A + 2 * z->G;
	const bool again = p4d_megatron__again(l, P4D_MODULE_CORE_ATTENTION);
	const p4d_wide t = z->tokens, statistics = 2 * (l->heads / l->tp), kernel = 2 * z->A + statistics;
	const p4d_wide more =
	    attention_columns(l, z) - z->A - all + (again ? p4d_megatron__product(l, z) : statistics);
	const p4d_wide result = again ? z->A + 2 * z->G + statistics : 0;
	const p4d_tape_tensor x = norm_and_product(b, all);

	return with_last_product(b,
				 mixed(b, x, z->A, t * more, again ? t * statistics : 0,
				       t * (result + (kernel > all ? kernel - all : 0))),
				 z->A);
}

/*
 * If the activation is not fused with the multiplication, it also keeps its result and the other half of its
 * input.
 */
static block_memory of_feed_forward(te_block *b)
{
	const p4d_layout *l = b->w.layout;
	const p4d_megatron_sizes *z = b->z;
	const p4d_tape_tensor up = norm_and_product(b, z->up);
	const p4d_wide halves = l->glu && !l->fused_swiglu ? 2 * (p4d_wide)z->tokens * z->F : 0;

	return with_last_product(b, mixed(b, up, z->F, halves, 0, 0), z->F);
}

void p4d_megatron__size_ffn(const p4d_rows *rows, p4d_megatron_sizes *z)
{
	const p4d_wide all = z->tokens * ((p4d_wide)z->h + z->up + 3 * (p4d_wide)z->F);
	bool known = false;
	block_memory own = {.backward = 0},
		     *ffn = p4d_plan_memo_numbers(rows->memo, rows->layout, rows->gpu, &known);
	p4d_tape tape;

	_Static_assert(sizeof(own) <= P4D_PLAN_MEMO_BYTES, "a memo has room for a block");
	ffn = ffn ? ffn : &own;
	if (!known) {
		te_block b = block_of(rows, z, &tape);
		/* A tape counts bytes in int64_t, which a block of 2^53 elements could overflow. No GPU holds
		 * such a block, so its size is 2^100, which fits nowhere. */
		if (all >> 53)
			*ffn = (block_memory){.backward = (p4d_wide)1 << 100};
		else
			*ffn = of_feed_forward(&b);
	}
	z->ffn_forward = ffn->forward;
	z->ffn_backward = ffn->backward;
}

static block_memory of_mixer(const p4d_layout *l, te_block *b, p4d_mixer mixer)
{
	return mixer == P4D_MIX_MAMBA2      ? of_mamba2(l, b)
	       : mixer == P4D_MIX_DELTA_NET ? of_delta_net(l, b)
					    : of_attention(l, b);
}

/*
 * The memory of a feed-forward block. For experts, z has the peaks of both passes
 * (p4d_megatron__size_experts), and these peaks contain no memory of other blocks.
 */
static block_memory of_feed(const p4d_layout *l, te_block *b, p4d_feed feed)
{
	const p4d_megatron_sizes *z = b->z;

	if (feed != P4D_FEED_EXPERTS)
		return of_feed_forward(b);
	return (block_memory){p4d_megatron__saved_by_experts(l, z) + 2 * (p4d_wide)z->own * z->h, z->forward,
			      z->backward};
}

/*
 * Visits blocks from the last one to the first. Has the memory that later blocks have freed by then, and the
 * peaks of the passes so far.
 */
typedef struct pass_moments {
	p4d_wide freed, forward, backward;
	p4d_wide received; /* gradient of the stage's result, which the schedule keeps */
} pass_moments;

static void before(pass_moments *m, block_memory y)
{
	const p4d_wide received =
	    m->freed ? m->received : 0; /* the peak of the last block already contains this gradient */

	m->backward = P4D_MOST(m->backward, p4d_beyond(y.backward + received, m->freed));
	m->forward = P4D_MOST(m->forward, p4d_beyond(y.forward, m->freed));
	m->freed += y.saved;
}

/* Whether the memory of a block is below 2^60 bytes: tapes count in int64_t. */
static bool countable(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_megatron_widths w = p4d_megatron__widths(l);
	const p4d_wide columns =
	    z->h + z->up + z->A + z->G + w.all + w.states + w.scores + w.heads + saved_by_delta_net(l);

	return !(z->tokens * columns >> 53);
}

/*
 * Computes the peaks of both passes. A peak is the maximum over all blocks of the block's own peak minus the
 * memory that later blocks have saved. Before the call, z has the peaks of a layer with experts.
 */
void p4d_megatron__size_states(const p4d_rows *rows, p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t from = p4d_parameters_first_layer(l, rows->stage, 0);
	pass_moments m = {.received = rows->last ? 0 : (p4d_wide)z->own * z->h};
	p4d_tape tape;
	te_block b = block_of(rows, z, &tape);

	z->mixed = true;
	z->ffn = 0;
	if (!countable(l, z)) {
		z->backward = (p4d_wide)1 << 100; /* larger than any GPU */
		return;
	}
	for (uint64_t i = l->stage_layers[rows->stage]; i-- > 0;) {
		const p4d_layer_kind kind = p4d_layer_at(l, from + i);
		if (kind.feed != P4D_FEED_NONE)
			before(&m, of_feed(l, &b, kind.feed));
		if (kind.mixer != P4D_MIX_NONE)
			before(&m, of_mixer(l, &b, kind.mixer));
	}
	z->forward = m.forward;
	z->backward = m.backward;
}

void p4d_megatron__state_layers(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const p4d_layer_counts layers = p4d_parameters_layers_of_stage(l, rows->stage);
	const uint64_t states = p4d_layers_with_mixer(&layers, P4D_MIX_MAMBA2),
		       nets = p4d_layers_with_mixer(&layers, P4D_MIX_DELTA_NET),
		       attention = p4d_layers_with_mixer(&layers, P4D_MIX_ATTENTION),
		       dense = p4d_layers_with_feed(&layers, P4D_FEED_DENSE),
		       experts = p4d_layers_with_feed(&layers, P4D_FEED_EXPERTS);
	const uint64_t all = states + nets + attention + dense + experts; /* blocks */
	const p4d_wide narrow = (p4d_wide)z->own * z->h, t = z->tokens;
	const p4d_megatron_widths w = p4d_megatron__widths(l);

	p4d_megatron__keep_blocks(rows, "layer.input", ALONG, dtype, all, narrow);
	p4d_megatron__keep_blocks(rows, "layer.norm", ALONG, dtype, all, narrow);
	p4d_megatron__keep_blocks(rows, "layer.norm_statistics", ALONG, P4D_DT_FP32, all, z->own);
	p4d_megatron__keep_blocks(rows, "state.product", ACROSS, dtype, states, t * w.all);
	p4d_megatron__keep_blocks(rows, "state.scan", ACROSS, dtype, states, t * 3 * w.values);
	p4d_megatron__keep_blocks(rows, "state.norm_statistics", ACROSS, P4D_DT_FP32, states,
				  t * p4d_div_up(l->state.groups, l->tp));
	p4d_megatron__keep_blocks(rows, "state.delta_net", ACROSS, dtype, nets,
				  nets ? t * saved_by_delta_net(l) : 0);
	p4d_megatron__keep_attention(rows, z, attention);
	p4d_megatron__keep_blocks(rows, "layer.ffn", ACROSS, dtype, dense, t * (z->up + z->product));
	/* a gated shared expert saves its result before the gate, and the gate, one number per token */
	if (l->architecture->shared_gate && l->shared_ffn)
		p4d_megatron__keep_blocks(rows, "layer.shared_result", ALONG, dtype, experts, narrow);
	if (l->experts)
		p4d_megatron__keep_experts(rows, z, experts);
}
