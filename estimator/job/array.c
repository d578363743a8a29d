/* SPDX-License-Identifier: Apache-2.0 */
#include "job/array.h"

#include <stdlib.h>
#include <string.h>

/* maximum number of ranges, because slurmctld calls this; longer lists are not read */
enum { RANGES = 64 };

static bool read_number(const char **at, uint32_t *number)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	const unsigned long long value = strtoull(*at, &end, 10);
	*at = end;
	*number = (uint32_t)value;
	return value < UINT32_MAX;
}

/* Reads one range: "7", "0-5", "1-9:4". */
static bool read_range(const char **at, uint32_t *first, uint32_t *last, uint32_t *step)
{
	if (!read_number(at, first))
		return false;
	*last = *first;
	*step = 1;
	if (**at != '-')
		return true;
	++*at;
	if (!read_number(at, last) || *last < *first)
		return false;
	if (**at != ':')
		return true;
	++*at;
	return read_number(at, step) && *step;
}

/* Inserts a number into the sorted list, unless it is already there. False: there is no room for it and
 * all larger numbers. */
static bool put(p4d_array *a, uint32_t number)
{
	unsigned at = a->listed;

	while (at && a->task[at - 1] > number)
		at--;
	if (at && a->task[at - 1] == number)
		return true;
	if (at == P4D_ARRAY_TASKS)
		return false;
	if (a->listed == P4D_ARRAY_TASKS)
		a->listed--;
	memmove(&a->task[at + 1], &a->task[at], (a->listed - at) * sizeof(a->task[0]));
	a->task[at] = number;
	a->listed++;
	return true;
}

static void put_range(p4d_array *a, uint32_t first, uint32_t last, uint32_t step)
{
	for (uint64_t number = first; number <= last; number += step)
		if (!put(a, (uint32_t)number))
			return;
}

bool p4d_array__read(const char *text, p4d_array *a)
{
	const bool brackets = text && *text == '[';
	const char *at = text + brackets;
	unsigned ranges = 0;
	uint64_t sum = 0;

	*a = (p4d_array){.least = UINT32_MAX};
	do {
		uint32_t first, last, step;
		at += ranges > 0;
		if (!text || ++ranges > RANGES || !read_range(&at, &first, &last, &step))
			return false;
		last -= (last - first) % step;
		put_range(a, first, last, step);
		sum += (last - first) / step + 1;
		a->least = first < a->least ? first : a->least;
		a->most = last > a->most ? last : a->most;
		a->step = ranges == 1 ? step : 0;
	} while (*at == ',');
	/* overlapping ranges may name a task twice */
	a->count = sum <= P4D_ARRAY_TASKS ? a->listed : ranges == 1 && sum < UINT32_MAX ? (uint32_t)sum : 0;
	if (brackets && *at++ != ']')
		return false;
	return !*at || *at == '%';
}
