/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program that a command starts. */
#include <stdio.h>
#include <string.h>

#include "reader/evidence.h"

static const p4d_reader *const readers[] = {
#define READER(name) &p4d_reader__##name,
#define WORD(text)
#include "reader/readers.def"
#undef READER
#undef WORD
};
enum { READERS = sizeof(readers) / sizeof(readers[0]) };

const p4d_reader *p4d_reader__at(size_t index)
{
	return index < READERS ? readers[index] : NULL;
}

/*
 * Matches a path with a pattern that has at most one wildcard, at either end. Only the last parts of the path
 * count, as many as the pattern has.
 */
static bool is_named(p4d_value program, const char *pattern)
{
	uint32_t from = program.length, length = (uint32_t)strlen(pattern), directories = 0;
	const char end = length ? pattern[length - 1] : '*';

	if (!from || (end != '*' && (program.at[from - 1].unknown || program.at[from - 1].c != end)))
		return false; /* fast exit: most names differ in this character */
	for (const char *at = pattern; *at; at++)
		directories += *at == '/';
	while (from && (program.at[from - 1].unknown || program.at[from - 1].c != '/' || directories--))
		from--;
	p4d_value last = {program.at + from, program.length - from};
	if (pattern[0] == '*' && last.length + 1 >= length)
		return p4d_value_is((p4d_value){last.at + last.length + 1 - length, length - 1}, pattern + 1);
	if (length && pattern[length - 1] == '*' && last.length + 1 >= length) {
		for (uint32_t i = 0; i + 1 < length; i++)
			if (last.at[i].unknown || last.at[i].c != pattern[i])
				return false;
		return true;
	}
	return p4d_value_is(last, pattern);
}

/*
 * Number of words that form the program's name: 2 for "axolotl train"; 0: the words are not its name.
 * "train.py *.yaml" counts as one word. It needs the file as argument, because other programs are also called
 * train.py.
 */
static size_t is_program(const p4d_launch *launch, const char *pattern)
{
	const char *blank = strchr(pattern, ' ');
	char program[64];

	if (!blank)
		return is_named(launch->words[0], pattern);
	snprintf(program, sizeof(program), "%.*s", (int)(blank - pattern), pattern);
	if (launch->count < 2 || !is_named(launch->words[0], program) ||
	    !is_named(launch->words[1], blank + 1))
		return 0;
	return blank[1] == '*' ? 1 : 2;
}

/* Whether a word is an option or NAME=VALUE with this name. */
static bool is_argument(p4d_value word, const char *name)
{
	char text[96];
	uint32_t equals = 0;

	while (word.length && !word.at[0].unknown &&
	       word.at[0].c == '+') /* hydra's "++NAME=" has plus signs before the name */
		word = (p4d_value){word.at + 1, word.length - 1};
	if (!word.length || (word.at[0].c != name[0] && (!strchr("-_", name[0]) || word.at[0].c != '_')))
		return false; /* fast exit: most words differ in this character */
	if (word.length > 2 && name[1] && !strchr("-_", name[2]) && word.at[2].c != name[2])
		return false; /* most options differ in the first letter after "--" */
	while (equals < word.length && (word.at[equals].unknown || word.at[equals].c != '='))
		equals++;
	return p4d_reader__same_name(p4d_value_text((p4d_value){word.at, equals}, text, sizeof(text)), name);
}

bool p4d_reader__is_none(p4d_value program)
{
	static const char *const parts[] = {"generat",    "inference",       "eval",   "server", "convert",
					    "preprocess", "checkpoint_util", "analyze"};
	char text[256];

	p4d_value_text(program, text, sizeof(text));
	const char *slash = strrchr(text, '/');
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(slash ? slash : text, parts[i]))
			return true;
	return false;
}

/* Whether one of the command's words is an argument of the reader's programs. */
static bool has_argument(const p4d_launch *launch, const p4d_reader *reader)
{
	char name[96];

	for (size_t i = 1; i < launch->count; i++) {
		p4d_value word = launch->words[i];
		uint32_t equals = 0;
		while (equals < word.length && (word.at[equals].unknown || word.at[equals].c != '='))
			equals++;
		word.length = equals;
		if (*p4d_value_text(word, name, sizeof(name)) == '-' && p4d_reader__find(reader, name))
			return true;
	}
	return false;
}

/* Marks the first character of each part of a program's path. A name in the tables that begins with
 * another character cannot match, so p4d skips it. */
static void note_beginnings(p4d_value path, bool begins[256])
{
	for (uint32_t i = 0; i < path.length; i++)
		if (!path.at[i].unknown && (!i || (path.at[i - 1].c == '/' && !path.at[i - 1].unknown)))
			begins[(unsigned char)path.at[i].c] = true;
}

/*
 * Number of words of the command that match a name of the table; 0: none. common: other programs have this
 * name as well, so the arguments decide. *alike: the arguments are typical of the program, but one of them
 * disproves it.
 */
static size_t match(p4d_shell *shell, const p4d_launch *launch, const p4d_reader *reader, const char *name,
		    bool common, unsigned *left, bool *alike)
{
	const size_t words = is_program(launch, name);

	if (!words)
		return 0;
	if (common) {
		p4d_read_evidence e = p4d_reader__weigh_command(shell, launch, reader, words, left);
		if (strchr(name, '/'))
			*e.foreign = '\0';
		*alike = e.typical && *e.foreign;
		return p4d_reader__may_be_proven(&e) ? words : 0;
	}
	/* for a name with *, the arguments must also match, because other programs have names that start like
	 * this */
	if (name[strlen(name) - 1] == '*' && reader->arguments_alone[0] && !reader->assignments &&
	    !has_argument(launch, reader))
		return 0;
	return words;
}

/* Finds the reader by the program's name; the longest matching name wins. If there is none, returns the
 * reader that knows most, but not all, of the arguments; NULL: there is no such reader either. */
static const p4d_reader *find_by_name(p4d_shell *shell, const p4d_launch *launch, bool none, unsigned *left,
				      p4d_read_program *to)
{
	bool begins[256] = {false};
	size_t longest = 0;
	const p4d_reader *like = NULL;

	note_beginnings(launch->words[0], begins);
	for (int i = 0; i < READERS; i++)
		for (int j = 0; j < P4D_READ_PROGRAMS && readers[i]->programs[j]; j++) {
			const bool common = readers[i]->programs[j][0] == P4D_READ_COMMON;
			const char *name = readers[i]->programs[j] + common;
			const size_t length = strlen(name);
			if ((*name != '*' && !begins[(unsigned char)*name]) ||
			    (none && name[length - 1] == '*') || length <= longest)
				continue;
			bool alike = false;
			const size_t words = match(shell, launch, readers[i], name, common, left, &alike);
			like = alike && !like ? readers[i] : like;
			if (!words)
				continue;
			*to = (p4d_read_program){.reader = readers[i],
						 .words = words,
						 .common = common,
						 .placed = common && strchr(name, '/')};
			longest = length;
		}
	return like;
}

/* Whether a program has a list of its arguments that contains all arguments of the command. */
static bool knows_all(p4d_shell *shell, const p4d_launch *launch, const p4d_reader *reader, unsigned *left)
{
	return reader->parser && !*p4d_reader__weigh_command(shell, launch, reader, 1, left).foreign;
}

/* Returns `like`, or another program that knows all arguments if `like` lacks one of them. */
static const p4d_reader *more_like(p4d_shell *shell, const p4d_launch *launch, const p4d_reader *like,
				   unsigned *left)
{
	if (!like || !like->parser || knows_all(shell, launch, like, left))
		return like;
	for (int i = 0; i < READERS; i++)
		if (knows_all(shell, launch, readers[i], left))
			return readers[i];
	return like;
}

bool p4d_reader__stands_alone(const p4d_launch *launch, const p4d_reader *reader)
{
	for (int j = 0; j < P4D_READ_ALONE && reader->arguments_alone[j]; j++)
		for (size_t k = 1; k < launch->count && k < P4D_READ_WEIGHED; k++)
			if (is_argument(launch->words[k], reader->arguments_alone[j]))
				return true;
	return false;
}

void p4d_reader__find_program(p4d_shell *shell, const p4d_launch *launch, unsigned *left,
			      p4d_read_program *to)
{
	*to = (p4d_read_program){.reader = NULL};
	if (!launch->count)
		return;
	const bool none = p4d_reader__is_none(launch->words[0]);
	const p4d_reader *like = find_by_name(shell, launch, none, left, to);
	if (to->reader && to->reader->earlier && p4d_reader__stands_alone(launch, to->reader->earlier))
		to->reader = to->reader->earlier;
	if (!to->reader && !none)
		to->reader = more_like(shell, launch, like, left);
	for (int i = 0; !to->reader && !none && i < READERS; i++)
		if (p4d_reader__stands_alone(launch, readers[i]))
			to->reader = more_like(shell, launch, readers[i], left);
}
