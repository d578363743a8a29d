/* SPDX-License-Identifier: Apache-2.0 */
/* Splits expanded text into words at the characters of $IFS. */
#include <string.h>

#include "shell/shell_internal.h"

const char *p4d_shell__separators(p4d_shell *sh, char *buf, size_t size)
{
	const p4d_shell_var *v = p4d_shell__find(sh, (p4d_shell_name){"IFS", 3}, false);

	if (!v || !v->set || !v->value.count || p4d_value_unknown(v->value.at[0]))
		return " \t\n";
	return p4d_value_text(v->value.at[0], buf, size);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool is_boundary(p4d_cell c, const char *separators)
{
	return !c.unknown && !c.quoted &&
	       (c.c == 0 || (c.expanded ? strchr(separators, c.c) != NULL : is_blank(c.c)));
}

/*
 * Splits at unquoted separators. Several blanks together end one word. Any other separator also ends one
 * word, which may be empty.
 */
void p4d_shell__split(p4d_shell *sh, const p4d_shell_build *b, p4d_shell_words *words)
{
	char buf[16];
	const char *separators = p4d_shell__separators(sh, buf, sizeof(buf));
	bool word_before = false;

	for (uint32_t i = 0; i < b->length && !sh->stopped;) {
		p4d_shell_build word = {0};
		if (is_boundary(b->at[i], separators)) {
			const char c = b->at[i++].c;
			if (c && !is_blank(c) && !word_before)
				p4d_shell__add_word(sh, words, (p4d_value){0});
			word_before = word_before && is_blank(c);
			continue;
		}
		for (; i < b->length && !is_boundary(b->at[i], separators); i++)
			p4d_shell__add(sh, &word, b->at[i]);
		p4d_shell__add_word(sh, words, p4d_shell__joined(sh, &word));
		word_before = true;
	}
}
