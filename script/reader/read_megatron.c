/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of Megatron-LM's programs (megatron/training/arguments.py of Megatron-LM core_v0.16). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "reader/read_finetune.h"
#include "reader/read_megatron.h"

enum {
	LAYERS_PER_CHUNK = P4D_MEGATRON_LAYERS_PER_CHUNK,
	GROUPS = P4D_READ_EXTRA(1),
	GROUPED = P4D_READ_EXTRA(2),
	GRANULARITY = P4D_MEGATRON_GRANULARITY,
	MODULES = P4D_MEGATRON_MODULES,
	QKV_BIAS = P4D_READ_EXTRA(5),
	TOKENIZER_VOCAB = P4D_READ_EXTRA(6),
	FUSED_LOSS = P4D_READ_EXTRA(7),
	LOSS_KERNEL = P4D_READ_EXTRA(8),
	OLD_METHOD = P4D_READ_EXTRA(9),
	LAYER_FREQUENCY = P4D_READ_EXTRA(10),
	DISPATCHER = P4D_MEGATRON_DISPATCHER,
	GROUPED_PRODUCTS = P4D_READ_EXTRA(12),
	LATENT = P4D_READ_EXTRA(14),
	LATENT_SIZES = P4D_READ_EXTRA(15), /* first of as many extra values as finish_latent has sizes */
	FP8_FORMAT = P4D_READ_EXTRA(20),
	FP8_RECIPE = P4D_READ_EXTRA(21),
	FP8_PARAM_GATHER = P4D_READ_EXTRA(22),
	FLEX_BACKEND = P4D_READ_EXTRA(23),
	FP4_FORMAT = P4D_READ_EXTRA(24),
	FP4_RECIPE = P4D_READ_EXTRA(25),
	GRAPHS = P4D_READ_EXTRA(26), /* scope of CUDA graphs */
	FIRST_STAGE = P4D_MEGATRON_FIRST_STAGE,
	LAST_STAGE = P4D_MEGATRON_LAST_STAGE,
	IMPLEMENTATION = P4D_READ_EXTRA(29),
	HIERARCHY = P4D_READ_EXTRA(30), /* the sizes of the two groups of a2a+p2p */
	GRAPH_SCOPE = P4D_READ_EXTRA(31),
	ATTENTION_DROPOUT = P4D_READ_EXTRA(47), /* a probability */
};

static const char *const norms[] = {"RMSNorm", "rmsnorm",   "LayerNorm", "layernorm", "rmsnorm",
				    "rmsnorm", "layernorm", "layernorm", NULL};
static const char *const positions[] = {"rope", "rope", "learned_absolute", "learned", "none", "none", NULL};
static const char *const backends[] = {"flash", "flash", "fused", "flash",   "unfused", "unfused",
				       "auto",  "flash", "local", "unfused", NULL};
static const char *const cp_comm[] = {"p2p", "p2p",     "all_gather", "all-gather", "a2a",
				      "a2a", "a2a+p2p", "p2p",        NULL};
static const char *const fp8_recipes[] = {"delayed",   "delayed", "tensorwise", "current", "blockwise",
					  "blockwise", "mxfp8",   "mxfp8",      NULL};
static const char *const fp4_formats[] = {"e2m1", "e2m1", NULL};
static const char *const fp4_recipes[] = {"nvfp4", "nvfp4", NULL}; /* nvfp4 is also the default */
static const char *const optimizers[] = {"adam", "adamw", NULL};
static const char *const states[] = {"fp32", "fp32", "bf16", "bf16", NULL};
static const char *const glus[] = {"swiglu", "on", NULL};
static const char *const stages[] = {"0", "off", "1", "on", NULL}; /* ZeRO stages in Megatron-DeepSpeed */
static const char *const attention_heads[] = {"multiquery", "1", "multihead", "", NULL};
static const char *const implementations[] = {"transformer_engine", "", NULL};
static const char *const dropouts[] = {"0", "off", "0.0", "off", "0.00", "off", "0.1", "on", NULL};

const p4d_read_argument p4d_reader__megatron_arguments[] = {
    {"--tensor-model-parallel-size", P4D_TP, NULL, NULL},
    {"--pipeline-model-parallel-size", P4D_PP, NULL, NULL},
    {"--context-parallel-size", P4D_CP, NULL, NULL},
    {"--cp-comm-type", P4D_CP_COMM, NULL, cp_comm},
    {"--hierarchical-context-parallel-sizes", HIERARCHY, NULL, p4d_reader__list},
    {"--num-virtual-stages-per-pipeline-rank", P4D_VPP, NULL, NULL},
    {"--num-layers-per-virtual-pipeline-stage", LAYERS_PER_CHUNK, NULL, NULL},
    {"--sequence-parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--optimizer", P4D_OPTIMIZER, NULL, optimizers},
    {"--use-distributed-optimizer", P4D_OPTIMIZER_SHARDING, "on", NULL},
    {"--overlap-grad-reduce", P4D_OVERLAP_DP, "on", NULL},
    {"--tp-comm-overlap", P4D_TP_COMM_OVERLAP, "on", NULL},
    {"--no-overlap-p2p-communication", P4D_OVERLAP_P2P, "off", NULL},
    {"--decoder-first-pipeline-num-layers", FIRST_STAGE, NULL, NULL},
    {"--decoder-last-pipeline-num-layers", LAST_STAGE, NULL, NULL},
    {"--pipeline-model-parallel-layout", P4D_MEGATRON_PICTURE, NULL, NULL},
    {"--account-for-embedding-in-pipeline-split", P4D_ACCOUNT_FOR_EMBEDDING, "on", NULL},
    {"--account-for-loss-in-pipeline-split", P4D_ACCOUNT_FOR_LOSS, "on", NULL},
    {"--accumulate-allreduce-grads-in-fp32", P4D_GRAD_DTYPE, "fp32", NULL},
    {"--grad-reduce-in-bf16", P4D_GRAD_DTYPE, "bf16", NULL},
    {"--main-grads-dtype", P4D_GRAD_DTYPE, NULL, NULL},
    {"--main-params-dtype", P4D_MASTER_DTYPE, NULL, NULL},
    {"--exp-avg-dtype", P4D_OPTIMIZER_DTYPE, NULL, states},
    {"--micro-batch-size", P4D_MICRO_BATCH, NULL, NULL},
    {"--skip-train", P4D_READ_TRAINS_NOTHING, "on", NULL},
    {"--eval-micro-batch-size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--global-batch-size", P4D_GLOBAL_BATCH, NULL, NULL},
    {"--seq-length", P4D_SEQ_LEN, NULL, NULL},
    {"--encoder-seq-length", P4D_SEQ_LEN, NULL, NULL},
    {"--num-layers", P4D_LAYERS, NULL, NULL},
    {"--hidden-size", P4D_HIDDEN, NULL, NULL},
    {"--ffn-hidden-size", P4D_FFN, NULL, NULL},
    {"--num-attention-heads", P4D_HEADS, NULL, NULL},
    {"--group-query-attention", GROUPED, "on", NULL},
    {"--num-query-groups", GROUPS, NULL, NULL},
    /* of Megatron-DeepSpeed, Megatron-LLM and BigCode's fork */
    {"--num-key-value-heads", P4D_KV_HEADS, NULL, NULL},
    {"--num-attention-heads-kv", P4D_KV_HEADS, NULL, NULL},
    {"--attention-head-type", P4D_KV_HEADS, NULL, attention_heads},
    {"--kv-channels", P4D_HEAD_DIM, NULL, NULL},
    {"--vocab-size", TOKENIZER_VOCAB, NULL, NULL},
    {"--padded-vocab-size", TOKENIZER_VOCAB, NULL, NULL},
    {"--max-position-embeddings", P4D_MAX_SEQ_LEN, NULL, NULL},
    {"--position-embedding-type", P4D_POSITIONS, NULL, positions},
    {"--use-rotary-position-embeddings", P4D_POSITIONS, "rope", NULL},
    {"--rotary-base", P4D_ROPE_THETA, NULL, NULL},
    {"--normalization", P4D_NORM, NULL, norms},
    {"--norm-epsilon", P4D_NORM_EPSILON, NULL, NULL},
    {"--swiglu", P4D_GLU, "on", NULL},
    {"--t5-swiglu", P4D_GLU, "on", NULL}, /* from OpenGPT-X */
    {"--squared-relu", P4D_ACTIVATION, "relu2", NULL},
    {"--untie-embeddings-and-output-weights", P4D_TIED, "off", NULL},
    {"--disable-bias-linear", P4D_BIAS, "none", NULL},
    {"--add-qkv-bias", QKV_BIAS, "on", NULL},
    {"--qk-layernorm", P4D_QK_NORM, "on", NULL},
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--fp16", P4D_PRECISION, "fp16", NULL},
    {"--recompute-activations", P4D_RECOMPUTE, "selective", NULL},
    {"--recompute-granularity", GRANULARITY, NULL, NULL},
    {"--recompute-modules", MODULES, NULL, p4d_reader__list},
    {"--moe-shared-expert-overlap", P4D_SHARED_OVERLAP, "on", NULL},
    {"--recompute-method", P4D_RECOMPUTE_METHOD, NULL, NULL},
    {"--recompute-num-layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--attention-backend", P4D_ATTENTION, NULL, backends},
    {"--use-flash-attn", P4D_ATTENTION, "flash", NULL},
    {"--use-flash-attn-v1", P4D_ATTENTION, "flash", NULL},
    {"--use-flash-attn-v2", P4D_ATTENTION, "flash", NULL},
    {"--transformer-impl", IMPLEMENTATION, NULL, implementations},
    {"--cross-entropy-loss-fusion", FUSED_LOSS, "on", NULL},
    {"--cross-entropy-fusion-impl", LOSS_KERNEL, NULL, NULL},
    {"--no-bias-swiglu-fusion", P4D_SWIGLU, "unfused", NULL},
    {"--no-gradient-accumulation-fusion", P4D_TE_WGRAD, "off", NULL},
    {"--no-create-attention-mask-in-dataloader", P4D_ATTENTION_MASK, "off", NULL},
    {"--dataloader-inter-document-masking", P4D_ATTENTION_MASK, "off", NULL},
    {"--hidden-dropout", P4D_DROPOUT, NULL, dropouts},
    {"--attention-dropout", ATTENTION_DROPOUT, NULL, NULL},
    {"--num-experts", P4D_EXPERTS, NULL, NULL},
    {"--moe-router-topk", P4D_EXPERTS_PER_TOKEN, NULL, NULL},
    {"--moe-ffn-hidden-size", P4D_EXPERT_FFN, NULL, NULL},
    {"--moe-shared-expert-intermediate-size", P4D_SHARED_FFN, NULL, NULL},
    {"--moe-layer-freq", LAYER_FREQUENCY, NULL, NULL},
    {"--moe-token-dispatcher-type", DISPATCHER, NULL, NULL},
    {"--moe-grouped-gemm", GROUPED_PRODUCTS, "on", NULL},
    {"--moe-flex-dispatcher-backend", FLEX_BACKEND, NULL, NULL},
    {"--moe-enable-deepep", FLEX_BACKEND, "deepep", NULL},
    {"--moe-expert-capacity-factor", P4D_EXPERT_CAPACITY, NULL, NULL},
    {"--moe-pad-expert-input-to-capacity", P4D_PAD_EXPERTS, "on", NULL},
    {"--moe-layer-recompute", MODULES, "moe", NULL},
    {"--expert-model-parallel-size", P4D_EP, NULL, NULL},
    {"--expert-tensor-parallel-size", P4D_ETP, NULL, NULL},
    {"--mtp-num-layers", P4D_MTP_LAYERS, NULL, NULL},
    {"--multi-latent-attention", LATENT, "on", NULL},
    {"--q-lora-rank", LATENT_SIZES, NULL, NULL},
    {"--kv-lora-rank", LATENT_SIZES + 1, NULL, NULL},
    {"--qk-head-dim", LATENT_SIZES + 2, NULL, NULL},
    {"--qk-pos-emb-head-dim", LATENT_SIZES + 3, NULL, NULL},
    {"--v-head-dim", LATENT_SIZES + 4, NULL, NULL},
    {"--fp8-format", FP8_FORMAT, NULL, NULL},
    {"--fp8-hybrid", FP8_FORMAT, "hybrid", NULL},
    {"--fp8-e4m3", FP8_FORMAT, "e4m3", NULL},
    {"--fp8-recipe", FP8_RECIPE, NULL, fp8_recipes},
    {"--fp8-param-gather", FP8_PARAM_GATHER, "on", NULL},
    {"--fp8-param", FP8_PARAM_GATHER, "on", NULL},
    {"--use-legacy-models", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--decoder-seq-length", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--distribute-saved-activations", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--num-distributed-optimizer-instances", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--defer-embedding-wgrad-compute", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp16-lm-cross-entropy", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--retro-add-retriever", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--first-last-layers-bf16", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp8-dot-product-attention", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp8-multi-head-attention", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--activation-func-fp8-input-store", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp4-format", FP4_FORMAT, NULL, fp4_formats},
    {"--fp4-recipe", FP4_RECIPE, NULL, fp4_recipes},
    {"--fp4-param-gather", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--fp4-param", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--cuda-graph-impl", GRAPHS, NULL, NULL},
    {"--external-cuda-graph", GRAPHS, "transformer_engine", NULL},
    {"--enable-cuda-graph", GRAPHS, "local", NULL},
    {"--cuda-graph-scope", GRAPH_SCOPE, NULL, p4d_reader__list},
    {"--cpu-offloading", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--optimizer-cpu-offload", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use-torch-fsdp2", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--use-megatron-fsdp", P4D_READ_NOT_MODELLED, "on", NULL},
    /* arguments that change a layer's memory, which p4d does not model */
    {"--fp32-residual-connection", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--heterogeneous-layers-config-path", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--heterogeneous-layers-config-encoded-json", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--moe-latent-size", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--moe-paged-stash", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--overlap-moe-expert-parallel-comm", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--enable-mhc-connections", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--hybrid-context-parallel", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--gtp-weight-remat-size", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--expert-gtp-weight-remat-size", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--freeze-all-layers", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--decoder-num-layers", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--yaml-cfg", P4D_READ_FILE, "", NULL},
    {NULL, 0, NULL, NULL},
};

/* Names in the file of --yaml-cfg that differ from arguments (examples/gpt3/gpt_config.yaml). */
static const p4d_read_argument yaml_arguments[] = {
    {"--language_model.num_layers", P4D_LAYERS, NULL, NULL},
    {"--language_model.hidden_size", P4D_HIDDEN, NULL, NULL},
    {"--language_model.num_attention_heads", P4D_HEADS, NULL, NULL},
    {"--language_model.num_query_groups", P4D_KV_HEADS, NULL, NULL},
    {"--language_model.ffn_hidden_size", P4D_FFN, NULL, NULL},
    {"--language_model.kv_channels", P4D_HEAD_DIM, NULL, NULL},
    {"--language_model.normalization", P4D_NORM, NULL, norms},
    {"--language_model.gated_linear_unit", P4D_GLU, "on", NULL},
    {"--language_model.hidden_dropout", P4D_DROPOUT, NULL, dropouts},
    {"--language_model.attention_dropout", ATTENTION_DROPOUT, NULL, NULL},
    {"--language_model.add_qkv_bias", QKV_BIAS, "on", NULL},
    {"--language_model.recompute_granularity", GRANULARITY, NULL, NULL},
    {"--language_model.recompute_method", P4D_RECOMPUTE_METHOD, NULL, NULL},
    {"--language_model.recompute_num_layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--language_model.num_moe_experts", P4D_EXPERTS, NULL, NULL},
    {"--language_model.moe_router_topk", P4D_EXPERTS_PER_TOKEN, NULL, NULL},
    {"--language_model.moe_ffn_hidden_size", P4D_EXPERT_FFN, NULL, NULL},
    {"--language_model.moe_token_dispatcher_type", DISPATCHER, NULL, NULL},
    {"--language_model.moe_grouped_gemm", GROUPED_PRODUCTS, "on", NULL},
    {"--model_parallel.expert_model_parallel_size", P4D_EP, NULL, NULL},
    {"--model_parallel.expert_tensor_parallel_size", P4D_ETP, NULL, NULL},
    {"--model_parallel.tensor_model_parallel_size", P4D_TP, NULL, NULL},
    {"--model_parallel.pipeline_model_parallel_size", P4D_PP, NULL, NULL},
    {"--model_parallel.virtual_pipeline_model_parallel_size", P4D_VPP, NULL, NULL},
    {"--model_parallel.context_parallel_size", P4D_CP, NULL, NULL},
    {"--model_parallel.sequence_parallel", P4D_SEQUENCE_PARALLEL, "on", NULL},
    {"--model_parallel.bf16", P4D_PRECISION, "bf16", NULL},
    {"--model_parallel.fp16", P4D_PRECISION, "fp16", NULL},
    {NULL, 0, NULL, NULL},
};

/* Defaults of Megatron-LM's arguments. */
static const p4d_read_default defaults[] = {
    {P4D_FRAMEWORK, "megatron"},
    {P4D_MODEL, "custom"},
    {P4D_TP, "1"},
    {P4D_PP, "1"},
    {P4D_CP, "1"},
    {P4D_SEQUENCE_PARALLEL, "off"},
    {P4D_OPTIMIZER_SHARDING, "off"},
    {P4D_NORM, "layernorm"},
    {P4D_GLU, "off"},
    {P4D_TIED, "on"},
    {P4D_POSITIONS, "learned"},
    {P4D_BIAS, "all"},
    {P4D_QK_NORM, "off"},
    {P4D_PRECISION, "fp32"},
    {P4D_DROPOUT, "on"},
    {P4D_RECOMPUTE, "none"},
    {P4D_CROSS_ENTROPY, "unfused"},
    {0, NULL},
};

/* The value of an option, from the script or Megatron-LM's default. */
static bool is(const p4d_reading *r, p4d_option option, const char *value)
{
	return p4d_reader__set(&r->value[option]) && !strcmp(r->value[option].text, value);
}

static void finish_recomputation(p4d_reading *r)
{
	const p4d_read_value *granularity = p4d_reader__slot(r, GRANULARITY),
			     *modules = p4d_reader__slot(r, MODULES);
	/* without experts or latent attention, the parts that `selective` recomputes do not exist */
	const bool sparse = p4d_reader__set(&r->value[P4D_EXPERTS]) ||
			    p4d_reader__set(p4d_reader__slot(r, LATENT)) || strstr(modules->text, "moe") ||
			    strstr(modules->text, "mla_") || strstr(modules->text, "shared_experts");

	/* in older releases, a method without granularity recomputed whole layers */
	if (p4d_reader__set(p4d_reader__slot(r, OLD_METHOD))) {
		p4d_reader__put(r, P4D_RECOMPUTE_METHOD, p4d_reader__slot(r, OLD_METHOD), "%s",
				p4d_reader__slot(r, OLD_METHOD)->text);
		if (!p4d_reader__set(granularity))
			p4d_reader__put(r, P4D_RECOMPUTE, p4d_reader__slot(r, OLD_METHOD), "full");
	}
	if (!strcmp(granularity->text, "full"))
		p4d_reader__put(r, P4D_RECOMPUTE, granularity, "full");
	else if (p4d_reader__set(granularity) &&
		 (!p4d_reader__set(modules) || !strcmp(modules->text, "core_attn")))
		p4d_reader__put(r, P4D_RECOMPUTE, granularity, "selective");
	else if (p4d_reader__set(granularity) && sparse && strcmp(modules->text, "moe") != 0) {
		p4d_reader__put(r, P4D_RECOMPUTE, granularity, "selective");
		p4d_reader__put(r, P4D_RECOMPUTE_MODULES, modules, "%s", modules->text);
	} else if (p4d_reader__set(granularity) && !strcmp(modules->text, "layernorm"))
		/* Transformer Engine fuses norms into the next matmul, so nothing is recomputed */
		p4d_reader__put(r, P4D_RECOMPUTE, modules, "none");
	else if (p4d_reader__set(granularity) &&
		 (!strcmp(modules->text, "mlp") || !strcmp(modules->text, "moe")))
		p4d_reader__put(r, P4D_RECOMPUTE, modules, "%s", modules->text);
	else if (p4d_reader__set(granularity)) {
		p4d_reader__unknown(r, "recompute", "--recompute-modules %.60s is not modelled",
				    modules->text);
		p4d_reader__forget(r, P4D_RECOMPUTE);
	}
	if (granularity->unknown || modules->unknown)
		p4d_reader__forget(r, P4D_RECOMPUTE);
}

/* Evaluates a pattern like "([0]*3+[1]*58)" as Megatron-LM does. *dense: first layers without experts. */
static bool first_layers(const char *pattern, uint64_t layers, uint64_t *dense)
{
	unsigned zeros, ones;
	int end = 0;

	if (!strcmp(pattern, "1")) {
		*dense = 0;
		return true;
	}
	if (sscanf(pattern, "([0]*%u+[1]*%u)%n", &zeros, &ones, &end) != 2 || !end || pattern[end])
		return false;
	*dense = zeros;
	return !layers || (uint64_t)zeros + ones == layers;
}

/* Sets how tokens reach their experts. The dispatcher flex uses DeepEP by default. */
void p4d_megatron__finish_dispatcher(p4d_reading *r)
{
	static const struct {
		const char *type, *backend, *name;
	} dispatchers[] = {
	    {"allgather", "", "all-gather"}, {"alltoall", "", "all-to-all"}, {"flex", "deepep", "deepep"}};
	const p4d_read_value *type = p4d_reader__slot(r, DISPATCHER),
			     *backend = p4d_reader__slot(r, FLEX_BACKEND);
	const bool flex = p4d_reader__set(type) && !strcmp(type->text, "flex");
	const char *of_flex = !flex ? "" : p4d_reader__set(backend) ? backend->text : "deepep";

	if (!p4d_reader__set(type))
		return;
	for (size_t i = 0; i < sizeof(dispatchers) / sizeof(dispatchers[0]); i++)
		if (!strcmp(type->text, dispatchers[i].type) && !strcmp(of_flex, dispatchers[i].backend)) {
			p4d_reader__put(r, P4D_TOKEN_DISPATCHER, type, "%s", dispatchers[i].name);
			return;
		}
	p4d_reader__unknown(r, "moe-token-dispatcher-type", "%.40s%s%.40s is not modelled", type->text,
			    flex ? " with " : "", of_flex);
}

/* Sets options about experts, and Megatron-LM's defaults for them. */
static void finish_experts(p4d_reading *r)
{
	const p4d_read_value *frequency = p4d_reader__slot(r, LAYER_FREQUENCY);
	uint64_t dense = 0;

	if (!p4d_reader__set(&r->value[P4D_EXPERTS]))
		return;
	if (p4d_reader__set(frequency) &&
	    !first_layers(frequency->text, p4d_reader__number(&r->value[P4D_LAYERS]), &dense))
		p4d_reader__unknown(r, "dense-layers",
				    "--moe-layer-freq %.60s: p4d models dense layers before "
				    "those with experts",
				    frequency->text);
	if (dense)
		p4d_reader__put(r, P4D_DENSE_LAYERS, frequency, "%" PRIu64, dense);
	p4d_reader__put_default(r, P4D_TOKEN_DISPATCHER, "all-gather");
	p4d_megatron__finish_dispatcher(r);
	if (!p4d_reader__set(p4d_reader__slot(r, GROUPED_PRODUCTS)))
		p4d_reader__unknown(r, "moe-grouped-gemm",
				    "p4d does not model experts that run one after the other");
	if (!p4d_reader__set(&r->value[P4D_EXPERTS_PER_TOKEN]))
		p4d_reader__put_default(r, P4D_EXPERTS_PER_TOKEN, "2");
	if (!p4d_reader__set(&r->value[P4D_EP]))
		p4d_reader__put_default(r, P4D_EP, "1");
	/* by default, experts are sharded like all other layers */
	if (!p4d_reader__set(&r->value[P4D_ETP]) && p4d_reader__set(&r->value[P4D_TP]))
		p4d_reader__put_default(r, P4D_ETP, "%s", r->value[P4D_TP].text);
}

/* Sets the sizes of latent attention and their defaults, if the model has latent attention. */
static void finish_latent(p4d_reading *r)
{
	static const struct {
		p4d_option option;
		const char *otherwise;
	} sizes[] = {{P4D_Q_LORA_RANK, NULL},
		     {P4D_KV_LORA_RANK, "32"},
		     {P4D_HEAD_DIM, "128"},
		     {P4D_ROPE_HEAD_DIM, "64"},
		     {P4D_V_HEAD_DIM, "128"}};

	if (!p4d_reader__set(p4d_reader__slot(r, LATENT)))
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const p4d_read_value *value = p4d_reader__slot(r, LATENT_SIZES + (int)i);
		if (p4d_reader__set(value))
			p4d_reader__put(r, sizes[i].option, value, "%s", value->text);
		else if (sizes[i].otherwise && !value->unknown)
			p4d_reader__put_default(r, sizes[i].option, "%s", sizes[i].otherwise);
	}
	if (p4d_reader__set(&r->value[P4D_HEADS]))
		p4d_reader__put(r, P4D_KV_HEADS, &r->value[P4D_HEADS], "%s", r->value[P4D_HEADS].text);
	/* with latent attention, --qk-layernorm normalizes the latent vectors, and RoPE rotates a part of the
	 * head */
	p4d_reader__put_default(r, P4D_QK_NORM, "off");
	p4d_reader__put(r, P4D_POSITIONS, p4d_reader__slot(r, LATENT), "rope");
}

/* Sets FP8 options, which have no effect without a format. Megatron-LM refuses fp8 and fp4 together. */
static void finish_fp8(p4d_reading *r)
{
	const bool fp4 =
	    p4d_reader__set(p4d_reader__slot(r, FP4_FORMAT)) || p4d_reader__slot(r, FP4_FORMAT)->unknown;
	const p4d_read_value *format = p4d_reader__slot(r, fp4 ? FP4_FORMAT : FP8_FORMAT),
			     *recipe = p4d_reader__slot(r, fp4 ? FP4_RECIPE : FP8_RECIPE),
			     *parameters = p4d_reader__slot(r, FP8_PARAM_GATHER);

	if (format->unknown)
		p4d_reader__forget(r, P4D_PRECISION);
	if (!p4d_reader__set(format))
		return;
	if (!is(r, P4D_PRECISION, "bf16")) {
		p4d_reader__unknown(r, "precision", "p4d models FP8 only with --bf16");
		p4d_reader__forget(r, P4D_PRECISION);
		return;
	}
	p4d_reader__put(r, P4D_PRECISION, format, "fp8");
	if (fp4 && !recipe->unknown)
		p4d_reader__put(r, P4D_FP8_RECIPE, format, "nvfp4");
	else if (p4d_reader__set(recipe))
		p4d_reader__put(r, P4D_FP8_RECIPE, recipe, "%s", recipe->text);
	else if (recipe->unknown)
		p4d_reader__forget(r, P4D_FP8_RECIPE);
	if (p4d_reader__set(parameters) && !fp4)
		p4d_reader__put(r, P4D_FP8_PARAM_GATHER, parameters, "on");
}

/* Sets cp-heads. The first size is that of the group that exchanges heads, the second that of the ring of
 * keys and values. p4d has no option for other hierarchies. */
static void finish_hierarchy(p4d_reading *r)
{
	const p4d_read_value *sizes = p4d_reader__slot(r, HIERARCHY);
	uint64_t heads, others;
	char end;

	if (!p4d_reader__set(sizes))
		return;
	if (sscanf(sizes->text, "%" SCNu64 ",%" SCNu64 "%c", &heads, &others, &end) == 2 && heads > 1)
		p4d_reader__put(r, P4D_CP_HEADS, sizes, "%" PRIu64, heads);
	else
		p4d_reader__unknown(r, "cp-heads", "--hierarchical-context-parallel-sizes %s is not modelled",
				    sizes->text);
}

/* An unknown attention dropout matters only with unfused attention, because only that stores a mask. */
static void settle_unknown_share(p4d_reading *r)
{
	unsigned kept = 0;

	p4d_reader__forget(r, P4D_ATTENTION_DROPOUT);
	if (is(r, P4D_ATTENTION, "unfused") || r->value[P4D_ATTENTION].unknown)
		return;
	p4d_reader__leave_out(r, P4D_ATTENTION_DROPOUT);
	for (unsigned i = 0; i < r->unknowns; i++)
		if (strcmp(r->unknown[i].name, "attention-dropout") != 0)
			r->unknown[kept++] = r->unknown[i];
	r->unknowns = kept;
}

/* Sets attention's dropout, which has the same default as the hidden dropout, if the two differ. */
static void finish_dropout(p4d_reading *r)
{
	const p4d_read_value *share = p4d_reader__slot(r, ATTENTION_DROPOUT);
	const char *drops = NULL;

	if (share->unknown)
		settle_unknown_share(r);
	if (p4d_reader__set(share)) {
		drops = strtod(share->text, NULL) > 0 ? "on" : "off";
		if (!is(r, P4D_DROPOUT, drops))
			p4d_reader__put(r, P4D_ATTENTION_DROPOUT, share, "%s", drops);
		return;
	}
	for (const p4d_read_default *d = r->reader->defaults; d && d->value; d++)
		if (d->option == P4D_DROPOUT)
			drops = d->value;
	if (drops && !share->unknown && !is(r, P4D_DROPOUT, drops))
		p4d_reader__put_default(r, P4D_ATTENTION_DROPOUT, "%s", drops);
}

void p4d_megatron__finish_training(p4d_reading *r)
{
	/* Megatron-LM's own fusion, the default, stores the softmax in fp32 like the unfused loss */
	if (p4d_reader__set(p4d_reader__slot(r, FUSED_LOSS)) &&
	    !strcmp(p4d_reader__slot(r, LOSS_KERNEL)->text, "te"))
		p4d_reader__put(r, P4D_CROSS_ENTROPY, p4d_reader__slot(r, LOSS_KERNEL), "fused");
	p4d_megatron__finish_split(r);
	finish_recomputation(r);
	finish_fp8(r);
	finish_hierarchy(r);
	finish_dropout(r);
	p4d_reader__graphs(r, p4d_reader__slot(r, GRAPHS), p4d_reader__slot(r, GRAPH_SCOPE));
}

static void finish(p4d_reading *r)
{
	const p4d_read_value *chunk = p4d_reader__slot(r, LAYERS_PER_CHUNK),
			     *groups = p4d_reader__slot(r, GROUPS);
	const uint64_t layers = p4d_reader__number(&r->value[P4D_LAYERS]),
		       pp = p4d_reader__number(&r->value[P4D_PP]), per_chunk = p4d_reader__number(chunk),
		       hidden = p4d_reader__number(&r->value[P4D_HIDDEN]),
		       vocab = p4d_reader__number(p4d_reader__slot(r, TOKENIZER_VOCAB));

	if (per_chunk && layers && pp && layers % (pp * per_chunk) == 0)
		p4d_reader__put(r, P4D_VPP, chunk, "%" PRIu64, layers / pp / per_chunk);
	else if (p4d_reader__set(chunk))
		p4d_reader__unknown(r, "vpp",
				    "%s layers cannot be divided into %s stages with chunks of %s layers",
				    r->value[P4D_LAYERS].text, r->value[P4D_PP].text, chunk->text);
	if (p4d_reader__set(p4d_reader__slot(r, GROUPED)) && p4d_reader__set(groups))
		p4d_reader__put(r, P4D_KV_HEADS, groups, "%s", groups->text);
	else if (p4d_reader__set(groups) && !p4d_reader__is(&r->value[P4D_HEADS], groups->text))
		p4d_reader__unknown(r, "kv-heads",
				    "--num-query-groups without --group-query-attention has no effect");
	if (!p4d_reader__set(&r->value[P4D_FFN]) && hidden && is(r, P4D_GLU, "off"))
		p4d_reader__put_default(r, P4D_FFN, "%" PRIu64, 4 * hidden);
	if (p4d_reader__set(p4d_reader__slot(r, QKV_BIAS)) && is(r, P4D_BIAS, "none"))
		p4d_reader__put(r, P4D_BIAS, p4d_reader__slot(r, QKV_BIAS), "qkv");
	if (vocab)
		p4d_reader__put(r, P4D_VOCAB, p4d_reader__slot(r, TOKENIZER_VOCAB), "%" PRIu64, vocab);
	else if (!p4d_reader__slot(r, TOKENIZER_VOCAB)->unknown)
		p4d_reader__unknown(r, "vocab",
				    "it depends on the tokenizer, because --vocab-size is not given");
	p4d_megatron__finish_training(r);
	finish_latent(r);
	finish_experts(r);
	p4d_megatron__finish_hybrid(r);
}

/* A program called train_gpt.py is Megatron-LM's if the command has one of these arguments. */
static const char *const typical[] = {"--micro-batch-size", "--num-attention-heads",
				      "--tensor-model-parallel-size", "--pipeline-model-parallel-size", NULL};

/* Arguments of Megatron-LM before 3.0 that Megatron-DeepSpeed still has. */
static const p4d_read_argument older[] = {
    {"--checkpoint-activations", P4D_RECOMPUTE, "full", NULL},
    {"--checkpoint-num-layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--activations-checkpoint-method", OLD_METHOD, NULL, NULL},
    {"--activations-checkpoint-granularity", GRANULARITY, NULL, NULL},
    {"--activations-checkpoint-num-layers", P4D_RECOMPUTE_LAYERS, NULL, NULL},
    {"--glu-activation", P4D_GLU, NULL, glus},
    {"--pad-vocab-size-to", TOKENIZER_VOCAB, NULL, NULL},
    {"--deepspeed", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--zero-stage", P4D_OPTIMIZER_SHARDING, NULL, stages},
    {NULL, 0, NULL, NULL},
};

static const p4d_reader older_megatron = {
    .framework = "megatron",
    .release = "Megatron-LM before 3.0",
    .typical = typical,
    .arguments_alone = {"--checkpoint-activations", "--checkpoint-num-layers",
			"--activations-checkpoint-method", "--activations-checkpoint-granularity",
			"--activations-checkpoint-num-layers", "--deepspeed", "--zero-stage",
			"--glu-activation"},
    .arguments = {older, p4d_reader__megatron_arguments, yaml_arguments, p4d_megatron__hybrid},
    .defaults = defaults,
    .finish = finish,
};

const p4d_reader p4d_reader__megatron = {
    .framework = "megatron",
    .release = "Megatron-LM core_v0.16",
    .programs = {"pretrain_gpt.py", "pretrain_llama*", "pretrain_gpt", "~train_gpt.py", "pretrain_mamba.py",
		 "pretrain_hybrid.py"},
    .typical = typical,
    .arguments_alone = {"--tensor-model-parallel-size", "--pipeline-model-parallel-size",
			"--max-position-embeddings"},
    .arguments = {p4d_reader__megatron_arguments, yaml_arguments, p4d_megatron__hybrid, older},
    .earlier = &older_megatron,
    .defaults = defaults,
    .finish = finish,
};

/* Arguments that slime, a program for reinforcement learning, adds to Megatron-LM's. */
static const p4d_read_argument slime_arguments[] = {
    {"--hf-checkpoint", P4D_MODEL, NULL, NULL},
    {"--actor-num-nodes", P4D_NODES, NULL, NULL},
    {"--actor-num-gpus-per-node", P4D_GPUS_PER_NODE, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static void finish_slime(p4d_reading *r)
{
	finish(r);
	p4d_finetune__reinforcement(r);
}

const p4d_reader p4d_reader__slime = {
    .framework = "slime",
    .arguments_alone = {"--hf-checkpoint", "--rollout-num-gpus"},
    .arguments = {slime_arguments, p4d_reader__megatron_arguments, p4d_megatron__hybrid},
    .finish = finish_slime,
};
