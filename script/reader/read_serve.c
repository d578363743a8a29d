/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that serve a model: vLLM (0.11) and SGLang (0.5). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reader/read_finetune.h"

/*
 * Values of --quantization. Those that map to "none" only describe the model's files, whose config.json or
 * name says how weights are stored.
 */
static const char *const quants[] = {"fp8",         "fp8",  "bitsandbytes",       "nf4",  "none",     "none",
				     "awq",         "none", "awq_marlin",         "none", "gptq",     "none",
				     "gptq_marlin", "none", "compressed-tensors", "none", "modelopt", "none",
				     "mxfp4",       "none", "auto-round",         "none", "quark",    "none",
				     NULL};
static const char *const caches[] = {"auto", "auto",     "fp8", "fp8", "fp8_e4m3",
				     "fp8",  "fp8_e5m2", "fp8", NULL};

enum { ADAPTERS, MOST_ADAPTERS, ADAPTER_RANK, COMPILATION };

static const p4d_read_argument vllm_arguments[] = {
    {"", P4D_MODEL, NULL, NULL},
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model", P4D_MODEL, NULL, NULL},
    {"--tensor-parallel-size", P4D_TP, NULL, NULL},
    {"-tp", P4D_TP, NULL, NULL},
    {"--pipeline-parallel-size", P4D_PP, NULL, NULL},
    {"-pp", P4D_PP, NULL, NULL},
    {"--max-model-len", P4D_SEQ_LEN, NULL, NULL},
    {"--max-num-seqs", P4D_MAX_NUM_SEQS, NULL, NULL},
    {"--max-num-batched-tokens", P4D_MAX_BATCHED_TOKENS, NULL, NULL},
    {"--gpu-memory-utilization", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--quantization", P4D_QUANT, NULL, quants},
    {"-q", P4D_QUANT, NULL, quants},
    {"--kv-cache-dtype", P4D_KV_CACHE_DTYPE, NULL, caches},
    {"--dtype", P4D_PRECISION, NULL, p4d_finetune__dtypes},
    {"--enforce-eager", P4D_CUDA_GRAPHS, "none", NULL},
    {"--compilation-config", P4D_READ_EXTRA(COMPILATION), NULL, NULL},
    {"-O0", P4D_CUDA_GRAPHS, "none", NULL},
    {"--cpu-offload-gb", P4D_CPU_OFFLOAD, NULL, NULL},
    {"--data-parallel-size", P4D_ENGINE_DP, NULL, NULL},
    {"-dp", P4D_ENGINE_DP, NULL, NULL},
    {"--enable-expert-parallel", P4D_EXPERT_PARALLEL, "on", NULL},
    {"-ep", P4D_EXPERT_PARALLEL, "on", NULL},
    {"--disable-hybrid-kv-cache-manager", P4D_HYBRID_CACHE, "off", NULL},
    {"--enable-lora", P4D_READ_EXTRA(ADAPTERS), "1", NULL},
    {"--max-loras", P4D_READ_EXTRA(MOST_ADAPTERS), NULL, NULL},
    {"--max-lora-rank", P4D_READ_EXTRA(ADAPTER_RANK), NULL, NULL},
    {"--fully-sharded-loras", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--speculative-config", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--speculative-model", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--decode-context-parallel-size", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--kv-cache-memory-bytes", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--num-gpu-blocks-override", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--block-size", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"VLLM_PP_LAYER_PARTITION", P4D_READ_NOT_MODELLED, NULL, NULL}, /* stages of other lengths */
    {NULL, 0, NULL, NULL},
};

static const p4d_read_variable vllm_variables[] = {
    {"VLLM_PP_LAYER_PARTITION", "VLLM_PP_LAYER_PARTITION", P4D_SET_SELDOM},
    {NULL, NULL, P4D_SET_ANYWHERE},
};

static const p4d_read_argument sglang_arguments[] = {
    {"--model-path", P4D_MODEL, NULL, NULL},
    {"--model", P4D_MODEL, NULL, NULL},
    {"--tensor-parallel-size", P4D_TP, NULL, NULL},
    {"--tp-size", P4D_TP, NULL, NULL},
    {"--tp", P4D_TP, NULL, NULL},
    {"--pipeline-parallel-size", P4D_PP, NULL, NULL},
    {"--pp-size", P4D_PP, NULL, NULL},
    {"--context-length", P4D_SEQ_LEN, NULL, NULL},
    {"--chunked-prefill-size", P4D_MAX_BATCHED_TOKENS, NULL, NULL},
    {"--max-running-requests", P4D_MAX_NUM_SEQS, NULL, NULL},
    {"--mem-fraction-static", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--quantization", P4D_QUANT, NULL, quants},
    {"--kv-cache-dtype", P4D_KV_CACHE_DTYPE, NULL, caches},
    {"--dtype", P4D_PRECISION, NULL, p4d_finetune__dtypes},
    {"--nnodes", P4D_NODES, NULL, NULL},
    {"--cpu-offload-gb", P4D_CPU_OFFLOAD, NULL, NULL},
    {"--data-parallel-size", P4D_ENGINE_DP, NULL, NULL},
    {"--dp-size", P4D_ENGINE_DP, NULL, NULL},
    {"--dp", P4D_ENGINE_DP, NULL, NULL},
    {"--disable-hybrid-swa-memory", P4D_HYBRID_CACHE, "off", NULL},
    {"--enable-dp-attention", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--enable-lora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--lora-paths", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--max-total-tokens", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--speculative-algorithm", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--speculative-draft-model-path", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default vllm_defaults[] = {
    {P4D_WORKLOAD, "serve"}, {P4D_ENGINE, "vllm"}, {P4D_TP, "1"}, {P4D_PP, "1"}, {0, NULL},
};
static const p4d_read_default sglang_defaults[] = {
    {P4D_WORKLOAD, "serve"}, {P4D_ENGINE, "sglang"}, {P4D_TP, "1"}, {P4D_PP, "1"}, {0, NULL},
};

/* Sets the maximum length. For vLLM, "32k" is 32,000 and "32K" is 32,768 (human_readable_int). */
static void finish_length(p4d_reading *r)
{
	static const char units[] = "kKmMgG";
	p4d_read_value *length = &r->value[P4D_SEQ_LEN];
	char *end;

	if (!p4d_reader__set(length))
		return;
	const double number = strtod(length->text, &end);
	const char *unit = *end ? strchr(units, *end) : NULL;
	if (!unit || end[1] || !(number > 0 && number < 1e6))
		return;
	const int power = (int)(unit - units) / 2 + 1;
	uint64_t times = 1;
	for (int i = 0; i < power; i++)
		times *= (unit - units) % 2 ? 1024 : 1000;
	p4d_reader__put(r, P4D_SEQ_LEN, length, "%" PRIu64, (uint64_t)(number * (double)times));
}

/* Sets vLLM's adapters: by default one adapter of rank 16, and only if adapters are enabled. */
static void finish_vllm(p4d_reading *r)
{
	const p4d_read_value *adapters = &r->extra[ADAPTERS], *most = &r->extra[MOST_ADAPTERS],
			     *rank = &r->extra[ADAPTER_RANK];

	finish_length(r);
	const p4d_read_value *compilation = &r->extra[COMPILATION];
	if (p4d_reader__set(compilation) && strstr(compilation->text, "cudagraph_mode") &&
	    strstr(compilation->text, "\"NONE\""))
		p4d_reader__put(r, P4D_CUDA_GRAPHS, compilation, "none");
	if (adapters->unknown || (p4d_reader__set(adapters) && (most->unknown || rank->unknown))) {
		p4d_reader__forget(r, P4D_MAX_LORAS);
		p4d_reader__forget(r, P4D_MAX_LORA_RANK);
	} else if (p4d_reader__set(adapters)) {
		const p4d_read_value *count = p4d_reader__set(most) ? most : adapters;
		p4d_reader__put(r, P4D_MAX_LORAS, count, "%s", count->text);
		if (p4d_reader__set(rank))
			p4d_reader__put(r, P4D_MAX_LORA_RANK, rank, "%s", rank->text);
	}
}

const p4d_reader p4d_reader__vllm = {
    .framework = "vllm",
    .programs = {"vllm serve", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server",
		 "vllm-openai*", "vllm.entrypoints.cli.main serve", "trl vllm-serve"},
    .arguments = {vllm_arguments},
    .variables = vllm_variables,
    .defaults = vllm_defaults,
    .finish = finish_vllm,
};

const p4d_reader p4d_reader__sglang = {
    .framework = "sglang",
    .programs = {"sglang.launch_server", "sglang serve"},
    .arguments = {sglang_arguments},
    .defaults = sglang_defaults,
};
