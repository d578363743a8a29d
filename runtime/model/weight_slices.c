/* SPDX-License-Identifier: Apache-2.0 */
/* Describes weights of a rank as slices of tensors with Hugging Face's names. */
#include <stdio.h>
#include <string.h>

#include "model/weights.h"

/*
 * prefix of the names of a stage's own norm and head, which no released model has; see p4d_weights_is_local
 */
#define LOCAL "local_loss."

static void name_slice(p4d_weight_slice *p, const p4d_weight *w, const char *name)
{
	if (p4d_weights_adapts(w->kind))
		snprintf(p->name, sizeof(p->name), "base_model.model.model.layers.%u.%s", w->layer, name);
	else if (!strncmp(name, "model.", 6) || !strncmp(name, "lm_head", 7))
		snprintf(p->name, sizeof(p->name), "%s", name);
	else
		snprintf(p->name, sizeof(p->name), "model.layers.%u.%s", w->layer, name);
}

/* One of several equal parts of a dimension. of: number of parts. */
typedef struct portion {
	uint64_t index, of;
} portion;
static const portion whole = {0, 1};

/*
 * Describes one slice of a weight: `rows` rows from row `at` of the weight on. The tensor is cut into equal
 * parts by rows and by columns.
 */
static void cut(p4d_weight_slice *p, const p4d_weight *w, const char *name, uint64_t at, uint64_t rows,
		portion by_rows, portion by_columns)
{
	name_slice(p, w, name);
	p->tensor_rows = rows * by_rows.of;
	p->tensor_columns = w->columns == 1 && by_columns.of == 1 ? 0 : w->columns * by_columns.of;
	p->first_row = rows * by_rows.index;
	p->rows = rows;
	p->first_column = w->columns * by_columns.index;
	p->columns = w->columns;
	p->offset = w->offset + at * w->columns;
}

static unsigned cut_table(p4d_weight_slice *p, const p4d_weight *w, const char *name, uint64_t first,
			  uint64_t vocab, portion by_columns)
{
	if (first >= vocab)
		return 0;
	name_slice(p, w, name);
	p->tensor_rows = vocab;
	p->columns = w->columns;
	p->tensor_columns = w->columns * by_columns.of;
	p->first_row = first;
	p->rows = vocab - first < w->rows ? vocab - first : w->rows;
	p->first_column = w->columns * by_columns.index;
	p->offset = w->offset;
	return 1;
}

static void name_adapter(char name[64], unsigned number, bool is_b)
{
	snprintf(name, 64, "%s.lora_%c.weight", p4d_weights_adapted_name(number), is_b ? 'B' : 'A');
}

/* Numbers of linear layers, as in p4d_weights_adapted_name. */
enum { GATE = 4, UP = 5 };

/*
 * Slices of an adapter, with PEFT's names. If a matrix fuses several layers, B has a slice for each of them,
 * as the matrix has.
 */
static unsigned cut_adapter(p4d_weight_slice *p, const p4d_layout *l, p4d_place place, const p4d_weight *w)
{
	const unsigned number = (unsigned)(w->kind - P4D_W_ADAPTER) / 2;
	const bool is_b = (w->kind - P4D_W_ADAPTER) % 2;
	const uint64_t q = l->heads / l->tp * l->head_dim, kv = l->kv_heads / l->tp * l->head_dim;
	const bool fused = is_b && number == 0 && l->architecture->fused_qkv;
	const bool joined = is_b && number == UP && l->architecture->fused_gate_up;
	const uint64_t rows[] = {fused ? q : joined ? w->rows / 2 : w->rows, joined ? w->rows / 2 : kv, kv};
	const portion x = {place.tp, l->tp};
	const unsigned count = fused ? 3 : joined ? 2 : 1, first = joined ? GATE : number;
	char name[64];

	for (unsigned i = 0, at = 0; i < count; at += (unsigned)rows[i++]) {
		name_adapter(name, first + i, is_b);
		if (w->replicated)
			cut(&p[i], w, name, 0, w->rows, whole, whole);
		else if (is_b)
			cut(&p[i], w, name, at, rows[i], x, whole);
		else
			cut(&p[i], w, name, 0, w->rows, whole, x);
		/* A and B of an adapter of rank 1 are matrices too, not vectors */
		p[i].tensor_columns = p[i].tensor_columns ? p[i].tensor_columns : 1;
	}
	return count;
}

const char *p4d_weights_adapted_name(unsigned number)
{
	static const char *const names[P4D_ADAPTED_LAYERS] = {
	    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
	    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

	return names[number];
}

/*
 * The name of a weight that is a single tensor in a checkpoint: a vector of the hidden size, a norm of heads,
 * or the table of positions. NULL for all other weights.
 */
static const char *whole_name(const p4d_layout *l, p4d_weight_kind kind)
{
	static const char *const names[P4D_W_KINDS] = {
	    [P4D_W_ATTENTION_NORM] = "input_layernorm.weight",
	    [P4D_W_ATTENTION_NORM_BIAS] = "input_layernorm.bias",
	    [P4D_W_FFN_NORM] = "post_attention_layernorm.weight",
	    [P4D_W_FFN_NORM_BIAS] = "post_attention_layernorm.bias",
	    [P4D_W_QUERY_NORM] = "self_attn.q_norm.weight",
	    [P4D_W_KEY_NORM] = "self_attn.k_norm.weight",
	    [P4D_W_OUTPUT_BIAS] = "self_attn.o_proj.bias",
	    [P4D_W_DOWN_BIAS] = "mlp.down_proj.bias",
	    [P4D_W_FINAL_NORM] = "model.norm.weight",
	    [P4D_W_FINAL_NORM_BIAS] = "model.norm.bias",
	    [P4D_W_POSITIONS] = "model.embed_positions.weight",
	    /* Gemma 2's names, in which "post_attention" means after attention */
	    [P4D_W_ATTENTION_POST_NORM] = "post_attention_layernorm.weight",
	    [P4D_W_FFN_POST_NORM] = "post_feedforward_layernorm.weight",
	    [P4D_W_LOCAL_NORM] = LOCAL "norm.weight",
	    [P4D_W_LOCAL_NORM_BIAS] = LOCAL "norm.bias",
	};

	return kind == P4D_W_FFN_NORM && l->architecture->place == P4D_NORMS_AROUND
		   ? "pre_feedforward_layernorm.weight"
		   : names[kind];
}

bool p4d_weights_is_local(const char *name)
{
	return strstr(name, "." LOCAL) != NULL;
}

/* The slices of a weight with all of its rows. */
static unsigned slices_of(const p4d_layout *l, p4d_place place, uint64_t vocab, const p4d_weight *w,
			  p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT])
{
	static const char *const projections[2][3] = {
	    {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
	    {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"}};
	static const char *const ups[2][2] = {{"mlp.gate_proj.weight", "mlp.up_proj.weight"},
					      {"mlp.gate_proj.bias", "mlp.up_proj.bias"}};
	const uint64_t q = l->heads / l->tp * l->head_dim, kv = l->kv_heads / l->tp * l->head_dim;
	const bool bias = w->kind == P4D_W_QKV_BIAS || w->kind == P4D_W_UP_BIAS;
	const p4d_tp_grid at = p4d_place_grid(l, place);
	const portion x = {at.x, l->tp}, y = w->over_y ? (portion){at.y, l->tp_y} : whole;

	switch (w->kind) {
	case P4D_W_EMBEDDING:
		return cut_table(slices, w, "model.embed_tokens.weight", p4d_weights__table_row(l, place, w),
				 vocab, y);
	case P4D_W_HEAD:
		return cut_table(slices, w, l->tied ? "model.embed_tokens.weight" : "lm_head.weight",
				 p4d_weights__table_row(l, place, w), vocab, y);
	case P4D_W_LOCAL_HEAD:
		return cut_table(slices, w, LOCAL "head.weight", p4d_weights__table_row(l, place, w), vocab,
				 y);
	case P4D_W_POSITIONS:
		cut(slices, w, whole_name(l, w->kind), 0, w->rows, whole, y);
		return 1;
	case P4D_W_QUERY_NORM:
	case P4D_W_KEY_NORM:
		cut(slices, w, whole_name(l, w->kind), 0, w->rows, l->qk_norm == P4D_QK_NORM_WIDE ? x : whole,
		    whole);
		return 1;
	case P4D_W_QKV:
	case P4D_W_QKV_BIAS:
		cut(&slices[0], w, projections[bias][0], 0, q, x, y);
		cut(&slices[1], w, projections[bias][1], q, kv, x, y);
		cut(&slices[2], w, projections[bias][2], q + kv, kv, x, y);
		return 3;
	case P4D_W_GATE_UP:
	case P4D_W_UP_BIAS:
		if (!l->glu) {
			cut(slices, w, ups[bias][1], 0, w->rows, x, y);
			return 1;
		}
		cut(&slices[0], w, ups[bias][0], 0, w->rows / 2, x, y);
		cut(&slices[1], w, ups[bias][1], w->rows / 2, w->rows / 2, x, y);
		return 2;
	case P4D_W_OUTPUT:
		cut(slices, w, "self_attn.o_proj.weight", 0, w->rows, y, x);
		return 1;
	case P4D_W_DOWN:
		cut(slices, w, "mlp.down_proj.weight", 0, w->rows, y, x);
		return 1;
	default:
		if (p4d_weights_adapts(w->kind))
			return cut_adapter(slices, l, place, w);
		cut(slices, w, whole_name(l, w->kind), 0, w->rows, y, whole);
		return 1;
	}
}

/*
 * Cuts the slices of a weight down to rows from .. to-1 of the weight. The row `from` is at the weight's
 * offset.
 */
static unsigned clip(p4d_weight_slice *slices, unsigned count, const p4d_weight *w, uint64_t from,
		     uint64_t to)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++) {
		p4d_weight_slice p = slices[i];
		const uint64_t first = (p.offset - w->offset) / w->columns, end = first + p.rows;
		const uint64_t begin = first > from ? first : from, last = end < to ? end : to;
		if (begin >= last)
			continue;
		p.first_row += begin - first;
		p.rows = last - begin;
		p.offset = w->offset + (begin - from) * w->columns;
		slices[kept++] = p;
	}
	return kept;
}

unsigned p4d_weight_slices_of(const p4d_layout *l, p4d_place place, uint64_t vocab, const p4d_weight *w,
			      p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT])
{
	const uint64_t z = p4d_place_grid(l, place).z;
	p4d_weight all = *w;

	if (w->quantized)
		all.offset = 0;
	if (!w->over_z)
		return slices_of(l, place, vocab, &all, slices);
	all.rows *= l->tp_z;
	return clip(slices, slices_of(l, place, vocab, &all, slices), w, z * w->rows, (z + 1) * w->rows);
}

unsigned p4d_weights_quantized_parts(const p4d_layout *l, p4d_place place, uint64_t vocab,
				     const p4d_weight *w, p4d_quantized_part parts[P4D_SLICES_OF_WEIGHT])
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	const unsigned count = p4d_weight_slices_of(l, place, vocab, w, slices);
	const bool joined = (w->kind == P4D_W_QKV && l->architecture->fused_qkv) ||
			    (w->kind == P4D_W_GATE_UP && l->architecture->fused_gate_up);
	unsigned tensor = p4d_weights_layers_of(w->kind).first;
	uint64_t first = 0;

	for (unsigned i = 0; i < count; i++) {
		p4d_weight_slice *p = &slices[i];
		while (!p4d_adapted_of(l, tensor).out)
			tensor++;
		p->first_row = p->first_column = p->offset = 0;
		p->rows = p->tensor_rows;
		p->columns = p->tensor_columns;
		parts[i] = (p4d_quantized_part){.slice = *p, .tensor = tensor, .first = first};
		if (joined)
			first += p->rows * p->columns;
		else
			tensor++;
	}
	return count;
}
