/* SPDX-License-Identifier: Apache-2.0 */
#include "job/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

const char *const p4d_export_names[] = {
    "P4D_PLAN",
    "P4D_TP",
    "P4D_CP",
    "P4D_CP_COMM",
    "P4D_PP",
    "P4D_DP",
    "P4D_VPP",
    "P4D_MICRO_BATCH",
    "P4D_GLOBAL_BATCH",
    "P4D_SEQ_LEN",
    "P4D_RECOMPUTE",
    "P4D_SCHEDULE",
    "P4D_VOCAB_PARALLEL",
    "P4D_MEGATRON_ARGS",
    NULL,
};

enum { ARGS_MAX = 3072 };

/* What does not fit is cut off at a whole argument. */
#define add(a, ...) p4d_text_entry(a, " ", __VA_ARGS__)

/* Megatron-LM writes a pipeline as a picture: E embedding, t layer, L loss, | between stages. */
static void add_pipeline_layout(p4d_text *a, const p4d_layout *l)
{
	char picture[1024];
	p4d_text text = p4d_text_in(picture, sizeof(picture));

	for (uint64_t i = 0; i < l->pp * l->vpp; i++)
		p4d_text_print(&text, "%st*%" PRIu64 "%s", i ? "|" : "E", l->stage_layers[i % l->pp] / l->vpp,
			       i == l->pp * l->vpp - 1 ? "L" : "");
	if (!text.truncated)
		add(a, "--pipeline-model-parallel-layout %s", picture);
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
	else if (l->vpp > 1)
		add(a, "--num-layers-per-virtual-pipeline-stage %" PRIu64, l->layers / (l->pp * l->vpp));
	if (l->sequence_parallel)
		add(a, "--sequence-parallel");
	if (l->optimizer_sharding)
		add(a, "--use-distributed-optimizer");
	add(a, "--micro-batch-size %" PRIu64, l->micro_batch);
	add(a, "--global-batch-size %" PRIu64, l->global_batch);
}

static void add_model(p4d_text *a, const p4d_request *r, const p4d_layout *l)
{
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
	if (l->glu)
		add(a, "--swiglu");
	if (!l->tied)
		add(a, "--untie-embeddings-and-output-weights");
	if (l->bias != P4D_BIAS_ALL)
		add(a, "--disable-bias-linear");
	if (l->bias == P4D_BIAS_QKV)
		add(a, "--add-qkv-bias");
	if (l->qk_norm)
		add(a, "--qk-layernorm");
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
}

const char *p4d_export__megatron_args(const p4d_request *request, const p4d_layout *layout, char *buf,
				      size_t size)
{
	p4d_text a = p4d_text_in(buf, size);

	add_parallelism(&a, request, layout);
	add_model(&a, request, layout);
	add_memory(&a, layout);
	return buf;
}

void p4d_export(const p4d_request *request, const p4d_layout *layout, const char *plan,
		p4d_export_visit visit, void *context)
{
	static const p4d_option option[] = {P4D_TP,        P4D_CP,          P4D_CP_COMM,       P4D_PP,
					    P4D_VPP,       P4D_MICRO_BATCH, P4D_GLOBAL_BATCH,  P4D_SEQ_LEN,
					    P4D_RECOMPUTE, P4D_SCHEDULE,    P4D_VOCAB_PARALLEL};
	static const char *const name[] = {
	    "P4D_TP",        "P4D_CP",          "P4D_CP_COMM",       "P4D_PP",
	    "P4D_VPP",       "P4D_MICRO_BATCH", "P4D_GLOBAL_BATCH",  "P4D_SEQ_LEN",
	    "P4D_RECOMPUTE", "P4D_SCHEDULE",    "P4D_VOCAB_PARALLEL"};
	char value[ARGS_MAX];

	visit("P4D_PLAN", plan, context);
	if (p4d_is_set(request, P4D_UNMODELLED))
		return; /* there is no layout */
	for (size_t i = 0; i < sizeof(option) / sizeof(*option); i++)
		visit(name[i], p4d_request_value_text(request, option[i], value, sizeof(value)), context);
	snprintf(value, sizeof(value), "%" PRIu64, layout->dp);
	visit("P4D_DP", value, context);
	visit("P4D_MEGATRON_ARGS", p4d_export__megatron_args(request, layout, value, sizeof(value)), context);
}
