/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hub_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "request/request.h"

/* A dot may be one between digits, which tells 1.3B from 13B: it goes last. */
static bool is_separator(char c, bool dots)
{
	return c == '-' || c == '_' || c == ' ' || (dots && c == '.');
}

/* Words that do not change the shape, and what they say of the weights. */
static const struct {
	const char *word;
	int stored; /* -1: nothing */
} words[] = {
    {"instruct", -1},
    {"it", -1},
    {"base", -1},
    {"hf", -1},
    {"chat", -1},
    {"pt", -1},
    {"unsloth", -1},
    {"awq", P4D_STORED_INT4},
    {"gptq", P4D_STORED_INT4},
    {"int4", P4D_STORED_INT4},
    {"int8", P4D_STORED_INT8},
    {"fp8", P4D_STORED_FP8},
    {"bnb", P4D_STORED_NF4},
    {"4bit", P4D_STORED_NF4},
};

/* Index in words; -1: another one. */
static int find_word(const char *at, size_t length)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i].word) == length && !strncasecmp(words[i].word, at, length))
			return (int)i;
	return -1;
}

p4d_hub_name p4d_model__hub_name(const char *name)
{
	const char *slash = strrchr(name, '/');
	p4d_hub_name n = {.whole = name, .base = slash ? slash + 1 : name, .stored = -1};
	size_t used = 0;
	bool dropped = false;

	/* the first word is the family's */
	for (const char *at = n.base; *at;) {
		const size_t length = strcspn(at, "-_ ");
		const int word = at == n.base ? -1 : find_word(at, length);
		if (word < 0 && used + length + 1 >= sizeof(n.plain)) {
			dropped = false;
			break;
		}
		if (word < 0) {
			memcpy(n.plain + used, at, length);
			used += length;
		} else {
			dropped = true;
			n.stored = words[word].stored >= 0 ? words[word].stored : n.stored;
		}
		at += length + (at[length] != '\0');
	}
	n.plain[dropped ? used : 0] = '\0';
	return n;
}

/* True when both are the same without separators. */
static bool same(const char *name, size_t length, const char *other, bool dots)
{
	const char *end = name + length;

	for (;; name++, other++) {
		while (name < end && is_separator(*name, dots))
			name++;
		while (*other && is_separator(*other, dots))
			other++;
		if (name == end || !*other)
			return name == end && !*other;
		if (tolower((unsigned char)*name) != tolower((unsigned char)*other))
			return false;
	}
}

int p4d_model__hub_name_fits(const p4d_hub_name *n, const char *names)
{
	int best = P4D_HUB_NAME_NO;

	for (const char *at = names; *at; at += *at == ',') {
		const size_t length = strcspn(at, ",");
		const char *slash = memrchr(at, '/', length), *base = slash ? slash + 1 : at;
		const size_t rest = length - (size_t)(base - at);
		int fits = P4D_HUB_NAME_NO;
		if (same(at, length, n->whole, false))
			fits = P4D_HUB_NAME_DOTTED;
		else if (same(at, length, n->whole, true))
			fits = P4D_HUB_NAME_WHOLE;
		else if (same(base, rest, n->base, true))
			fits = P4D_HUB_NAME_BASE;
		else if (*n->plain && same(base, rest, n->plain, true))
			fits = P4D_HUB_NAME_PLAIN;
		best = fits > best ? fits : best;
		at += length;
	}
	return best;
}
