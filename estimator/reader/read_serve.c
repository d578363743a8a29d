/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that serve a model: vLLM (0.11) and SGLang (0.5). */
#include "reader/read_finetune.h"

static const char *const quants[] = {"fp8", "fp8", "bitsandbytes", "nf4", NULL};
static const char *const caches[] = {"auto", "auto",     "fp8", "fp8", "fp8_e4m3",
				     "fp8",  "fp8_e5m2", "fp8", NULL};

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
    {"--context-length", P4D_SEQ_LEN, NULL, NULL},
    {"--chunked-prefill-size", P4D_MAX_BATCHED_TOKENS, NULL, NULL},
    {"--max-running-requests", P4D_MAX_NUM_SEQS, NULL, NULL},
    {"--mem-fraction-static", P4D_GPU_UTILIZATION, NULL, NULL},
    {"--quantization", P4D_QUANT, NULL, quants},
    {"--kv-cache-dtype", P4D_KV_CACHE_DTYPE, NULL, caches},
    {"--dtype", P4D_PRECISION, NULL, p4d_finetune__dtypes},
    {"--nnodes", P4D_NODES, NULL, NULL},
    {"--speculative-algorithm", P4D_READ_NOT_MODELLED, NULL, NULL},
    {NULL, 0, NULL, NULL},
};

static const p4d_read_default vllm_defaults[] = {
    {P4D_WORKLOAD, "serve"}, {P4D_ENGINE, "vllm"}, {P4D_TP, "1"}, {P4D_PP, "1"}, {0, NULL},
};
static const p4d_read_default sglang_defaults[] = {
    {P4D_WORKLOAD, "serve"}, {P4D_ENGINE, "sglang"}, {P4D_TP, "1"}, {P4D_PP, "1"}, {0, NULL},
};

const p4d_reader p4d_reader__vllm = {
    .framework = "vllm",
    .programs = {"vllm serve", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server",
		 "trl vllm-serve"},
    .arguments = {vllm_arguments},
    .defaults = vllm_defaults,
};

const p4d_reader p4d_reader__sglang = {
    .framework = "sglang",
    .programs = {"sglang.launch_server", "sglang serve"},
    .arguments = {sglang_arguments},
    .defaults = sglang_defaults,
};
