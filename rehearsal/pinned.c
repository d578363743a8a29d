/* SPDX-License-Identifier: Apache-2.0 */
#include "pinned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "report.h"

typedef struct pinned {
	char *start;
	size_t bytes;
	p4d_pinned_kind kind;
} pinned;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pinned *all; /* sorted by address; blocks do not overlap */
static size_t all_used, all_room;
static uint64_t now, peak, managed_now, managed_peak;

/* Returns how many blocks begin at ADDRESS or before. */
static size_t before(const void *address)
{
	size_t low = 0, high = all_used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (all[middle].start <= (const char *)address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void count(const pinned *p, bool more)
{
	uint64_t *sum = p->kind == P4D_PINNED_MANAGED ? &managed_now : &now;
	uint64_t *most = p->kind == P4D_PINNED_MANAGED ? &managed_peak : &peak;

	*sum = more ? *sum + p->bytes : *sum - p->bytes;
	if (*sum > *most)
		*most = *sum;
}

static bool insert(pinned p)
{
	if (all_used == all_room) {
		size_t room = all_room ? 2 * all_room : 256;
		pinned *more = realloc(all, room * sizeof(*more));
		if (!more)
			return false;
		all = more;
		all_room = room;
	}
	size_t at = before(p.start);
	memmove(all + at + 1, all + at, (all_used - at) * sizeof(*all));
	all[at] = p;
	all_used++;
	count(&p, true);
	p4d_report_add(P4D_REPORT_PINNED, 1);
	return true;
}

static bool note(void *start, size_t bytes, p4d_pinned_kind kind)
{
	pthread_mutex_lock(&lock);
	bool noted = insert((pinned){start, bytes, kind});
	pthread_mutex_unlock(&lock);
	return noted;
}

void *p4d_pinned_take(size_t bytes, p4d_pinned_kind kind)
{
	size_t room = bytes ? bytes : 1;
	void *start =
	    mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	if (note(start, room, kind))
		return start;
	munmap(start, room);
	return NULL;
}

bool p4d_pinned_register(void *start, size_t bytes)
{
	return note(start, bytes, P4D_PINNED_REGISTERED);
}

bool p4d_pinned_end(void *start)
{
	pinned ended = {0};

	pthread_mutex_lock(&lock);
	size_t at = before(start);
	if (at && all[at - 1].start == start) {
		ended = all[--at];
		memmove(all + at, all + at + 1, (all_used - at - 1) * sizeof(*all));
		all_used--;
		count(&ended, false);
		p4d_report_add(P4D_REPORT_PINNED_FREED, 1);
	}
	pthread_mutex_unlock(&lock);
	if (ended.start && ended.kind != P4D_PINNED_REGISTERED)
		munmap(ended.start, ended.bytes);
	return ended.start;
}

bool p4d_pinned_find(const void *address, p4d_pinned_kind *kind)
{
	pthread_mutex_lock(&lock);
	size_t at = before(address);
	bool found = at && (const char *)address < all[at - 1].start + all[at - 1].bytes;
	if (found)
		*kind = all[at - 1].kind;
	pthread_mutex_unlock(&lock);
	return found;
}

uint64_t p4d_pinned_peak(void)
{
	pthread_mutex_lock(&lock);
	uint64_t most = peak;
	pthread_mutex_unlock(&lock);
	return most;
}

uint64_t p4d_pinned_managed_peak(void)
{
	pthread_mutex_lock(&lock);
	uint64_t most = managed_peak;
	pthread_mutex_unlock(&lock);
	return most;
}
