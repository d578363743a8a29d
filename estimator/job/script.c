/* SPDX-License-Identifier: Apache-2.0 */
#include "job/script.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "request/framework.h"

/* One line of the script without its comment. */
typedef struct span {
	const char *text;
	size_t length;
} span;

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Removes the next line from the front of rest. A '#' starts a comment where a word could start. */
static bool next_line(span *rest, span *line)
{
	if (!rest->length)
		return false;
	const char *newline = memchr(rest->text, '\n', rest->length);
	size_t length = newline ? (size_t)(newline - rest->text) : rest->length;

	*line = (span){rest->text, length};
	rest->text += length + (newline ? 1 : 0);
	rest->length -= length + (newline ? 1 : 0);
	for (size_t i = 0; i < line->length; i++)
		if (line->text[i] == '#' && (i == 0 || blank(line->text[i - 1])))
			line->length = i;
	return true;
}

static const char *find(span line, const char *word)
{
	return memmem(line.text, line.length, word, strlen(word));
}

/* A use of one of p4d's variables: $P4D_X or ${P4D_X. */
static bool uses_variable(span line)
{
	return find(line, "$P4D_") || find(line, "${P4D_");
}

static bool sets_tasks(span line)
{
	return find(line, " -n") || find(line, "--ntasks");
}

static bool names(span line, const p4d_framework *framework)
{
	for (const char *const *word = framework->script_words; *word; word++)
		if (find(line, *word))
			return true;
	return false;
}

p4d_script p4d_script_scan(const char *text, size_t length)
{
	p4d_script script = {.frameworks = 0};
	span rest = {text, length}, line;

	while (next_line(&rest, &line)) {
		if (uses_variable(line))
			script.uses_plan = true;
		for (int i = 0; i < P4D_FRAMEWORKS; i++) {
			if (!names(line, p4d_frameworks[i]))
				continue;
			script.frameworks |= 1u << i;
			if (p4d_frameworks[i]->arguments)
				continue;
			script.uses_plan = true;
			script.sets_tasks = script.sets_tasks || sets_tasks(line);
		}
	}
	return script;
}

/* The number behind a flag, as `--flag 4`, `--flag=4` or `--flag "4"`. False if it is not literal. */
static bool literal_after(span line, const char *flag, uint64_t *number)
{
	size_t flag_length = strlen(flag);
	const char *end = line.text + line.length;

	for (const char *at = find(line, flag); at;) {
		const char *value = at + flag_length;
		if (value < end && (*value == '=' || blank(*value))) {
			value++;
			while (value < end && (blank(*value) || *value == '"' || *value == '\''))
				value++;
			uint64_t n = 0;
			const char *digit = value;
			for (; digit < end && isdigit((unsigned char)*digit); digit++)
				n = n < UINT64_MAX / 16 ? n * 10 + (uint64_t)(*digit - '0') : UINT64_MAX;
			if (digit > value && (digit == end || !isalnum((unsigned char)*digit))) {
				*number = n;
				return true;
			}
		}
		size_t left = (size_t)(end - at) - flag_length;
		at = memmem(at + flag_length, left, flag, flag_length);
	}
	return false;
}

int p4d_script_contradicts(const char *text, size_t length, const p4d_layout *l, char *found, size_t size,
			   uint64_t *planned)
{
	const p4d_framework_arguments *arguments = p4d_framework_of(l->framework)->arguments;
	p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS];
	const size_t count = arguments ? arguments->flags(l, flags) : 0;
	span rest = {text, length}, line;
	uint64_t number;

	while (next_line(&rest, &line))
		for (size_t i = 0; i < count; i++)
			if (literal_after(line, flags[i].flag, &number) && number != flags[i].value) {
				snprintf(found, size, "%s %" PRIu64, flags[i].flag, number);
				*planned = flags[i].value;
				return 1;
			}
	return 0;
}
