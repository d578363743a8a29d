/* SPDX-License-Identifier: Apache-2.0 */
/* The options of p4d-train as a table, and their text in --help. */
#include <stdio.h>
#include <string.h>

#include "run/settings_internal.h"

#define FIELD(f) .field = offsetof(p4d_settings, f)
const p4d_option_info p4d_settings__table[P4D_SETTINGS] = {
#define INTEGER(f, name, argument, low, high, otherwise, help) \
	{name, argument, help, P4D_INTEGER_KIND, FIELD(f), .min = low, .max = high, .number = otherwise},
#define DECIMAL(f, name, argument, low, high, otherwise, help) \
	{name, argument, help, P4D_DECIMAL_KIND, FIELD(f), .least = low, .most = high, .real = otherwise},
#define TEXT(f, name, argument, help) {name, argument, help, P4D_TEXT_KIND, FIELD(f)},
#define TEXTS(f, name, argument, help) \
	{name, argument, help, P4D_TEXT_KIND, FIELD(f), .size = P4D_SETTING_TEXTS - 1},
#define SWITCH(f, name, help) {name, "", help, P4D_SWITCH_KIND, FIELD(f)},
#define CHOICE(f, name, list, otherwise, help) \
	{name, list, help, P4D_CHOICE_KIND, FIELD(f), .number = otherwise},
#include "run/settings.def"
#undef INTEGER
#undef DECIMAL
#undef TEXT
#undef TEXTS
#undef SWITCH
#undef CHOICE
};

int64_t p4d_settings__default(const p4d_option_info *info)
{
	return info->kind == P4D_DECIMAL_KIND ? p4d_option_bits(info->real) : info->number;
}

/*
 * Options of options.def that p4d-train does not have. They are for submission and estimates, for other
 * frameworks, or for models that p4d-train does not train.
 */
static const struct {
	p4d_option first, last;
} of_others[] = {
    {P4D_CP_HEADS, P4D_MTP_LAYERS},
    {P4D_EVAL_MICRO_BATCH, P4D_EVAL_MICRO_BATCH},
    {P4D_RECOMPUTE_MODULES, P4D_RECOMPUTE_LAYERS},
    {P4D_GRAD_DTYPE, P4D_GRAD_DTYPE},
    {P4D_MASTER_DTYPE, P4D_ADAM_COPIES},
    {P4D_MEMORY_PARALLEL, P4D_ZERO_STAGE},
    {P4D_OPTIMIZER_FOREACH, P4D_PARAM_DTYPE},
    {P4D_ADAPTER_DTYPE, P4D_ADAPTER_DTYPE},
    {P4D_QUANT, P4D_AUTOCAST},
    {P4D_ACCOUNT_FOR_EMBEDDING, P4D_FRAMEWORK},
    {P4D_FP8_PARAM_GATHER, P4D_FP8_PARAM_GATHER},
    {P4D_DEVICE, P4D_DEVICE}, /* settings.def has --device, with a choice that plans lack (auto); it sets this
				 option as well */
    {P4D_CROSS_ENTROPY, P4D_CUDA_GRAPHS},
    {P4D_OVERLAP_P2P, P4D_CHUNKED_LOSS},
    {P4D_PADDING, P4D_PADDING}, /* p4d-train fills all sequences */
    {P4D_ALLOCATOR, P4D_ALLOCATOR},
    {P4D_ENGINE, P4D_SWAP},
    {P4D_EXPERTS, P4D_V_HEAD_DIM},
    {P4D_STORED, P4D_ARENA},
    {P4D_NODES, P4D_GPUS_PER_NODE}, /* follow from the number of ranks that were started */
    {P4D_METHOD, P4D_METHOD},
};

bool p4d_settings__takes(p4d_option option)
{
	for (size_t i = 0; i < sizeof(of_others) / sizeof(*of_others); i++)
		if (option >= of_others[i].first && option <= of_others[i].last)
			return false;
	return (p4d_request_option_info(option)->where & P4D_WHERE_COMMAND) != 0;
}

const p4d_option_info *p4d_settings_table(size_t *count)
{
	*count = P4D_SETTINGS;
	return p4d_settings__table;
}

const char *p4d_settings_default(const p4d_option_info *info, char *buf, size_t size)
{
	const bool named =
	    info->kind == P4D_INTEGER_KIND   ? info->number >= info->min && info->number <= info->max
	    : info->kind == P4D_DECIMAL_KIND ? info->real >= info->least && info->real <= info->most
					     : info->kind == P4D_CHOICE_KIND;

	buf[0] = '\0';
	return named ? p4d_option_text(info, p4d_settings__default(info), buf, size) : buf;
}

static void print_option(const char *name, const char *argument, const char *help, const char *otherwise)
{
	char left[96];

	snprintf(left, sizeof(left), "--%s%s%s", name, argument && *argument ? " " : "",
		 argument ? argument : "");
	if (strlen(left) <= 26)
		printf("  %-26s  %s", left, help);
	else
		printf("  %s\n  %26s  %s", left, "", help);
	printf(*otherwise ? " (%s)\n" : "\n", otherwise);
}

void p4d_settings_help(void)
{
	char otherwise[40];

	puts("p4d-train --data FILE --steps N [--model NAME --local-ranks N --tp N ...]\n\n"
	     "Trains a language model. Under srun, p4d-train takes the layout from the job's plan (P4D_PLAN, "
	     "see\np4d-spank(8)). Without Slurm, it takes the layout from the options below, and "
	     "--local-ranks N starts\nN processes.\n\nTraining:");
	for (const p4d_option_info *at = p4d_settings__table; at < p4d_settings__table + P4D_SETTINGS; at++)
		print_option(at->name, at->argument, at->help,
			     p4d_settings_default(at, otherwise, sizeof(otherwise)));
	puts("\nModel and layout:");
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_settings__takes((p4d_option)i)) {
			const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
			print_option(info->name, p4d_option_argument(info), info->help, "");
		}
	puts("");
	print_option("help", NULL, "print this help", "");
	print_option("version", NULL, "print the version", "");
	print_option("completion", "SHELL", "print completions for bash, zsh or fish", "");
	puts("\nDefaults are in parentheses. See p4d-train(1) for details and examples.");
}
