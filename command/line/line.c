/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command lines of all commands except check, which reads sbatch's. */
#include "line/line.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arguments.h"
#include "base/number.h"

/* Letters and numbers of options for getopt. */
enum {
	VALUE = 256,
#define OWN(id, name, argument, takes, help) ID_##id,
	OWN_FIRST = VALUE + P4D_OPTIONS - 1,
#include "line/own_options.def"
#undef OWN
	OTHERS
};

const p4d_line_option p4d_line_own[] = {
#define OWN(id, name, argument, takes, help) {name, argument, P4D_TAKES_##takes, ID_##id, help},
#include "line/own_options.def"
#undef OWN
    {NULL, NULL, 0, 0, NULL},
};

bool p4d_line__takes(const p4d_subcommand *command, int option)
{
	switch (option) {
	case P4D_OVERRIDE: /* options for the submission of a job */
	case P4D_FIX:
	case P4D_VERBOSE:
		return false;
	default:
		return (command->takes & P4D_TAKES_JOB) &&
		       (p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_COMMAND);
	}
}

static void fill_table(struct option *at, const p4d_subcommand *command)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (p4d_line__takes(command, i))
			*at++ = (struct option){
			    info->name, info->kind != P4D_SWITCH_KIND ? required_argument : no_argument, NULL,
			    VALUE + i};
	}
	for (const p4d_line_option *own = p4d_line_own; own->name; own++)
		if (own->takes == P4D_TAKES_ANY || (command->takes & own->takes))
			*at++ = (struct option){own->name, own->argument ? required_argument : no_argument,
						NULL, own->id};
	*at = (struct option){NULL, 0, NULL, 0};
}

static int set_top(p4d_line *line, const char *text, p4d_error *err)
{
	uint64_t value;

	if (!p4d_number_whole(text, 1, 1000, &value))
		return p4d_fail(err, P4D_E_VALUE, "--top=%.64s: not a whole number from 1 to 1000", text);
	if (line->top && line->top != value)
		return p4d_fail(err, P4D_E_USAGE, "--top has two values, %u and %" PRIu64 ": leave one out",
				line->top, value);
	line->top = (uint32_t)value;
	return 0;
}

static int set_mem(p4d_line *line, const char *text, p4d_error *err)
{
	uint64_t bytes;

	if (p4d_gres_parse_mem(text, &bytes, err) < 0)
		return -1;
	if (!bytes)
		return p4d_fail(err, P4D_E_VALUE,
				"--mem=%.64s: give the host memory of a node, for instance 512G", text);
	if (line->mem_bytes && line->mem_bytes != bytes)
		return p4d_fail(err, P4D_E_USAGE, "--mem has two values: leave one out");
	line->mem_bytes = bytes;
	return 0;
}

/* Takes the type from "h100:8" as the GPU; *rest: the number. */
static int take_type(p4d_line *line, const char *text, const char **rest, p4d_error *err)
{
	const char *colon = strchr(text, ':');
	char type[64];

	*rest = text;
	if (!colon || colon == text || colon - text >= (ptrdiff_t)sizeof(type))
		return 0;
	snprintf(type, sizeof(type), "%.*s", (int)(colon - text), text);
	*rest = colon + 1;
	return p4d_request_set_typed(&line->request, P4D_GPU, type, err);
}

static int set_gpus(p4d_line *line, const char *text, p4d_error *err)
{
	enum { MOST = 1 << 20 };
	const char *number;
	uint64_t value;

	if (take_type(line, text, &number, err) < 0)
		return -1;
	if (!p4d_number_whole(number, 1, MOST, &value))
		return p4d_fail(err, P4D_E_VALUE, "--gpus=%.64s: not a whole number from 1 to %d", text,
				MOST);
	if (line->gpus && line->gpus != value)
		return p4d_fail(err, P4D_E_USAGE,
				"--gpus has two values, %" PRIu64 " and %" PRIu64 ": leave one out",
				line->gpus, value);
	line->gpus = value;
	return 0;
}

/* Sets an option to "auto": p4d estimate finds the largest value that fits. */
static int set_largest(p4d_line *line, p4d_option option, p4d_error *err)
{
	if (line->largest != P4D_OPTIONS && line->largest != option)
		return p4d_fail(
		    err, P4D_E_USAGE, "p4d finds one value at a time: give a number to --%s or --%s",
		    p4d_request_option_info(line->largest)->name, p4d_request_option_info(option)->name);
	line->largest = option;
	return 0;
}

static int set_option(p4d_line *line, p4d_option option, const char *text, p4d_error *err)
{
	if ((option == P4D_MICRO_BATCH || option == P4D_SEQ_LEN) && line->finds && !strcasecmp(text, "auto"))
		return set_largest(line, option, err);
	if (option == P4D_GPUS_PER_NODE && take_type(line, text, &text, err) < 0)
		return -1;
	if (option == P4D_FRAMEWORK && (!strcasecmp(text, "vllm") || !strcasecmp(text, "sglang")))
		return p4d_request_set_typed(&line->request, P4D_WORKLOAD, "serve", err) < 0
			   ? -1
			   : p4d_request_set_typed(&line->request, P4D_ENGINE, text, err);
	return p4d_request_set_typed(&line->request, option, text, err);
}

/* Reads a number of tokens such as "300B". */
static int set_tokens(p4d_line *line, const char *text, p4d_error *err)
{
	static const char units[] = "kKmMbBtT";
	const size_t length = strlen(text);
	const char *unit = length ? strchr(units, text[length - 1]) : NULL;
	char digits[32];
	double value = 0, scale = 1;

	for (long i = unit ? (unit - units) / 2 : -1; i >= 0; i--)
		scale *= 1000;
	snprintf(digits, sizeof(digits), "%.*s", (int)(length - (unit != NULL)), text);
	if (length >= sizeof(digits) || !p4d_number_real(digits, 1e-9, 1e18, &value) || value * scale < 1 ||
	    value * scale > 1e18)
		return p4d_fail(err, P4D_E_VALUE,
				"--tokens=%.64s: not a number from 1 to 1e18, such as 300B or 1.5T", text);
	if (line->tokens > 0 && line->tokens != value * scale)
		return p4d_fail(err, P4D_E_USAGE, "--tokens has two values: leave one out");
	line->tokens = value * scale;
	return 0;
}

/* Options whose value is a text, and the members that store it. */
static const struct {
	int id;
	const char *name;
	size_t at;
	const char *empty; /* what is missing if the text is empty; NULL: it may be empty */
} texts[] = {
    {ID_CONF, "conf", offsetof(p4d_line, conf), NULL},
    {ID_SVG, "svg", offsetof(p4d_line, svg), "file name"},
    {ID_TRACE, "trace", offsetof(p4d_line, trace), "file name"},
    {ID_HTML, "html", offsetof(p4d_line, html), "file name"},
    {ID_SINCE, "since", offsetof(p4d_line, since), "date"},
    {ID_PARTITIONS, "partitions", offsetof(p4d_line, partitions), "list"},
    {ID_PARTITION, "partition", offsetof(p4d_line, job.partition), NULL},
    {ID_JOBS_OF_PARTITION, "partition", offsetof(p4d_line, job.partition), "list"},
    {ID_ACCOUNT, "account", offsetof(p4d_line, job.account), NULL},
    {ID_JOBS_OF_ACCOUNT, "account", offsetof(p4d_line, job.account), "list"},
    {ID_USER, "user", offsetof(p4d_line, job.user), NULL},
    {ID_JOBS_OF_USER, "user", offsetof(p4d_line, job.user), "list"},
    {ID_QOS, "qos", offsetof(p4d_line, job.qos), NULL},
    {ID_RESERVATION, "reservation", offsetof(p4d_line, job.reservation), NULL},
};

/* Options without a value. */
static const struct {
	int id;
	size_t at;
} switches[] = {
    {'h', offsetof(p4d_line, help)},
    {ID_HELP, offsetof(p4d_line, help)},
    {ID_JSON, offsetof(p4d_line, json)},
    {ID_CSV, offsetof(p4d_line, csv)},
    {ID_ENV, offsetof(p4d_line, env)},
    {'q', offsetof(p4d_line, quiet)},
    {ID_QUIET, offsetof(p4d_line, quiet)},
    {'v', offsetof(p4d_line, verbose)},
    {ID_ALL_CHOICES, offsetof(p4d_line, verbose)},
    {ID_ALL, offsetof(p4d_line, all)},
    {ID_ALL_ROWS, offsetof(p4d_line, all)},
    {ID_READ_OUTPUT, offsetof(p4d_line, read_output)},
};

static int set(p4d_line *line, int which, p4d_error *err)
{
	char *base = (char *)line;

	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (switches[i].id == which) {
			*(bool *)(void *)(base + switches[i].at) = true;
			return 0;
		}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].id != which)
			continue;
		if (texts[i].empty && !*optarg)
			return p4d_fail(err, P4D_E_VALUE, "--%s: empty %s", texts[i].name, texts[i].empty);
		return p4d_option_once((const char **)(void *)(base + texts[i].at), texts[i].name, optarg,
				       err);
	}
	switch (which) {
	case ID_TOKENS:
		return set_tokens(line, optarg, err);
	case ID_TOP:
		return set_top(line, optarg, err);
	case ID_MEM:
		return set_mem(line, optarg, err);
	case ID_GPUS:
		return set_gpus(line, optarg, err);
	default:
		return set_option(line, (p4d_option)(which - VALUE), optarg ? optarg : "", err);
	}
}

/* Explains a word that getopt does not know, which may be an option of another program. */
static int other_word(const p4d_subcommand *command, int argc, char *argv[], p4d_error *err)
{
	const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "",
		   *value = optind < argc && *argv[optind] != '-' ? argv[optind] : NULL;

	if ((command->takes & P4D_TAKES_JOB) && word[0] == '-') {
		const char *equals = strchr(word, '='), *name = word + 1 + (word[1] == '-');
		if (word[1] != '-' ||
		    strcspn(name, "=") > 1) /* does not apply to abbreviations such as --m, which may stand
					     * for any option that begins so */
			p4d_line_synonym(name, equals ? equals + 1 : value, err);
	}
	if (!err->fix[0])
		p4d_fix(err, "p4d help %s", command->name);
	return -1;
}

/* Takes the first operand of a command about a job as its model. */
static int take_model(p4d_line *line, const p4d_subcommand *command, p4d_error *err)
{
	if (!(command->takes & P4D_TAKES_JOB) || !line->operands || line->request.model[0])
		return 0;
	if (p4d_request_set_typed(&line->request, P4D_MODEL, line->operand[0], err) < 0)
		return -1;
	line->operand++;
	line->operands--;
	return 0;
}

int p4d_line_parse(p4d_line *line, const p4d_subcommand *command, int argc, char *argv[], p4d_error *err)
{
	struct option table[OTHERS - VALUE + 1];
	int which, more;

	fill_table(table, command);
	line->largest = P4D_OPTIONS;
	line->finds = command->takes & P4D_TAKES_LENGTH;
	optind = 0;
	while ((more = p4d_arguments_next(argc, argv, command->takes & P4D_TAKES_LENGTH ? ":hqv" : ":h",
					  table, &which, err)) > 0)
		if (set(line, which, err) < 0)
			return -1;
	if (more < 0)
		return other_word(command, argc, argv, err);
	line->operands = argc - optind;
	line->operand = argv + optind;
	if (!line->help && take_model(line, command, err) < 0)
		return -1;
	if (!line->help && line->operands > command->operands)
		return p4d_fail(err, P4D_E_USAGE, "p4d %s: unexpected argument \"%.64s\"", command->name,
				line->operand[command->operands]),
		       p4d_fix(err, "p4d help %s", command->name);
	return 0;
}
