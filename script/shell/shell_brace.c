/* SPDX-License-Identifier: Apache-2.0 */
/* Brace expansion: {a,b} and {1..4} make several words of one, before all other expansions. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shell/shell_internal.h"

enum { MOST_WORDS = 256 };

/* A brace group: the positions of its braces, and of the commas between them. */
typedef struct brace_group {
	uint32_t open, close;
	bool comma;
} brace_group;

static char at(p4d_value word, uint32_t i)
{
	return i < word.length && !word.at[i].unknown ? word.at[i].c : '\0';
}

/*
 * The position after an item at i that hides braces: quotes, an escaped character, ${...} or $(...). Returns
 * i if there is no such item.
 */
static uint32_t behind_hidden(p4d_value word, uint32_t i)
{
	const char c = at(word, i), next = at(word, i + 1);
	int depth = 0;

	if (c == '\\')
		return i + 2;
	if (c == '\'' || c == '"' || c == '`') {
		for (i++; i < word.length && at(word, i) != c; i++)
			i += c != '\'' && at(word, i) == '\\';
		return i + 1;
	}
	if (c != '$' || (next != '{' && next != '('))
		return i;
	for (i++; i < word.length; i++) {
		depth += at(word, i) == '{' || at(word, i) == '(';
		depth -= at(word, i) == '}' || at(word, i) == ')';
		if (!depth)
			break;
	}
	return i + 1;
}

/* Reads the group whose opening brace is at i. False: there is no group, or it has neither a comma nor
 * dots. */
static bool read_group(p4d_value word, uint32_t i, brace_group *g)
{
	bool dots = false;
	int depth = 0;

	*g = (brace_group){.open = i};
	while (i < word.length) {
		const uint32_t next = behind_hidden(word, i);
		if (next != i) {
			i = next;
			continue;
		}
		depth += at(word, i) == '{';
		depth -= at(word, i) == '}';
		if (!depth) {
			g->close = i;
			return g->comma || dots;
		}
		g->comma = g->comma || (depth == 1 && at(word, i) == ',');
		dots = dots || (depth == 1 && at(word, i) == '.' && at(word, i + 1) == '.');
		i++;
	}
	return false;
}

static void add_part(p4d_shell *sh, p4d_shell_build *b, p4d_value word, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to && i < word.length; i++)
		p4d_shell__add(sh, b, word.at[i]);
}

static void add_words(p4d_shell *sh, p4d_shell_words *words, p4d_value word, uint32_t from);

/* Adds the word in which `middle` replaces the group. */
static void add_instead(p4d_shell *sh, p4d_shell_words *words, p4d_value word, const brace_group *g,
			p4d_value middle)
{
	p4d_shell_build b = {0};

	add_part(sh, &b, word, 0, g->open);
	add_part(sh, &b, middle, 0, middle.length);
	add_part(sh, &b, word, g->close + 1, word.length);
	add_words(sh, words, (p4d_value){b.at, b.length}, g->open);
}

/* Expands {1..8..2}, {01..10} or {a..e}. False: the group has another form. */
static bool add_sequence(p4d_shell *sh, p4d_shell_words *words, p4d_value word, const brace_group *g)
{
	char text[64], end, last_letter, letter, number[24];
	int64_t from, to, step = 1;
	int used = 0, width = 0;
	const p4d_value inside = p4d_shell__part(word, g->open + 1, g->close - g->open - 1);

	if (inside.length >= sizeof(text) || p4d_value_unknown(inside))
		return false;
	p4d_value_text(inside, text, sizeof(text));
	const bool letters = sscanf(text, "%c..%c%c", &letter, &last_letter, &end) == 2 &&
			     isalpha((unsigned char)letter) && isalpha((unsigned char)last_letter);
	if (letters) {
		from = letter;
		to = last_letter;
	} else if (strspn(text, "0123456789.-") != strlen(text) || strlen(text) > 32 ||
		   ((sscanf(text, "%9" SCNd64 "..%9" SCNd64 "%n", &from, &to, &used) != 2 || text[used]) &&
		    (sscanf(text, "%9" SCNd64 "..%9" SCNd64 "..%9" SCNd64 "%n", &from, &to, &step, &used) !=
			 3 ||
		     text[used]))) {
		return false;
	}
	const char *second = strstr(text, "..") + 2;
	if (!letters &&
	    ((text[0] == '0' && text[1] != '.') || (second[0] == '0' && second[1] && second[1] != '.')))
		width = (int)(strcspn(text, ".") > strcspn(second, ".") ? strcspn(text, ".")
									: strcspn(second, "."));
	step = step < 0 ? -step : step ? step : 1;
	if ((from < to ? to - from : from - to) / step >= MOST_WORDS) {
		p4d_shell__stop(sh, "the braces of the script make too many words to read");
		return true;
	}
	for (int64_t i = from; from <= to ? i <= to : i >= to; i += from <= to ? step : -step) {
		snprintf(number, sizeof(number), letters ? "%c" : "%0*" PRId64, letters ? (int)i : width, i);
		add_instead(sh, words, word, g, p4d_shell__value_of(sh, number, word.at[g->open]));
	}
	return true;
}

static void add_list(p4d_shell *sh, p4d_shell_words *words, p4d_value word, const brace_group *g)
{
	uint32_t from = g->open + 1;
	int depth = 0;

	for (uint32_t i = from; i <= g->close && !sh->stopped;) {
		const uint32_t next = behind_hidden(word, i);
		if (next != i) {
			i = next;
			continue;
		}
		if (i == g->close || (!depth && at(word, i) == ',')) {
			add_instead(sh, words, word, g, p4d_shell__part(word, from, i - from));
			from = i + 1;
		}
		depth += at(word, i) == '{';
		depth -= at(word, i) == '}';
		i++;
	}
}

/* Adds all expansions of a word whose first group is at `from` or later. */
static void add_words(p4d_shell *sh, p4d_shell_words *words, p4d_value word, uint32_t from)
{
	brace_group g;

	if (++sh->depth > P4D_SHELL_DEPTH || words->count >= MOST_WORDS)
		p4d_shell__stop(sh, "the braces of the script make too many words to read");
	for (uint32_t i = from; i < word.length && p4d_shell__work(sh, 1);) {
		const uint32_t next = behind_hidden(word, i);
		if (next == i && at(word, i) == '{' && read_group(word, i, &g)) {
			if (g.comma)
				add_list(sh, words, word, &g);
			if (g.comma || add_sequence(sh, words, word, &g)) {
				sh->depth--;
				return;
			}
		}
		i = next == i ? i + 1 : next;
	}
	sh->depth--;
	p4d_shell__add_word(sh, words, word);
}

bool p4d_shell__braces(p4d_shell *sh, const p4d_shell_source *s, size_t end, size_t first,
		       p4d_shell_words *words)
{
	p4d_shell_source look = *s;
	p4d_shell_build raw = {0};

	for (; look.at < end && !sh->stopped; p4d_shell__advance(sh, &look))
		p4d_shell__add(sh, &raw, p4d_shell__cell(&look, false));
	add_words(sh, words, (p4d_value){raw.at, raw.length}, (uint32_t)(first - s->at));
	return words->count > 1;
}
