/* SPDX-License-Identifier: Apache-2.0 */
#include "base/choice.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

int p4d_choice_index(const char *list, char separator, const char *word, size_t length)
{
	for (int index = 0;; index++) {
		const char *end = strchrnul(list, separator);
		if ((size_t)(end - list) == length && !strncasecmp(list, word, length))
			return index;
		if (!*end)
			return -1;
		list = end + 1;
	}
}

int p4d_choice_find(const char *list, const char *word)
{
	return p4d_choice_index(list, '|', word, strlen(word));
}

const char *p4d_choice_name(const char *list, int index, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	const char *end = strchrnul(list, '|');

	for (; index > 0 && *end; index--) {
		list = end + 1;
		end = strchrnul(list, '|');
	}
	p4d_text_add_bytes(&text, list, (size_t)(end - list));
	return buf;
}
