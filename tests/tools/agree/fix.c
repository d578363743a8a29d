/* SPDX-License-Identifier: Apache-2.0 */
#include "fix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The piece of the job that is line `number` of the script. */
static piece *line_of(job *j, unsigned long number)
{
	unsigned long line = 1;

	for (unsigned c = 0; c < j->components; c++) {
		line += c && !j->typed_colon;
		for (unsigned i = 0; i < j->pieces; i++)
			line += j->piece[i].place == LINE && j->piece[i].component == c;
	}
	for (unsigned i = 0; i < j->pieces; i++)
		if (j->piece[i].place == BODY && ++line == number)
			return &j->piece[i];
	return NULL;
}

/* Replaces a flag and its values in a line. If instead is NULL, removes them. */
static bool replace_flag(piece *p, const char *flag, const char *instead)
{
	char text[sizeof(p->text)];
	char *at = strstr(p->text, flag);

	if (!at)
		return false;
	const char *next = strstr(at + 2, " --");
	const char *end = next ? next : at + strcspn(at, "\"");
	const int length =
	    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - p->text), p->text, instead, end);
	memcpy(p->text, text, sizeof(text));
	return length < (int)sizeof(text);
}

/* Applies one change, such as "job.sh:5: --tensor-model-parallel-size 8", "job.sh:5: without
 * --sequence-parallel" or "job.sh:9: add --bf16". */
static bool change_script(job *j, const char *change)
{
	const char *what = strstr(change, ": ");
	const char *number = strchr(change, ':');
	piece *p = what && number < what && j->source != FROM_WRAP ? line_of(j, strtoul(number + 1, NULL, 10))
								   : NULL;
	char flag[64];

	if (!p)
		return false;
	what += 2;
	if (!strncmp(what, "without ", 8))
		return replace_flag(p, what + 8, "");
	if (!strncmp(what, "add ", 4)) {
		const size_t used = strlen(p->text);
		return (size_t)snprintf(p->text + used, sizeof(p->text) - used, " %s", what + 4) <
		       sizeof(p->text) - used;
	}
	snprintf(flag, sizeof(flag), "%.*s", (int)strcspn(what, " "), what);
	return replace_flag(p, flag, what);
}

bool paste(job *fixed, const char *fix)
{
	char text[2048], *rest = text, *word_rest = NULL;
	bool first = true;

	snprintf(text, sizeof(text), "%s", fix);
	for (char *at = text; at && *at; first = false) {
		rest = strstr(at, "; ");
		if (rest)
			*rest = '\0';
		if (first && !strncmp(at, "--", 2) && !strstr(at, ": ")) {
			for (char *word = strtok_r(at, " ", &word_rest); word;
			     word = strtok_r(NULL, " ", &word_rest))
				if (fixed->pieces < MAX_PIECES)
					add_piece(fixed, TYPED, 0, word, strlen(word));
		} else if (!change_script(fixed, at)) {
			return false;
		}
		at = rest ? rest + 2 : NULL;
	}
	return *fix;
}
