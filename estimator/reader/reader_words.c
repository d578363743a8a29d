/* SPDX-License-Identifier: Apache-2.0 */
#include "reader/reader_words.h"

#include <string.h>

/* In each program and argument that a reader is known by; test_reader_words holds them against the readers.
 */
static const char *const words[] = {"train",
				    "parallel",
				    "finetun",
				    "sft",
				    "dpo",
				    "run_clm",
				    "run_summarization",
				    "run_translation",
				    "run_mlm",
				    "deepspeed",
				    "deepy",
				    "axolotl",
				    "llamafactory",
				    "swift",
				    "vllm",
				    "sglang",
				    "config-file",
				    "config_file",
				    ".sh",
				    "verl.",
				    "recipe.",
				    "actor_rollout",
				    "grpo",
				    "rloo",
				    "ppo.py",
				    "kto",
				    "gkd.py",
				    "reward",
				    "distillation",
				    "run_rm",
				    "model.d_model",
				    "open_lm",
				    "unsloth",
				    "xla_",
				    "zero_cpu_offload",
				    "use_grad_checkpoint",
				    "nemo llm",
				    "openrlhf",
				    "megatron",
				    "policy.model_name",
				    "cluster.gpus",
				    "num_generations",
				    "vllm_mode",
				    "rlhf",
				    "max-position-embeddings",
				    "max_position_embeddings",
				    NULL};

enum { MOST = 64 << 10, PAIRS = 1024 };

static unsigned pair_of(const char *at)
{
	return ((unsigned char)at[0] * 33u + (unsigned char)at[1]) % PAIRS;
}

static bool is_at(const char *at, size_t left)
{
	for (const char *const *word = words; *word; word++)
		if ((*word)[0] == at[0] && (*word)[1] == at[1] && strlen(*word) <= left &&
		    !memcmp(at, *word, strlen(*word)))
			return true;
	return false;
}

/* Of every script that is submitted: words are looked for where there are two letters that one begins with.
 */
bool p4d_reader_may_train(const char *text, size_t length)
{
	bool begins[PAIRS] = {false};

	length = length < MOST ? length : MOST;
	for (const char *const *word = words; *word; word++)
		begins[pair_of(*word)] = true;
	for (size_t i = 0; i + 1 < length; i++)
		if (begins[pair_of(text + i)] && is_at(text + i, length - i))
			return true;
	return false;
}
