/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p4d-train: every buffer a rank holds, as a closed form. Sizes are rounded up to 256 bytes per buffer, as
 * the arena does.
 */
#include "memory_forms.h"

enum {
	ARENA_ALIGNMENT = 256,
	SHARD_MULTIPLE = 128, /* parameters are padded so that every optimizer shard is this many elements */
	CROSS_ENTROPY_CHUNK = 1024, /* tokens whose logits exist at a time */
	PIPELINE_BUFFERS = 4,       /* send and receive, double-buffered */
};
#define CUBLASLT_WORKSPACE_BYTES ((p4d_wide)32 << 20)
/* Host side of a rank beside its tensors: program, driver, pinned pools. An allowance, not a measurement. */
#define CUDA_PROCESS_BYTES ((p4d_wide)2 << P4D_GIB_SHIFT)
#define CPU_PROCESS_BYTES ((p4d_wide)256 << 20)

static p4d_wide aligned(p4d_wide bytes)
{
	return p4d_div_up(bytes, ARENA_ALIGNMENT) * ARENA_ALIGNMENT;
}

/* The sizes every buffer is made of, per rank: elements (or bytes where named so). */
typedef struct sizes {
	unsigned e;      /* bytes of an activation or parameter element */
	p4d_wide n;      /* tokens of a micro-batch on this rank: b*s/c */
	p4d_wide ns;     /* the same under sequence parallelism: n/t */
	p4d_wide h, ffn; /* hidden; FFN columns of this rank */
	p4d_wide q, kv;  /* query and KV columns of this rank */
	p4d_wide heads;  /* query heads of this rank */
} sizes;

static sizes sizes_of(const p4d_layout *l)
{
	sizes z = {
	    .e = l->precision == P4D_FP32 ? 4 : 2,
	    .n = p4d_div_up((p4d_wide)l->seq_len * l->micro_batch, l->cp),
	    .h = l->hidden,
	    .ffn = l->ffn / l->tp,
	    .q = (p4d_wide)l->heads / l->tp * l->head_dim,
	    .kv = (p4d_wide)l->kv_heads / l->tp * l->head_dim,
	    .heads = l->heads / l->tp,
	};

	z.ns = l->sequence_parallel ? p4d_div_up(z.n, l->tp) : z.n;
	return z;
}

/* Both norms keep their input and one fp32 statistic per token. */
static p4d_wide saved_input(const sizes *z)
{
	return aligned(z->e * z->ns * z->h) + aligned(4 * z->ns);
}

static p4d_wide saved_ffn(const sizes *z)
{
	return aligned(z->e * z->n * 2 * z->ffn); /* gate and up */
}

static p4d_wide saved_attention(const sizes *z)
{
	return aligned(z->e * z->n * (z->q + 2 * z->kv)) + aligned(z->e * z->n * z->q) +
	       aligned(4 * z->n * z->heads);
}

static p4d_wide activations(const p4d_layout *l, const sizes *z, uint32_t stage)
{
	p4d_wide chunks = p4d_chunks_in_flight(l, stage);
	p4d_wide in_flight = chunks * l->stage_layers[stage] / l->vpp;
	p4d_wide full = 2 * saved_input(z) + saved_attention(z) + saved_ffn(z);
	p4d_wide bytes;

	switch (l->recompute) {
	case P4D_RECOMPUTE_MLP:
		bytes = in_flight * (full - saved_ffn(z)) + saved_ffn(z);
		break;
	case P4D_RECOMPUTE_FULL:
		bytes = in_flight * aligned(z->e * z->ns * z->h) + full;
		break;
	default: /* attention is never stored, so there is nothing that `selective` would add */
		bytes = in_flight * full;
	}
	/* tokens on the first stage, labels on the last; one more micro-batch is prefetched */
	p4d_wide ends = (stage == 0) + (stage == l->pp - 1);
	return bytes + ends * (chunks + 1) * aligned(4 * z->n);
}

static p4d_wide cross_entropy(const p4d_layout *l, const sizes *z)
{
	p4d_wide chunk = z->n < CROSS_ENTROPY_CHUNK ? z->n : CROSS_ENTROPY_CHUNK;
	p4d_wide columns = l->vocab / l->tp;

	/* logits in fp32, their gradient in the activation type; maximum, sum and target logit per token */
	return aligned(4 * chunk * columns) + aligned(z->e * chunk * columns) + 3 * aligned(4 * z->n);
}

static p4d_wide working_set(const p4d_layout *l, const sizes *z)
{
	p4d_wide gathered = l->tp > 1 ? 3 * aligned(z->e * z->n * z->h) : 0;

	return gathered + 3 * aligned(z->e * z->ns * z->h) + 2 * aligned(z->e * z->n * z->ffn) +
	       aligned(z->e * z->n * 2 * z->ffn) + aligned(z->e * z->n * (z->q + 2 * z->kv)) +
	       aligned(z->e * z->n * z->q);
}

/* cuDNN 9.19 on sm_90, exact; and the buffers of the context-parallel ring. */
static p4d_wide attention(const p4d_layout *l, const sizes *z)
{
	p4d_wide bytes = aligned(4 * z->n * z->q) + aligned(4 * z->n * z->heads) + ARENA_ALIGNMENT;

	if (l->kv_heads < l->heads)
		bytes += 2 * aligned(z->e * z->n * z->q);
	if (l->cp > 1)
		bytes += 2 * aligned(z->e * z->n * 2 * z->kv) + 2 * aligned(4 * z->n * 2 * z->kv) +
			 aligned(4 * z->n * z->q) + aligned(4 * z->n * z->heads);
	return bytes;
}

void p4d_memory_p4d(const p4d_layout *l, uint32_t stage, p4d_stage_items *items)
{
	sizes z = sizes_of(l);
	p4d_wide shards = l->optimizer_sharding ? l->dp * l->cp : 1;
	p4d_wide N =
	    p4d_div_up(p4d_stage_parameters(l, stage), shards * SHARD_MULTIPLE) * shards * SHARD_MULTIPLE;
	/* in fp32 the parameter is its own master copy */
	unsigned optimizer = l->precision == P4D_FP32 ? 8 : 12;

	items->part[P4D_PART_PARAMS] = aligned(z.e * N);
	items->part[P4D_PART_GRADS] = aligned(4 * N);
	items->part[P4D_PART_OPTIMIZER] = aligned(optimizer * (N / shards));
	items->part[P4D_PART_ACTIVATIONS] = activations(l, &z, stage);
	if (stage == l->pp - 1)
		items->part[P4D_PART_LOGITS] = cross_entropy(l, &z);
	items->part[P4D_PART_WORKING_SET] = working_set(l, &z);
	items->part[P4D_PART_ATTENTION] = attention(l, &z);
	if (l->pp > 1)
		items->part[P4D_PART_STAGING] = PIPELINE_BUFFERS * aligned(z.e * z.ns * z.h);
	if (l->device == P4D_CUDA)
		items->part[P4D_PART_LIBRARIES] = CUBLASLT_WORKSPACE_BYTES;

	p4d_wide persistent = items->part[P4D_PART_PARAMS] + items->part[P4D_PART_GRADS] +
			      items->part[P4D_PART_OPTIMIZER] + items->part[P4D_PART_LIBRARIES];
	for (int i = 0; i < P4D_PHASES; i++) {
		items->phase[i] = persistent;
		items->modelled[i] = true;
	}
	items->phase[P4D_TRAIN] = 0;
	for (int i = 0; i < P4D_PART_FRAGMENTATION; i++)
		items->phase[P4D_TRAIN] += items->part[i];
	if (l->device == P4D_CUDA) {
		items->part[P4D_PART_CONTEXT] = P4D_CONTEXT_BYTES;
		items->part[P4D_PART_COMM] = p4d_communicator_bytes(l);
	}
}

p4d_wide p4d_memory_p4d_host(const p4d_layout *l, const p4d_stage *fullest)
{
	/* a checkpoint goes through a pinned copy of what the rank writes: its optimizer shard and share of
	 * the parameters */
	p4d_wide shards = l->optimizer_sharding ? l->dp * l->cp : 1;
	p4d_wide staging =
	    fullest->part[P4D_PART_OPTIMIZER] + p4d_div_up(fullest->part[P4D_PART_PARAMS], shards);
	p4d_wide rank = staging;

	if (l->device == P4D_CPU)
		rank += CPU_PROCESS_BYTES + fullest->allocated_bytes;
	else
		rank += CUDA_PROCESS_BYTES;
	return rank * l->gpus_per_node;
}
