/* SPDX-License-Identifier: Apache-2.0 */
#include "run/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"

typedef enum p4d_setting_kind { NUMBER_KIND, REAL_KIND, TEXT_KIND, CHOICE_KIND } p4d_setting_kind;

/* One row of settings.def. */
typedef struct p4d_setting {
	const char *name, *argument, *help;
	p4d_setting_kind kind;
	size_t field;
	uint64_t least, most, number; /* number: the default */
	double least_real, most_real, real;
} p4d_setting;

static const p4d_setting settings_table[] = {
#define NUMBER(f, n, a, low, high, otherwise, h) \
	{.name = n, \
	 .argument = a, \
	 .help = h, \
	 .kind = NUMBER_KIND, \
	 .field = offsetof(p4d_settings, f), \
	 .least = low, \
	 .most = high, \
	 .number = otherwise},
#define REAL(f, n, a, low, high, otherwise, h) \
	{.name = n, \
	 .argument = a, \
	 .help = h, \
	 .kind = REAL_KIND, \
	 .field = offsetof(p4d_settings, f), \
	 .least_real = low, \
	 .most_real = high, \
	 .real = otherwise},
#define TEXT(f, n, a, h) \
	{.name = n, .argument = a, .help = h, .kind = TEXT_KIND, .field = offsetof(p4d_settings, f)},
#define CHOICE(f, n, list, otherwise, h) \
	{.name = n, \
	 .argument = list, \
	 .help = h, \
	 .kind = CHOICE_KIND, \
	 .field = offsetof(p4d_settings, f), \
	 .number = otherwise},
#include "run/settings.def"
#undef NUMBER
#undef REAL
#undef TEXT
#undef CHOICE
};

enum { SETTINGS = sizeof(settings_table) / sizeof(settings_table[0]) };
enum { PLAN_OPTION = 256, SETTING = PLAN_OPTION + P4D_OPTIONS, HELP = SETTING + SETTINGS, VERSION, VALUES };

static void *field_of(p4d_settings *settings, const p4d_setting *row)
{
	return (char *)settings + row->field;
}

static void set_defaults(p4d_settings *settings)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		const p4d_setting *row = &settings_table[i];
		if (row->kind == NUMBER_KIND)
			*(uint64_t *)field_of(settings, row) = row->number;
		else if (row->kind == REAL_KIND)
			*(double *)field_of(settings, row) = row->real;
		else if (row->kind == CHOICE_KIND)
			*(int *)field_of(settings, row) = (int)row->number;
	}
}

/* --device of the training has one choice more than that of the plan, and sets both. */
static bool takes(p4d_option option)
{
	const p4d_option_info *info = p4d_request_option_info(option);

	switch (option) {
	case P4D_OVERRIDE: /* these speak of a job that is submitted, or of estimates */
	case P4D_FIX:
	case P4D_VERBOSE:
	case P4D_METHOD:
	case P4D_DEVICE:
	case P4D_NODES: /* there are as many as there are */
	case P4D_GPUS_PER_NODE:
	case P4D_FRAMEWORK: /* others train otherwise */
	case P4D_CROSS_ENTROPY:
	case P4D_SWIGLU:
	case P4D_ATTENTION:
	case P4D_DROPOUT:
	case P4D_TE_WGRAD:
		return false;
	default:
		return (info->where & P4D_WHERE_COMMAND) != 0;
	}
}

static void fill_table(struct option *at)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (takes((p4d_option)i))
			*at++ = (struct option){p4d_request_option_info((p4d_option)i)->name,
						required_argument, NULL, PLAN_OPTION + i};
	for (int i = 0; i < SETTINGS; i++)
		*at++ = (struct option){settings_table[i].name, required_argument, NULL, SETTING + i};
	*at++ = (struct option){"help", no_argument, NULL, HELP};
	*at++ = (struct option){"version", no_argument, NULL, VERSION};
	*at = (struct option){NULL, 0, NULL, 0};
}

static int set_plan_option(p4d_settings *settings, p4d_option option, const char *text, p4d_error *err)
{
	p4d_request *request = &settings->request;
	char first[256], second[256];
	bool again = p4d_is_set(request, option);

	p4d_request_value_text(request, option, first, sizeof(first));
	if (p4d_request_set(request, option, text, P4D_BY_USER, err) < 0) {
		if (err)
			p4d_request_without_prefix(err->text);
		return -1;
	}
	p4d_request_value_text(request, option, second, sizeof(second));
	if (again && strcmp(first, second) != 0)
		return p4d_fail(err, P4D_E_USAGE, "--%s is given twice: %.64s and %.64s; leave one out",
				p4d_request_option_info(option)->name, first, second);
	return 0;
}

static int read_number(const p4d_setting *row, const char *text, uint64_t *number, p4d_error *err)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || value < row->least || value > row->most)
		return p4d_fail(err, P4D_E_VALUE,
				"--%s=%.64s: not a whole number from %" PRIu64 " to %" PRIu64, row->name,
				text, row->least, row->most);
	*number = value;
	return 0;
}

static int read_real(const p4d_setting *row, const char *text, double *real, p4d_error *err)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= row->least_real && value <= row->most_real))
		return p4d_fail(err, P4D_E_VALUE, "--%s=%.64s: not a number from %g to %g", row->name, text,
				row->least_real, row->most_real);
	*real = value;
	return 0;
}

static int read_choice(const p4d_setting *row, const char *text, int *choice, p4d_error *err)
{
	const char *at = row->argument;
	size_t wanted = strlen(text);

	for (int i = 0;; i++) {
		size_t length = strcspn(at, "|");
		if (length == wanted && !strncmp(at, text, length)) {
			*choice = i;
			return 0;
		}
		if (!at[length])
			return p4d_fail(err, P4D_E_VALUE, "--%s=%.64s: not one of %s", row->name, text,
					row->argument);
		at += length + 1;
	}
}

static int set_setting(p4d_settings *settings, const p4d_setting *row, const char *text, p4d_error *err)
{
	void *field = field_of(settings, row);

	switch (row->kind) {
	case NUMBER_KIND:
		return read_number(row, text, field, err);
	case REAL_KIND:
		return read_real(row, text, field, err);
	case CHOICE_KIND:
		return read_choice(row, text, field, err);
	default:
		if (!*text)
			return p4d_fail(err, P4D_E_VALUE, "--%s is empty", row->name);
		*(const char **)field = text;
		return 0;
	}
}

static int complete(p4d_settings *s, p4d_error *err)
{
	if (!s->data || !s->steps) {
		p4d_fail(err, P4D_E_USAGE, "--%s is missing", s->data ? "steps" : "data");
		return p4d_fix(err, "--%s", s->data ? "steps N" : "data FILE");
	}
	if (s->valid_data && s->valid_fraction > 0)
		return p4d_fail(err, P4D_E_USAGE, "--valid-data and --valid-fraction: give one of them");
	if (s->warmup == UINT64_MAX)
		s->warmup = s->steps / 100;
	if (s->decay == UINT64_MAX)
		s->decay = s->steps / 5;
	if (s->least_rate < 0)
		s->least_rate = s->rate / 10;
	if (s->eval_every == UINT64_MAX)
		s->eval_every = 100;
	if (s->save_every == UINT64_MAX)
		s->save_every = 1000;
	if (s->resume == P4D_RESUME_MUST && !s->checkpoint)
		return p4d_fail(err, P4D_E_USAGE, "--resume=must: of what? --checkpoint is missing");
	if (s->warmup > s->steps)
		return p4d_fail(err, P4D_E_VALUE, "--warmup=%" PRIu64 " is above --steps=%" PRIu64, s->warmup,
				s->steps);
	if (s->least_rate > s->rate)
		return p4d_fail(err, P4D_E_VALUE, "--min-lr=%g is above --lr=%g", s->least_rate, s->rate);
	if (s->where != P4D_DEVICE_AUTO)
		p4d_request_put(&s->request, P4D_DEVICE, s->where == P4D_DEVICE_CPU ? P4D_CPU : P4D_CUDA,
				P4D_BY_USER);
	return 0;
}

/* Options of p4d estimate that mean nothing here: people will paste them. */
static int say_unknown(const char *word, p4d_error *err)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	const int option = strncmp(name, "--", 2) ? -1 : p4d_request_option_find(name + 2);
	if (option == P4D_NODES || option == P4D_GPUS_PER_NODE) {
		p4d_fail(err, P4D_E_USAGE, "%s is not for p4d-train: as many ranks train as there are", name);
		return p4d_fix(err, "srun with %s, or --local-ranks N", name);
	}
	if (option >= 0)
		p4d_fail(err, P4D_E_USAGE, "%s is not for p4d-train: it is about submitting, or Megatron-LM",
			 name);
	return -1;
}

int p4d_settings_parse(p4d_settings *settings, int argc, char *argv[], p4d_error *err)
{
	struct option table[VALUES - PLAN_OPTION + 1];
	p4d_settings read = {.help = false};
	int which = 0, more, rc = 0;

	set_defaults(&read);
	fill_table(table);
	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":hV", table, &which, err)) != 0) {
		if (more < 0) {
			if (err && !strncmp(err->text, "unknown", strlen("unknown")) && optind > 0)
				say_unknown(argv[optind - 1], err);
			if (err && !err->fix[0])
				p4d_fix(err, "p4d-train --help");
			return -1;
		}
		read.help |= which == HELP || which == 'h';
		read.version |= which == VERSION || which == 'V';
		if (which >= SETTING && which < HELP)
			rc = set_setting(&read, &settings_table[which - SETTING], optarg, err);
		else if (which >= PLAN_OPTION && which < SETTING)
			rc = set_plan_option(&read, (p4d_option)(which - PLAN_OPTION), optarg, err);
	}
	if (rc < 0)
		return -1;
	if (!read.help && !read.version) {
		if (optind < argc) {
			p4d_fail(err, P4D_E_USAGE, "do not know what to do with \"%.64s\"", argv[optind]);
			return p4d_fix(err, "p4d-train --help");
		}
		if (complete(&read, err) < 0)
			return -1;
	}
	*settings = read;
	return 0;
}

p4d_rate p4d_settings_rate(const p4d_settings *s)
{
	return (p4d_rate){
	    s->curve == 1 ? P4D_WSD : P4D_COSINE, s->rate, s->least_rate, s->warmup, s->steps, s->decay};
}

uint64_t p4d_settings_hash(const p4d_settings *settings)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	char text[64];

	for (size_t i = 0; i < SETTINGS; i++) {
		const p4d_setting *row = &settings_table[i];
		const void *field = (const char *)settings + row->field;
		const char *value = text;
		if (row->kind == NUMBER_KIND)
			snprintf(text, sizeof(text), "%" PRIu64, *(const uint64_t *)field);
		else if (row->kind == REAL_KIND)
			snprintf(text, sizeof(text), "%a", *(const double *)field);
		else if (row->kind == CHOICE_KIND)
			snprintf(text, sizeof(text), "%d", *(const int *)field);
		else
			continue; /* the same file may have another name elsewhere */
		for (; *value; value++)
			h = (h ^ (unsigned char)*value) * UINT64_C(0x100000001b3);
		h = (h ^ ';') * UINT64_C(0x100000001b3);
	}
	return h >> 12;
}

/* Numbers out of their own range stand for "follows from something else", which the help says. */
static void default_text(const p4d_setting *row, char *buf, size_t size)
{
	const char *at = row->argument;

	buf[0] = '\0';
	if (row->kind == NUMBER_KIND && row->number >= row->least && row->number <= row->most)
		snprintf(buf, size, "%" PRIu64, row->number);
	if (row->kind == REAL_KIND && row->real >= row->least_real && row->real <= row->most_real)
		snprintf(buf, size, "%g", row->real);
	if (row->kind != CHOICE_KIND)
		return;
	for (uint64_t i = 0; i < row->number; i++)
		at += strcspn(at, "|") + 1;
	snprintf(buf, size, "%.*s", (int)strcspn(at, "|"), at);
}

void p4d_settings_each(p4d_setting_visit *visit)
{
	char otherwise[40];

	for (size_t i = 0; i < SETTINGS; i++) {
		const p4d_setting *row = &settings_table[i];
		default_text(row, otherwise, sizeof(otherwise));
		visit(row->name, row->argument, row->help, otherwise);
	}
}

static void print_option(const char *name, const char *argument, const char *help, const char *otherwise)
{
	char left[96];

	snprintf(left, sizeof(left), "--%s%s%s", name, argument ? " " : "", argument ? argument : "");
	if (strlen(left) <= 26)
		printf("  %-26s  %s", left, help);
	else
		printf("  %s\n  %26s  %s", left, "", help);
	if (*otherwise)
		printf(" (%s)", otherwise);
	puts("");
}

void p4d_settings_help(void)
{
	puts("p4d-train --data FILE --steps N [--model NAME --local-ranks N --tp N ...]\n\n"
	     "Trains a Llama. Under srun the layout is that of the job (P4D_PLAN, see p4d(1)); without Slurm "
	     "it\n"
	     "is that of the options below, and --local-ranks forks as many processes.\n\nTraining:");
	p4d_settings_each(print_option);
	puts("\nModel and layout:");
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (takes((p4d_option)i)) {
			const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
			print_option(info->name, info->argument, info->help, "");
		}
	puts("");
	print_option("help", NULL, "this text", "");
	print_option("version", NULL, "the version", "");
	puts("\nDefaults are in parentheses. p4d-train(1) says more, and has examples.");
}
