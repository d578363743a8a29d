/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the arguments of a command belong to the program that the command's name suggests. */
#include "reader/evidence.h"

#include <stdio.h>
#include <string.h>

/* Number of names in the lists that start with this text. 1 also if the text itself is a name. */
static unsigned count_names(const char *const *lists, const char *name)
{
	char wanted[100];
	unsigned count = 0;
	const int length = snprintf(wanted, sizeof(wanted), " %s", name);

	if (length < 0 || (size_t)length >= sizeof(wanted))
		return 0;
	for (char *at = wanted; *at; at++)
		*at = *at == '-' ? '_' : *at;
	for (; *lists; lists++)
		for (const char *at = *lists; (at = strstr(at, wanted)); at += length) {
			if (at[length] == ' ')
				return 1;
			count++;
		}
	return count;
}

/* Whether the parser accepts an argument: its name, a unique prefix of a name, or a name with "no_" before
 * it. A name in a configuration file stands for its table. */
static bool is_known(const char *const *lists, const char *name)
{
	char text[96];

	snprintf(text, sizeof(text), "%.*s", (int)strcspn(name, "."), name);
	if (!*text || !strcmp(text, "h") || !strcmp(text, "help"))
		return true;
	if (name[strlen(text)] == '.' &&
	    (!strcmp(text, "accelerate") || !strcmp(text, "env"))) /* TrlParser also reads this key */
		return true;
	return count_names(lists, text) == 1 ||
	       (!strncmp(text, "no_", 3) && count_names(lists, text + 3) == 1) ||
	       (!strncmp(text, "no-", 3) && count_names(lists, text + 3) == 1);
}

static bool is_typical(const p4d_reader *reader, const char *name)
{
	const char *const *typical = reader->typical;

	if (!typical) {
		const p4d_read_argument *a = p4d_reader__find(reader, name);
		return a && *a->name && !p4d_reader__is_file(a);
	}
	while (*typical && !p4d_reader__same_name(*typical, name))
		typical++;
	return *typical;
}

static void note_foreign(p4d_read_evidence *e, const char *name)
{
	if (!*e->foreign)
		snprintf(e->foreign, sizeof(e->foreign), "%.*s", (int)sizeof(e->foreign) - 1, name);
}

void p4d_reader__weigh(p4d_read_evidence *e, const p4d_reader *reader, const char *name)
{
	const p4d_read_argument *a = p4d_reader__find(reader, name);

	e->file =
	    e->file || (a && p4d_reader__is_file(a)) ||
	    (reader->assignments && p4d_reader__same_name(name, "--config-name")); /* hydra's own arguments */
	e->typical = e->typical || is_typical(reader, name);
	if (reader->parser && !*e->foreign && !is_known(reader->parser, name + strspn(name, "-")))
		note_foreign(e, name);
}

/*
 * Weighs a word that belongs to no option. If the program takes no such word except a file name, any other
 * word is evidence against the program.
 */
static void weigh_operand(p4d_read_evidence *e, const p4d_reader *reader, const char *word)
{
	const p4d_read_argument *a = p4d_reader__find(reader, "");
	p4d_config_format format;
	const bool file = p4d_config_format_of(word, &format);

	e->file = e->file || (file && a && p4d_reader__is_file(a));
	if (reader->parser && !file && !p4d_reader__find(reader, word))
		note_foreign(e, word);
}

/* Copies the name in "--name=value", or in "name=value" if that is an argument. "": none. */
static const char *name_of(const p4d_reader *reader, p4d_value word, char *name, size_t size)
{
	uint32_t from = 0, equals = 0;
	bool dash;

	*name = '\0';
	while (from < word.length && !word.at[from].unknown &&
	       word.at[from].c == '+') /* hydra accepts plus signs before a name */
		from++;
	if (from) /* a word without cells is empty */
		word = (p4d_value){word.at + from, word.length - from};
	dash = word.length > 1 && !word.at[0].unknown && word.at[0].c == '-' &&
	       !(word.at[1].c >= '0' && word.at[1].c <= '9') && word.at[1].c != '.';
	while (equals < word.length && !word.at[equals].unknown && word.at[equals].c != '=')
		equals++;
	if (equals < word.length && word.at[equals].unknown)
		return name;
	if (!dash && (!reader->assignments || equals == word.length || size < 3))
		return name;
	memcpy(name, "--", sizeof("--"));
	p4d_value_text((p4d_value){word.at, equals}, name + (dash ? 0 : 2), size - 2);
	return name;
}

p4d_read_evidence p4d_reader__weigh_command(p4d_shell *shell, const p4d_launch *launch,
					    const p4d_reader *reader, size_t first, unsigned *left)
{
	p4d_read_evidence e = {.typical = false};
	bool operand = true;
	p4d_value value;
	char name[96];

	if (launch->count > *left) {
		*left = 0;
		return e;
	}
	*left -= (unsigned)launch->count;
	for (size_t i = first; i < launch->count; i++) {
		const p4d_value word = launch->words[i];
		if (*name_of(reader, word, name, sizeof(name)))
			p4d_reader__weigh(&e, reader, name);
		else if (operand && word.length && !p4d_value_unknown(word))
			weigh_operand(&e, reader, p4d_value_text(word, name, sizeof(name)));
		operand = false;
	}
	for (const p4d_read_variable *v = reader->variables; v && v->name; v++)
		e.typical = e.typical || (launch->shell_script &&
					  p4d_shell_variable(shell, v->name, &value) && value.length);
	return e;
}
