/* SPDX-License-Identifier: Apache-2.0 */
#include "base/choice.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

int p4d_choice_find(const char *list, const char *word)
{
	const size_t wanted = strlen(word);

	for (int index = 0;; index++) {
		size_t length = strcspn(list, "|");
		if (length == wanted && !strncasecmp(list, word, length))
			return index;
		if (!list[length])
			return -1;
		list += length + 1;
	}
}

const char *p4d_choice_name(const char *list, int index, char *buf, size_t size)
{
	for (; index > 0 && strchr(list, '|'); index--)
		list = strchr(list, '|') + 1;
	snprintf(buf, size, "%.*s", (int)strcspn(list, "|"), list);
	return buf;
}
