/* SPDX-License-Identifier: Apache-2.0 */
/* grep and sed, as scripts use them to take a value out of a file or to insert one. Only simple patterns. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell_internal.h"

/* A pattern of grep. */
typedef struct wanted_lines {
	p4d_shell_pattern pattern;
	p4d_value extended; /* used if p4d_shell__read_pattern does not support the pattern */
	bool simple;
} wanted_lines;

static bool read_wanted(const p4d_shell_call *w, const p4d_shell_options *o, p4d_value pattern,
			wanted_lines *to)
{
	char text[128];

	*to = (wanted_lines){.pattern.any_case = o->is['i']};
	if (p4d_value_unknown(pattern) || pattern.length >= sizeof(text))
		return false;
	p4d_value_text(pattern, text, sizeof(text));
	to->simple = p4d_shell__read_pattern(&to->pattern, text, o->is['F'], o->is['E']);
	p4d_shell_build plain = {0}; /* the shell's quotes mean nothing to grep */
	p4d_shell__add_value(w->sh, &plain, pattern, false);
	const p4d_value unquoted = {plain.at, plain.length};
	to->extended = o->is['E'] ? unquoted : p4d_shell__as_extended(w->sh, unquoted);
	return to->simple || (!o->is['F'] && p4d_shell__line_matches(w->sh, (p4d_value){0}, to->extended,
								     false) != P4D_SHELL_OPEN);
}

static bool is_wanted(p4d_shell *sh, const wanted_lines *what, p4d_value line)
{
	return what->simple ? p4d_shell__has_match(sh, &what->pattern, line)
			    : p4d_shell__line_matches(sh, line, what->extended, what->pattern.any_case) ==
				  P4D_SHELL_TRUE;
}

/* grep with one pattern: prints the matching lines, or tells whether there are any. */
static p4d_shell_status run_grep(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "EFqvish", .valued = "me"};
	const size_t first = p4d_shell__filter_options(w, &o);
	const size_t file = first + !o.is['e'];
	wanted_lines what;
	p4d_value lines;
	bool any = false;

	if (first == SIZE_MAX || file > w->count || w->count > file + 1 ||
	    (o.is['m'] && !p4d_value_is(o.value['m'], "1")))
		return p4d_shell__print_unknown(w);
	if (!read_wanted(w, &o, o.is['e'] ? o.value['e'] : w->at[first], &what))
		return o.is['q'] ? P4D_SHELL_OPEN : p4d_shell__print_unknown(w);
	if (!p4d_shell__filter_text(w, file < w->count ? &w->at[file] : NULL, &lines))
		return o.is['q'] ? P4D_SHELL_OPEN : P4D_SHELL_TAKEN;
	while (lines.length && !w->sh->stopped && !(any && (o.is['q'] || o.is['m']))) {
		const p4d_value line = p4d_shell__next_line(&lines);
		if (is_wanted(w->sh, &what, p4d_shell__without_end(line)) == o.is['v'])
			continue;
		any = true;
		if (!o.is['q'])
			p4d_shell__print(w, line);
	}
	return any ? P4D_SHELL_TRUE : P4D_SHELL_FALSE;
}

/* A command of sed: s/PATTERN/TEXT/gp, /PATTERN/d or /PATTERN/p; also /PATTERN/s/PATTERN/TEXT/. */
typedef struct edit {
	p4d_shell_pattern lines; /* the command is for the lines that this matches */
	p4d_shell_pattern pattern;
	p4d_shell_groups groups; /* of `pattern` */
	p4d_value by;            /* replacement text. A quoted digit stands for the text of the group with
				  * this number; 0 stands for the whole match */
	char action;             /* 's', 'd' or 'p' */
	bool some;               /* has `lines` */
	bool all, prints;        /* g: replaces all matches; p: prints the line if it replaces any */
} edit;

/*
 * Copies a part of a command up to the character `by`, and moves past it. Fails for NUL and for longer parts.
 */
static bool next_part(p4d_value *script, char by, p4d_value *part)
{
	uint32_t n = 0;

	while (n < script->length && (script->at[n].unknown || script->at[n].c != by)) {
		const bool escapes = !script->at[n].unknown && script->at[n].c == '\\';
		n += escapes && n + 1 < script->length ? 2 : 1;
	}
	if (n >= script->length)
		return false;
	*part = p4d_shell__part(*script, 0, n);
	*script = p4d_shell__part(*script, n + 1, script->length - n - 1);
	return true;
}

/* Reads the replacement text and resolves its escapes. False: p4d does not support one of them. */
static bool read_replacement(p4d_shell *sh, p4d_value text, const p4d_shell_groups *groups, p4d_value *to)
{
	p4d_shell_build b = {0};

	for (uint32_t i = 0; i < text.length; i++) {
		p4d_cell cell = text.at[i];
		cell.quoted = !cell.unknown && cell.c == '&';
		if (cell.quoted) {
			cell.c = '0';
		} else if (!cell.unknown && cell.c == '\\') {
			if (++i == text.length)
				return false;
			cell = text.at[i];
			cell.quoted = isdigit((unsigned char)cell.c) != 0;
			if (cell.quoted ? (size_t)(cell.c - '0') > groups->count
					: isalpha((unsigned char)cell.c) != 0)
				return false;
		}
		p4d_shell__add(sh, &b, cell);
	}
	*to = (p4d_value){b.at, b.length};
	return true;
}

/* Reads a pattern of sed up to the character `by`, and moves past it. False: p4d does not support it. */
static bool read_sed_pattern(p4d_shell *sh, p4d_value *script, char by, bool extended, p4d_shell_pattern *p,
			     p4d_shell_groups *groups)
{
	p4d_value text;
	p4d_shell_build plain = {0}; /* the shell's quotes mean nothing to sed */

	if (!next_part(script, by, &text) || p4d_value_unknown(text) || !text.length)
		return false;
	for (uint32_t i = 0; i < text.length; i++) {
		const bool escapes = text.at[i].c == '\\' && i + 1 < text.length && text.at[i + 1].c == by &&
				     !isalnum((unsigned char)by);
		i += escapes; /* \/ is a slash, whatever separates the parts */
		if (escapes && strchr(".*[]^$+?(){}|", by))
			return false;
		p4d_cell cell = text.at[i];
		cell.quoted = false;
		p4d_shell__add(sh, &plain, cell);
	}
	text = (p4d_value){plain.at, plain.length};
	return p4d_shell__read_grouped(p, groups, extended ? text : p4d_shell__as_extended(sh, text));
}

static bool is_end(p4d_cell cell)
{
	return !cell.unknown && strchr("; \n", cell.c);
}

/* Reads the flags g and p, and moves past the end of the command. False: p4d does not support a flag. */
static bool read_flags(p4d_value *script, edit *e)
{
	uint32_t n = 0;

	for (; n < script->length && !is_end(script->at[n]); n++) {
		if (script->at[n].unknown || e->action != 's' || !strchr("gp", script->at[n].c))
			return false;
		e->all = e->all || script->at[n].c == 'g';
		e->prints = e->prints || script->at[n].c == 'p';
	}
	while (n < script->length && is_end(script->at[n]))
		n++;
	*script = p4d_shell__part(*script, n, script->length - n);
	return true;
}

/* Whether a pattern may match at every position. */
static bool may_be_empty(const p4d_shell_pattern *p)
{
	bool empty = !p->end;

	for (size_t i = 0; i < p->count; i++)
		empty = empty && strchr("*?", p->at[i].times);
	return empty;
}

static void pass(p4d_value *script, uint32_t count)
{
	*script = p4d_shell__part(*script, count, script->length - count);
}

/* Parses the next command of a sed script, and moves past it. False: p4d does not support it. */
static bool read_edit(p4d_shell *sh, p4d_value *script, bool extended, edit *e)
{
	p4d_shell_groups unused;
	p4d_value by;

	*e = (edit){.some = !script->at[0].unknown && script->at[0].c == '/'};
	if (e->some) {
		pass(script, 1);
		if (!read_sed_pattern(sh, script, '/', extended, &e->lines, &unused))
			return false;
	}
	if (!script->length || script->at[0].unknown || !strchr("sdp", script->at[0].c) ||
	    (script->at[0].c != 's' && !e->some))
		return false;
	e->action = script->at[0].c;
	pass(script, 1);
	if (e->action != 's')
		return read_flags(script, e);
	if (!script->length || script->at[0].unknown || isalnum((unsigned char)script->at[0].c) ||
	    isspace((unsigned char)script->at[0].c) || script->at[0].c == '\\')
		return false;
	const char separator = script->at[0].c;
	pass(script, 1);
	return read_sed_pattern(sh, script, separator, extended, &e->pattern, &e->groups) &&
	       next_part(script, separator, &by) && read_replacement(sh, by, &e->groups, &e->by) &&
	       read_flags(script, e) && !(e->all && may_be_empty(&e->pattern));
}

/* Adds the replacement of a match, which begins at `at` in the line. */
static void replace(p4d_shell *sh, p4d_shell_build *b, const edit *e, p4d_value line, uint32_t at,
		    const uint32_t *begins)
{
	for (uint32_t i = 0; i < e->by.length; i++) {
		const p4d_cell cell = e->by.at[i];
		if (!cell.quoted)
			p4d_shell__add(sh, b, cell);
		else if (cell.c == '0')
			p4d_shell__add_value(sh, b, p4d_shell__part(line, at, begins[e->pattern.count] - at),
					     false);
		else
			p4d_shell__add_value(
			    sh, b, p4d_shell__group(&e->groups, (size_t)(cell.c - '1'), line, begins), false);
	}
}

/* Adds a line with its matches replaced. False: it has none, and stays as it is. */
static bool substituted(p4d_shell *sh, const edit *e, p4d_value whole, p4d_shell_build *b)
{
	const p4d_value line = p4d_shell__without_end(whole);
	uint32_t begins[P4D_SHELL_ATOMS + 1], at = 0, from = 0, end = 0;
	p4d_shell_pattern p = e->pattern;
	bool any = false;

	p.begins = begins;
	while (p4d_shell__find_match(sh, &p, line, &at, &end)) {
		any = true;
		begins[p.count] = end;
		p4d_shell__add_value(sh, b, p4d_shell__part(line, from, at - from), false);
		replace(sh, b, e, line, at, begins);
		from = end;
		if (!e->all || end == at || p.start)
			break;
		at = end;
	}
	p4d_shell__add_value(sh, b, p4d_shell__part(whole, from, whole.length - from), false);
	return any;
}

/* Applies one command to each line of a text. quiet: only lines that the command prints remain. */
static p4d_value edited(p4d_shell *sh, const edit *e, bool quiet, p4d_value text)
{
	p4d_shell_build b = {0};

	while (text.length && !sh->stopped) {
		const p4d_value line = p4d_shell__next_line(&text);
		const bool meant =
		    !e->some || p4d_shell__has_match(sh, &e->lines, p4d_shell__without_end(line));
		const uint32_t before = b.length;
		const bool kept = meant && e->action == 's' ? substituted(sh, e, line, &b) && e->prints
							    : meant && e->action == 'p';
		if (quiet && !kept)
			b.length = before;
		else if (b.length == before && !(meant && strchr("sd", e->action)))
			p4d_shell__add_value(sh, &b, line, false);
	}
	return (p4d_value){b.at, b.length};
}

/* The words of sed: its commands, and its options. */
enum { SED_SCRIPTS = 16 };
typedef struct sed_words {
	p4d_value script[SED_SCRIPTS], file; /* file: the first file */
	size_t scripts, files;
	bool has_script; /* an option gives the script, so that all operands are files */
	bool in_place, extended, quiet, followed;
} sed_words;

static void add_script(sed_words *to, p4d_value script)
{
	if (to->scripts < SED_SCRIPTS)
		to->script[to->scripts++] = script;
	else
		to->followed = false;
}

/* Parses an option, or several option letters. Returns the number of words; 0: it is an operand. */
static size_t read_sed_option(const p4d_shell_call *w, size_t i, sed_words *to)
{
	static const char in_place[] = "--in-place=";
	const p4d_value word = w->at[i];

	if (word.length < 2 || word.at[0].unknown || word.at[0].c != '-')
		return 0;
	if (word.at[1].c == '-') {
		const uint32_t length = sizeof(in_place) - 1;
		const bool known =
		    p4d_value_is(word, "--in-place") ||
		    (word.length > length && p4d_value_is(p4d_shell__part(word, 0, length), in_place));
		to->in_place = to->in_place || known;
		to->has_script =
		    to->has_script ||
		    !known; /* an unknown option may give the script; then all operands are files */
		to->followed = to->followed && known;
		return 1;
	}
	for (uint32_t n = 1; n < word.length; n++) {
		const char c = word.at[n].c;
		const bool last = n + 1 == word.length;
		if (c == 'i') { /* the rest of the word is the suffix of backup files */
			to->in_place = true;
			return 1;
		}
		if (c == 'e' || c == 'f' || c == 'l') {
			to->has_script = to->has_script || c != 'l';
			if (c == 'e' && !(last && i + 1 == w->count))
				add_script(to, last ? w->at[i + 1]
						    : p4d_shell__part(word, n + 1, word.length - n - 1));
			else
				to->followed = false;
			return last ? 2 : 1;
		}
		to->extended = to->extended || c == 'E' || c == 'r';
		to->quiet = to->quiet || c == 'n';
		to->followed = to->followed && (c == 'E' || c == 'r' || c == 'n');
	}
	return 1;
}

/* Reads the words of sed, whose options may come after operands. */
static void read_sed(const p4d_shell_call *w, sed_words *to)
{
	p4d_value first[2];
	size_t operands = 0;

	*to = (sed_words){.followed = true};
	for (size_t i = 0, words; i < w->count; i += words ? words : 1) {
		words = read_sed_option(w, i, to);
		if (!words && operands < 2)
			first[operands] = w->at[i];
		operands += !words;
	}
	const size_t scripts = !to->has_script && operands;
	if (scripts)
		add_script(to, first[0]);
	to->files = operands - scripts;
	if (to->files)
		to->file = first[scripts];
}

/* Line numbers in a script that prints or deletes lines. */
typedef struct sed_lines {
	uint64_t from, to; /* UINT64_MAX: the last line */
	bool others;       /* all lines except these */
} sed_lines;

static bool read_address(const char **at, uint64_t *line)
{
	char *end;

	*line = UINT64_MAX;
	if (**at == '$')
		return ++*at;
	*line = strtoull(*at, &end, 10);
	const bool read = isdigit((unsigned char)**at) && *line && *line < UINT64_MAX;
	*at = end;
	return read;
}

/*
 * "3p", "3{p;q}" and "2,5p" of sed -n; "3q;d", "3!d" and "1d" without -n. False: the script has another form.
 */
static bool read_lines(const sed_words *words, sed_lines *lines)
{
	static const struct {
		const char *command;
		bool quiet, others;
	} forms[] = {{"p", true, false},       {"{p;q}", true, false}, {"{p;q;}", true, false},
		     {"{p;q;d}", true, false}, {"q;d", false, false},  {"!d", false, false},
		     {"d", false, true}};
	char text[64], plain[sizeof(text)];
	size_t length = 0;

	if (words->scripts != 1 || p4d_value_unknown(words->script[0]) ||
	    words->script[0].length >= sizeof(text))
		return false;
	p4d_value_text(words->script[0], text, sizeof(text));
	for (const char *c = text; *c; c++)
		if (*c != ' ')
			plain[length++] = *c;
	plain[length] = '\0';
	const char *at = plain;
	if (!read_address(&at, &lines->from))
		return false;
	lines->to = lines->from;
	if (*at == ',' && (at++, !read_address(&at, &lines->to)))
		return false;
	if (lines->to < lines->from)
		lines->to = lines->from; /* as in sed, a range that ends before its start is one line */
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (!strcmp(at, forms[i].command) && words->quiet == forms[i].quiet) {
			lines->others = forms[i].others;
			return strcmp(at, "q;d") || lines->to == lines->from;
		}
	return false;
}

static p4d_value take_lines(p4d_shell *sh, const sed_lines *lines, p4d_value text)
{
	p4d_shell_build b = {0};

	for (uint64_t number = 1; text.length && p4d_shell__work(sh, 1); number++) {
		const p4d_value line = p4d_shell__next_line(&text);
		const bool last = !text.length,
			   from = number >= lines->from || (last && lines->from == UINT64_MAX);
		const bool inside = from && (number <= lines->to || lines->to == UINT64_MAX);
		if (inside != lines->others)
			p4d_shell__add_value(sh, &b, line, false);
	}
	return (p4d_value){b.at, b.length};
}

/* The output of sed for a text; false: p4d does not support the commands. */
static bool run_scripts(p4d_shell *sh, const sed_words *words, p4d_value *text)
{
	sed_lines lines;
	edit e;

	if (words->followed && read_lines(words, &lines)) {
		*text = take_lines(sh, &lines, *text);
		return true;
	}
	for (size_t i = 0; i < words->scripts && !sh->stopped; i++)
		for (p4d_value script = words->script[i]; script.length;) {
			if (!read_edit(sh, &script, words->extended, &e))
				return false;
			/* p prints lines in addition to those at the end, which p4d supports for one command
			 */
			if (words->quiet ? script.length || words->scripts > 1 : e.action == 'p' || e.prints)
				return false;
			*text = edited(sh, &e, words->quiet, *text);
		}
	return words->followed;
}

static void edit_file(const p4d_shell_call *w, const sed_words *words, p4d_value path)
{
	p4d_shell *sh = w->sh;
	const p4d_shell_redirection file = {.has_input_path = true, .input_path = path},
				    to = {.has_output = true, .output = path};
	p4d_value text;

	if (!p4d_shell__input(sh, &file, &text) || !run_scripts(sh, words, &text))
		text = p4d_shell__not_known(sh, p4d_shell__reason(sh, "output of sed"));
	if (w->mode != P4D_SHELL_RUN)
		text = p4d_shell__not_known(sh, p4d_shell__reason(sh, "a file that depends on a condition"));
	p4d_shell__write(sh, &to, text);
}

/* Runs sed, which prints or changes files in place. */
static p4d_shell_status run_sed(const p4d_shell_call *w)
{
	p4d_shell *sh = w->sh;
	p4d_value text;
	sed_words words, again = {.files = 0};

	read_sed(w, &words);
	if (!words.in_place) {
		p4d_shell_redirection file = *w->redirection;
		if (words.files)
			file = (p4d_shell_redirection){.has_input_path = true, .input_path = words.file};
		if (words.files > 1 || !p4d_shell__input(sh, &file, &text) ||
		    (text.length == 1 && text.at[0].unknown) || !run_scripts(sh, &words, &text))
			return p4d_shell__print_unknown(w);
		p4d_shell__print(w, text);
		return P4D_SHELL_TAKEN;
	}
	bool is_script = !words.has_script; /* whether the first operand is the script */
	for (size_t i = 0, taken; i < w->count; i += taken ? taken : 1) {
		taken = read_sed_option(w, i, &again);
		if (!taken && !is_script)
			edit_file(w, &words, w->at[i]);
		is_script = is_script && taken;
	}
	return P4D_SHELL_TAKEN;
}

const p4d_shell_builtin p4d_shell__searches[] = {
    {"awk", p4d_shell__run_awk, false},
    {"gawk", p4d_shell__run_awk, false},
    {"grep", run_grep, false},
    {"sed", run_sed, false},
    {NULL, NULL, false},
};
