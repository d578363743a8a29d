/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that serve a model: vLLM (0.11) and SGLang (0.5). */
#include "reader/read_finetune.h"

enum {
	MODEL_LENGTH,
	SEQUENCES,
	MEMORY_SHARE,
	QUANTIZATION,
	CACHE_TYPE,
	WEIGHT_TYPE,
};

#define X(i) P4D_READ_EXTRA(i)
static const char *const quants[] = {"fp8",          "fp8",        "awq", "awq",         "gptq",
				     "gptq",         "awq_marlin", "awq", "gptq_marlin", "gptq",
				     "bitsandbytes", "nf4",        NULL};

static const p4d_read_argument vllm_arguments[] = {
    {"", P4D_MODEL, NULL, NULL},
    {"--config", P4D_READ_FILE, "", NULL},
    {"--model", P4D_MODEL, NULL, NULL},
    {"--tensor-parallel-size", P4D_TP, NULL, NULL},
    {"-tp", P4D_TP, NULL, NULL},
    {"--pipeline-parallel-size", P4D_PP, NULL, NULL},
    {"-pp", P4D_PP, NULL, NULL},
    {"--max-model-len", X(MODEL_LENGTH), NULL, NULL},
    {"--max-num-seqs", X(SEQUENCES), NULL, NULL},
    {"--gpu-memory-utilization", X(MEMORY_SHARE), NULL, NULL},
    {"--quantization", X(QUANTIZATION), NULL, quants},
    {"-q", X(QUANTIZATION), NULL, quants},
    {"--kv-cache-dtype", X(CACHE_TYPE), NULL, NULL},
    {"--dtype", X(WEIGHT_TYPE), NULL, p4d_finetune__dtypes},
    {"--cpu-offload-gb", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--enable-lora", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--speculative-config", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_argument sglang_arguments[] = {
    {"--model-path", P4D_MODEL, NULL, NULL},
    {"--model", P4D_MODEL, NULL, NULL},
    {"--tensor-parallel-size", P4D_TP, NULL, NULL},
    {"--tp-size", P4D_TP, NULL, NULL},
    {"--tp", P4D_TP, NULL, NULL},
    {"--pipeline-parallel-size", P4D_PP, NULL, NULL},
    {"--pp-size", P4D_PP, NULL, NULL},
    {"--context-length", X(MODEL_LENGTH), NULL, NULL},
    {"--max-running-requests", X(SEQUENCES), NULL, NULL},
    {"--mem-fraction-static", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--quantization", X(QUANTIZATION), NULL, quants},
    {"--kv-cache-dtype", X(CACHE_TYPE), NULL, NULL},
    {"--dtype", X(WEIGHT_TYPE), NULL, p4d_finetune__dtypes},
    {"--nnodes", P4D_NODES, NULL, NULL},
    {"--speculative-algorithm", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default defaults[] = {{P4D_TP, "1"}, {P4D_PP, "1"}, {0, NULL}};

static void finish(p4d_reading *r)
{
	static const struct {
		const char *option;
		int extra;
	} values[] = {
	    {"max-model-len", MODEL_LENGTH},          {"max-num-seqs", SEQUENCES},
	    {"gpu-memory-utilization", MEMORY_SHARE}, {"quant", QUANTIZATION},
	    {"kv-cache-dtype", CACHE_TYPE},           {"precision", WEIGHT_TYPE},
	};
	const p4d_read_value place = {.file = r->file, .line = r->line};

	p4d_reader__say(r, "workload", &place, "serve");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const p4d_read_value *value = &r->extra[values[i].extra];
		if (p4d_reader__set(value))
			p4d_reader__say(r, values[i].option, value, "%s", value->text);
	}
}

const p4d_reader p4d_reader__vllm = {
    .framework = "vllm",
    .programs = {"vllm serve", "vllm.entrypoints.openai.api_server"},
    .arguments = {vllm_arguments},
    .defaults = defaults,
    .finish = finish,
};

const p4d_reader p4d_reader__sglang = {
    .framework = "sglang",
    .programs = {"sglang.launch_server", "sglang serve"},
    .arguments = {sglang_arguments},
    .defaults = defaults,
    .finish = finish,
};
