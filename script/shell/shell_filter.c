/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that print their input or a part of it. p4d follows them if the input is known. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shell/shell_internal.h"

bool p4d_shell__filter_text(const p4d_shell_call *w, const p4d_value *path, p4d_value *text)
{
	p4d_shell_redirection r = *w->redirection;

	if (path) {
		r.has_input = false;
		r.has_input_path = true;
		r.input_path = *path;
	}
	if (!p4d_shell__input(w->sh, &r, text)) {
		p4d_shell__print_unknown(w);
		return false;
	}
	for (uint32_t i = 0; i < text->length; i++)
		if (text->at[i].unknown) {
			p4d_shell__print(w, (p4d_value){text->at + i, 1});
			return false;
		}
	return true;
}

size_t p4d_shell__filter_options(const p4d_shell_call *w, p4d_shell_options *o)
{
	size_t i = 0;

	for (; i < w->count && w->at[i].length > 1 && w->at[i].at[0].c == '-'; i++) {
		const p4d_value word = w->at[i];
		for (uint32_t j = 1; j < word.length; j++) {
			const char c = word.at[j].c;
			if (word.at[j].unknown || c <= ' ' || c > '~')
				return SIZE_MAX;
			o->is[(int)c] = true;
			if (strchr(o->switches, c))
				continue;
			if (!strchr(o->valued, c))
				return SIZE_MAX;
			if (j + 1 == word.length && ++i >= w->count)
				return SIZE_MAX;
			o->value[(int)c] = j + 1 < word.length
					       ? (p4d_value){word.at + j + 1, word.length - j - 1}
					       : w->at[i];
			break;
		}
	}
	return i;
}

p4d_value p4d_shell__next_line(p4d_value *text)
{
	uint32_t n = 0;

	while (n < text->length && text->at[n].c != '\n')
		n++;
	n += n < text->length;
	p4d_value line = {text->at, n};
	*text = p4d_shell__part(*text, n, text->length - n);
	return line;
}

/* Reads a set of characters of tr: ranges, classes and escapes. False: p4d does not support it. */
static bool read_set(p4d_value set, unsigned char list[256], size_t *count)
{
	static const struct {
		const char *name, *from, *to;
	} classes[] = {{"[:upper:]", "A", "Z"}, {"[:lower:]", "a", "z"}, {"[:digit:]", "0", "9"}};
	char text[128];
	size_t n = 0;

	if (p4d_value_unknown(set) || set.length >= sizeof(text))
		return false;
	p4d_value_text(set, text, sizeof(text));
	for (const char *at = text; *at;) {
		unsigned char from = (unsigned char)*at, to = from;
		size_t length = 1;
		for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
			if (!strncmp(at, classes[i].name, strlen(classes[i].name))) {
				from = (unsigned char)*classes[i].from;
				to = (unsigned char)*classes[i].to;
				length = strlen(classes[i].name);
			}
		if (length == 1 && !strncmp(at, "[:space:]", 9)) {
			for (const char *c = " \t\n\r"; *c && n < 256; c++)
				list[n++] = (unsigned char)*c;
			at += 9;
			continue;
		}
		if (length == 1 && *at == '[' && at[1] == ':')
			return false;
		if (*at == '\\') {
			if (!at[1] || !strchr("nt\\", at[1]))
				return false;
			from = to = at[1] == 'n' ? '\n' : at[1] == 't' ? '\t' : '\\';
			length = 2;
		} else if (length == 1 && at[1] == '-' && at[2]) {
			to = (unsigned char)at[2];
			length = 3;
		}
		for (unsigned c = from; c <= to && n < 256; c++)
			list[n++] = (unsigned char)c;
		at += length;
	}
	*count = n;
	return true;
}

static p4d_shell_status run_tr(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "dscC", .valued = ""};
	unsigned char from[256], to[256];
	size_t from_count, to_count = 0, first = p4d_shell__filter_options(w, &o);
	int becomes[256];
	p4d_value text;
	p4d_shell_build b = {0};

	if (first == SIZE_MAX || first >= w->count || !read_set(w->at[first], from, &from_count) ||
	    (first + 1 < w->count && !read_set(w->at[first + 1], to, &to_count)) ||
	    (!o.is['d'] && !o.is['s'] && !to_count) || (to_count && (o.is['d'] || o.is['s'] || o.is['c'])))
		return p4d_shell__print_unknown(w);
	if (!p4d_shell__filter_text(w, NULL, &text))
		return P4D_SHELL_TAKEN;
	for (int c = 0; c < 256; c++)
		becomes[c] = o.is['c'] || o.is['C'] ? -1 : c;
	for (size_t i = 0; i < from_count; i++)
		becomes[from[i]] = to_count                 ? to[i < to_count ? i : to_count - 1]
				   : o.is['c'] || o.is['C'] ? from[i]
							    : -1;
	int last = -1;
	for (uint32_t i = 0; i < text.length && !w->sh->stopped; i++) {
		p4d_cell cell = text.at[i];
		const int now = (unsigned char)cell.c, then = becomes[now];
		if ((then < 0 && o.is['d']) || (then < 0 && o.is['s'] && last == now))
			continue;
		last = now;
		cell.c = (char)(then < 0 ? now : then);
		p4d_shell__add(w->sh, &b, cell);
	}
	p4d_shell__print(w, (p4d_value){b.at, b.length});
	return P4D_SHELL_TAKEN;
}

/* Whether the unknown parts of a text are single words, so that words can be counted. */
static bool is_of_words(const p4d_shell_call *w, p4d_value *text)
{
	if (!p4d_shell__input(w->sh, w->redirection, text))
		return false;
	for (uint32_t i = 0; i < text->length; i++)
		if (text->at[i].unknown && text->at[i].c != P4D_CELL_WORD)
			return false;
	return text->length > 0;
}

static p4d_shell_status run_wc(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "lwc", .valued = ""};
	const size_t first = p4d_shell__filter_options(w, &o);
	p4d_value text;
	int64_t lines = 0, words = 0;
	bool inside = false;

	if (first == SIZE_MAX || first < w->count || o.is['l'] + o.is['w'] + o.is['c'] != 1)
		return p4d_shell__print_unknown(w);
	if ((o.is['c'] || !is_of_words(w, &text)) && !p4d_shell__filter_text(w, NULL, &text))
		return P4D_SHELL_TAKEN;
	for (uint32_t i = 0; i < text.length && p4d_shell__work(w->sh, 1); i++) {
		const bool blank = isspace((unsigned char)text.at[i].c);
		lines += text.at[i].c == '\n';
		words += !blank && !inside;
		inside = !blank;
	}
	p4d_cell like = text.length ? text.at[0] : (p4d_cell){0};
	like.unknown = 0;
	p4d_shell__print(w, p4d_shell__digits(w->sh,
					      o.is['l']   ? lines
					      : o.is['w'] ? words
							  : (int64_t)text.length,
					      like));
	return P4D_SHELL_TAKEN;
}

/* head and tail: print at most `most` lines, after skipping the first `skip` lines. */
static p4d_shell_status some_lines(const p4d_shell_call *w, bool tail)
{
	p4d_shell_options o = {.switches = "q", .valued = "n"};
	p4d_value text, rest;
	int64_t number = 10, count = 0, index = 0;
	uint16_t unknown;
	size_t first = 0;
	bool from = false;

	if (w->count && w->at[0].length > 1 && w->at[0].at[0].c == '-' &&
	    isdigit((unsigned char)w->at[0].at[1].c)) { /* an option such as -1 */
		o.value['n'] = (p4d_value){w->at[0].at + 1, w->at[0].length - 1};
		first = 1;
	} else {
		first = p4d_shell__filter_options(w, &o);
	}
	p4d_value n = o.value['n'];
	if (n.length && n.at[0].c == '+') {
		from = true;
		n = (p4d_value){n.at + 1, n.length - 1};
	}
	if (first == SIZE_MAX || w->count > first + 1 || (from && !tail) ||
	    (n.length && (n.at[0].c == '-' || !p4d_shell__number(w->sh, n, &number, &unknown))))
		return p4d_shell__print_unknown(w);
	const bool one_of_names = first == w->count && number == 1 && !from &&
				  p4d_shell__input(w->sh, w->redirection, &text) && text.length == 1 &&
				  text.at[0].unknown && text.at[0].c == P4D_CELL_WORDS;
	if (one_of_names) {
		p4d_cell cell = text.at[0];
		cell.c = P4D_CELL_WORD;
		p4d_shell__print(w, (p4d_value){&cell, 1});
		return P4D_SHELL_TAKEN;
	}
	if (!p4d_shell__filter_text(w, first < w->count ? &w->at[first] : NULL, &text))
		return P4D_SHELL_TAKEN;
	for (rest = text; rest.length && p4d_shell__work(w->sh, 1); count++)
		p4d_shell__next_line(&rest);
	const int64_t start = !tail ? 0 : from ? number - 1 : count - number;
	for (rest = text; rest.length && !w->sh->stopped; index++) {
		p4d_value line = p4d_shell__next_line(&rest);
		if (tail ? index >= start : index < number)
			p4d_shell__print(w, line);
	}
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_head(const p4d_shell_call *w)
{
	return some_lines(w, false);
}

static p4d_shell_status run_tail(const p4d_shell_call *w)
{
	return some_lines(w, true);
}

/* Whether a list of cut contains a number: "2", "1,3", "2-", "-3", "2-4". */
static bool is_listed(const char *list, long number)
{
	for (const char *at = list; *at; at += *at == ',') {
		char *end;
		const long from = *at == '-' ? 1 : strtol(at, &end, 10);
		if (*at == '-')
			end = (char *)(uintptr_t)at;
		long to = from;
		if (*end == '-')
			to = isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : (end++, LONG_MAX);
		if (number >= from && number <= to)
			return true;
		if (end == at || (*end && *end != ','))
			return false;
		at = end;
	}
	return false;
}

/* cut -d X -f LIST, and cut -c LIST. */
static p4d_shell_status run_cut(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "s", .valued = "dfc"};
	const size_t first = p4d_shell__filter_options(w, &o);
	char list[64];
	p4d_value text, by = o.value['d'];
	const bool fields = o.is['f'];
	const char separator = fields ? (by.length ? by.at[0].c : '\t') : '\0';

	p4d_value_text(fields ? o.value['f'] : o.value['c'], list, sizeof(list));
	if (first == SIZE_MAX || w->count > first + 1 || fields == o.is['c'] || by.length > 1 || !*list ||
	    strspn(list, "0123456789,-") != strlen(list))
		return p4d_shell__print_unknown(w);
	if (!p4d_shell__filter_text(w, first < w->count ? &w->at[first] : NULL, &text))
		return P4D_SHELL_TAKEN;
	while (text.length && !w->sh->stopped) {
		const p4d_value line = p4d_shell__next_line(&text);
		p4d_shell_build b = {0};
		bool separated = false;
		long number = 1;
		for (uint32_t i = 0; i < line.length; i++)
			separated = separated || line.at[i].c == separator;
		for (uint32_t i = 0; i < line.length; i++) {
			const p4d_cell cell = line.at[i];
			if (cell.c == '\n' || (fields && !separated)) {
				p4d_shell__add(w->sh, &b, cell);
			} else if (fields && cell.c == separator) {
				if (is_listed(list, ++number) && b.length)
					p4d_shell__add(w->sh, &b, cell);
			} else if (is_listed(list, fields ? number : (long)i + 1)) {
				p4d_shell__add(w->sh, &b, cell);
			}
		}
		p4d_shell__print(w, (p4d_value){b.at, b.length});
	}
	return P4D_SHELL_TAKEN;
}

/* cat: its files one after another, or its input. */
static p4d_shell_status run_cat(const p4d_shell_call *w)
{
	p4d_value text;

	if (!w->count || p4d_value_is(w->at[0], "-")) {
		if (p4d_shell__input(w->sh, w->redirection, &text))
			p4d_shell__print(w, text);
		else
			p4d_shell__print_unknown(w);
		return P4D_SHELL_TAKEN;
	}
	for (size_t i = 0; i < w->count; i++) {
		const p4d_shell_redirection r = {.has_input_path = true, .input_path = w->at[i]};
		if (!p4d_shell__input(w->sh, &r, &text))
			return p4d_shell__print_unknown(w);
		p4d_shell__print(w, text);
	}
	return P4D_SHELL_TAKEN;
}

static p4d_shell_status run_tee(const p4d_shell_call *w)
{
	p4d_value text;
	const bool known = p4d_shell__input(w->sh, w->redirection, &text);
	p4d_shell_redirection r = {.has_output = true};

	if (!known)
		text = p4d_shell__not_known(w->sh, p4d_shell__reason(w->sh, "output of a command"));
	for (size_t i = 0; i < w->count; i++) {
		r.output = w->at[i];
		if (p4d_value_is(w->at[i], "-a"))
			r.appends = true;
		else if (w->mode == P4D_SHELL_RUN)
			p4d_shell__write(w->sh, &r, text);
	}
	p4d_shell__print(w, text);
	return P4D_SHELL_TAKEN;
}

/* The words of a text, as xargs reads it: with quotes and backslashes. */
static void add_words(p4d_shell *sh, p4d_value text, p4d_shell_words *words)
{
	p4d_shell_build b = {0};
	char quote = '\0';

	for (uint32_t i = 0; i < text.length; i++) {
		p4d_cell cell = text.at[i];
		cell.expanded = false;
		cell.quoted = quote != '\0';
		if (quote ? cell.c == quote : cell.c == '"' || cell.c == '\'') {
			quote = quote ? '\0' : cell.c;
			continue;
		}
		if (!quote && cell.c == '\\' && i + 1 < text.length) {
			cell = text.at[++i];
			cell.quoted = true;
		}
		p4d_shell__add(sh, &b, cell);
	}
	p4d_shell__split(sh, &b, words);
}

/* xargs runs a command with the words of its input. Without a command, it joins the words into one line. */
static p4d_shell_status run_xargs(const p4d_shell_call *w)
{
	p4d_shell_options o = {.switches = "rt", .valued = "a"};
	const size_t first = p4d_shell__filter_options(w, &o);
	p4d_value text;
	p4d_shell_words words = {0};

	if (first == SIZE_MAX)
		return p4d_shell__print_unknown(w);
	for (size_t i = first; i < w->count; i++)
		p4d_shell__add_word(w->sh, &words, w->at[i]);
	if (!p4d_shell__filter_text(w, o.is['a'] ? &o.value['a'] : NULL, &text))
		return P4D_SHELL_TAKEN;
	add_words(w->sh, text, &words);
	if (o.is['r'] && words.count == w->count - first)
		return P4D_SHELL_TAKEN;
	if (first < w->count) {
		const p4d_shell_redirection nothing = {.has_input = true};
		return w->sh->stopped ? P4D_SHELL_TAKEN
				      : p4d_shell__execute(w->sh, w->source, w->mode, &words, &nothing);
	}
	for (uint32_t i = 0; i < words.count; i++) {
		if (i)
			p4d_shell__print(w, p4d_shell__value_of(w->sh, " ", (p4d_cell){0}));
		p4d_shell__print(w, words.at[i]);
	}
	return P4D_SHELL_TAKEN;
}

/* Whether envsubst replaces a variable: its operand lists variables; without an operand, it replaces all. */
static bool is_wanted(p4d_value names, p4d_shell_name name)
{
	char text[512];

	p4d_value_text(names, text, sizeof(text));
	for (const char *at = text; (at = strchr(at, '$')); at++) {
		const char *word = at + 1 + (at[1] == '{');
		if (!strncmp(word, name.text, name.length) && !isalnum((unsigned char)word[name.length]) &&
		    word[name.length] != '_')
			return true;
	}
	return false;
}

/* envsubst: its input, with $NAME and ${NAME} replaced by exported values. */
static p4d_shell_status run_envsubst(const p4d_shell_call *w)
{
	p4d_shell *sh = w->sh;
	p4d_shell_scope scope;
	p4d_shell_build b = {0};
	p4d_value text;

	if (w->count > 1 ||
	    (w->count && (w->at[0].length > 500 || p4d_value_unknown(w->at[0]) || w->at[0].at[0].c == '-')) ||
	    !p4d_shell__input(sh, w->redirection, &text))
		return p4d_shell__print_unknown(w);
	p4d_shell__enter(sh, &scope, true);
	p4d_shell_source s = p4d_shell__source_of(sh, text, NULL);
	while (s.at < s.length && !sh->stopped) {
		const bool braces = p4d_shell__peek(&s, 1) == '{';
		const size_t from = s.at + 1 + braces, length = p4d_shell__name_length(&s, 1 + braces);
		const p4d_shell_name name = {s.text + from, length};
		if (s.text[s.at] != '$' || p4d_shell__cell(&s, false).unknown || !length ||
		    (braces && p4d_shell__peek(&s, 1 + braces + length) != '}') ||
		    (w->count && !is_wanted(w->at[0], name))) {
			p4d_shell__add(sh, &b, p4d_shell__cell(&s, false));
			p4d_shell__advance(sh, &s);
			continue;
		}
		p4d_shell__emit(sh, &s, &b, name, true);
		for (size_t i = 0; i < 1 + length + 2 * braces; i++)
			p4d_shell__advance(sh, &s);
	}
	p4d_shell__leave(sh, &scope);
	p4d_shell__print(w, (p4d_value){b.at, b.length});
	return P4D_SHELL_TAKEN;
}

/* cp and mv of one file to another. */
static p4d_shell_status run_cp(const p4d_shell_call *w)
{
	size_t i = 0;
	p4d_value text;

	while (i < w->count && w->at[i].length && w->at[i].at[0].c == '-')
		i++;
	p4d_shell__change_names(w);
	if (w->count != i + 2)
		return P4D_SHELL_TAKEN;
	const p4d_shell_redirection from = {.has_input_path = true, .input_path = w->at[i]},
				    to = {.has_output = true, .output = w->at[i + 1]};
	if (w->mode != P4D_SHELL_RUN)
		text = p4d_shell__not_known(w->sh,
					    p4d_shell__reason(w->sh, "a file that depends on a condition"));
	else if (!p4d_shell__input(w->sh, &from, &text))
		return P4D_SHELL_TAKEN;
	p4d_shell__write(w->sh, &to, text);
	return P4D_SHELL_TAKEN;
}

const p4d_shell_builtin p4d_shell__filters[] = {
    {"cat", run_cat, false},     {"cp", run_cp, false},
    {"cut", run_cut, false},     {"envsubst", run_envsubst, false},
    {"head", run_head, false},   {"mv", run_cp, false},
    {"tail", run_tail, false},   {"tee", run_tee, false},
    {"tr", run_tr, false},       {"wc", run_wc, false},
    {"xargs", run_xargs, false}, {NULL, NULL, false},
};
