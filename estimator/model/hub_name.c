/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hub_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "request/request.h"

/*
 * Whether the character separates words of a name. dots: dots also separate words. p4d tries this last,
 * because 1.3B is not 13B.
 */
static bool is_separator(char c, bool dots)
{
	return c == '-' || c == '_' || c == ' ' || (dots && c == '.');
}

/* Words that do not change the model's shape, and what they say about the storage of weights. */
static const struct {
	const char *word;
	bool variant; /* a variant of the model: its context length may differ */
	int stored;   /* storage of the weights that the word means; -1: none */
} words[] = {
    {"instruct", true, -1},
    {"it", true, -1},
    {"base", true, -1},
    {"hf", true, -1},
    {"chat", true, -1},
    {"pt", true, -1},
    {"unsloth", false, -1},
    {"awq", false, P4D_STORED_INT4},
    {"gptq", false, P4D_STORED_INT4},
    {"int4", false, P4D_STORED_INT4},
    {"w4a16", false, P4D_STORED_INT4},
    {"quantized.w4a16", false, P4D_STORED_INT4},
    {"int8", false, P4D_STORED_INT8},
    {"w8a8", false, P4D_STORED_INT8},
    {"quantized.w8a8", false, P4D_STORED_INT8},
    {"fp8", false, P4D_STORED_FP8},
    {"dynamic", false, -1},
    {"bnb", false, P4D_STORED_NF4},
    {"4bit", false, P4D_STORED_NF4},
};

/* Index in `words`; -1: another word. */
static int find_word(const char *at, size_t length)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i].word) == length && !strncasecmp(words[i].word, at, length))
			return (int)i;
	return -1;
}

/*
 * Copies n->base without the words in `words` or, if not `variants`, only without words for quantized
 * weights. "" if it has none of these words.
 */
static void drop_words(p4d_hub_name *n, bool variants, char *to, size_t size)
{
	size_t used = 0;
	bool dropped = false;

	/* the first word belongs to the family's name */
	for (const char *at = n->base; *at;) {
		const size_t length = strcspn(at, "-_ ");
		const int found = at == n->base ? -1 : find_word(at, length),
			  word = found >= 0 && (variants || !words[found].variant) ? found : -1;
		if (word < 0 && used + length + 1 >= size) {
			dropped = false;
			break;
		}
		if (word < 0) {
			memcpy(to + used, at, length);
			used += length;
		} else {
			dropped = true;
			n->stored = words[word].stored >= 0 ? words[word].stored : n->stored;
		}
		at += length + (at[length] != '\0');
	}
	to[dropped ? used : 0] = '\0';
}

p4d_hub_name p4d_model__hub_name(const char *name)
{
	p4d_hub_name n = {.whole = name, .base = p4d_file_name(name), .stored = -1};

	drop_words(&n, true, n.plain, sizeof(n.plain));
	drop_words(&n, false, n.variant, sizeof(n.variant));
	return n;
}

/* True if both names are equal apart from separators. */
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

static int fits_one(const p4d_hub_name *n, const char *at, size_t length)
{
	const char *slash = memrchr(at, '/', length), *base = slash ? slash + 1 : at;
	const size_t rest = length - (size_t)(base - at);

	if (same(at, length, n->whole, false))
		return P4D_HUB_NAME_DOTTED;
	if (same(at, length, n->whole, true))
		return P4D_HUB_NAME_WHOLE;
	if (same(base, rest, n->base, true))
		return P4D_HUB_NAME_BASE;
	if (*n->variant && same(base, rest, n->variant, true))
		return P4D_HUB_NAME_VARIANT;
	return *n->plain && same(base, rest, n->plain, true) ? P4D_HUB_NAME_PLAIN : P4D_HUB_NAME_NO;
}

int p4d_model__hub_name_fits(const p4d_hub_name *n, const char *names, int64_t *max_seq_len)
{
	int best = P4D_HUB_NAME_NO;

	for (const char *at = names; *at; at += *at == ',') {
		const size_t length = strcspn(at, ",="), whole = strcspn(at, ",");
		const int fits = fits_one(n, at, length);
		if (fits > best && max_seq_len)
			*max_seq_len = at[length] == '=' ? strtoll(at + length + 1, NULL, 10) : 0;
		best = fits > best ? fits : best;
		at += whole;
	}
	return best;
}
