/* SPDX-License-Identifier: Apache-2.0 */
#include "job/hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

/* STEP: cost of writing a part of a name, counted in characters read. */
enum { HOST_MAX = 256, MOST_HOSTS = 1 << 16, MOST_CHARACTERS = 1 << 16, STEP = 16 };

/* visit returns false to stop. */
typedef bool (*visitor)(const char *host, void *context);

typedef struct walk {
	visitor visit;
	void *context;
	uint32_t each;    /* cost of one visit, in characters */
	uint32_t *budget; /* remaining budget in characters */
	bool gave_up;     /* the list is malformed, or the budget was too small */
	char host[HOST_MAX];
} walk;

/*
 * Returns the end of the entry that starts at `at`, which is a comma outside of brackets or the end of the
 * text.
 */
static const char *entry_end(const char *at)
{
	bool inside = false;

	for (; *at && (inside || *at != ','); at++)
		inside = *at == '[' || (inside && *at != ']');
	return at;
}

/* Reads a range inside brackets, "01-16": its bounds, and the number of digits. NULL: malformed. */
static const char *read_range(const char *at, uint64_t *low, uint64_t *high, unsigned *width)
{
	const char *end = p4d_number_digits(at, low);

	if (!end || end == at || end - at > 18)
		return NULL;
	*width = (unsigned)(end - at);
	*high = *low;
	if (*end == '-') {
		at = end + 1;
		end = p4d_number_digits(at, high);
		if (!end || end == at || end - at > 18)
			return NULL;
	}
	return *high >= *low ? end : NULL;
}

static unsigned digits_of(uint64_t number)
{
	unsigned digits = 1;

	while (number >= 10) {
		number /= 10;
		digits++;
	}
	return digits;
}

/* Writes a number, padded with zeros; returns its length. Not snprintf, which takes ten times as long. */
static size_t write_number(char *at, uint64_t number, unsigned width)
{
	const unsigned digits = digits_of(number), length = digits > width ? digits : width;

	for (unsigned i = length; i-- > 0; number /= 10)
		at[i] = (char)('0' + number % 10);
	return length;
}

static bool give_up(walk *w)
{
	w->gave_up = true;
	return false;
}

/* Subtracts the cost from the budget; false: the budget is spent. */
static bool afford(walk *w, size_t characters)
{
	if (characters >= *w->budget) {
		*w->budget = 0;
		return give_up(w);
	}
	*w->budget -= (uint32_t)characters;
	return true;
}

/*
 * Visits the hosts that the rest of an entry names; `used` characters of the name are already written. False:
 * stop.
 */
static bool expand(walk *w, const char *at, const char *end, size_t used)
{
	size_t literal = 0;

	while (at + literal < end && at[literal] != '[')
		literal++;
	if (used + literal + 20 >= HOST_MAX)
		return give_up(w);
	if (!afford(w, literal + STEP))
		return false;
	memcpy(w->host + used, at, literal);
	used += literal;
	at += literal;
	if (at == end) {
		w->host[used] = '\0';
		return afford(w, w->each) && w->visit(w->host, w->context);
	}
	const char *behind = memchr(at, ']', (size_t)(end - at));
	uint64_t low, high;
	unsigned width;
	do {
		at = behind ? read_range(at + 1, &low, &high, &width) : NULL;
		if (!at || (*at != ',' && at != behind))
			return give_up(w);
		for (uint64_t n = low; n <= high; n++) {
			if (!expand(w, behind + 1, end, used + write_number(w->host + used, n, width)))
				return false;
		}
	} while (*at == ',');
	return true;
}

/* Visits the hosts of a list. each: cost of one visit. False: the list is malformed, or the budget is
 * spent. */
static bool visit_hosts(const char *list, uint32_t each, uint32_t *budget, visitor visit, void *context)
{
	walk w = {.visit = visit, .context = context, .each = each + STEP, .budget = budget};

	/* reading a list takes time even if it has only commas */
	if (!afford(&w, strnlen(list, *budget) + each))
		return false;
	for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
		end = entry_end(at);
		if (end > at && !expand(&w, at, end, 0))
			break;
	}
	return !w.gave_up;
}

/* Number of hosts that an entry names, at most one above MOST_HOSTS; 0: malformed. */
static uint64_t hosts_of(const char *at, const char *end)
{
	uint64_t hosts = 1, low, high;
	unsigned width;

	while ((at = memchr(at, '[', (size_t)(end - at)))) {
		const char *behind = memchr(at, ']', (size_t)(end - at));
		uint64_t here = 0;
		do {
			at = behind ? read_range(at + 1, &low, &high, &width) : NULL;
			if (!at || (*at != ',' && at != behind))
				return 0;
			here += high - low < MOST_HOSTS ? high - low + 1 : MOST_HOSTS + 1;
		} while (*at == ',');
		hosts = here > MOST_HOSTS ? MOST_HOSTS + 1 : hosts * here;
		if (hosts > MOST_HOSTS)
			hosts = MOST_HOSTS + 1;
		at = behind + 1;
	}
	return hosts;
}

uint32_t p4d_hostlist__count(const char *list)
{
	uint64_t count = 0;

	if (strnlen(list, MOST_CHARACTERS + 1) > MOST_CHARACTERS)
		return 0;
	for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
		end = entry_end(at);
		const uint64_t hosts = end > at ? hosts_of(at, end) : 1;
		if (!hosts)
			return 0;
		count += end > at ? hosts : 0;
		if (count > MOST_HOSTS)
			return 0;
	}
	return (uint32_t)count;
}

/* Context of a search for the host that follows `last`. */
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
	uint32_t budget = 1 << 24;
	bool complete = true;

	for (uint32_t i = 0; i < count; i++) {
		successor s = {.last = i ? last : NULL};
		complete = visit_hosts(list, STEP, &budget, follow, &s);
		if (!complete || !s.next[0])
			break;
		memcpy(last, s.next, sizeof(last));
		p4d_text_entry(&first, ",", "%s", last);
	}
	if (complete && !first.truncated)
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
	unsigned width;
	if (!behind)
		return false;
	const char *rest = p4d_number_digits(host, &number);
	if (!rest || rest == host)
		return false;
	do {
		at = read_range(at + 1, &low, &high, &width);
		if (!at)
			return false;
		/* both numbers are padded to the width of the lower bound */
		const unsigned digits = digits_of(number);
		if (number >= low && number <= high && rest - host == (digits > width ? digits : width))
			return matches(behind + 1, end, rest);
	} while (*at == ',');
	return false;
}

/* True when a host is in the list. */
static bool has(const char *list, const char *host)
{
	for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
		end = entry_end(at);
		if (end > at && matches(at, end, host))
			return true;
	}
	return false;
}

/* Context of a search for a host that is in a list, or for one that is not. */
typedef struct look_up {
	const char *list;
	bool wanted, found;
} look_up;

static bool look(const char *host, void *context)
{
	look_up *l = context;

	l->found = has(l->list, host) == l->wanted;
	return !l->found;
}

/* True if some host of a is (wanted) or is not (!wanted) in b, or if the search would take too long. */
static bool any(const char *a, const char *b, bool wanted, uint32_t *budget)
{
	look_up l = {.list = b, .wanted = wanted};
	const size_t each = strnlen(b, *budget);

	return !visit_hosts(a, (uint32_t)each, budget, look, &l) || l.found;
}

bool p4d_hostlist__overlap(const char *a, const char *b, uint32_t *budget)
{
	return any(a, b, true, budget);
}

bool p4d_hostlist__within(const char *a, const char *b, uint32_t *budget)
{
	return !any(a, b, false, budget);
}

/* Context of counting the hosts that are in none of the lists. */
typedef struct outside_hosts {
	const char *const *others;
	size_t count;
	uint32_t hosts;
} outside_hosts;

static bool count_outside(const char *host, void *context)
{
	outside_hosts *o = context;
	bool inside = false;

	for (size_t i = 0; i < o->count && !inside; i++)
		inside = has(o->others[i], host);
	o->hosts += !inside;
	return true;
}

uint32_t p4d_hostlist__count_outside(const char *list, const char *const *others, size_t count,
				     uint32_t *budget)
{
	outside_hosts o = {.others = others, .count = count};
	size_t each = 0;

	if (!count)
		return p4d_hostlist__count(list);
	for (size_t i = 0; i < count; i++)
		each += strnlen(others[i], *budget);
	const uint32_t step = each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
	return visit_hosts(list, step, budget, count_outside, &o) ? o.hosts : p4d_hostlist__count(list);
}
