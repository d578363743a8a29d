/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of a training and further values, as given by an option, a comment of the script, or p4d.conf.
 */
#include "reader/told.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "reader/evidence.h"

static const struct {
	const char *name;
	const p4d_reader *reader;
	const char *kind;
} programs[] = {
#define PROGRAM(name, reader, kind) {name, &p4d_reader__##reader, kind},
#include "request/programs.def"
#undef PROGRAM
};
enum { PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

/* ---- comments ---- */

/* Iterates over the words NAME=VALUE after "# p4d:". */
typedef struct comments {
	const char *at, *end; /* rest of the text */
	const char *word;     /* rest of the line; NULL: the line has no such comment */
	uint32_t line;
} comments;

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* The text after "# p4d:" at the beginning of a line; NULL: it is another line. */
static const char *comment_of(const char *at, const char *end)
{
	static const char mark[] = "p4d:";

	at = skip_blanks(at, end);
	if (at == end || *at != '#')
		return NULL;
	at = skip_blanks(at + 1, end);
	return (size_t)(end - at) >= sizeof(mark) - 1 && !memcmp(at, mark, sizeof(mark) - 1)
		   ? at + sizeof(mark) - 1
		   : NULL;
}

/* Copies the next word, cut off to `size`. False: no more words. */
static bool next_word(comments *c, char *word, size_t size)
{
	while (c->at < c->end) {
		const char *newline = memchr(c->at, '\n', (size_t)(c->end - c->at));
		const char *end = newline ? newline : c->end;
		if (!c->word) {
			c->line++;
			c->word = comment_of(c->at, end);
		}
		const char *from = c->word ? skip_blanks(c->word, end) : end, *to = from;
		while (to < end && *to != ' ' && *to != '\t' && *to != '\r')
			to++;
		if (to > from) {
			snprintf(word, size, "%.*s", (int)(to - from < 4096 ? to - from : 4096), from);
			c->word = to;
			return true;
		}
		c->at = newline ? newline + 1 : c->end;
		c->word = NULL;
	}
	return false;
}

/* Returns the value in NAME=VALUE, and ends the word after NAME. NULL: the word has another form. */
static char *split(char *word)
{
	char *equals = strchr(word, '=');

	if (equals)
		*equals++ = '\0';
	return equals;
}

static bool is_typed(const p4d_reader_host *host, p4d_option option)
{
	return host->typed && p4d_is_set(host->typed, option);
}

static const char *program_name(const char *text)
{
	for (size_t i = 0; i < PROGRAMS; i++)
		if (!strcasecmp(programs[i].name, text))
			return programs[i].name;
	return NULL;
}

/* Takes a word of a comment, unless an option has already told the same. */
static void tell_word(p4d_read_told *told, const p4d_reader_host *host, const char *name, const char *value)
{
	const char *program = !strcmp(name, "program") ? program_name(value) : NULL;

	if (program && !is_typed(host, P4D_PROGRAM))
		told->program = program;
	if (!strcmp(name, "finetune") && !is_typed(host, P4D_FINETUNE))
		told->adapts = !strcmp(value, "lora") || !strcmp(value, "qlora");
}

void p4d_reader__told(p4d_read_told *told, const p4d_reader_host *host, const char *text, size_t length)
{
	comments c = {.at = text, .end = text + length};
	char word[128];

	*told = (p4d_read_told){.program = NULL};
	if (is_typed(host, P4D_PROGRAM))
		told->program = programs[host->typed->value[P4D_PROGRAM]].name;
	if (is_typed(host, P4D_FINETUNE))
		told->adapts = host->typed->value[P4D_FINETUNE] == P4D_TUNE_LORA ||
			       host->typed->value[P4D_FINETUNE] == P4D_TUNE_QLORA;
	while (next_word(&c, word, sizeof(word))) {
		const char *value = split(word);
		if (value)
			tell_word(told, host, word, value);
	}
}

/*
 * Whether a comment may set the option: it must describe the training, not the job's size or p4d's treatment
 * of the job.
 */
static bool may_be_commented(p4d_option option)
{
	const unsigned wanted = P4D_WHERE_PLAN | P4D_WHERE_SLURM;

	return (p4d_request_option_info(option)->where & wanted) == wanted && option != P4D_OVERRIDE &&
	       option != P4D_UNMODELLED;
}

static void say_unknown(p4d_reading *r, const char *place, const char *word)
{
	p4d_suggest alike = {.wanted = word};

	p4d_suggest_offer(&alike, "program");
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (may_be_commented((p4d_option)i))
			p4d_suggest_offer(&alike, p4d_request_option_info((p4d_option)i)->name);
	snprintf(r->comment, sizeof(r->comment), "%.80s: a comment cannot set `%.40s` for p4d%.80s", place,
		 word, p4d_suggest_text(&alike));
}

static void drop_unknowns(p4d_reading *r, p4d_option option)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < r->unknowns; i++) {
		const int of = p4d_request_option_find(r->unknown[i].name);
		const bool replaced =
		    of == (int)option || (option == P4D_MODEL && of >= 0 &&
					  p4d_request_option_info((p4d_option)of)->where & P4D_WHERE_MODEL);
		if (!replaced)
			r->unknown[kept++] = r->unknown[i];
	}
	r->unknowns = kept;
}

/* Forgets the sizes of the model, because the named model has them. */
static void drop_sizes(p4d_reading *r)
{
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_MODEL) {
			r->value[i] = (p4d_read_value){.file = NULL};
			r->by_default[i] = false;
		}
}

/*
 * Scales the batch with the micro-batch, so that a step keeps its number of micro-batches. Does nothing if
 * the program has an option for the batch size.
 */
static void scale_batch(p4d_reading *r, const char *micro_batch)
{
	p4d_read_value *all = &r->value[P4D_GLOBAL_BATCH];
	const uint64_t was = p4d_reader__number(&r->value[P4D_MICRO_BATCH]);
	const uint64_t batch = p4d_reader__number(all), is = strtoull(micro_batch, NULL, 10);
	uint64_t scaled;

	if (!all->file || (all->argument && !r->by_default[P4D_GLOBAL_BATCH]))
		return;
	if (was && batch && batch % was == 0 && !__builtin_mul_overflow(batch / was, is, &scaled))
		snprintf(all->text, sizeof(all->text), "%" PRIu64, scaled);
	else
		p4d_reader__forget(r, P4D_GLOBAL_BATCH);
}

static void take_value(p4d_reading *r, p4d_option option, const char *text, const char *name, uint32_t line)
{
	p4d_read_value *v = &r->value[option];

	if (option == P4D_MODEL && strcmp(text, "custom") != 0)
		drop_sizes(r);
	if (option == P4D_MICRO_BATCH)
		scale_batch(r, text);
	drop_unknowns(r, option);
	*v = (p4d_read_value){.file = name, .line = line};
	snprintf(v->text, sizeof(v->text), "%s", text);
	r->by_default[option] = false;
}

/* Applies a word of a comment. Reports only the first word that it cannot apply. */
static void take_word(p4d_reading *r, const p4d_reader_host *host, const char *name, uint32_t line,
		      char *word)
{
	char place[128];
	char *value = split(word);
	const int option = p4d_request_option_find(word);
	p4d_request probe = {.model = ""};
	p4d_error err = {.code = P4D_OK};

	snprintf(place, sizeof(place), "%.100s:%" PRIu32, name, line);
	if (option < 0 || (option != P4D_PROGRAM && !may_be_commented((p4d_option)option)) || !value) {
		if (!*r->comment)
			say_unknown(r, place, word);
	} else if (p4d_request_set(&probe, (p4d_option)option, value, P4D_BY_SCRIPT, &err) < 0) {
		if (!*r->comment)
			snprintf(r->comment, sizeof(r->comment), "%.80s: %.150s", place,
				 err.text + (strncmp(err.text, "--p4d-", 6) ? 0 : 6));
	} else if (r->reader && option != P4D_PROGRAM && !is_typed(host, (p4d_option)option)) {
		take_value(r, (p4d_option)option, value, name, line);
	}
}

void p4d_reader__take_comments(p4d_reading *r, const p4d_reader_host *host, const char *name,
			       const char *text, size_t length)
{
	comments c = {.at = text, .end = text + length};
	char word[sizeof(((p4d_read_value *)0)->text)];

	while (next_word(&c, word, sizeof(word)))
		take_word(r, host, name, c.line, word);
	/* "finetune=lora" names adapters; whether the weights below them are quantized, the script says */
	p4d_read_value *method = &r->value[P4D_FINETUNE];
	const p4d_read_value *quant = &r->value[P4D_QUANT];
	if (p4d_reader__is(method, "lora") && p4d_reader__set(quant) && !p4d_reader__is(quant, "none"))
		snprintf(method->text, sizeof(method->text), "qlora");
}

/* ---- the program ---- */

static bool ends_with(const char *text, const char *end)
{
	const size_t length = strlen(text), wanted = strlen(end);

	return length > wanted && !strcmp(text + length - wanted, end);
}

const char *p4d_reader__program_like(const p4d_reader *reader, const p4d_launch *launch)
{
	char path[P4D_READ_PATH];
	const char *usual = NULL;

	p4d_value_text(launch->words[0], path, sizeof(path));
	const char *slash = strrchr(path, '/');
	for (size_t i = 0; i < PROGRAMS; i++) {
		if (programs[i].reader != reader)
			continue;
		if (*programs[i].kind && strstr(slash ? slash : path, programs[i].kind))
			return programs[i].name;
		if (!usual && (!*programs[i].kind || p4d_reader__stands_alone(launch, reader)))
			usual = programs[i].name;
	}
	return usual ? usual : reader->framework;
}

static int certainty(p4d_shell *shell, const p4d_launch *launch, const p4d_reader *reader, unsigned *left)
{
	const p4d_read_evidence e = p4d_reader__weigh_command(shell, launch, reader, 1, left);

	if (e.typical || e.file)
		return P4D_TOLD_ARGUMENTS;
	return launch->every_gpu || launch->starts_ranks || launch->gpus_per_node.length ? P4D_TOLD_LAUNCHED
											 : P4D_TOLD_MAY_BE;
}

/* Whether a command may be the training that the user or the site named. */
static bool may_be(const p4d_launch *launch, const char *path, int certainty)
{
	return !launch->shell_script && !p4d_reader__is_none(launch->words[0]) &&
	       (ends_with(path, ".py") || launch->every_gpu || launch->starts_ranks ||
		(launch->python && certainty == P4D_TOLD_ARGUMENTS));
}

int p4d_reader__tell(const p4d_read_told *told, const p4d_reader_host *host, p4d_shell *shell,
		     const p4d_launch *launch, unsigned *left, p4d_read_program *program)
{
	char path[P4D_READ_PATH];
	const char *name = told->program;

	if (!launch->count || (program->words && !program->common))
		return program->words ? P4D_TOLD_KNOWN : 0;
	p4d_value_text(launch->words[0], path, sizeof(path));
	const bool by_site = !name && host->program && !launch->shell_script &&
			     (name = host->program(host->shell.context, path));
	for (size_t i = 0; name && i < PROGRAMS; i++) {
		if (strcasecmp(programs[i].name, name) != 0)
			continue;
		const int certain =
		    by_site ? P4D_TOLD_KNOWN : certainty(shell, launch, programs[i].reader, left);
		if (!by_site && !may_be(launch, path, certain))
			continue;
		*program = (p4d_read_program){.reader = programs[i].reader,
					      .words = 1,
					      .told = true,
					      .kind = *programs[i].kind ? programs[i].kind : NULL};
		return certain;
	}
	return program->words ? P4D_TOLD_KNOWN : 0;
}
