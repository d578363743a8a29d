/* SPDX-License-Identifier: Apache-2.0 */
#include "job/hostlist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

/* WORK: hosts times the length of the list they are looked up in; about a millisecond. */
enum { HOST_MAX = 256, MOST_HOSTS = 1 << 16, WORK = 1 << 20 };

/* Returns false to stop. */
typedef bool (*visitor)(const char *host, void *context);

typedef struct walk {
	visitor visit;
	void *context;
	uint32_t left; /* hosts that may still be visited */
	bool gave_up;  /* malformed, or too many */
	char host[HOST_MAX];
} walk;

/* The end of the entry that starts at `at`: its comma is outside of brackets. */
static const char *entry_end(const char *at)
{
	bool inside = false;

	for (; *at && (inside || *at != ','); at++)
		inside = *at == '[' || (inside && *at != ']');
	return at;
}

/* "01-16" within brackets: its bounds and the digits to which numbers are padded. NULL: malformed. */
static const char *read_range(const char *at, uint64_t *low, uint64_t *high, int *width)
{
	const char *end = p4d_number_digits(at, low);

	if (!end || end == at || end - at > 18)
		return NULL;
	*width = (int)(end - at);
	*high = *low;
	if (*end == '-') {
		at = end + 1;
		end = p4d_number_digits(at, high);
		if (!end || end == at || end - at > 18)
			return NULL;
	}
	return *high >= *low ? end : NULL;
}

/* Visits the hosts of the rest of an entry, behind the first `used` characters of the name. False: stop. */
static bool expand(walk *w, const char *at, const char *end, size_t used)
{
	size_t literal = 0;

	while (at + literal < end && at[literal] != '[')
		literal++;
	if (used + literal + 20 >= HOST_MAX) {
		w->gave_up = true;
		return false;
	}
	memcpy(w->host + used, at, literal);
	used += literal;
	at += literal;
	if (at == end) {
		w->host[used] = '\0';
		w->gave_up = w->left == 0;
		return w->left-- && w->visit(w->host, w->context);
	}
	const char *behind = memchr(at, ']', (size_t)(end - at));
	uint64_t low, high;
	int width;
	do {
		at = behind ? read_range(at + 1, &low, &high, &width) : NULL;
		if (!at || (*at != ',' && at != behind)) {
			w->gave_up = true;
			return false;
		}
		for (uint64_t n = low; n <= high; n++) {
			int digits = snprintf(w->host + used, HOST_MAX - used, "%0*" PRIu64, width, n);
			if (!expand(w, behind + 1, end, used + (size_t)digits))
				return false;
		}
	} while (*at == ',');
	return true;
}

/* Visits at most `most` hosts. False: it gave up. */
static bool visit_hosts(const char *list, uint32_t most, visitor visit, void *context)
{
	walk w = {.visit = visit, .context = context, .left = most};

	for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
		end = entry_end(at);
		if (end > at && !expand(&w, at, end, 0))
			break;
	}
	return !w.gave_up;
}

static bool count_one(const char *host, void *count)
{
	(void)host;
	++*(uint32_t *)count;
	return true;
}

uint32_t p4d_hostlist__count(const char *list)
{
	uint32_t count = 0;

	return visit_hosts(list, MOST_HOSTS, count_one, &count) ? count : 0;
}

/* Looks for the host that follows `last`. */
typedef struct successor {
	const char *last;
	char next[HOST_MAX];
} successor;

static bool follow(const char *host, void *context)
{
	successor *s = context;

	if ((!s->last || strverscmp(host, s->last) > 0) && (!s->next[0] || strverscmp(host, s->next) < 0))
		snprintf(s->next, sizeof(s->next), "%s", host);
	return true;
}

char *p4d_hostlist__first(const char *list, uint32_t count)
{
	p4d_text first = {.grows = true};
	char last[HOST_MAX] = "";

	for (uint32_t i = 0; i < count; i++) {
		successor s = {.last = i ? last : NULL};
		if (!visit_hosts(list, 1024, follow, &s) || !s.next[0])
			break;
		memcpy(last, s.next, sizeof(last));
		p4d_text_entry(&first, ",", "%s", last);
	}
	if (!first.truncated)
		return first.at;
	free(first.at);
	return NULL;
}

/* True when the host is one of those of an entry. */
static bool matches(const char *at, const char *end, const char *host)
{
	while (at < end && *at != '[' && *at == *host) {
		at++;
		host++;
	}
	if (at == end)
		return !*host;
	const char *behind = *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
	uint64_t low, high, number;
	int width;
	if (!behind)
		return false;
	const char *rest = p4d_number_digits(host, &number);
	if (!rest || rest == host)
		return false;
	do {
		at = read_range(at + 1, &low, &high, &width);
		if (!at)
			return false;
		/* padded to the width of the lower bound */
		char text[24];
		if (number >= low && number <= high &&
		    snprintf(text, sizeof(text), "%0*" PRIu64, width, number) == rest - host)
			return matches(behind + 1, end, rest);
	} while (*at == ',');
	return false;
}

bool p4d_hostlist__has(const char *list, const char *host)
{
	for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
		end = entry_end(at);
		if (end > at && matches(at, end, host))
			return true;
	}
	return false;
}

/* Looks for a host that is in a list, or for one that is not. */
typedef struct look_up {
	const char *list;
	bool wanted, found;
} look_up;

static bool look(const char *host, void *context)
{
	look_up *l = context;

	l->found = p4d_hostlist__has(l->list, host) == l->wanted;
	return !l->found;
}

/* True when a host of a is (wanted) or is not (!wanted) in b, or when it would take too long. */
static bool any(const char *a, const char *b, bool wanted)
{
	look_up l = {.list = b, .wanted = wanted};

	return !visit_hosts(a, (uint32_t)(WORK / (strlen(b) + 16)), look, &l) || l.found;
}

bool p4d_hostlist__overlap(const char *a, const char *b)
{
	return any(a, b, true);
}

bool p4d_hostlist__within(const char *a, const char *b)
{
	return !any(a, b, false);
}
