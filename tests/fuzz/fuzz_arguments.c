/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and configuration files of every training program: the first byte says of which, a line of
 * arguments follows, and then the text of whatever file they name. P4D_FUZZ_PROGRAM=2 takes that one only.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_internal.h"
#include "reader/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const programs[] = {
    "torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg c.yaml",
    "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file c.toml",
    "NGPU=8 CONFIG_FILE=c.toml ./run_train.sh",
    "accelerate launch --config_file c.yaml --num_processes 8 sft.py",
    "deepspeed --num_gpus 8 run_clm.py --deepspeed c.json",
    "deepspeed train.py --deepspeed_config c.json",
    "axolotl train c.yml",
    "llamafactory-cli train c.yaml",
    "swift sft --deepspeed zero3_offload",
    "tune run --nproc_per_node 2 lora_finetune_distributed --config c.yaml",
    "litgpt finetune_lora --config c.yaml",
    "vllm serve --config c.yaml",
    "python -m sglang.launch_server",
    "python megatron_gpt_pretraining.py",
    "python deepy.py train.py c.yml d.yml",
    "torchrun run_train.py --config-file c.yaml",
    "python -m verl.trainer.main_ppo",
    "deepspeed -m openrlhf.cli.train_ppo",
    "srun p4d-train",
};
enum { PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

typedef struct input {
	const char *config;
	size_t length;
} input;

static const char *file(void *context, const char *path, size_t *length)
{
	const input *in = context;
	const char *end = strrchr(path, '.');

	*length = in->length;
	return end && strcmp(end, ".sh") != 0 ? in->config : NULL;
}

static p4d_config_read *config(void *context, p4d_config_format format)
{
	(void)context;
	(void)format;
#ifdef P4D_TEST_YAML
	if (format == P4D_CONFIG_YAML)
		return p4d_config__yaml.read;
#endif
#ifdef P4D_TEST_TOML
	if (format == P4D_CONFIG_TOML)
		return p4d_config__toml.read;
#endif
	return NULL;
}

/* What a reading says is text that ends, from a place, and never both known and not. */
static void check(const p4d_reading *r)
{
	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_read_value *v = &r->value[i];
		if (v->file && (v->unknown || !memchr(v->text, 0, sizeof(v->text)) || !*v->text))
			abort();
	}
	for (unsigned i = 0; i < r->unknowns; i++)
		if (!*r->unknown[i].name || !*r->unknown[i].why)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MEMORY = 2 << 20 };
	static _Alignas(16) char memory[MEMORY];
	static p4d_reading reading;
	const char *chosen = getenv("P4D_FUZZ_PROGRAM");

	if (size < 1)
		return 0;
	const char *program = programs[(chosen ? (unsigned)atoi(chosen) : data[0]) % PROGRAMS];
	const uint8_t *line = memchr(data + 1, '\n', size - 1);
	const size_t arguments = line ? (size_t)(line - data - 1) : size - 1, head = strlen(program);
	const size_t rest = size - 1 - arguments;
	char *script = malloc(head + arguments + 2), *text = malloc(rest ? rest : 1);
	if (!script || !text)
		abort();
	memcpy(script, program, head);
	script[head] = ' ';
	memcpy(script + head + 1, data + 1, arguments);
	memcpy(text, data + 1 + arguments, rest); /* of exactly its length */
	input in = {text, rest};
	const p4d_reader_host host = {.shell = {.context = &in, .file = file}, .config = config};
	const p4d_shell_limits limits = {memory, MEMORY, P4D_SHELL_WORK / 16};
	p4d_reader_read(&reading, &host, &limits, "job.sh", script, head + 1 + arguments, NULL, "/job");
	check(&reading);
	free(text);
	free(script);
	return 0;
}
