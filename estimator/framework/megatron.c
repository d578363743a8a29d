/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM with Transformer Engine: what PyTorch's allocator holds on one rank, how it is given the plan,
 * and the table entry. Activation counts follow Korthikanti et al. (arXiv 2205.05198) with TE's fused
 * kernels; validated in tests/data/measured_memory.csv. The logits, working set and weight-gradient buffers
 * of the peak come together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "plan/parameters.h"
#include "plan/plan_rows.h"
#include "request/framework.h"

#define AT_PEAK (1u << P4D_AT_BACKWARD_FFN)
#define IN_LAYER (1u << P4D_AT_EVALUATION_LAYER)
#define IN_HEAD (1u << P4D_AT_EVALUATION_HEAD)

/* The precision-aware optimizer keeps of an fp32 master copy what the bf16 parameter lacks of it. */
static p4d_dtype master_type(const p4d_layout *l)
{
	return l->half_master || (l->half_moments && l->precision == P4D_BF16) ? p4d_dtype_of(l)
									       : P4D_DT_FP32;
}

/*
 * Types of the states: params and grads are held by every rank, the rest is sharded by the distributed
 * optimizer.
 */
static void add_states(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	p4d_wide n = p4d_parameters_of_stage(l, &rows->schedule, rows->stage);
	p4d_wide share = p4d_div_up(n, p4d_optimizer_shards(l));
	const bool half_grads = l->grad_dtype != P4D_GRAD_FP32;

	rows->overflow = rows->overflow || n >> 62;
	uint64_t N = rows->overflow ? 0 : (uint64_t)n, shard = rows->overflow ? 0 : (uint64_t)share;
	p4d_row(rows, "parameters", "tp pp", P4D_PART_PARAMS, p4d_dtype_of(l), N, 0, 0);
	p4d_row(rows, "gradients", "tp pp", P4D_PART_GRADS, half_grads ? p4d_dtype_of(l) : P4D_DT_FP32, N, 0,
		0);
	p4d_rows_of_states(rows, P4D_STATE_MASTER, P4D_STATE_MASTER + 1, master_type(l), shard);
	/* the update reads fp32 gradients, which it copies; but for the precision-aware optimizer */
	if (half_grads && !p4d_precise_optimizer(l))
		p4d_row_at(rows, 1u << P4D_AT_OPTIMIZER, "optimizer.gradients", "tp pp dp cp",
			   P4D_PART_OPTIMIZER, P4D_DT_FP32, shard, 0, 0);
	/* PyTorch's optimizers allocate all but the master copy at their first step */
	for (p4d_tensor *row = p4d_rows_of_states(rows, P4D_STATE_MASTER + 1, P4D_MOST_STATES,
						  l->half_moments ? P4D_DT_BF16 : P4D_DT_FP32, shard);
	     row < &rows->plan->tensor[rows->plan->count]; row++)
		row->at_first_step = true;
}

/* What recomputation drops from a layer's saved tensors. */
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
	if (l->recompute == P4D_RECOMPUTE_FULL) /* the current layer has its own input, too */
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
				shape[i].rows, shape[i].columns, 0)
			    ->at_first_step = true;
	}
}

static void add_logits(p4d_rows *rows, unsigned live_range, const char *logits, const char *softmax,
		       uint64_t tok)
{
	const p4d_layout *l = rows->layout;
	const uint64_t V = (l->vocab + l->tp - 1) / l->tp;

	p4d_row_at(rows, live_range, logits, "tp cp", P4D_PART_LOGITS, p4d_dtype_of(l), tok, V, 0);
	if (!l->fused_cross_entropy)
		p4d_row_at(rows, live_range, softmax, "tp cp", P4D_PART_LOGITS, P4D_DT_FP32, tok, V, 0);
}

/* Columns of all that a layer's attention, or its feed-forward part, holds of each token, if it saves
 * nothing. */
static uint64_t widest(const p4d_layout *l)
{
	const uint64_t A = l->heads / l->tp * l->head_dim, G = l->kv_heads / l->tp * l->head_dim;
	const uint64_t gathered = l->cp_comm == P4D_CP_ALL_GATHER ? 2 * l->cp * 2 * G : 0;
	const uint64_t scores = l->flash_attention ? 0 : 2 * (l->heads / l->tp) * l->seq_len;
	const uint64_t heads = 2 * A + 2 * G + gathered + scores;
	const uint64_t ffn = (l->glu ? (l->fused_swiglu ? 3 : 4) : 2) * (l->ffn / l->tp);

	return heads > ffn ? heads : ffn;
}

/*
 * evaluate() of training.py: forward passes in micro-batches of their own size, under no_grad() and without
 * dropout, so that nothing is saved and recomputation changes nothing. A layer holds the residual and its
 * norm, gathered under sequence parallelism, beside the widest part; the head holds what it does in training.
 * Derived from the code, not validated against measurements.
 */
static void add_evaluation(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const uint64_t tok = l->seq_len / l->cp * l->eval_micro_batch;
	const uint64_t ns = l->sequence_parallel ? tok / l->tp : tok;

	p4d_row_at(rows, IN_LAYER | IN_HEAD, "evaluation.hidden", "sp cp", P4D_PART_WORKING_SET, dtype, 2, ns,
		   l->hidden);
	if (l->sequence_parallel)
		p4d_row_at(rows, IN_LAYER | IN_HEAD, "evaluation.gathered", "cp", P4D_PART_WORKING_SET, dtype,
			   tok, l->hidden, 0);
	p4d_row_at(rows, IN_LAYER, "evaluation.layer", "tp cp", P4D_PART_WORKING_SET, dtype, tok, widest(l),
		   0);
	if (rows->last)
		add_logits(rows, IN_HEAD, "evaluation.logits", "evaluation.softmax", tok);
}

static void write_rows(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_dtype dtype = p4d_dtype_of(l);
	const uint64_t tok = l->seq_len / l->cp * l->micro_batch;
	const uint64_t ns = l->sequence_parallel ? tok / l->tp : tok;

	add_states(rows);
	if (l->te_wgrad)
		add_weight_grad_buffers(rows);
	add_activations(rows, tok);
	if (rows->last) {
		add_logits(rows, AT_PEAK, "head.logits", "head.softmax", tok);
		p4d_row_at(rows, AT_PEAK, "head.hidden", "sp cp", P4D_PART_LOGITS, dtype, 2, ns, l->hidden);
	}
	/* Transformer Engine gathers again for the backward pass, and sums gradients in the same type */
	if (l->cp_comm == P4D_CP_ALL_GATHER)
		p4d_row_at(rows, 1u << P4D_AT_BACKWARD_ATTENTION, "gathered.keys_values", "tp",
			   P4D_PART_ATTENTION, dtype, 2, p4d_times(rows, tok, l->cp),
			   2 * (l->kv_heads / l->tp * l->head_dim));
	p4d_row_at(rows, AT_PEAK, "ffn_gradient", "tp cp", P4D_PART_WORKING_SET, dtype, l->glu ? 2 : 1, tok,
		   l->ffn / l->tp);
	p4d_row_at(rows, AT_PEAK, "hidden_gradient", "cp", P4D_PART_WORKING_SET, dtype, tok, l->hidden, 0);
	add_evaluation(rows);
}

/* ---- how it is given the plan ---- */

/* Truncated at a whole argument. */
#define add(a, ...) p4d_text_entry(a, " ", __VA_ARGS__)

/* Megatron-LM writes a pipeline as a picture: E embedding, t layer, L loss, | between stages. */
static void add_pipeline_layout(p4d_text *a, const p4d_layout *l)
{
	char picture[1024];
	p4d_text text = p4d_text_in(picture, sizeof(picture));

	for (uint64_t i = 0; i < l->pp * l->vpp && !text.truncated; i++)
		p4d_text_print(&text, "%st*%" PRIu32 "%s", i ? "|" : "E",
			       p4d_chunk_layers(l, (uint32_t)(i % l->pp), (uint32_t)(i / l->pp)),
			       i == l->pp * l->vpp - 1 ? "L" : "");
	if (!text.truncated)
		add(a, "--pipeline-model-parallel-layout %s", picture);
}

/* Megatron-LM stops unless evaluation's global batch, by default that of training, is a multiple of this. */
static void add_evaluation_batch(p4d_text *a, const p4d_layout *l)
{
	const uint64_t unit = l->eval_micro_batch * l->dp;

	add(a, "--eval-micro-batch-size %" PRIu64, l->eval_micro_batch);
	if (l->global_batch % unit)
		add(a, "--eval-global-batch-size %" PRIu64, (l->global_batch / unit + 1) * unit);
}

static void add_parallelism(p4d_text *a, const p4d_request *r, const p4d_layout *l)
{
	add(a, "--tensor-model-parallel-size %" PRIu64, l->tp);
	add(a, "--pipeline-model-parallel-size %" PRIu64, l->pp);
	add(a, "--context-parallel-size %" PRIu64, l->cp);
	if (l->cp_comm == P4D_CP_ALL_GATHER) /* p2p is its default */
		add(a, "--cp-comm-type all_gather");
	if (p4d_is_set(r, P4D_PIPELINE_SPLIT) && l->pp > 1)
		add_pipeline_layout(a, l);
	else if (l->vpp > 1 && (l->embedding_counts || l->loss_counts))
		add(a, "--num-virtual-stages-per-pipeline-rank %" PRIu64, l->vpp);
	else if (l->vpp > 1)
		add(a, "--num-layers-per-virtual-pipeline-stage %" PRIu64, l->layers / (l->pp * l->vpp));
	if (l->embedding_counts)
		add(a, "--account-for-embedding-in-pipeline-split");
	if (l->loss_counts)
		add(a, "--account-for-loss-in-pipeline-split");
	if (l->sequence_parallel)
		add(a, "--sequence-parallel");
	if (l->optimizer_sharding)
		add(a, "--use-distributed-optimizer");
	if (l->tp_comm_overlap)
		add(a, "--tp-comm-overlap");
	if (l->schedule == P4D_INTERLEAVED && !l->overlap_p2p)
		add(a, "--no-overlap-p2p-communication");
	if (l->overlap_dp) /* the second needs the distributed optimizer */
		add(a, l->optimizer_sharding ? "--overlap-grad-reduce --overlap-param-gather"
					     : "--overlap-grad-reduce");
	add(a, "--micro-batch-size %" PRIu64, l->micro_batch);
	add(a, "--global-batch-size %" PRIu64, l->global_batch);
	if (l->eval_micro_batch != l->micro_batch) /* Megatron Core knows it since 0.18 */
		add_evaluation_batch(a, l);
}

static void add_model(p4d_text *a, const p4d_request *r, const p4d_layout *l)
{
	static const char *const activation[] = {[P4D_SWIGLU_ACTIVATION] = "--swiglu",
						 /* its only one, with a sigmoid for erf */
						 [P4D_GEGLU] = "--quick-geglu",
						 [P4D_GELU] = NULL, /* its default */
						 [P4D_RELU2] = "--squared-relu"};

	add(a, "--num-layers %" PRIu64, l->layers);
	add(a, "--hidden-size %" PRIu64, l->hidden);
	add(a, "--ffn-hidden-size %" PRIu64, l->ffn);
	add(a, "--num-attention-heads %" PRIu64, l->heads);
	if (l->kv_heads != l->heads)
		add(a, "--group-query-attention --num-query-groups %" PRIu64, l->kv_heads);
	add(a, "--kv-channels %" PRIu64, l->head_dim);
	add(a, "--seq-length %" PRIu64, l->seq_len);
	add(a, "--max-position-embeddings %" PRIu64, l->positions ? l->positions : l->seq_len);
	add(a, "--position-embedding-type %s", l->positions ? "learned_absolute" : "rope");
	add(a, "--normalization %s", r->value[P4D_NORM] == P4D_RMSNORM ? "RMSNorm" : "LayerNorm");
	if (activation[l->activation])
		add(a, "%s", activation[l->activation]);
	if (!l->tied)
		add(a, "--untie-embeddings-and-output-weights");
	if (l->bias != P4D_BIAS_ALL)
		add(a, "--disable-bias-linear");
	if (l->bias == P4D_BIAS_QKV)
		add(a, "--add-qkv-bias");
	if (l->qk_norm)
		add(a, "--qk-layernorm");
}

static void add_optimizer(p4d_text *a, const p4d_layout *l)
{
	if (l->grad_dtype == P4D_GRAD_BF16)
		add(a, "--grad-reduce-in-bf16");
	else if (l->grad_dtype == P4D_GRAD_FP32 && l->precision == P4D_FP16)
		add(a, "--accumulate-allreduce-grads-in-fp32");
	if (!p4d_precise_optimizer(l))
		return;
	add(a, "--use-precision-aware-optimizer");
	if (l->grad_dtype == P4D_GRAD_BF16)
		add(a, "--main-grads-dtype bf16");
	if (l->half_master)
		add(a, "--main-params-dtype fp16");
	if (l->half_moments)
		add(a, "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
}

static void add_memory(p4d_text *a, const p4d_layout *l)
{
	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		add(a, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
		break;
	case P4D_RECOMPUTE_SELECTIVE:
		add(a, "--recompute-granularity selective --recompute-modules core_attn");
		break;
	case P4D_RECOMPUTE_MLP:
		add(a, "--recompute-granularity selective --recompute-modules mlp");
		break;
	}
	add(a, "--attention-backend %s", l->flash_attention ? "flash" : "unfused");
	if (l->fused_cross_entropy)
		add(a, "--cross-entropy-loss-fusion");
	if (l->glu && !l->fused_swiglu)
		add(a, "--no-bias-swiglu-fusion");
	if (!l->te_wgrad)
		add(a, "--no-gradient-accumulation-fusion");
	if (!l->dropout)
		add(a, "--hidden-dropout 0.0 --attention-dropout 0.0");
	if (l->precision != P4D_FP32)
		add(a, l->precision == P4D_FP16 ? "--fp16" : "--bf16");
	add_optimizer(a, l);
}

static void write_arguments(const p4d_request *request, const p4d_layout *layout, char *buf, size_t size)
{
	p4d_text a = p4d_text_in(buf, size);

	add_parallelism(&a, request, layout);
	add_model(&a, request, layout);
	add_memory(&a, layout);
}

static size_t flags_of(const p4d_layout *l, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS])
{
	const p4d_framework_flag all[] = {
	    {"--tensor-model-parallel-size", l->tp},
	    {"--pipeline-model-parallel-size", l->pp},
	    {"--context-parallel-size", l->cp},
	    {"--num-virtual-stages-per-pipeline-rank", l->vpp},
	    {"--num-layers-per-virtual-pipeline-stage",
	     (l->layers + l->embedding_counts + l->loss_counts) / (l->pp * l->vpp)},
	    {"--micro-batch-size", l->micro_batch},
	    {"--eval-micro-batch-size", l->eval_micro_batch},
	    {"--global-batch-size", l->global_batch},
	    {"--seq-length", l->seq_len},
	    {"--num-layers", l->layers},
	    {"--hidden-size", l->hidden},
	    {"--ffn-hidden-size", l->ffn},
	    {"--num-attention-heads", l->heads},
	    {"--num-query-groups", l->kv_heads},
	};

	memcpy(flags, all, sizeof(all));
	_Static_assert(sizeof(all) <= P4D_FRAMEWORK_FLAGS * sizeof(*all), "room for all flags");
	return sizeof(all) / sizeof(*all);
}

static const p4d_framework_arguments arguments_of_megatron = {
    .variable = "P4D_MEGATRON_ARGS",
    .program = "pretrain_gpt.py",
    .write = write_arguments,
    .flags = flags_of,
};

/* ---- the entry ---- */

static int check_model(const p4d_request *r, p4d_error *err)
{
	(void)r, (void)err;
	return 0; /* whatever p4d has a formula for */
}

static const char *const script_words[] = {"pretrain_gpt", "--tensor-model-parallel-size",
					   "--pipeline-model-parallel-size", "P4D_MEGATRON_ARGS", NULL};

const p4d_framework p4d_framework__megatron = {
    .name = "megatron",
    .program = "Megatron-LM",
    .check_model = check_model,
    .schedules = 1u << P4D_GPIPE | 1u << P4D_1F1B | 1u << P4D_INTERLEAVED,
    .no_schedule = "needs p4d-train; Megatron-LM supports 1f1b and interleaved",
    .no_vocab_parallel = "needs p4d-train; Megatron-LM shards the vocabulary by tp only",
    .uneven_chunks = true,
    .vocab_multiple = 128, /* make-vocab-size-divisible-by */
    .write_rows = write_rows,
    .groups_bytes = p4d_memory_usual_groups_bytes,
    .alignment = 1,
    .evaluation = IN_LAYER | IN_HEAD,
    /* reserved over allocated: mean of 19 runs on B200, 1.053 (1.028 to 1.093); segments that grow leave
     * little but unused ends */
    .fragmentation = {53, 10},
    .above_safe_fix = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    .script_words = script_words,
    .arguments = &arguments_of_megatron,
    .cost = {.step_seconds = 5e-3,
	     .host_layer_seconds = 650e-6, /* about 65 launches of 10 us */
	     .unfused_attention = true,
	     .overlaps_sequence_parallel = true,
	     .scatters_sends = true,
	     .defers_weight_gradients = true,
	     .saves_norms_and_products = true,
	     .recomputes_attention = true,
	     .recomputes_whole_mlp = true,
	     .reorders_gathered_keys = true},
};
