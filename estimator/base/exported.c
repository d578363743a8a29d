/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exported.h"

#include <string.h>
#include <strings.h>

/* Length of the item that begins here; a comma outside of quotes ends it. */
static size_t item_length(const char *text)
{
	bool single_quoted = false, double_quoted = false;
	size_t length = 0;

	for (; text[length] && (text[length] != ',' || single_quoted || double_quoted); length++) {
		single_quoted ^= text[length] == '\'';
		double_quoted ^= text[length] == '"';
	}
	return length;
}

bool p4d_exported_next(const char **at, p4d_exported *item)
{
	const char *text = *at;
	size_t length = item_length(text);

	if (!*text)
		return false;
	*at += length + (text[length] == ',');
	if (length > 1 && (*text == '\'' || *text == '"') && text[length - 1] == *text) {
		text++;
		length -= 2;
	}
	const char *equals = memchr(text, '=', length);
	item->name = text;
	item->name_length = equals ? (size_t)(equals - text) : length;
	item->value = equals ? equals + 1 : NULL;
	item->value_length = equals ? length - item->name_length - 1 : 0;
	return true;
}

bool p4d_exported_is_all(const p4d_exported *item)
{
	return !item->value && item->name_length == 3 && !strncasecmp(item->name, "ALL", 3);
}
