/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM with Transformer Engine: what PyTorch's allocator holds on one rank of a pipeline stage.
 * Activation counts follow Korthikanti et al. (arXiv 2205.05198) with TE's fused kernels; validated in
 * tests/data/measured_memory.csv.
 */
#include <string.h>

#include "memory_forms.h"

/* Adam's m and v, in fp32. */
enum { ADAM_MOMENTS = 8 };

/* Bytes per parameter: held by every rank, and divided over dp*cp by the distributed optimizer (Megatron-LM's
 * table). */
static void parameter_bytes(const p4d_layout *l, unsigned *params, unsigned *grads, unsigned *optimizer)
{
	switch (l->precision) {
	case P4D_FP16: /* fp16 gradients; the optimizer keeps fp32 master, gradient copy, m, v */
		*params = 2, *grads = 2, *optimizer = 16;
		break;
	case P4D_FP32:
		*params = 4, *grads = 4, *optimizer = 8;
		break;
	default: /* bf16 parameters, fp32 main gradients, fp32 master, m, v */
		*params = 2, *grads = 4, *optimizer = 12;
	}
}

/* Bytes that one layer keeps for the backward pass, for one micro-batch. tok: tokens of this rank before
 * sequence parallelism. */
typedef struct layer_bytes {
	p4d_wide input;     /* the layer's input alone: all that full recompute keeps */
	p4d_wide attention; /* unfused attention scores */
	p4d_wide ffn;       /* inside the feed-forward layer */
	p4d_wide all;
} layer_bytes;

static layer_bytes saved_by_layer(const p4d_layout *l, p4d_wide tok)
{
	unsigned e = l->precision == P4D_FP32 ? 4 : 2;
	p4d_wide sp = l->sequence_parallel ? l->tp : 1;
	p4d_wide A = (p4d_wide)l->heads * l->head_dim, G = (p4d_wide)l->kv_heads * l->head_dim;
	layer_bytes y;

	memset(&y, 0, sizeof(y));
	y.input = p4d_div_up(tok * e * l->hidden, sp);
	/* gate, up and product, or gate and up before and after the activation when unfused; one in, one out
	 * without GLU */
	unsigned ffn_tensors = l->glu ? (l->fused_swiglu ? 3 : 4) : 2;
	y.ffn = p4d_div_up(tok * e * ffn_tensors * l->ffn, l->tp);
	if (!l->flash_attention) /* scores and softmax in the activation type, one byte of dropout mask */
		y.attention =
		    p4d_div_up((2 * e + 1) * (p4d_wide)l->heads * l->seq_len * l->seq_len * l->micro_batch,
			       l->tp * l->cp);
	/* two norm inputs and two norm outputs; two one-byte dropout masks */
	p4d_wide along_sequence = p4d_div_up(tok * (4 * e + (l->dropout ? 2 : 0)) * l->hidden, sp);
	/* queries and attention output, keys and values; the softmax statistics are fp32 */
	p4d_wide heads =
	    p4d_div_up(tok * (2 * e * A + 2 * e * G), l->tp) + p4d_div_up(4 * tok * l->heads, l->tp);
	y.all = along_sequence + heads + y.ffn + y.attention;
	return y;
}

static p4d_wide saved_activations(const p4d_layout *l, uint32_t stage, p4d_wide tok)
{
	layer_bytes y = saved_by_layer(l, tok);
	p4d_wide layers = l->stage_layers[stage];
	p4d_wide in_flight = p4d_chunks_in_flight(l, stage) * layers / l->vpp;

	switch (l->recompute) {
	case P4D_RECOMPUTE_SELECTIVE:
		return in_flight * (y.all - y.attention) + y.attention;
	case P4D_RECOMPUTE_MLP:
		return in_flight * (y.all - y.ffn) + y.ffn;
	case P4D_RECOMPUTE_FULL:
		return in_flight * y.input + y.all;
	default:
		return in_flight * y.all;
	}
}

/*
 * Transformer Engine hands autograd one dummy weight gradient per distinct weight shape when gradients are
 * accumulated directly into the main gradient buffer.
 */
static p4d_wide weight_grad_buffers(const p4d_layout *l, uint32_t stage)
{
	p4d_wide A = (p4d_wide)l->heads * l->head_dim, G = (p4d_wide)l->kv_heads * l->head_dim, t = l->tp;
	struct {
		p4d_wide rows, columns;
	} shape[5] = {
	    {p4d_div_up(A + 2 * G, t), l->hidden},
	    {l->hidden, p4d_div_up(A, t)},
	    {p4d_div_up((l->glu ? 2 : 1) * (p4d_wide)l->ffn, t), l->hidden},
	    {l->hidden, p4d_div_up(l->ffn, t)},
	    {p4d_div_up(l->vocab, t), l->hidden},
	};
	int shapes = stage == l->pp - 1 ? 5 : 4;
	p4d_wide elements = 0;

	for (int i = 0; i < shapes; i++) {
		bool seen = false;
		for (int j = 0; j < i; j++)
			seen =
			    seen || (shape[j].rows == shape[i].rows && shape[j].columns == shape[i].columns);
		if (!seen)
			elements += shape[i].rows * shape[i].columns;
	}
	return (l->precision == P4D_FP32 ? 4 : 2) * elements;
}

void p4d_memory_megatron(const p4d_layout *l, uint32_t stage, p4d_stage_items *items)
{
	unsigned params, grads, optimizer;
	unsigned e = l->precision == P4D_FP32 ? 4 : 2;
	p4d_wide sp = l->sequence_parallel ? l->tp : 1;
	p4d_wide N = p4d_stage_parameters(l, stage), shards = l->optimizer_sharding ? l->dp * l->cp : 1;
	p4d_wide tok = p4d_div_up((p4d_wide)l->seq_len * l->micro_batch, l->cp);

	parameter_bytes(l, &params, &grads, &optimizer);
	items->part[P4D_PART_PARAMS] = params * N;
	items->part[P4D_PART_GRADS] = grads * N;
	items->part[P4D_PART_OPTIMIZER] = p4d_div_up(optimizer * N, shards);
	items->part[P4D_PART_ACTIVATIONS] = saved_activations(l, stage, tok);
	if (stage == l->pp - 1)
		items->part[P4D_PART_LOGITS] =
		    p4d_div_up(tok * l->vocab * (l->fused_cross_entropy ? e : e + 4), l->tp) +
		    p4d_div_up(2 * e * tok * l->hidden, sp);
	items->part[P4D_PART_WORKING_SET] =
	    p4d_div_up(e * tok * (l->glu ? 2 : 1) * l->ffn, l->tp) + e * tok * l->hidden;
	if (l->te_wgrad)
		items->part[P4D_PART_WEIGHT_GRAD] = weight_grad_buffers(l, stage);

	p4d_wide states =
	    items->part[P4D_PART_PARAMS] + items->part[P4D_PART_GRADS] + items->part[P4D_PART_OPTIMIZER];
	for (int i = 0; i < P4D_PART_FRAGMENTATION; i++)
		items->phase[P4D_TRAIN] += items->part[i];
	/* Adam's moments appear at the first step; until then the optimizer holds the master copy only */
	items->phase[P4D_INIT] = (params + grads) * N + p4d_div_up((optimizer - ADAM_MOMENTS) * N, shards);
	items->phase[P4D_STEP] = states + items->part[P4D_PART_WEIGHT_GRAD];
	items->modelled[P4D_INIT] = items->modelled[P4D_TRAIN] = items->modelled[P4D_STEP] = true;

	/* reserved over allocated, mean of 19 runs on B200: 1.053 (1.028 to 1.093) */
	items->part[P4D_PART_FRAGMENTATION] = items->phase[P4D_TRAIN] * 53 / 1000;
	items->part[P4D_PART_CONTEXT] = P4D_CONTEXT_BYTES;
	items->part[P4D_PART_COMM] = p4d_communicator_bytes(l);
}
