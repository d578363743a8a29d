/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile megatron: what PyTorch's allocator holds on one rank of Megatron-LM with Transformer Engine.
 * Activation counts follow Korthikanti et al. (arXiv 2205.05198) with TE's fused kernels; validated in
 * tests/data/measured_memory.csv. The logits, working set and weight-gradient buffers of the peak come
 * together.
 */
#include "plan/parameters.h"
#include "plan/plan_rows.h"

#define AT_PEAK (1u << P4D_AT_BACKWARD_FFN)

/* Types of the states: params and grads are held by every rank, the rest is divided by the distributed
 * optimizer. */
static void add_states(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	p4d_wide n = p4d_parameters_of_stage(l, &rows->schedule, rows->stage);
	p4d_wide share = p4d_div_up(n, p4d_optimizer_shards(l));
	const bool half_grads = l->precision == P4D_FP16; /* then the optimizer keeps an fp32 copy of them */

	rows->overflow = rows->overflow || n >> 62;
	uint64_t N = rows->overflow ? 0 : (uint64_t)n, shard = rows->overflow ? 0 : (uint64_t)share;
	p4d_row(rows, "parameters", "tp pp", P4D_PART_PARAMS, p4d_dtype_of(l), N, 0, 0);
	p4d_row(rows, "gradients", "tp pp", P4D_PART_GRADS, half_grads ? P4D_DT_FP16 : P4D_DT_FP32, N, 0, 0);
	p4d_rows_of_states(rows, P4D_STATE_MASTER, P4D_STATE_MASTER + 1, shard);
	if (half_grads)
		p4d_row(rows, "optimizer.gradients", "tp pp dp cp", P4D_PART_OPTIMIZER, P4D_DT_FP32, shard, 0,
			0);
	p4d_rows_of_states(rows, P4D_STATE_MASTER + 1, P4D_MOST_STATES, shard);
}

/* What recomputing leaves out of a layer's saved tensors. */
typedef enum group { ALONG_SEQUENCE, INPUT, HEADS, SCORES, FFN } group;

static bool dropped(int recompute, group g)
{
	switch (recompute) {
	case P4D_RECOMPUTE_SELECTIVE:
		return g == SCORES;
	case P4D_RECOMPUTE_MLP:
		return g == FFN;
	case P4D_RECOMPUTE_FULL:
		return g != INPUT;
	default:
		return false;
	}
}

/* One of a layer's tensors; recomputed ones exist for one layer at a time, during its backward pass. */
static void saved(p4d_rows *rows, group g, const char *name, const char *shard, p4d_dtype dtype, uint64_t x,
		  uint64_t y, uint64_t z)
{
	if (!dropped(rows->layout->recompute, g))
		p4d_row_in_slot(rows, name, shard, dtype, x, y, z);
	else
		p4d_row_at(rows, AT_PEAK, name, shard, P4D_PART_ACTIVATIONS, dtype, x, y, z);
}

static void add_activations(p4d_rows *rows, uint64_t tok)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const uint64_t t = l->tp, ns = l->sequence_parallel ? tok / t : tok;
	const uint64_t A = l->heads / t * l->head_dim, G = l->kv_heads / t * l->head_dim;

	saved(rows, INPUT, "layer.input", "sp cp", dtype, ns, l->hidden, 0);
	saved(rows, ALONG_SEQUENCE, "layer.norms", "sp cp", dtype, 3, ns, l->hidden);
	if (l->dropout)
		saved(rows, ALONG_SEQUENCE, "layer.dropout_masks", "sp cp", P4D_DT_BYTES, 2, ns, l->hidden);
	saved(rows, HEADS, "layer.query_and_output", "tp cp", dtype, 2, tok, A);
	saved(rows, HEADS, "layer.key_and_value", "tp cp", dtype, 2, tok, G);
	saved(rows, HEADS, "layer.softmax_statistics", "tp cp", P4D_DT_FP32, l->heads / t, tok, 0);
	if (!l->flash_attention) {
		/* scores and softmax in the activation type, one byte of dropout mask */
		uint64_t scores = p4d_times(rows, l->heads / t, p4d_times(rows, tok, l->seq_len));
		saved(rows, SCORES, "layer.scores", "tp cp", dtype, 2, scores, 0);
		saved(rows, SCORES, "layer.scores_mask", "tp cp", P4D_DT_BYTES, scores, 0, 0);
	}
	/* gate, up and product, or gate and up before and after the activation when unfused; one in, one out
	 * without GLU */
	saved(rows, FFN, "layer.ffn", "tp cp", dtype, l->glu ? (l->fused_swiglu ? 3 : 4) : 2, tok,
	      l->ffn / t);
	if (l->recompute == P4D_RECOMPUTE_FULL) /* the layer at work has its own input, too */
		p4d_row_at(rows, AT_PEAK, "again.input", "sp cp", P4D_PART_ACTIVATIONS, dtype, ns, l->hidden,
			   0);
}

/*
 * Transformer Engine hands autograd one dummy weight gradient per distinct weight shape when gradients are
 * accumulated directly into the main gradient buffer.
 */
static void add_weight_grad_buffers(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const uint64_t A = l->heads / l->tp * l->head_dim, G = l->kv_heads / l->tp * l->head_dim,
		       h = l->hidden;
	const struct {
		const char *name;
		uint64_t rows, columns;
	} shape[5] = {
	    {"dummy.qkv", A + 2 * G, h},
	    {"dummy.output", h, A},
	    {"dummy.up", (l->glu ? 2 : 1) * l->ffn / l->tp, h},
	    {"dummy.down", h, l->ffn / l->tp},
	    {"dummy.head", (l->vocab + l->tp - 1) / l->tp, h},
	};

	for (int i = 0; i < (rows->last ? 5 : 4); i++) {
		bool seen = false;
		for (int j = 0; j < i; j++)
			seen =
			    seen || (shape[j].rows == shape[i].rows && shape[j].columns == shape[i].columns);
		if (!seen)
			p4d_row(rows, shape[i].name, "tp", P4D_PART_WEIGHT_GRAD, p4d_dtype_of(l),
				shape[i].rows, shape[i].columns, 0);
	}
}

void p4d_framework_megatron_rows(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const uint64_t tok = l->seq_len / l->cp * l->micro_batch, V = (l->vocab + l->tp - 1) / l->tp;
	const uint64_t ns = l->sequence_parallel ? tok / l->tp : tok;

	add_states(rows);
	if (l->te_wgrad)
		add_weight_grad_buffers(rows);
	add_activations(rows, tok);
	if (rows->last) {
		p4d_row_at(rows, AT_PEAK, "head.logits", "tp cp", P4D_PART_LOGITS, dtype, tok, V, 0);
		if (!l->fused_cross_entropy)
			p4d_row_at(rows, AT_PEAK, "head.softmax", "tp cp", P4D_PART_LOGITS, P4D_DT_FP32, tok,
				   V, 0);
		p4d_row_at(rows, AT_PEAK, "head.hidden", "sp cp", P4D_PART_LOGITS, dtype, 2, ns, l->hidden);
	}
	/* Transformer Engine gathers again for the backward pass, and adds up gradients in the same type */
	if (l->cp_comm == P4D_CP_ALL_GATHER)
		p4d_row_at(rows, 1u << P4D_AT_BACKWARD_ATTENTION, "gathered.keys_values", "tp",
			   P4D_PART_ATTENTION, dtype, 2, p4d_times(rows, tok, l->cp),
			   2 * (l->kv_heads / l->tp * l->head_dim));
	p4d_row_at(rows, AT_PEAK, "ffn_gradient", "tp cp", P4D_PART_WORKING_SET, dtype, l->glu ? 2 : 1, tok,
		   l->ffn / l->tp);
	p4d_row_at(rows, AT_PEAK, "hidden_gradient", "cp", P4D_PART_WORKING_SET, dtype, tok, l->hidden, 0);
}
