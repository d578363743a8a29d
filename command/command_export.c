/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the weights of a checkpoint in a form that other programs read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arguments.h"
#include "base/number.h"
#include "base/option.h"
#include "command.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

const char p4d_export_options[] =
    "\n"
    "  --bf16                      write weights in bf16 (the default)\n"
    "  --fp32                      write weights in fp32\n"
    "  --shard-size SIZE           maximum size of a file, such as 500MB or 2GiB (default: 5GB)\n"
    "  --form merged|adapter       for adapters. merged (default): add them to the model's weights;\n"
    "                              adapter: write them alone, in the format of PEFT\n"
    "  --init-from DIR|NAME        the released model with which training began (default: where it\n"
    "                              was). p4d copies its tokenizer, and adds adapters to its weights\n"
    "\n"
    "CHECKPOINT is the --checkpoint directory of a run, whose newest checkpoint p4d exports, or a\n"
    "single checkpoint in this directory.";

#ifdef HAVE_XXHASH
#include "checkpoint/export.h"

static const uint64_t USUAL_BYTES = UINT64_C(5000000000); /* as in the transformers library */

typedef struct arguments {
	const char *shard_size, *form, *init_from;
	bool bf16, fp32, help;
	int operands;
	char **operand;
} arguments;

static int set_text(const char **to, const char *name, p4d_error *err)
{
	if (!*optarg)
		return p4d_fail(err, P4D_E_VALUE, "--%s is empty", name);
	return p4d_option_once(to, name, optarg, err);
}

static int parse(arguments *a, int argc, char *argv[], p4d_error *err)
{
	enum { BF16 = 256, FP32, SHARD_SIZE, FORM, INIT_FROM, HELP };
	static const struct option table[] = {
	    {"bf16", no_argument, NULL, BF16},
	    {"fp32", no_argument, NULL, FP32},
	    {"shard-size", required_argument, NULL, SHARD_SIZE},
	    {"form", required_argument, NULL, FORM},
	    {"init-from", required_argument, NULL, INIT_FROM},
	    {"help", no_argument, NULL, HELP},
	    {NULL, 0, NULL, 0},
	};
	int which, more, rc = 0;

	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":h", table, &which, err)) != 0) {
		if (more < 0)
			return err->fix[0] ? -1 : p4d_fix(err, "p4d help export");
		a->bf16 |= which == BF16;
		a->fp32 |= which == FP32;
		a->help |= which == HELP || which == 'h';
		if (which == SHARD_SIZE)
			rc = set_text(&a->shard_size, "shard-size", err);
		else if (which == FORM)
			rc = set_text(&a->form, "form", err);
		else if (which == INIT_FROM)
			rc = set_text(&a->init_from, "init-from", err);
	}
	a->operands = argc - optind;
	a->operand = argv + optind;
	return rc;
}

/* Reads a size: "5GB" is 5 * 10^9 bytes, "5GiB" is 5 * 2^30. */
static int parse_size(const char *text, uint64_t *bytes, p4d_error *err)
{
	static const struct {
		const char *unit;
		uint64_t bytes;
	} units[] = {{"B", 1},         {"KB", 1000},     {"MB", 1000000}, {"GB", 1000000000},
		     {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
	uint64_t number;
	const char *unit = p4d_number_digits(text, &number);

	for (size_t i = 0; unit && unit > text && number && i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(unit, units[i].unit) && !__builtin_mul_overflow(number, units[i].bytes, bytes))
			return 0;
	p4d_fail(err, P4D_E_VALUE, "--shard-size=%.64s: not a size such as 5GB, 500MB or 2GiB", text);
	return p4d_fix(err, "--shard-size=5GB");
}

static int usage(const char *text, p4d_error *err)
{
	p4d_fail(err, P4D_E_USAGE, "%s", text);
	return p4d_fix(err, "p4d help export");
}

static int complete(const arguments *a, p4d_export *export, p4d_error *err)
{
	if (a->operands != 2)
		return usage(a->operands == 0   ? "CHECKPOINT is missing: the directory of --checkpoint"
			     : a->operands == 1 ? "DIR is missing: the directory for the weights"
						: "p4d export takes only two arguments, CHECKPOINT and DIR",
			     err);
	if (a->bf16 && a->fp32)
		return usage("--bf16 and --fp32 are mutually exclusive", err);
	if (a->form && strcmp(a->form, "merged") != 0 && strcmp(a->form, "adapter") != 0)
		return p4d_fail(err, P4D_E_VALUE, "--form=%.64s: neither merged nor adapter", a->form);
	*export = (p4d_export){.from = a->operand[0],
			       .to = a->operand[1],
			       .base = a->init_from,
			       .type = a->fp32 ? P4D_ST_F32 : P4D_ST_BF16,
			       .file_bytes = USUAL_BYTES,
			       .alone = a->form && !strcmp(a->form, "adapter")};
	if (export->alone && a->shard_size)
		return p4d_fail(
		    err, P4D_E_USAGE,
		    "--shard-size has no effect: --form=adapter writes adapters alone, in one file");
	return a->shard_size ? parse_size(a->shard_size, &export->file_bytes, err) : 0;
}

enum { P4D_BESIDE = 4400 };

/* Copies the tokenizer, and other files of the released model. */
static const char *describe_beside(const p4d_export *export, char text[P4D_BESIDE])
{
	text[0] = '\0';
	if (export->companions)
		snprintf(text, P4D_BESIDE, "; tokenizer, templates and settings: %u file%s of %s",
			 export->companions, export->companions == 1 ? "" : "s", export->released);
	return text;
}

static int write_weights(const arguments *a, p4d_error *err)
{
	p4d_export export;
	char taken[4096], beside[P4D_BESIDE];

	if (complete(a, &export, err) < 0 || p4d_export_write(&export, taken, sizeof(taken), err) < 0)
		return -1;
	printf("%s: %s of %s in %s%s%s%s\n", export.to, export.alone ? "adapters" : "weights", taken,
	       a->fp32 ? "fp32" : "bf16",
	       export.alone || p4d_export_has_config(&export)
		   ? ""
		   : "; without config.json: the transformers library has no such model",
	       describe_beside(&export, beside),
	       p4d_export_drops_losses(taken)
		   ? "; without the heads of --local-loss, which are no part of the model"
		   : "");
	return 0;
}

int p4d_command_export(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	arguments a = {0};

	if (parse(&a, argc, argv, err) < 0)
		return -1;
	if (!a.help)
		return write_weights(&a, err);
	p4d_line_help(self, true);
	return 0;
}
#else
int p4d_command_export(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err)
{
	(void)self, (void)argc, (void)argv;
	p4d_fail(err, P4D_E_USAGE, "this p4d was built without libxxhash, which checks checkpoints");
	return p4d_fix(err, "apt-get install libxxhash-dev, then build p4d again");
}
#endif
