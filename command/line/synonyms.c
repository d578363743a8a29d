/* SPDX-License-Identifier: Apache-2.0 */
/* Words of Slurm, transformers, vLLM and Megatron-LM for options that p4d names differently. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "line/line.h"

static const struct {
	const char *word; /* written with '-' instead of '_' */
	/* p4d's option; if it ends with '=', the typed value follows. "": it has no effect on memory. */
	const char *right;
} synonyms[] = {
    {"batch", "micro-batch="},
    {"batch-size", "micro-batch="},
    {"micro-batch-size", "micro-batch="},
    {"train-batch-size", "micro-batch="},
    {"per-device-batch-size", "micro-batch="},
    {"per-device-train-batch-size", "micro-batch="},
    {"per-device-eval-batch-size", "eval-micro-batch="},
    {"global-batch-size", "global-batch="},
    {"gradient-accumulation-steps", "global-batch=N, the number of sequences of all GPUs in a step"},
    {"gradient-accumulation", "global-batch=N, the number of sequences of all GPUs in a step"},
    {"lora", "finetune=lora"},
    {"peft", "finetune=lora"},
    {"use-peft", "finetune=lora"},
    {"qlora", "finetune=qlora"},
    {"load-in-4bit", "finetune=qlora"},
    {"load-in-8bit", "finetune=qlora --quant=int8"},
    {"rank", "lora-rank="},
    {"r", "lora-rank="},
    {"lora-r", "lora-rank="},
    {"full", "finetune=full"},
    {"num-gpus", "gpus="},
    {"n-gpus", "gpus="},
    {"ngpus", "gpus="},
    {"gpu-count", "gpus="},
    {"world-size", "gpus="},
    {"num-processes", "gpus="},
    {"nproc-per-node", "gpus-per-node="},
    {"num-nodes", "nodes="},
    {"nnodes", "nodes="},
    {"num-machines", "nodes="},
    {"N", "nodes="},
    {"gpu-type", "gpu="},
    {"g", "gpu="},
    {"vram", "gpu=NAME (p4d gpus lists them)"},
    {"m", "model="},
    {"model-name", "model="},
    {"model-name-or-path", "model="},
    {"memory", "mem="},
    {"ram", "mem="},
    {"short", "quiet"},
    {"brief", "quiet"},
    {"seq", "seq-len="},
    {"seqlen", "seq-len="},
    {"seq-length", "seq-len="},
    {"sequence", "seq-len="},
    {"sequence-length", "seq-len="},
    {"sequence-len", "seq-len="},
    {"max-length", "seq-len="},
    {"max-seq", "seq-len="},
    {"max-seq-length", "seq-len="},
    {"max-sequence-length", "seq-len="},
    {"max-model-len", "seq-len="},
    {"model-max-length", "seq-len="},
    {"cutoff-len", "seq-len="},
    {"block-size", "seq-len="},
    {"context", "seq-len="},
    {"context-len", "seq-len="},
    {"context-length", "seq-len="},
    {"ctx", "seq-len="},
    {"tensor-parallel", "tp="},
    {"tensor-parallel-size", "tp="},
    {"tensor-model-parallel-size", "tp="},
    {"pipeline-parallel", "pp="},
    {"pipeline-parallel-size", "pp="},
    {"pipeline-model-parallel-size", "pp="},
    {"context-parallel", "cp="},
    {"context-parallel-size", "cp="},
    {"expert-parallel-size", "ep="},
    {"expert-model-parallel-size", "ep="},
    {"dp", "gpus=N: the data-parallel size is N / (tp x cp x pp)"},
    {"gradient-checkpointing", "recompute=full"},
    {"activation-checkpointing", "recompute=full"},
    {"recompute-granularity", "recompute="},
    {"zero", "framework=deepspeed --zero-stage="},
    {"zero1", "framework=deepspeed --zero-stage=1"},
    {"zero2", "framework=deepspeed --zero-stage=2"},
    {"zero3", "framework=deepspeed --zero-stage=3"},
    {"ddp", "framework=ddp"},
    {"fsdp", "framework=fsdp"},
    {"deepspeed", "framework=deepspeed"},
    {"megatron", "framework=megatron"},
    {"hf", "framework=ddp"},
    {"serve", "workload=serve"},
    {"serving", "workload=serve"},
    {"inference", "workload=serve"},
    {"infer", "workload=serve"},
    {"vllm", "workload=serve --engine=vllm"},
    {"sglang", "workload=serve --engine=sglang"},
    {"dpo", "workload=preference"},
    {"grpo", "workload=rl"},
    {"ppo", "workload=rl"},
    {"quantization", "quant="},
    {"quantize", "quant="},
    {"4bit", "finetune=qlora"},
    {"8bit", "finetune=qlora --quant=int8"},
    {"dtype", "precision="},
    {"torch-dtype", "precision="},
    {"bf16", "precision=bf16"},
    {"fp16", "precision=fp16"},
    {"fp8", "precision=fp8"},
    {"fp32", "precision=fp32"},
    {"optim", "optimizer="},
    {"flash-attn", "attention=flash"},
    {"flash-attention", "attention=flash"},
    {"lr", ""},
    {"learning-rate", ""},
    {"epochs", ""},
    {"num-train-epochs", ""},
    {"steps", ""},
    {"max-steps", ""},
    {"dataset", ""},
    {"data", ""},
    {"seed", ""},
    {"warmup-steps", ""},
    {"weight-decay", ""},
    {"lora-alpha", ""},
    {"alpha", ""},
};

/*
 * Whether `word`, up to a '=', is the table's word. '_' and '-' are the same; case matters only in one-letter
 * words.
 */
static bool is_word(const char *word, const char *of)
{
	const bool letter = !of[1];

	for (; *of && *word && *word != '='; word++, of++) {
		const char c = *word == '_' ? '-' : letter ? *word : (char)tolower((unsigned char)*word);
		if (c != *of)
			return false;
	}
	return !*of && (!*word || *word == '=');
}

bool p4d_line_synonym(const char *word, const char *value, p4d_error *err)
{
	const int length = (int)strcspn(word, "=");
	const char *dashes = length == 1 ? "-" : "--";

	for (size_t i = 0; i < sizeof(synonyms) / sizeof(*synonyms); i++) {
		const char *right = synonyms[i].right;
		if (!is_word(word, synonyms[i].word))
			continue;
		if (!*right) {
			p4d_fail(err, P4D_E_USAGE,
				 "unknown option %s%.*s: this option does not change the memory of a GPU",
				 dashes, length, word);
			p4d_fix(err, "leave it out");
			return true;
		}
		const bool takes_value = right[strlen(right) - 1] == '=';
		p4d_fail(err, P4D_E_USAGE, "unknown option %s%.*s", dashes, length, word);
		p4d_fix(err, "--%s%.64s", right, !takes_value ? "" : value ? value : "VALUE");
		return true;
	}
	return false;
}
