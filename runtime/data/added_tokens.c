/* SPDX-License-Identifier: Apache-2.0 */
#include "data/added_tokens.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/grow.h"

typedef struct p4d_added_node {
	uint32_t parent, child, sibling;
	uint8_t byte;
	p4d_added_token added; /* the added token that ends at this node; token -1: none */
} node;

/* Returns the node of a byte among a node's children, and creates it if necessary; 0: no memory. */
static uint32_t enter(p4d_added_tokens *tokens, uint32_t parent, uint8_t byte)
{
	const uint32_t first = parent ? tokens->nodes[parent].child : tokens->first[byte];

	for (uint32_t at = first; at; at = tokens->nodes[at].sibling)
		if (tokens->nodes[at].byte == byte)
			return at;
	if (!p4d_grow(&tokens->nodes, &tokens->room, tokens->count + 1, sizeof(*tokens->nodes)))
		return 0;
	tokens->count += !tokens->count;
	const uint32_t made = (uint32_t)tokens->count++;
	tokens->nodes[made] =
	    (node){.parent = parent, .sibling = first, .byte = byte, .added = {.token = -1}};
	if (parent)
		tokens->nodes[parent].child = made;
	else
		tokens->first[byte] = made;
	return made;
}

int p4d_added_tokens__add(p4d_added_tokens *tokens, const char *text, size_t length, p4d_added_token token,
			  p4d_error *err)
{
	uint32_t at = 0;

	for (size_t i = 0; i < length; i++)
		if ((at = enter(tokens, at, (uint8_t)text[i])) == 0)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for added tokens");
	if (at)
		tokens->nodes[at].added = token;
	return 0;
}

void p4d_added_tokens__close(p4d_added_tokens *tokens)
{
	free(tokens->nodes);
	*tokens = (p4d_added_tokens){.count = 0};
}

/* Returns the longest added token that begins at `text`. *bytes: its length. NULL: none begins there. */
static const p4d_added_token *longest(const p4d_added_tokens *tokens, const char *text, size_t length,
				      size_t *bytes)
{
	const p4d_added_token *found = NULL;
	uint32_t at = length ? tokens->first[(uint8_t)text[0]] : 0;

	for (size_t i = 1; at; i++) {
		if (tokens->nodes[at].added.token >= 0) {
			found = &tokens->nodes[at].added;
			*bytes = i;
		}
		at = i < length ? tokens->nodes[at].child : 0;
		while (at && tokens->nodes[at].byte != (uint8_t)text[i])
			at = tokens->nodes[at].sibling;
	}
	return found;
}

/*
 * Returns the length of the white space character at `text`, by Unicode's property White_Space; 0: the
 * character there is not white space.
 */
static size_t space(const char *text, size_t length)
{
	utf8proc_int32_t c;
	const utf8proc_ssize_t bytes =
	    utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &c);

	if (bytes <= 0)
		return 0;
	const utf8proc_category_t category = utf8proc_category(c);
	return (c >= '\t' && c <= '\r') || c == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
		       category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP
		   ? (size_t)bytes
		   : 0;
}

const p4d_added_token *p4d_added_tokens__next(const p4d_added_tokens *tokens, const char *text, size_t length,
					      size_t from, size_t *begin, size_t *end)
{
	const p4d_added_token *found = NULL;
	size_t at = from, bytes = 0;

	while (at < length && (!tokens->first[(uint8_t)text[at]] ||
			       (found = longest(tokens, text + at, length - at, &bytes)) == NULL))
		at++;
	if (!found)
		return NULL;
	*begin = at;
	*end = at + bytes;
	while (found->strips_right && (bytes = space(text + *end, length - *end)) != 0)
		*end += bytes;
	while (found->strips_left && *begin > from) {
		size_t before = *begin - 1;
		while (before > from && ((uint8_t)text[before] & 0xc0) == 0x80)
			before--;
		if (space(text + before, *begin - before) != *begin - before)
			break;
		*begin = before;
	}
	return found;
}

const p4d_added_token *p4d_added_tokens__find(const p4d_added_tokens *tokens, const char *text, size_t length)
{
	size_t bytes = 0;
	const p4d_added_token *found = longest(tokens, text, length, &bytes);

	return found && bytes == length ? found : NULL;
}

size_t p4d_added_tokens__text(const p4d_added_tokens *tokens, int32_t token, char *buf, size_t size)
{
	size_t found = 1, length = 0;

	while (found < tokens->count && tokens->nodes[found].added.token != token)
		found++;
	if (found >= tokens->count)
		return 0;
	for (uint32_t at = (uint32_t)found; at; at = tokens->nodes[at].parent)
		length++;
	if (length > size)
		return 0;
	size_t place = length;
	for (uint32_t at = (uint32_t)found; at; at = tokens->nodes[at].parent)
		buf[--place] = (char)tokens->nodes[at].byte;
	return length;
}
