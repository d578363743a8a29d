/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that read into variables: read, mapfile, getopts; and let. */
#include <string.h>

#include "shell/shell_internal.h"

static p4d_shell_name name_in(p4d_value word, const p4d_shell_call *w)
{
	return p4d_shell__name_of(w->sh, word);
}

static void forget(const p4d_shell_call *w, p4d_value word, uint16_t reason)
{
	p4d_shell_name name = name_in(word, w);

	if (!name.length)
		return;
	p4d_shell__assign(
	    w->sh, w->mode, name,
	    p4d_shell__not_known(
		w->sh, reason ? reason
			      : p4d_shell__reason(w->sh, "$%.64s is read from a file or command", name.text)),
	    false, w->source ? w->source->line : 0);
}

/* Arguments of read and mapfile: the array, and the index of the first name. */
typedef struct target {
	size_t names;
	const p4d_value *array;
	bool whole; /* -d '': reads all of the text, not only its first line */
} target;

static bool read_options(const p4d_shell_call *w, const char *valued, target *t)
{
	bool followed = true;

	for (t->names = 0; t->names < w->count; t->names++) {
		const p4d_value word = w->at[t->names];
		if (word.length < 2 || word.at[0].c != '-' || word.at[0].unknown)
			break;
		const char last = word.at[word.length - 1].c;
		for (uint32_t i = 1; i < word.length; i++)
			followed = followed && !strchr("inNu", word.at[i].c);
		if (!strchr(valued, last))
			continue;
		t->names++;
		const p4d_value *value = t->names < w->count ? &w->at[t->names] : NULL;
		if (last == 'a')
			t->array = value;
		t->whole = t->whole || (last == 'd' && value && !value->length);
		followed = followed && (last != 'd' || t->whole);
	}
	return followed;
}

/* Takes the first line of the command's input, and moves past it. */
static bool take_line(const p4d_shell_call *w, bool whole, p4d_value *line)
{
	p4d_shell *sh = w->sh;
	uint32_t n = 0;

	if (!p4d_shell__input(sh, w->redirection, line))
		return false;
	while (n < line->length && (whole || line->at[n].unknown || line->at[n].c != '\n') &&
	       p4d_shell__work(sh, 1))
		n++;
	if (!w->redirection->has_input && !w->redirection->has_input_path && w->mode == P4D_SHELL_RUN) {
		const uint32_t next = n + (n < line->length);
		sh->pipe = p4d_shell__part(*line, next, line->length - next);
	}
	line->length = n;
	return true;
}

/* Takes the next word off a line. The last variable gets the rest of the line. */
static p4d_value next_word(p4d_value *line, const char *separators, bool last)
{
	uint32_t from = 0, n = 0, end = line->length;

	while (from < end && line->at[from].c && strchr(" \t\n", line->at[from].c) &&
	       strchr(separators, line->at[from].c))
		from++;
	p4d_value word = p4d_shell__part(*line, from, end - from);
	if (last) {
		while (word.length && strchr(" \t\n", word.at[word.length - 1].c) &&
		       strchr(separators, word.at[word.length - 1].c))
			word.length--;
		line->length = 0;
		return word;
	}
	while (n < word.length && !strchr(separators, word.at[n].c))
		n++;
	const uint32_t next = from + n + (from + n < end);
	word.length = n;
	*line = p4d_shell__part(*line, next, end - next);
	return word;
}

static p4d_shell_status run_read(const p4d_shell_call *w)
{
	char buf[16];
	const char *separators = p4d_shell__separators(w->sh, buf, sizeof(buf));
	target t = {0};
	p4d_value line = {0};
	const bool followed = read_options(w, "adinNptu", &t),
		   there = followed && take_line(w, t.whole, &line);
	const uint16_t unknown = p4d_value_unknown(line);

	if (!there || (unknown && !t.whole)) {
		if (t.array)
			forget(w, *t.array, unknown);
		for (size_t i = t.names; i < w->count; i++)
			forget(w, w->at[i], unknown);
		return P4D_SHELL_OPEN;
	}
	const bool ended = !line.length && !w->redirection->has_input && !w->redirection->has_input_path &&
			   !w->sh->pipe.length;
	if (t.array) {
		p4d_shell_words words = {0};
		p4d_shell_build b = {0};
		p4d_shell__add_value(w->sh, &b, line, false);
		p4d_shell__split(w->sh, &b, &words);
		p4d_shell__assign_array(w->sh, w->mode, name_in(*t.array, w), words, false, 0);
	}
	for (size_t i = t.names; i < w->count; i++)
		p4d_shell__assign(w->sh, w->mode, name_in(w->at[i], w),
				  next_word(&line, separators, i + 1 == w->count), false,
				  w->source ? w->source->line : 0);
	return ended ? P4D_SHELL_FALSE : t.whole ? P4D_SHELL_TAKEN : P4D_SHELL_TRUE;
}

static p4d_shell_status run_mapfile(const p4d_shell_call *w)
{
	target t = {0};
	p4d_value text = {0};
	p4d_shell_words lines = {0};
	const bool followed = read_options(w, "dnOsuCc", &t) && w->count && p4d_value_is(w->at[0], "-t");
	const bool there = followed && p4d_shell__input(w->sh, w->redirection, &text);
	uint16_t unknown = 0; /* the reason of an unknown part that may have several lines */
	static const p4d_cell mapfile[] = {{.c = 'M'}, {.c = 'A'}, {.c = 'P'}, {.c = 'F'},
					   {.c = 'I'}, {.c = 'L'}, {.c = 'E'}};
	const p4d_value name = t.names < w->count ? w->at[t.names] : (p4d_value){mapfile, 7};

	for (uint32_t i = 0; i < text.length && !unknown; i++)
		unknown = text.at[i].c == P4D_CELL_WORD ? 0 : text.at[i].unknown;
	if (!there || unknown) {
		forget(w, name, unknown);
		return P4D_SHELL_TAKEN;
	}
	for (uint32_t from = 0, i = 0; i <= text.length && !w->sh->stopped; i++)
		if (i == text.length ? i > from : text.at[i].c == '\n') {
			p4d_shell__add_word(w->sh, &lines, p4d_shell__part(text, from, i - from));
			from = i + 1;
		}
	p4d_shell__assign_array(w->sh, w->mode, name_in(name, w), lines, false, 0);
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_let(const p4d_shell_call *w)
{
	p4d_shell_status status = P4D_SHELL_OPEN;
	int64_t number;
	uint16_t unknown;

	for (size_t i = 0; i < w->count; i++)
		status = !p4d_shell__number(w->sh, w->at[i], &number, &unknown) ? P4D_SHELL_OPEN
			 : number                                               ? P4D_SHELL_TRUE
										: P4D_SHELL_FALSE;
	return status;
}

static void set(const p4d_shell_call *w, const char *name, p4d_value value)
{
	p4d_shell__assign(w->sh, w->mode, (p4d_shell_name){name, strlen(name)}, value, false, 0);
}

/* getopts OPTIONS NAME [WORDS]: reads the next option of the parameters. */
static p4d_shell_status run_getopts(const p4d_shell_call *w)
{
	p4d_shell *sh = w->sh;
	const p4d_value *words = w->at + 2;
	size_t count = w->count > 2 ? w->count - 2 : 0;
	p4d_value index;
	int64_t at;
	uint16_t unknown = 0;

	if (w->count < 2)
		return P4D_SHELL_FALSE;
	if (w->count == 2 && sh->in.parameters.count) {
		words = sh->in.parameters.at + 1;
		count = sh->in.parameters.count - 1;
	}
	if (!p4d_shell_variable(sh, "OPTIND", &index))
		at = 1;
	else if (!p4d_shell__number(sh, index, &at, &unknown) || at < 1)
		at = 0;
	const p4d_value word = at > 0 && at <= (int64_t)count ? words[at - 1] : (p4d_value){0};
	if (at < 1 || w->mode != P4D_SHELL_RUN || p4d_value_unknown(w->at[0]) ||
	    p4d_shell__any_number(words, count) || p4d_value_unknown(word)) {
		forget(w, w->at[1], 0);
		set(w, "OPTARG", p4d_shell__not_known(sh, p4d_shell__reason(sh, "$OPTARG is not known")));
		return P4D_SHELL_OPEN;
	}
	if (sh->option_index != at)
		sh->option_at = 1;
	if (word.length < 2 || word.at[0].c != '-' || p4d_value_is(word, "--")) {
		set(w, "OPTIND",
		    p4d_shell__digits(sh, at + (word.length && p4d_value_is(word, "--")), (p4d_cell){0}));
		p4d_shell__assign(sh, w->mode, name_in(w->at[1], w),
				  p4d_shell__value_of(sh, "?", (p4d_cell){0}), false, 0);
		return P4D_SHELL_FALSE;
	}
	const p4d_cell letter = word.at[sh->option_at++];
	bool ends = sh->option_at >= word.length, valued = false, found = false;
	for (uint32_t i = 0; i < w->at[0].length; i++)
		if (w->at[0].at[i].c == letter.c && letter.c != ':') {
			found = true;
			valued = i + 1 < w->at[0].length && w->at[0].at[i + 1].c == ':';
		}
	p4d_value argument = {0}, name = {&letter, 1};
	if (valued && !ends) {
		argument = p4d_shell__part(word, sh->option_at, word.length - sh->option_at);
	} else if (valued && at < (int64_t)count) {
		argument = words[at++];
	}
	if (valued || ends)
		ends = true;
	at += ends;
	sh->option_at = ends ? 1 : sh->option_at;
	sh->option_index = (uint32_t)at;
	if (!found)
		name = p4d_shell__value_of(sh, "?", letter);
	set(w, "OPTARG", argument);
	set(w, "OPTIND", p4d_shell__digits(sh, at, (p4d_cell){0}));
	p4d_shell__assign(sh, w->mode, name_in(w->at[1], w), p4d_shell__copied(sh, name), false, letter.line);
	return P4D_SHELL_TRUE;
}

const p4d_shell_builtin p4d_shell__readers[] = {
    {"getopts", run_getopts, false},   {"let", run_let, false},   {"mapfile", run_mapfile, false},
    {"readarray", run_mapfile, false}, {"read", run_read, false}, {NULL, NULL, false},
};
