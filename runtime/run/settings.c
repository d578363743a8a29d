/* SPDX-License-Identifier: Apache-2.0 */
#include "run/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arguments.h"
#include "base/hash.h"

#define FIELD(f) .field = offsetof(p4d_settings, f)
static const p4d_option_info settings_table[] = {
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

enum { SETTINGS = sizeof(settings_table) / sizeof(settings_table[0]) };
enum { PLAN_OPTION = 256, SETTING = PLAN_OPTION + P4D_OPTIONS, HELP = SETTING + SETTINGS, VERSION, VALUES };

static int64_t default_of(const p4d_option_info *info)
{
	return info->kind == P4D_DECIMAL_KIND ? p4d_option_bits(info->real) : info->number;
}

/* Whole numbers, real ones and choices have 64 bits each; texts are pointers. */
static void store(p4d_settings *settings, const p4d_option_info *info, int64_t value)
{
	memcpy((char *)settings + info->field, &value, sizeof(value));
}

/* What is not p4d-train's: options of submission and estimates, of other frameworks, of models that it does
 * not train. */
static const struct {
	p4d_option first, last;
} of_others[] = {
    {P4D_CP_HEADS, P4D_MTP_LAYERS},
    {P4D_EVAL_MICRO_BATCH, P4D_EVAL_MICRO_BATCH},
    {P4D_DOCUMENT_LEN, P4D_DOCUMENT_LEN}, /* for a step time; here the data has it */
    {P4D_RECOMPUTE_MODULES, P4D_RECOMPUTE_LAYERS},
    {P4D_GRAD_DTYPE, P4D_GRAD_DTYPE},
    {P4D_MASTER_DTYPE, P4D_ADAM_COPIES},
    {P4D_FSDP_VERSION, P4D_PARAM_DTYPE},
    {P4D_ADAPTER_DTYPE, P4D_AUTOCAST},
    {P4D_ACCOUNT_FOR_EMBEDDING, P4D_FRAMEWORK},
    {P4D_FP8_PARAM_GATHER, P4D_FP8_PARAM_GATHER},
    {P4D_DEVICE, P4D_DEVICE}, /* has one choice more here than in a plan, and sets both */
    {P4D_CROSS_ENTROPY, P4D_CHUNKED_LOSS},
    {P4D_PADDING, P4D_PADDING}, /* p4d-train fills all sequences */
    {P4D_ALLOCATOR, P4D_SWAP},
    {P4D_EXPERTS, P4D_V_HEAD_DIM},
    {P4D_STORED, P4D_ARENA},
    {P4D_NODES, P4D_GPUS_PER_NODE}, /* given by the ranks that were started */
    {P4D_METHOD, P4D_METHOD},
};

static bool takes(p4d_option option)
{
	for (size_t i = 0; i < sizeof(of_others) / sizeof(*of_others); i++)
		if (option >= of_others[i].first && option <= of_others[i].last)
			return false;
	return (p4d_request_option_info(option)->where & P4D_WHERE_COMMAND) != 0;
}

static void fill_table(struct option *at)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (takes((p4d_option)i))
			*at++ = (struct option){p4d_request_option_info((p4d_option)i)->name,
						required_argument, NULL, PLAN_OPTION + i};
	for (int i = 0; i < SETTINGS; i++)
		*at++ = (struct option){settings_table[i].name,
					settings_table[i].kind == P4D_SWITCH_KIND ? no_argument
										  : required_argument,
					NULL, SETTING + i};
	*at++ = (struct option){"help", no_argument, NULL, HELP};
	*at++ = (struct option){"version", no_argument, NULL, VERSION};
	*at = (struct option){NULL, 0, NULL, 0};
}

/* Programs are often started with "$@" behind a script's own options, so the last counts, and a message says
 * so. */
static void note_twice(p4d_settings *settings, const char *name, const char *first, const char *last)
{
	p4d_error *twice = &settings->twice;
	const size_t used = twice->code ? strlen(twice->text) : 0;

	twice->code = P4D_E_USAGE;
	snprintf(twice->text + used, sizeof(twice->text) - used,
		 "%s--%s has two values, %.64s and %.64s: the last counts", used ? "; " : "", name, first,
		 last);
}

/* typed: how it was given before; NULL: it was not */
static int set_setting(p4d_settings *settings, const p4d_option_info *info, const char *text,
		       const char **typed, p4d_error *err)
{
	const char *before = *typed;
	int64_t value = 1, first;

	*typed = text;

	if (info->kind == P4D_SWITCH_KIND) {
		store(settings, info, value);
		return 0;
	}
	if (info->kind != P4D_TEXT_KIND) {
		memcpy(&first, (const char *)settings + info->field, sizeof(first));
		if (p4d_option_parse(info, "--", text, &value, err) < 0)
			return -1;
		store(settings, info, value);
		if (before && value != first)
			note_twice(settings, info->name, before, text);
		return 0;
	}
	if (!*text)
		return p4d_fail(err, P4D_E_VALUE, "--%s is empty", info->name);
	if (before && !info->size && strcmp(before, text) != 0)
		note_twice(settings, info->name, before, text);
	char *at = (char *)settings + info->field;
	for (size_t i = 0; i < info->size; i++, at += sizeof(text)) {
		const char *given;
		memcpy(&given, at, sizeof(given));
		if (!given)
			break;
		if (i + 1 == info->size)
			return p4d_fail(err, P4D_E_USAGE, "--%s is given more than %zu times", info->name,
					i + 1);
	}
	memcpy(at, &text, sizeof(text));
	return 0;
}

/* The first setting that was typed and is not among the used ones, a list that ends with NULL; NULL: none. */
static const char *unused_setting(const p4d_settings *s, const char *const *used)
{
	for (int i = 0; i < SETTINGS; i++) {
		const p4d_option_info *info = &settings_table[i];
		int64_t value, otherwise = info->kind == P4D_TEXT_KIND ? 0 : default_of(info);
		bool uses = false;
		memcpy(&value, (const char *)s + info->field, sizeof(value));
		for (size_t k = 0; used[k]; k++)
			uses = uses || !strcmp(used[k], info->name);
		if (!uses && value != otherwise)
			return info->name;
	}
	return NULL;
}

static void set_device(p4d_settings *s)
{
	if (s->where != P4D_DEVICE_AUTO)
		p4d_request_put(&s->request, P4D_DEVICE, s->where == P4D_DEVICE_CPU ? P4D_CPU : P4D_CUDA,
				P4D_BY_USER);
}

/* The layout is one that can, and the model's is that of the weights. */
static int check_sample(p4d_settings *s, p4d_error *err)
{
	static const char *const used[] = {"checkpoint",    "init-from", "sample",      "tokenizer",
					   "sample-tokens", "logits",    "temperature", "top-p",
					   "seed",          "device",    "threads",     "local-ranks",
					   "watchdog",      "comm",      NULL};

	if (!s->checkpoint && !s->init_from) {
		p4d_fail(err, P4D_E_USAGE,
			 "--sample needs --checkpoint, the directory of the run, or --init-from");
		return p4d_fix(err, "--checkpoint DIR");
	}
	const char *other = unused_setting(s, used);
	if (other)
		return p4d_fail(err, P4D_E_USAGE, "--sample ends without training: leave out --%s", other);
	if (s->where == P4D_DEVICE_CUDA)
		return p4d_fail(err, P4D_E_USAGE,
				"--sample is computed on the cpu device: leave out --device");
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (i != P4D_TP && i != P4D_SEQ_LEN && p4d_is_set(&s->request, (p4d_option)i))
			return p4d_fail(err, P4D_E_USAGE, "--%s has no effect with --sample",
					p4d_request_option_info((p4d_option)i)->name);
	if (s->sample_tokens == UINT64_MAX)
		s->sample_tokens = 100;
	if (s->temperature < 0)
		s->temperature = 0;
	if (s->top_p < 0)
		s->top_p = 1;
	return 0;
}

static int check_evaluation(p4d_settings *s, p4d_error *err)
{
	static const char *const used[] = {"checkpoint",   "init-from", "valid-data", "eval-only",
					   "eval-batches", "sequences", "delimiter",  "document-mask",
					   "log",          "seed",      "device",     "threads",
					   "local-ranks",  "watchdog",  "comm",       NULL};
	const char *other = unused_setting(s, used);

	if (other)
		return p4d_fail(err, P4D_E_USAGE, "--eval-only ends without training: leave out --%s", other);
	if (!s->checkpoint && !s->init_from) {
		p4d_fail(err, P4D_E_USAGE,
			 "--eval-only needs --checkpoint, the directory of the run, or --init-from");
		return p4d_fix(err, "--checkpoint DIR");
	}
	if (!s->valid_data[0]) {
		p4d_fail(err, P4D_E_USAGE, "--eval-only needs data: --valid-data is missing");
		return p4d_fix(err, "--valid-data FILE");
	}
	set_device(s);
	return 0;
}

/* What is typed is not one of the defaults, which are filled in behind this. */
static int check_unused(const p4d_settings *s, p4d_error *err)
{
	const struct {
		bool unused;
		const char *option, *other;
	} checks[] = {
	    {s->tokenizer && !s->sample, "tokenizer", "--sample"},
	    {s->sample_tokens != UINT64_MAX && !s->sample, "sample-tokens", "--sample"},
	    {s->logits && !s->sample, "logits", "--sample"},
	    {s->temperature >= 0 && !s->sample, "temperature", "--sample"},
	    {s->top_p >= 0 && !s->sample, "top-p", "--sample"},
	    {s->save_every != UINT64_MAX && !s->checkpoint, "save-every", "--checkpoint"},
	    {s->keep != UINT64_MAX && !s->checkpoint, "keep", "--checkpoint"},
	    {s->resume != P4D_RESUME_AUTO && !s->checkpoint, "resume", "--checkpoint"},
	    {s->eval_every != UINT64_MAX && !s->valid_data[0] && !(s->valid_fraction > 0), "eval-every",
	     "--valid-data or --valid-fraction"},
	    {s->eval_batches != UINT64_MAX && !s->valid_data[0] && !(s->valid_fraction > 0), "eval-batches",
	     "--valid-data or --valid-fraction"},
	    {s->decay != UINT64_MAX && s->curve != P4D_WSD, "decay-steps", "--schedule-lr=wsd"},
	    {s->least_rate >= 0 && s->curve == P4D_CONSTANT, "min-lr",
	     "a curve that falls, such as --schedule-lr=linear"},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (checks[i].unused)
			return p4d_fail(err, P4D_E_USAGE, "--%s has no effect without %s", checks[i].option,
					checks[i].other);
	return 0;
}

static int complete(p4d_settings *s, p4d_error *err)
{
	if (check_unused(s, err) < 0)
		return -1;
	if (s->sample)
		return check_sample(s, err);
	if (s->eval_only)
		return check_evaluation(s, err);
	if (!s->data || !s->steps) {
		p4d_fail(err, P4D_E_USAGE, "--%s is missing", s->data ? "steps" : "data");
		return p4d_fix(err, "--%s", s->data ? "steps N" : "data FILE");
	}
	if (s->valid_data[0] && s->valid_fraction > 0)
		return p4d_fail(err, P4D_E_USAGE, "--valid-data and --valid-fraction are mutually exclusive");
	if (s->warmup == UINT64_MAX)
		s->warmup = s->steps / 100;
	if (s->decay == UINT64_MAX)
		s->decay = s->steps / 5;
	if (s->least_rate < 0)
		s->least_rate = s->rate / 10;
	if (s->eval_every == UINT64_MAX)
		s->eval_every = 100;
	if (s->eval_batches == UINT64_MAX)
		s->eval_batches = 1;
	if (s->save_every == UINT64_MAX)
		s->save_every = 1000;
	if (s->keep == UINT64_MAX)
		s->keep = 3;
	if (s->warmup > s->steps)
		return p4d_fail(err, P4D_E_VALUE, "--warmup=%" PRIu64 " is above --steps=%" PRIu64, s->warmup,
				s->steps);
	if (s->least_rate > s->rate)
		return p4d_fail(err, P4D_E_VALUE, "--min-lr=%g is above --lr=%g", s->least_rate, s->rate);
	set_device(s);
	return 0;
}

/* Options of p4d estimate that are meaningless here, but will be pasted. */
static void explain_refusal(const char *word, p4d_error *err)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	const int option = strncmp(name, "--", 2) ? -1 : p4d_request_option_find(name + 2);
	if (option < 0 || takes((p4d_option)option) || option == P4D_DEVICE) /* which is a setting */
		return;
	if (option == P4D_NODES || option == P4D_GPUS_PER_NODE) {
		p4d_fail(err, P4D_E_USAGE, "p4d-train does not take %s: all started ranks train", name);
		p4d_fix(err, "srun with %s, or --local-ranks N", name);
		return;
	}
	p4d_fail(err, P4D_E_USAGE,
		 "p4d-train does not take %s: it is for submissions, estimates, or what other programs train",
		 name);
}

/* getopt takes the beginning of a name for it: --ep, which p4d has, for --epsilon. */
static int check_whole(char *const argv[], const struct option *table, int which, p4d_error *err)
{
	const char *word = argv[optind - 1 - (optarg == argv[optind - 1])];

	while (table->name && table->val != which)
		table++;
	if (!table->name || strncmp(word, "--", 2) != 0 || strcspn(word + 2, "=") == strlen(table->name))
		return 0;
	p4d_fail(err, P4D_E_USAGE, "unknown option %.*s; --%s begins so", (int)strcspn(word, "="), word,
		 table->name);
	explain_refusal(word, err);
	return -1;
}

int p4d_settings_parse(p4d_settings *settings, int argc, char *argv[], p4d_error *err)
{
	struct option table[VALUES - PLAN_OPTION + 1];
	const char *typed[SETTINGS] = {NULL};
	p4d_settings read = {.help = false};
	int which = 0, more, rc = 0;

	for (size_t i = 0; i < SETTINGS; i++)
		if (settings_table[i].kind != P4D_TEXT_KIND)
			store(&read, &settings_table[i], default_of(&settings_table[i]));
	fill_table(table);
	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":hV", table, &which, err)) != 0) {
		if (more < 0) {
			if (optind > 0 && err && err->code == P4D_E_USAGE)
				explain_refusal(argv[optind - 1], err);
			if (err && !err->fix[0])
				p4d_fix(err, "p4d-train --help");
			return -1;
		}
		if (check_whole(argv, table, which, err) < 0)
			return -1;
		read.help |= which == HELP || which == 'h';
		read.version |= which == VERSION || which == 'V';
		if (which >= SETTING && which < HELP)
			rc = set_setting(&read, &settings_table[which - SETTING], optarg,
					 &typed[which - SETTING], err);
		else if (which >= PLAN_OPTION && which < SETTING)
			rc = p4d_request_set_typed(&read.request, (p4d_option)(which - PLAN_OPTION), optarg,
						   err);
	}
	if (rc < 0)
		return -1;
	if (!read.help && !read.version) {
		if (optind < argc) {
			p4d_fail(err, P4D_E_USAGE, "unexpected argument \"%.64s\"", argv[optind]);
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
	return (p4d_rate){(p4d_rate_curve)s->curve, s->rate, s->least_rate, s->warmup, s->steps, s->decay};
}

uint64_t p4d_settings_hash(const p4d_settings *settings)
{
	uint64_t h = P4D_HASH_BEGIN;
	char text[64];

	for (size_t i = 0; i < SETTINGS; i++) {
		const p4d_option_info *info = &settings_table[i];
		int64_t value;
		memcpy(&value, (const char *)settings + info->field, sizeof(value));
		if (info->kind == P4D_TEXT_KIND)
			continue; /* the same file may have another name elsewhere */
		if (info->kind == P4D_DECIMAL_KIND)
			snprintf(text, sizeof(text), "%a;", p4d_option_real(value));
		else
			snprintf(text, sizeof(text), "%" PRIu64 ";", (uint64_t)value);
		for (const char *at = text; *at; at++)
			h = p4d_hash_step(h, (unsigned char)*at);
	}
	return h >> 12;
}

const p4d_option_info *p4d_settings_table(size_t *count)
{
	*count = SETTINGS;
	return settings_table;
}

const char *p4d_settings_default(const p4d_option_info *info, char *buf, size_t size)
{
	const bool named =
	    info->kind == P4D_INTEGER_KIND   ? info->number >= info->min && info->number <= info->max
	    : info->kind == P4D_DECIMAL_KIND ? info->real >= info->least && info->real <= info->most
					     : info->kind == P4D_CHOICE_KIND;

	buf[0] = '\0';
	return named ? p4d_option_text(info, default_of(info), buf, size) : buf;
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
	     "Trains a Llama. Under srun the layout is that of the job (P4D_PLAN, see p4d(1)); without Slurm "
	     "it\n"
	     "is that of the options below, and --local-ranks forks as many processes.\n\nTraining:");
	for (const p4d_option_info *at = settings_table; at < settings_table + SETTINGS; at++)
		print_option(at->name, at->argument, at->help,
			     p4d_settings_default(at, otherwise, sizeof(otherwise)));
	puts("\nModel and layout:");
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (takes((p4d_option)i)) {
			const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
			print_option(info->name, p4d_option_argument(info), info->help, "");
		}
	puts("");
	print_option("help", NULL, "print this help", "");
	print_option("version", NULL, "print the version", "");
	puts("\nDefaults are in parentheses. See p4d-train(1) for details and examples.");
}
