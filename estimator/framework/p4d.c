/* SPDX-License-Identifier: Apache-2.0 */
/* p4d-train: every buffer of it, which the runtime finds by these names, and the table entry. */
#include <limits.h>

#include "plan/cudnn_workspace.h"
#include "plan/parameters.h"
#include "plan/plan_rows.h"
#include "request/framework.h"

enum {
	STATISTICS = 3,          /* of a token's logits: maximum, sum, target */
	PREFETCHED = 1,          /* micro-batches of tokens read ahead */
	CPU_ATTENTION_TILE = 64, /* rows and columns of scores that exist at a time */
	CPU_PRODUCT_BLOCK = 512, /* rows and columns of operands and product that are converted at a time */
};
#define CUBLASLT_WORKSPACE_BYTES ((uint64_t)32 << 20)
/* Counters, losses and partial sums of reductions. */
#define SCALAR_BYTES ((uint64_t)64 << 10)

#define AT(moment) (1u << P4D_AT_##moment)

/* What rows are made of, on one rank. */
typedef struct sizes {
	p4d_dtype dtype;
	uint64_t n;      /* tokens of a micro-batch: b*s/c */
	uint64_t ns;     /* the same under sequence parallelism: n/t */
	uint64_t h, ffn; /* hidden; FFN columns of this rank */
	uint64_t q, kv;  /* query and KV columns of this rank */
	uint64_t heads, kv_heads;
} sizes;

static sizes sizes_of(const p4d_layout *l)
{
	/* the layout has checked all divisions; n < 2^43 */
	sizes z = {
	    .dtype = p4d_dtype_of(l),
	    .n = l->seq_len / l->cp * l->micro_batch,
	    .h = l->hidden,
	    .ffn = l->ffn / l->tp,
	    .q = l->heads / l->tp * l->head_dim,
	    .kv = l->kv_heads / l->tp * l->head_dim,
	    .heads = l->heads / l->tp,
	    .kv_heads = l->kv_heads / l->tp,
	};

	z.ns = l->sequence_parallel ? z.n / l->tp : z.n;
	return z;
}

static uint64_t narrow(p4d_rows *rows, p4d_wide wide)
{
	rows->overflow = rows->overflow || wide >> 62;
	return rows->overflow ? 0 : (uint64_t)wide;
}

static void add_states(p4d_rows *rows, const sizes *z)
{
	uint64_t n = narrow(rows, p4d_parameters_padded(rows->layout, &rows->schedule, rows->stage));
	uint64_t shard = n / p4d_optimizer_shards(rows->layout);

	p4d_row(rows, "parameters", "tp pp", P4D_PART_PARAMS, z->dtype, n, 0, 0);
	p4d_row(rows, "gradients", "tp pp", P4D_PART_GRADS, P4D_DT_FP32, n, 0, 0);
	if (z->dtype != P4D_DT_FP32) /* in fp32 the parameter is its own master copy */
		p4d_row(rows, "optimizer.master", "tp pp dp cp", P4D_PART_OPTIMIZER, P4D_DT_FP32, shard, 0,
			0);
	p4d_row(rows, "optimizer.first_moment", "tp pp dp cp", P4D_PART_OPTIMIZER, P4D_DT_FP32, shard, 0, 0);
	p4d_row(rows, "optimizer.second_moment", "tp pp dp cp", P4D_PART_OPTIMIZER, P4D_DT_FP32, shard, 0, 0);
}

/*
 * Blocks of as many tokens as a rank has, whose positions and documents attention needs: those of every
 * context-parallel rank; where keys are gathered, this rank's in front, for the queries.
 */
static uint64_t context_blocks(const p4d_layout *l)
{
	return l->cp_comm == P4D_CP_ALL_GATHER ? 1 + l->cp : l->cp;
}

/* Documents are there whether tokens of others are masked or not: a run may decide. */
static void add_documents(p4d_rows *rows, const sizes *z)
{
	const uint64_t copies = (uint64_t)rows->plan->slots.activation + PREFETCHED;
	const uint64_t blocks = context_blocks(rows->layout);
	p4d_tensor *row =
	    p4d_row(rows, "data.documents", "", P4D_PART_ACTIVATIONS, P4D_DT_INT32, copies, blocks, z->n);

	row->bytes =
	    p4d_times(rows, copies, p4d_row_bytes(rows, P4D_DT_INT32, p4d_times(rows, blocks, z->n)));
}

/* The token buffers serve the micro-batches that may be in flight, and the one read ahead. */
static void add_data(p4d_rows *rows, const sizes *z)
{
	const bool everywhere = rows->layout->vocab_parallel;
	p4d_slots slots = everywhere ? p4d_schedule_slots(&rows->schedule, 0) : rows->plan->slots;
	const uint64_t copies = (uint64_t)slots.activation + PREFETCHED;
	static const char *const names[] = {"data.tokens", "data.labels"};
	const bool held[] = {rows->first || everywhere, rows->last || everywhere};

	for (int i = 0; i < 2; i++) {
		if (!held[i])
			continue;
		p4d_tensor *row =
		    p4d_row(rows, names[i], "cp", P4D_PART_ACTIVATIONS, P4D_DT_INT32, copies, z->n, 0);
		row->bytes = p4d_times(rows, copies, p4d_row_bytes(rows, P4D_DT_INT32, z->n));
	}
}

/* Buffers of hidden states on their way to another stage; each is aligned. */
static void add_hand_over(p4d_rows *rows, const sizes *z, const char *name)
{
	p4d_tensor *row =
	    p4d_row(rows, name, "sp cp", P4D_PART_STAGING, z->dtype, P4D_SEND_BUFFERS, z->ns, z->h);

	row->bytes =
	    p4d_times(rows, P4D_SEND_BUFFERS, p4d_row_bytes(rows, z->dtype, p4d_times(rows, z->ns, z->h)));
}

static void add_staging(p4d_rows *rows, const sizes *z)
{
	if (rows->layout->pp > 1) {
		add_hand_over(rows, z, "send.forward");
		add_hand_over(rows, z, "send.backward");
	}
	if (rows->layout->vocab_parallel && rows->first) {
		add_hand_over(rows, z, "embedding.output");
		add_hand_over(rows, z, "embedding.gradient");
	}
	if (rows->layout->vocab_parallel && rows->last) {
		add_hand_over(rows, z, "head.output");
		add_hand_over(rows, z, "head.gradient");
	}
}

static void add_persistent(p4d_rows *rows, const sizes *z)
{
	const p4d_layout *l = rows->layout;

	add_states(rows, z);
	add_data(rows, z);
	add_documents(rows, z);
	add_staging(rows, z);
	p4d_row(rows, "rope", "cp", P4D_PART_WORKING_SET, P4D_DT_FP32, l->seq_len / l->cp, l->head_dim, 0);
	p4d_row(rows, "positions", "", P4D_PART_WORKING_SET, P4D_DT_INT32, context_blocks(l),
		l->seq_len / l->cp, 0);
	p4d_row(rows, "scalars", "", P4D_PART_WORKING_SET, P4D_DT_BYTES, SCALAR_BYTES, 0, 0);
	/* on the cpu see P4D_CPU_PRODUCT_BYTES in runtime/device.h */
	if (l->device == P4D_CUDA || z->dtype != P4D_DT_FP32)
		p4d_row(rows, "library.gemm", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
			l->device == P4D_CUDA ? CUBLASLT_WORKSPACE_BYTES
					      : 3 * 4 * CPU_PRODUCT_BLOCK * CPU_PRODUCT_BLOCK,
			0, 0);
	if (l->device == P4D_CPU)
		return;
	/* each partial sum of a head has a bias and a norm weight */
	const uint64_t columns = P4D_NORM_SUMS * z->h, heads = P4D_HEAD_SUMS * 2 * (z->q + 2 * z->kv);
	p4d_row(rows, "reductions", "tp", P4D_PART_WORKING_SET, P4D_DT_FP32,
		columns > heads ? columns : heads, 0, 0);
}

/* What a layer keeps for its backward pass, in the order it is made. Recompute leaves out some of it. */
typedef enum saved { SAVED_INPUT, SAVED_ATTENTION, SAVED_FFN } saved;

static saved kept(int recompute)
{
	return recompute == P4D_RECOMPUTE_FULL  ? SAVED_INPUT
	       : recompute == P4D_RECOMPUTE_MLP ? SAVED_ATTENTION
						: SAVED_FFN;
}

typedef struct layer_tensor {
	const char *name, *again; /* again: where it is not kept */
	saved group;
	bool fp32;
	uint64_t x, y;
	const char *shard;
} layer_tensor;

enum { LAYER_TENSORS = 9 };

/* Norm outputs and the product of gate and up are always computed again. */
static unsigned layer_tensors(const p4d_layout *l, const sizes *z, layer_tensor tensor[LAYER_TENSORS])
{
	const layer_tensor all[LAYER_TENSORS] = {
	    {"layer.input", NULL, SAVED_INPUT, false, z->ns, z->h, "sp cp"},
	    {"layer.input_rstd", "again.input_rstd", SAVED_ATTENTION, true, z->ns, 0, "sp cp"},
	    {"layer.qkv", "again.qkv", SAVED_ATTENTION, false, z->n, z->q + 2 * z->kv, "tp cp"},
	    {"layer.qk_rstd", "again.qk_rstd", SAVED_ATTENTION, true, z->n, z->heads + z->kv_heads, "tp cp"},
	    {"layer.attention", "again.attention", SAVED_ATTENTION, false, z->n, z->q, "tp cp"},
	    {"layer.lse", "again.lse", SAVED_ATTENTION, true, z->heads, z->n, "tp cp"},
	    {"layer.middle", "again.middle", SAVED_ATTENTION, false, z->ns, z->h, "sp cp"},
	    {"layer.middle_rstd", "again.middle_rstd", SAVED_ATTENTION, true, z->ns, 0, "sp cp"},
	    {"layer.gate_up", "again.gate_up", SAVED_FFN, false, z->n, 2 * z->ffn, "tp cp"},
	};
	unsigned count = 0;

	for (int i = 0; i < LAYER_TENSORS; i++)
		if (i != 3 || l->qk_norm)
			tensor[count++] = all[i];
	return count;
}

/*
 * What is kept is kept until the layer's last gradient: in split schedules that of qkv and that of gate and
 * up replace them and wait there for the weight pass, which needs nothing else that is not computed again.
 */
static void add_saved(p4d_rows *rows, const sizes *z)
{
	const saved last = kept(rows->layout->recompute);
	layer_tensor tensor[LAYER_TENSORS];
	unsigned count = layer_tensors(rows->layout, z, tensor);

	for (unsigned i = 0; i < count; i++)
		if (tensor[i].group <= last)
			p4d_row_in_slot(rows, tensor[i].name, tensor[i].shard,
					tensor[i].fp32 ? P4D_DT_FP32 : z->dtype, tensor[i].x, tensor[i].y, 0);
	/* the model's last hidden state waits for the backward pass, which begins with the head */
	if (rows->last) {
		p4d_row_in_slot(rows, "head.input", "sp cp", z->dtype, z->ns, z->h, 0)->layers = 1;
		p4d_row_in_slot(rows, "head.rstd", "sp cp", P4D_DT_FP32, z->ns, 0, 0)->layers = 1;
	}
	/* what is left out exists for one layer at a time, in the forward pass and when it is made again */
	for (unsigned i = 0; i < count; i++) {
		if (tensor[i].group <= last)
			continue;
		unsigned moments = AT(FORWARD) | AT(RECOMPUTE) | AT(BACKWARD_FFN);
		if (tensor[i].group == SAVED_ATTENTION)
			moments |= AT(BACKWARD_ATTENTION);
		p4d_row_at(rows, moments, tensor[i].again, tensor[i].shard, P4D_PART_WORKING_SET,
			   tensor[i].fp32 ? P4D_DT_FP32 : z->dtype, tensor[i].x, tensor[i].y, 0);
	}
}

static void in_vocabulary_slot(p4d_rows *rows, p4d_tensor *row)
{
	row->lifetime = P4D_LIVES_IN_VOCABULARY_SLOT;
	row->slots = rows->plan->slots.vocabulary;
}

/* The head in pieces of tokens: logits in fp32, their gradient in the activation type, three numbers per
 * token. */
static void add_head(p4d_rows *rows, const sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t chunk = z->n < P4D_CROSS_ENTROPY_CHUNK ? z->n : P4D_CROSS_ENTROPY_CHUNK;
	const uint64_t columns = l->vocab / l->tp / (l->vocab_parallel ? l->pp : 1);

	if (!rows->last && !l->vocab_parallel)
		return;
	p4d_row_at(rows, AT(HEAD), "head.logits", "tp", P4D_PART_LOGITS, P4D_DT_FP32, chunk, columns, 0);
	p4d_row_at(rows, AT(HEAD), "head.logits_gradient", "tp", P4D_PART_LOGITS, z->dtype, chunk, columns,
		   0);
	if (!l->vocab_parallel) {
		p4d_row_at(rows, AT(HEAD), "head.statistics", "cp", P4D_PART_LOGITS, P4D_DT_FP32, STATISTICS,
			   z->n, 0);
		return;
	}
	in_vocabulary_slot(
	    rows, p4d_row(rows, "vocabulary.hidden", "sp cp", P4D_PART_LOGITS, z->dtype, z->ns, z->h, 0));
	in_vocabulary_slot(rows, p4d_row(rows, "vocabulary.statistics", "cp", P4D_PART_LOGITS, P4D_DT_FP32,
					 STATISTICS, z->n, 0));
	p4d_row_at(rows, AT(HEAD_SUM), "vocabulary.hidden_gradient", "sp cp", P4D_PART_LOGITS, P4D_DT_FP32,
		   z->ns, z->h, 0);
}

/* Buffers that matrix products read and write, one layer at a time. */
static void add_working_set(p4d_rows *rows, const sizes *z)
{
	const p4d_layout *l = rows->layout;
	const unsigned forward = AT(FORWARD) | AT(RECOMPUTE);
	/* used in nearly all, and at the bottom in all, so that what comes and goes lies above */
	const unsigned every = forward | AT(EMBED) | AT(HEAD) | AT(HEAD_SUM) | AT(BACKWARD_FFN) |
			       AT(BACKWARD_ATTENTION) | AT(WEIGHT);
	const p4d_memory_class part = P4D_PART_WORKING_SET;

	/* the residual stream and, on the way back, its gradient */
	p4d_row_at(rows, every, "hidden", "sp cp", part, z->dtype, z->ns, z->h, 0);
	p4d_row_at(rows, every, "normed", "sp cp", part, z->dtype, z->ns, z->h, 0);
	p4d_row_at(rows, every, "normed_gradient", "sp cp", part, z->dtype, z->ns, z->h, 0);
	if (l->tp > 1) /* what a row-parallel product gives, before it is summed over tp */
		p4d_row_at(rows, every, "partial", "cp", part, z->dtype, z->n, z->h, 0);
	if (l->sequence_parallel) {
		p4d_row_at(rows, every, "gathered", "cp", part, z->dtype, z->n, z->h, 0);
		p4d_row_at(rows, every, "gathered_gradient", "cp", part, z->dtype, z->n, z->h, 0);
	}
	p4d_row_at(rows, forward | AT(BACKWARD_FFN), "product", "tp cp", part, z->dtype, z->n, z->ffn, 0);
	/* the gradient of gate and up replaces them */
	p4d_row_at(rows, AT(BACKWARD_FFN), "product_gradient", "tp cp", part, z->dtype, z->n, z->ffn, 0);
	p4d_row_at(rows, AT(BACKWARD_ATTENTION), "attention_gradient", "tp cp", part, z->dtype, z->n, z->q,
		   0);
	p4d_row_at(rows, AT(BACKWARD_ATTENTION), "qkv_gradient", "tp cp", part, z->dtype, z->n,
		   z->q + 2 * z->kv, 0);
}

/* Fused attention takes 16-bit types only. */
static uint64_t workspace(const p4d_rows *rows, const sizes *z, bool backward)
{
	const p4d_layout *l = rows->layout;
	const uint64_t tile = CPU_ATTENTION_TILE;
	const p4d_attention_split split = {.batch = l->micro_batch,
					   .heads = z->heads,
					   .kv_heads = z->kv_heads,
					   .head_dim = l->head_dim,
					   .seq_len = l->seq_len,
					   .cp = l->cp,
					   .gathered = l->cp_comm == P4D_CP_ALL_GATHER};

	if (l->device == P4D_CPU) /* see P4D_ATTENTION_TILE in runtime/device.h */
		return backward ? 4 * tile * (2 * tile + 5 * l->head_dim)
				: 4 * tile * (tile + 4 * l->head_dim);
	return z->dtype != P4D_DT_FP32
		   ? p4d_attention_workspace_most(rows->gpu ? rows->gpu->sm : 0, &split, backward)
		   : 0;
}

/*
 * What keys and values of other ranks take. The ring: those that came and those that go, and what is merged
 * into the output; back, their gradients, too. All-gather: those of all ranks; back, their gradients.
 */
static void add_context(p4d_rows *rows, const sizes *z)
{
	const unsigned forward = AT(FORWARD) | AT(RECOMPUTE), backward = AT(BACKWARD_ATTENTION);
	const p4d_memory_class part = P4D_PART_ATTENTION;
	const uint64_t cp = rows->layout->cp;

	if (cp == 1)
		return;
	if (rows->layout->cp_comm == P4D_CP_ALL_GATHER) {
		p4d_row_at(rows, forward, "gathered.keys_values", "tp", part, z->dtype, cp, z->n, 2 * z->kv);
		p4d_row_at(rows, backward, "gathered.backward.keys_values", "tp", part, z->dtype, cp, z->n,
			   2 * z->kv);
		p4d_row_at(rows, backward, "gathered.backward.gradients", "tp", part, P4D_DT_FP32, cp, z->n,
			   2 * z->kv);
		return;
	}
	p4d_row_at(rows, forward, "ring.keys_values", "tp cp", part, z->dtype, 2, z->n, 2 * z->kv);
	p4d_row_at(rows, forward, "ring.output", "tp cp", part, P4D_DT_FP32, z->n, z->q, 0);
	p4d_row_at(rows, forward, "ring.lse", "tp cp", part, P4D_DT_FP32, z->heads, z->n, 0);
	p4d_row_at(rows, backward, "ring.backward.keys_values", "tp cp", part, z->dtype, 2, z->n, 2 * z->kv);
	p4d_row_at(rows, backward, "ring.backward.gradients", "tp cp", part, P4D_DT_FP32, 2, z->n, 2 * z->kv);
}

static void add_attention(p4d_rows *rows, const sizes *z)
{
	const unsigned forward = AT(FORWARD) | AT(RECOMPUTE), backward = AT(BACKWARD_ATTENTION);
	const p4d_memory_class part = P4D_PART_ATTENTION;
	const struct {
		unsigned moments;
		const char *name;
		uint64_t bytes;
	} buffers[] = {
	    {forward, "attention.forward_workspace", workspace(rows, z, false)},
	    {backward, "attention.backward_workspace", workspace(rows, z, true)},
	    {backward, "attention.row_sums",
	     p4d_row_bytes(rows, P4D_DT_FP32, p4d_times(rows, z->heads, z->n))},
	};

	for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
		if (buffers[i].bytes)
			p4d_row_at(rows, buffers[i].moments, buffers[i].name, "tp cp", part, P4D_DT_BYTES,
				   buffers[i].bytes, 0, 0);
	/* the cpu, and the ring, sum in fp32, then round: in fp32 that is the gradient of qkv itself */
	if ((rows->layout->device == P4D_CPU || rows->layout->cp > 1) && z->dtype != P4D_DT_FP32)
		p4d_row_at(rows, backward, "attention.qkv_gradient", "tp cp", part, P4D_DT_FP32, z->n,
			   z->q + 2 * z->kv, 0);
}

static void write_rows(p4d_rows *rows)
{
	const sizes z = sizes_of(rows->layout);

	add_persistent(rows, &z);
	add_saved(rows, &z);
	add_head(rows, &z);
	add_working_set(rows, &z);
	add_attention(rows, &z);
	add_context(rows, &z);
}

/* ---- the entry ---- */

static int check_model(const p4d_request *r, p4d_error *err)
{
	if (r->value[P4D_NORM] == P4D_RMSNORM && r->value[P4D_GLU] && r->value[P4D_POSITIONS] == P4D_ROPE &&
	    r->value[P4D_BIAS] != P4D_BIAS_ALL)
		return 0;
	return p4d_fail(err, P4D_E_UNMODELLED,
			"framework p4d trains Llama-type models (RMSNorm, gated feed-forward, rotary "
			"positions), which %s is not",
			r->model);
}

/*
 * Beside the groups that all frameworks have: keys are gathered in two orders of the ranks; with cp the
 * replicas are others than those that attention goes round; vocabulary parallelism sums over all stages, and
 * hands on between them; the two ends of the model share a tied table.
 */
static uint64_t groups_bytes(const p4d_layout *l, uint32_t stage)
{
	const p4d_schedule s = p4d_schedule_of(l);
	const bool is_end = p4d_schedule_is_first(&s, stage) != p4d_schedule_is_last(&s, stage);
	uint64_t bytes = p4d_memory_usual_groups_bytes(l, stage);

	if (l->cp_comm == P4D_CP_ALL_GATHER)
		bytes += p4d_memory_communicator_bytes(l->cp);
	if (l->cp > 1)
		bytes += p4d_memory_communicator_bytes(l->cp * l->dp) - p4d_memory_communicator_bytes(l->dp);
	if (l->vocab_parallel)
		bytes += p4d_memory_communicator_bytes(l->tp * l->pp) + p4d_memory_communicator_bytes(l->pp);
	else if (l->tied && is_end)
		bytes += p4d_memory_communicator_bytes(2);
	return bytes;
}

static const char *const script_words[] = {"p4d-train", NULL};

const p4d_framework p4d_framework__p4d = {
    .name = "p4d",
    .program = "p4d-train",
    .check_model = check_model,
    .schedules = UINT_MAX,
    .chooses_cp_comm = true,
    .fuses_cross_entropy = true,
    .vocab_multiple = 1,
    .write_rows = write_rows,
    .groups_bytes = groups_bytes,
    .alignment = P4D_ARENA_ALIGNMENT,
    .allocates_plan = true,
    .checkpoints_are_modelled = true,
    .limit = 0.97, /* nothing is left to chance but the context and NCCL */
    .script_words = script_words,
    .task_per_gpu = true,
    .takes_job_key = true,
    .cost = {.step_seconds = 1e-3,
	     .overlaps_data_parallel = true,
	     .overlaps_pipeline = true,
	     .chunks_head = true,
	     .sums_keys_in_fp32 = true},
};
