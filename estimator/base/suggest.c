/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

/* Length of the longest common substring of both names, ignoring case. */
static size_t common(const char *a, const char *b)
{
	size_t longest = 0;

	for (const char *from = a; *from; from++)
		for (const char *at = b; *at; at++) {
			size_t n = 0;
			while (from[n] && tolower((unsigned char)from[n]) == tolower((unsigned char)at[n]))
				n++;
			if (n > longest)
				longest = n;
		}
	return longest;
}

void p4d_suggest_offer(p4d_suggest *alike, const char *name)
{
	const unsigned room = sizeof(alike->name) / sizeof(alike->name[0]);
	size_t shared = common(alike->wanted, name);
	unsigned at;

	if (shared < 3 || shared < alike->shared)
		return;
	if (shared > alike->shared)
		alike->count = 0;
	alike->shared = shared;
	for (at = alike->count; at && strlen(alike->name[at - 1]) > strlen(name); at--)
		if (at < room)
			alike->name[at] = alike->name[at - 1];
	if (at < room)
		alike->name[at] = name;
	if (alike->count < room)
		alike->count++;
}

const char *p4d_suggest_text(p4d_suggest *alike)
{
	p4d_text text = p4d_text_in(alike->text, sizeof(alike->text));

	for (unsigned i = 0; i < alike->count; i++)
		p4d_text_print(&text, "%s%s", i ? ", " : "; nearest: ", alike->name[i]);
	return alike->text;
}
