/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of p4d-train. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"
#include "run/settings_internal.h"

enum {
	PLAN_OPTION = 256,
	SETTING = PLAN_OPTION + P4D_OPTIONS,
	HELP = SETTING + P4D_SETTINGS,
	VERSION,
	COMPLETION,
	VALUES
};

/* Returns a setting's 64 bits: an integer, a real number, a choice, or the pointer of a text. */
int64_t p4d_settings__get(const p4d_settings *settings, p4d_setting setting)
{
	int64_t value;

	memcpy(&value, (const char *)settings + p4d_settings__table[setting].field, sizeof(value));
	return value;
}

void p4d_settings__put(p4d_settings *settings, p4d_setting setting, int64_t value)
{
	memcpy((char *)settings + p4d_settings__table[setting].field, &value, sizeof(value));
}

static void fill_table(struct option *at)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_settings__takes((p4d_option)i))
			*at++ = (struct option){p4d_request_option_info((p4d_option)i)->name,
						required_argument, NULL, PLAN_OPTION + i};
	for (int i = 0; i < P4D_SETTINGS; i++)
		*at++ = (struct option){p4d_settings__table[i].name,
					p4d_settings__table[i].kind == P4D_SWITCH_KIND ? no_argument
										       : required_argument,
					NULL, SETTING + i};
	*at++ = (struct option){"help", no_argument, NULL, HELP};
	*at++ = (struct option){"version", no_argument, NULL, VERSION};
	*at++ = (struct option){"completion", required_argument, NULL, COMPLETION};
	*at = (struct option){NULL, 0, NULL, 0};
}

/*
 * Notes an option that was given twice, for a message. Scripts often start programs with "$@" after their own
 * options, so the last value counts.
 */
static void note_twice(p4d_settings *settings, const char *name, const char *first, const char *last)
{
	p4d_error *twice = &settings->twice;
	const size_t used = twice->code ? strlen(twice->text) : 0;

	twice->code = P4D_E_USAGE;
	snprintf(twice->text + used, sizeof(twice->text) - used,
		 "%s--%s has two values, %.64s and %.64s: p4d-train uses the last one", used ? "; " : "",
		 name, first, last);
}

static int set_text(p4d_settings *settings, const p4d_option_info *info, const char *prefix, const char *text,
		    p4d_error *err)
{
	char *at = (char *)settings + info->field;

	if (!*text)
		return p4d_fail(err, P4D_E_VALUE, "%s%s is empty", prefix, info->name);
	for (size_t i = 0; i < info->size; i++, at += sizeof(text)) {
		const char *given;
		memcpy(&given, at, sizeof(given));
		if (!given)
			break;
		if (i + 1 == info->size)
			return p4d_fail(err, P4D_E_USAGE, "%s%s is given more than %zu times", prefix,
					info->name, i + 1);
	}
	memcpy(at, &text, sizeof(text));
	return 0;
}

int p4d_settings__set(p4d_settings *settings, p4d_setting setting, const char *prefix, const char *text,
		      p4d_error *err)
{
	const p4d_option_info *info = &p4d_settings__table[setting];
	int64_t value = 1;

	if (info->kind == P4D_TEXT_KIND)
		return set_text(settings, info, prefix, text, err);
	if (info->kind != P4D_SWITCH_KIND && p4d_option_parse(info, prefix, text, &value, err) < 0)
		return -1;
	p4d_settings__put(settings, setting, value);
	return 0;
}

/* Sets a typed option. *before: the value that it had before; NULL: it was not given before. */
static int set_typed(p4d_settings *settings, p4d_setting setting, const char *text, const char **before,
		     p4d_error *err)
{
	const p4d_option_info *info = &p4d_settings__table[setting];
	const int64_t first = p4d_settings__get(settings, setting);
	const bool several = info->kind == P4D_TEXT_KIND && info->size;

	if (p4d_settings__set(settings, setting, "--", text, err) < 0)
		return -1;
	settings->source[setting] = P4D_SETTING_TYPED;
	const bool same = info->kind == P4D_TEXT_KIND ? *before && !strcmp(*before, text)
						      : first == p4d_settings__get(settings, setting);
	if (*before && !several && !same)
		note_twice(settings, info->name, *before, text);
	*before = text;
	return 0;
}

/*
 * Explains a refused word. Users may paste options of p4d estimate or of other trainers, which p4d-train does
 * not have.
 */
static int explain_refusal(const char *word, p4d_error *err)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	const char *bare = strncmp(name, "--", 2) ? "" : name + 2, *here = p4d_settings__other_word(bare);
	const int option = p4d_request_option_find(bare);
	if (here) {
		p4d_fail(err, P4D_E_USAGE, "unknown option %s: p4d-train has %s", name, here);
		return p4d_fix(err, "%.*s%s", (int)strcspn(here, ", "), here,
			       strchr(here, '=') ? "" : word + strcspn(word, "="));
	}
	/* settings.def has --device, so p4d-train does accept it */
	if (option < 0 || p4d_settings__takes((p4d_option)option) || option == P4D_DEVICE)
		return err->fix[0] ? -1 : p4d_fix(err, "p4d-train --help");
	if (option == P4D_NODES || option == P4D_GPUS_PER_NODE) {
		p4d_fail(err, P4D_E_USAGE, "p4d-train has no option %s: all started ranks train", name);
		return p4d_fix(err, "srun with %s, or --local-ranks N", name);
	}
	p4d_fail(
	    err, P4D_E_USAGE,
	    "p4d-train has no option %s, which is only for submissions, for estimates or for other programs",
	    name);
	return p4d_fix(err, "p4d-train --help");
}

/*
 * Refuses abbreviated options. getopt accepts a prefix of a name: for --ep, which is an option of p4d, it
 * would take --epsilon.
 */
static int check_whole(char *const argv[], const struct option *table, int which, p4d_error *err)
{
	const char *word = argv[optind - 1 - (optarg == argv[optind - 1])];

	while (table->name && table->val != which)
		table++;
	if (!table->name || strncmp(word, "--", 2) != 0 || strcspn(word + 2, "=") == strlen(table->name))
		return 0;
	p4d_fail(err, P4D_E_USAGE, "unknown option %.*s; nearest: --%s", (int)strcspn(word, "="), word,
		 table->name);
	return explain_refusal(word, err);
}

/* Whether the program only prints something, so that it needs no data, layout or file. */
static bool only_prints(const p4d_settings *read)
{
	return read->help || read->version || read->completion;
}

static int take_words(p4d_settings *read, int argc, char *argv[], p4d_error *err)
{
	struct option table[VALUES - PLAN_OPTION + 1];
	const char *before[P4D_SETTINGS] = {NULL};
	int which = 0, more, rc = 0;

	fill_table(table);
	optind = 0;
	while (rc == 0 && (more = p4d_arguments_next(argc, argv, ":hV", table, &which, err)) != 0) {
		if (more < 0) {
			return optind > 0 && err && err->code == P4D_E_USAGE
				   ? explain_refusal(argv[optind - 1], err)
				   : -1;
		}
		if (check_whole(argv, table, which, err) < 0)
			return -1;
		read->help |= which == HELP || which == 'h';
		read->version |= which == VERSION || which == 'V';
		read->completion = which == COMPLETION ? optarg : read->completion;
		if (which >= SETTING && which < HELP)
			rc = set_typed(read, (p4d_setting)(which - SETTING), optarg ? optarg : "",
				       &before[which - SETTING], err);
		else if (which >= PLAN_OPTION && which < SETTING)
			rc = p4d_request_set_typed(&read->request, (p4d_option)(which - PLAN_OPTION), optarg,
						   err);
	}
	if (rc == 0 && optind < argc && !only_prints(read)) {
		p4d_fail(err, P4D_E_USAGE, "unexpected argument \"%.64s\"", argv[optind]);
		return p4d_fix(err, "p4d-train --help");
	}
	return rc;
}

/* Whether a word is an option of sbatch such as "--p4d-tp=2", which p4d plan prints. */
static bool has_prefix(const char *word)
{
	static const char prefix[] = "--p4d-";
	char name[64];

	if (strncmp(word, prefix, sizeof(prefix) - 1) != 0)
		return false;
	word += sizeof(prefix) - 1;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	return p4d_request_option_find(name) >= 0;
}

/*
 * Parses the words. Accepts options of sbatch without their prefix "p4d-"; --p4d-framework=p4d just names
 * this program. Copies the values of plan options, so that their texts may be freed.
 */
static int parse_words(p4d_settings *read, int argc, char *argv[], p4d_error *err)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	size_t room = 1, used = 0;
	int count = 0, rc;

	for (int i = 0; i < argc; i++)
		room += strlen(argv[i]) + 1;
	char *text = malloc(room);
	for (int i = 0; words && text && i < argc; i++) {
		if (!strcmp(argv[i], "--p4d-framework=p4d"))
			continue;
		words[count++] = has_prefix(argv[i]) ? text + used : argv[i];
		if (has_prefix(argv[i]))
			used +=
			    (size_t)snprintf(text + used, room - used, "--%s", argv[i] + strlen("--p4d-")) +
			    1;
	}
	if (words && text)
		rc = take_words(read, count, words, err);
	else
		rc = p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %d arguments", argc);
	free(text);
	free(words);
	return rc;
}

int p4d_settings_parse(p4d_settings *settings, int argc, char *argv[], p4d_error *err)
{
	p4d_settings read = {.help = false};

	for (int i = 0; i < P4D_SETTINGS; i++)
		if (p4d_settings__table[i].kind != P4D_TEXT_KIND)
			p4d_settings__put(&read, (p4d_setting)i,
					  p4d_settings__default(&p4d_settings__table[i]));
	if (parse_words(&read, argc, argv, err) < 0)
		return -1;
	if (!only_prints(&read) && ((read.config && p4d_settings__read_file(&read, err) < 0) ||
				    p4d_settings__complete(&read, err) < 0)) {
		p4d_settings_close(&read);
		return -1;
	}
	*settings = read;
	return 0;
}

void p4d_settings_close(p4d_settings *settings)
{
	p4d_config_free(&settings->file);
}

p4d_rate p4d_settings_rate(const p4d_settings *s)
{
	return (p4d_rate){(p4d_rate_curve)s->curve, s->rate, s->least_rate, s->warmup, s->steps, s->decay};
}

const char *p4d_settings_update(const p4d_settings *s, char *buf, size_t size)
{
	static const p4d_setting listed[] = {
	    P4D_SETTING_rate,    P4D_SETTING_least_rate,   P4D_SETTING_curve, P4D_SETTING_warmup,
	    P4D_SETTING_decay,   P4D_SETTING_steps,        P4D_SETTING_beta1, P4D_SETTING_beta2,
	    P4D_SETTING_epsilon, P4D_SETTING_weight_decay, P4D_SETTING_clip,  P4D_SETTING_z_loss,
	};
	p4d_text text = p4d_text_in(buf, size);
	char value[P4D_NUMBER_TEXT + 16];

	for (size_t i = 0; i < sizeof(listed) / sizeof(*listed); i++) {
		const p4d_option_info *info = &p4d_settings__table[listed[i]];
		const bool follows = info->kind == P4D_INTEGER_KIND || listed[i] == P4D_SETTING_least_rate;
		/* defaults that follow from other settings are not listed */
		if (p4d_settings__lacks(s, listed[i]) ||
		    (follows && listed[i] != P4D_SETTING_steps && !s->source[listed[i]]))
			continue;
		p4d_option_text(info, p4d_settings__get(s, listed[i]), value, sizeof(value));
		p4d_text_entry(&text, " ", "--%s=%s", info->name, value);
	}
	return buf;
}

uint64_t p4d_settings_hash(const p4d_settings *settings)
{
	uint64_t h = P4D_HASH_BEGIN;
	char text[64];

	for (size_t i = 0; i < P4D_SETTINGS; i++) {
		const p4d_option_info *info = &p4d_settings__table[i];
		const int64_t value = p4d_settings__get(settings, (p4d_setting)i);
		if (info->kind == P4D_TEXT_KIND)
			continue; /* not hashed, because the same file may have another name on another host
				   */
		if (info->kind == P4D_DECIMAL_KIND)
			snprintf(text, sizeof(text), "%a;", p4d_option_real(value));
		else
			snprintf(text, sizeof(text), "%" PRIu64 ";", (uint64_t)value);
		for (const char *at = text; *at; at++)
			h = p4d_hash_step(h, (unsigned char)*at);
	}
	return h >> 12;
}
