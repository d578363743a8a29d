/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and configuration files of every training program: the first byte chooses the program. Then
 * come a line of arguments and the text of every file that the arguments name. P4D_FUZZ_READER=torchtune
 * tests only the programs of this reader. P4D_FUZZ_WORDS=1 prints a dictionary of words for libFuzzer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config_internal.h"
#include "reader/reader_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
	const char *reader, *command;
} programs[] = {
    {"megatron", "torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg c.yaml"},
    {"torchtitan", "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file c.toml"},
    {"torchtitan", "NGPU=8 CONFIG_FILE=c.toml ./run_train.sh"},
    {"trl", "accelerate launch --config_file c.yaml --num_processes 8 sft.py"},
    {"trainer", "deepspeed --num_gpus 8 run_clm.py --deepspeed c.json"},
    {"deepspeed", "deepspeed train.py --deepspeed_config c.json"},
    {"axolotl", "axolotl train c.yml"},
    {"llamafactory", "llamafactory-cli train c.yaml"},
    {"swift", "swift sft --sft_type full --model_type qwen2-7b"},
    {"swift", "swift sft --deepspeed zero3_offload"},
    {"torchtune", "tune run --nproc_per_node 2 lora_finetune_distributed --config c.yaml"},
    {"litgpt", "litgpt finetune_lora --config c.yaml"},
    {"vllm", "vllm serve --config c.yaml"},
    {"sglang", "python -m sglang.launch_server"},
    {"nemo", "python megatron_gpt_pretraining.py"},
    {"gpt-neox", "python deepy.py train.py c.yml d.yml"},
    {"nanotron", "torchrun run_train.py --config-file c.yaml"},
    {"verl", "python -m verl.trainer.main_ppo"},
    {"openrlhf", "deepspeed -m openrlhf.cli.train_ppo"},
    {"p4d", "srun p4d-train"},
    {"skyrl", "uv run -m skyrl.train.entrypoints.main_base"},
    {"nemo-rl", "python run_grpo_math.py --config c.yaml"},
    {"megatron-swift", "megatron sft --config c.yaml"},
    {"swift", "swift rlhf --deepspeed zero2"},
    {"trl", "trl grpo --config c.yaml"},
    {"openrlhf", "deepspeed --module openrlhf.cli.train_sft"},
    {"nemo-rl", "python examples/run_dpo.py --config c.yaml"},
    {"trl", "HF_HOME=/h trl sft"},
    {"axolotl", "HF_HOME=/h axolotl train c.yml"},
    {"named", "composer -n 8 train/train.py c.yaml"},
    {"named", "automodel finetune -c c.yaml"},
    {"named", "colossalai run train.py --use_grad_checkpoint"},
    {"named", "python unsloth-cli.py"},
    {"slime", "python3 train.py --hf-checkpoint m"},
    {"openrlhf", "deepspeed --module openrlhf.cli.train_dpo"},
    {"openrlhf", "deepspeed --module openrlhf.cli.train_prm"},
    {"open-lm", "torchrun --nproc_per_node 8 -m open_lm.main --config c.yaml"},
    {"picotron", "torchrun --nproc_per_node 8 picotron/train.py --config c.json"},
    {"maxtext", "python3 -m MaxText.train c.yml"},
    {"xla", "python xla_spawn.py --num_cores 8 run_clm.py"},
};
enum { PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

static void print_words(const char *reader)
{
	for (size_t i = 0; p4d_reader__at(i); i++) {
		const p4d_reader *r = p4d_reader__at(i);
		for (int j = 0; j < P4D_READ_TABLES && r->arguments[j] && !strcmp(r->framework, reader); j++)
			for (const p4d_read_argument *a = r->arguments[j]; a->name; a++) {
				const char *dot = strrchr(a->name, '.');
				if (*a->name)
					printf("\"%s\"\n\"%s\"\n", a->name,
					       dot ? dot + 1 : a->name + strspn(a->name, "-"));
				for (const char *const *w = a->value ? NULL : a->words; w && *w; w += 2)
					if (**w && !strchr(*w, '"'))
						printf("\"%s\"\n", *w);
			}
	}
}

/* The programs to choose from: one bit each. */
static uint64_t find_programs(void)
{
	const char *reader = getenv("P4D_FUZZ_READER");
	uint64_t chosen = 0;

	for (unsigned i = 0; i < PROGRAMS; i++)
		if (!reader || !*reader || !strcmp(programs[i].reader, reader))
			chosen |= UINT64_C(1) << i;
	if (getenv("P4D_FUZZ_WORDS")) {
		print_words(reader ? reader : "");
		fflush(stdout);
		_exit(0);
	}
	if (!chosen)
		abort(); /* no program has that name */
	return chosen;
}

/* Copies the arguments of one command. Replaces characters that would begin another command by a letter,
 * because fuzz_reader tests several commands. */
static void take_line(char *to, const uint8_t *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		to[i] = line[i] && strchr(";&|()<>`#{}", line[i]) ? 'x' : (char)line[i];
}

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

/* Checks a reading: texts end with NUL, values have a place in the script, and no value is both known and
 * unknown. */
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
	static uint64_t chosen;
	unsigned nth;

	if (!chosen)
		chosen = find_programs();
	if (size < 1)
		return 0;
	for (nth = data[0] % PROGRAMS; !(chosen >> nth & 1); nth = (nth + 1) % PROGRAMS)
		;
	const char *program = programs[nth].command;
	const uint8_t *line = memchr(data + 1, '\n', size - 1);
	const size_t arguments = line ? (size_t)(line - data - 1) : size - 1, head = strlen(program);
	const size_t rest = size - 1 - arguments;
	char *script = malloc(head + arguments + 2), *text = malloc(rest ? rest : 1);
	if (!script || !text)
		abort();
	memcpy(script, program, head);
	script[head] = ' ';
	take_line(script + head + 1, data + 1, arguments);
	memcpy(text, data + 1 + arguments,
	       rest); /* a block of exactly this length, so that sanitizers find reads beyond it */
	input in = {text, rest};
	const p4d_reader_host host = {.shell = {.context = &in, .file = file}, .config = config};
	const p4d_shell_limits limits = {memory, MEMORY, P4D_SHELL_WORK / 24};
	p4d_reader_read(&reading, &host, &limits, "job.sh", script, head + 1 + arguments, NULL, "/job");
	check(&reading);
	free(text);
	free(script);
	return 0;
}
