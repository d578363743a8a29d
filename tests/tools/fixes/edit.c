/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a fix such as "--nodes=2 --p4d-tp=8; job.sh:4: --x 3; job.sh:9: add --y; ds.json:1: "stage": 3". */
#include "edit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 16, CHANGE_MAX = 600 };

typedef struct text {
	char at[FILE_MAX_BYTES];
} text;

static bool load(const char *name, text *t)
{
	FILE *f = fopen(name, "re");
	const size_t got = f ? fread(t->at, 1, sizeof(t->at) - 1, f) : 0;

	t->at[got] = '\0';
	if (f)
		fclose(f);
	return f != NULL;
}

static bool store(const char *name, const text *t)
{
	FILE *f = fopen(name, "we");

	return f && fputs(t->at, f) >= 0 && fclose(f) == 0;
}

/* Replaces `length` bytes at `at` by `instead`. */
static bool replace(text *t, char *at, size_t length, const char *instead)
{
	const size_t rest = strlen(at + length) + 1, more = strlen(instead);

	if ((size_t)(at - t->at) + more + rest > sizeof(t->at))
		return false;
	memmove(at + more, at + length, rest);
	memcpy(at, instead, more);
	return true;
}

static char *line_at(text *t, unsigned long number)
{
	char *at = t->at;

	for (unsigned long i = 1; at && i < number; i++) {
		at = strchr(at, '\n');
		at += at != NULL;
	}
	return at && *at ? at : NULL;
}

static size_t line_length(const char *line)
{
	return strcspn(line, "\n");
}

static bool ends_with(const char *name, const char *ending)
{
	const size_t length = strlen(name), of = strlen(ending);

	return length > of && !strcmp(name + length - of, ending);
}

/* The beginning of a word in a line: "--x" before a blank, "=" or the end. NULL: the line does not have
 * it. */
static char *word_in(char *line, const char *word, size_t length)
{
	char *const end = line + line_length(line);

	for (char *at = line; at + length <= end; at++)
		if (!strncmp(at, word, length) && (at == line || strchr(" \t\"'", at[-1])) &&
		    (at[length] == '\0' || strchr(" \t\n=\"'\\", at[length])))
			return at;
	return NULL;
}

/* Whether a word is not a value: it is another option, or the program that a launcher starts. */
static bool is_no_value(const char *word)
{
	const size_t length = strcspn(word, " \t\n");

	return (*word == '-' && (word[1] < '0' || word[1] > '9')) ||
	       (length > 3 && !strncmp(word + length - 3, ".py", 3));
}

/* The length of the flag at `at` and its values, with words as a shell divides them. */
static size_t argument_length(const char *at)
{
	const char *end = at + strcspn(at, " \t\n");

	for (;;) {
		const char *next = end + strspn(end, " \t");
		if (next == end || !*next || strchr("\n\\|;&>\"'", *next) || is_no_value(next) ||
		    (strchr(next, '=') && strcspn(next, "=") < strcspn(next, " \t\n")))
			return (size_t)(end - at);
		end = next + strcspn(next, " \t\n");
	}
}

/* The end of the last word of a command's line, which may be followed by a backslash. */
static char *end_of_command(char *line)
{
	char *end = line + line_length(line);

	if (end > line && end[-1] == '\\')
		end--;
	while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return end;
}

static bool add_to_command(text *t, char *line, const char *what)
{
	static const char to[] = " to accelerate launch";
	char words[CHANGE_MAX];
	char *at = end_of_command(line);
	const char *launch = strstr(what, to);

	snprintf(words, sizeof(words), " %.*s", launch ? (int)(launch - what) : (int)strlen(what), what);
	if (launch) {
		at = strstr(line, "accelerate launch");
		if (!at)
			return false;
		at += strlen("accelerate launch");
	}
	return replace(t, at, 0, words);
}

static bool change_command(text *t, char *line, const char *what)
{
	const size_t word = strcspn(what, " =");

	if (!strncmp(what, "add ", 4))
		return add_to_command(t, line, what + 4);
	if (!strncmp(what, "without ", 8)) {
		char *at = word_in(line, what + 8, strcspn(what + 8, " ="));
		if (!at)
			return false;
		size_t length = argument_length(at);
		if (at > line && at[-1] == ' ') {
			at--;
			length++;
		}
		return replace(t, at, length, "");
	}
	char *at = word_in(line, what, word);
	/* a program with a configuration also takes NAME=VALUE as an argument, which overrides the
	 * configuration */
	if (!at && what[word] == '=' && *what != '-')
		return add_to_command(t, line, what);
	return at && replace(t, at, argument_length(at), what);
}

/* Replaces a line of a YAML or TOML file by "key: value", or inserts it after that line (add). */
static bool change_configuration(text *t, char *line, const char *what)
{
	const bool add = !strncmp(what, "add ", 4);
	char words[CHANGE_MAX];
	const int indent = (int)strspn(line, " ");
	char *end = line + line_length(line);

	what += add ? 4 : 0;
	if (!strncmp(what, "without ", 8))
		return replace(t, line, line_length(line) + (*end == '\n'), "");
	const size_t key = strcspn(what, ":= ");
	if (add) {
		snprintf(words, sizeof(words), "\n%.*s%s", indent, line, what);
		return replace(t, end, 0, words);
	}
	if (strncmp(line + indent, what, key) != 0)
		return false;
	return replace(t, line + indent, line_length(line + indent), what);
}

/* Replaces a value in a line of JSON by "key": value. add: inserts this as a line after the line. */
static bool change_json(text *t, char *line, const char *what)
{
	char key[80];
	const char *end = strchr(what + 1, '"');

	if (*what != '"' || !end)
		return false;
	snprintf(key, sizeof(key), "%.*s", (int)(end + 1 - what), what);
	char *at = strstr(line, key);
	if (!at || at > line + line_length(line))
		return false;
	return replace(t, at, strcspn(at, ",}\n"), what);
}

/* Applies "in FILE: WHAT": finds the place in the file where such a value belongs. */
static bool put_into(const char *file, const char *what, char *why, size_t room)
{
	text t;
	char words[CHANGE_MAX];

	if (!load(file, &t)) {
		snprintf(why, room, "no file %s", file);
		return false;
	}
	if (ends_with(file, ".json")) {
		char *section = strstr(t.at, "\"zero_optimization\"");
		char *open = section ? strchr(section, '{') : NULL;
		snprintf(words, sizeof(words), "%s, ", what);
		return open && replace(&t, open + 1, 0, words) && store(file, &t);
	}
	const char *of[] = {"offload_", "deepspeed_config:", "fsdp_", "fsdp_config:"};
	for (int i = 0; i < 4; i += 2) {
		char *section = strncmp(what, of[i], strlen(of[i])) != 0 ? NULL : strstr(t.at, of[i + 1]);
		if (!section)
			continue;
		char copy[CHANGE_MAX], lines[CHANGE_MAX] = "", *rest = copy;
		snprintf(copy, sizeof(copy), "%s", what);
		for (char *one; (one = strsep(&rest, ","));)
			snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "\n  %s",
				 one + strspn(one, " "));
		return replace(&t, section + line_length(section), 0, lines) && store(file, &t);
	}
	const size_t key = strcspn(what, ":= ");
	for (char *line = t.at; *line; line += line_length(line) + (line[line_length(line)] == '\n'))
		if (!strncmp(line, what, key) && strchr(":= ", line[key]))
			return replace(&t, line, line_length(line), what) && store(file, &t);
	snprintf(words, sizeof(words), "%s%s\n", t.at[0] && t.at[strlen(t.at) - 1] != '\n' ? "\n" : "", what);
	return replace(&t, t.at + strlen(t.at), 0, words) && store(file, &t);
}

/* Applies one change of a file. */
static bool change(const char *item, char *why, size_t room)
{
	char file[120];
	text t;
	const char *colon = strstr(item, ": ");

	snprintf(why, room, "%s", item);
	if (!colon)
		return false;
	if (!strncmp(item, "in ", 3)) {
		snprintf(file, sizeof(file), "%.*s", (int)(colon - item - 3), item + 3);
		return put_into(file, colon + 2, why, room);
	}
	const char *number = memchr(item, ':', (size_t)(colon - item));
	snprintf(file, sizeof(file), "%.*s", (int)((number ? number : colon) - item), item);
	if (!number)
		return put_into(file, colon + 2 + (strncmp(colon + 2, "add ", 4) ? 0 : 4), why, room);
	char *line = load(file, &t) ? line_at(&t, strtoul(number + 1, NULL, 10)) : NULL;
	if (!line)
		return false;
	return (ends_with(file, ".json") ? change_json
		: ends_with(file, ".yaml") || ends_with(file, ".yml") || ends_with(file, ".toml")
		    ? change_configuration
		    : change_command)(&t, line, colon + 2) &&
	       store(file, &t);
}

/* The order of changes. First come changes that move no line. Then come new lines, the last line first,
 * and then changes without a line number. */
static unsigned long order_of(const char *item)
{
	const char *colon = strstr(item, ": "),
		   *number = colon ? memchr(item, ':', (size_t)(colon - item)) : NULL;

	if (!strncmp(item, "--", 2) && !colon)
		return 0;
	if (!number)
		return ULONG_MAX;
	return !strncmp(colon + 2, "add ", 4) || !strncmp(colon + 2, "without ", 8)
		   ? ULONG_MAX / 2 - strtoul(number + 1, NULL, 10)
		   : 1;
}

bool apply_fix(const char *fix, char *options, size_t size, char *why, size_t room)
{
	enum { ITEMS = 32 };
	char items[2048], *rest = items, *item[ITEMS];
	unsigned count = 0;

	snprintf(items, sizeof(items), "%s", fix);
	while (rest && *rest && count < ITEMS) {
		item[count++] = rest;
		rest = strstr(rest, "; ");
		if (rest) {
			*rest = '\0';
			rest += 2;
		}
	}
	for (unsigned i = 1; i < count; i++)
		for (unsigned j = i; j > 0 && order_of(item[j]) < order_of(item[j - 1]); j--) {
			char *swap = item[j];
			item[j] = item[j - 1];
			item[j - 1] = swap;
		}
	for (unsigned i = 0; i < count; i++) {
		if (order_of(item[i]) == 0) {
			const size_t used = strlen(options);
			snprintf(options + used, size - used, " %s", item[i]);
		} else if (!change(item[i], why, room)) {
			return false;
		}
	}
	return true;
}
