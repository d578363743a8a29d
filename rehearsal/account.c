/* SPDX-License-Identifier: Apache-2.0 */
#include "account.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "report.h"
#include "settings.h"

typedef struct account_block {
	char *start;
	size_t bytes;
	int device;
} account_block;

typedef struct account {
	uint64_t used, peak;
	uint64_t small;   /* bytes of blocks below half a granule, which share granules */
	uint64_t refused; /* largest request that did not fit */
	uint64_t held;    /* memory that the device held when that request failed */
	bool opened;      /* the memory of the context is counted already */
} account;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static account accounts[P4D_REHEARSAL_DEVICES];
static _Thread_local int current;

/*
 * Sorted by address: addresses are never reused, so a new block is the last. Freed blocks stay in the array
 * until they are a third of it.
 */
static account_block *blocks;
static size_t blocks_used, blocks_room, blocks_given;

static char *range;
static size_t range_bytes, range_used;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void reserve_range(void)
{
	for (size_t bytes = (size_t)1 << 45; bytes >= (size_t)1 << 36; bytes /= 2) {
		void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (start == MAP_FAILED)
			continue;
		/* with huge pages, one written byte would cost two megabytes */
		madvise(start, bytes, MADV_NOHUGEPAGE);
		madvise(start, bytes, MADV_DONTDUMP);
		range = start;
		range_bytes = bytes;
		return;
	}
}

static size_t round_up(size_t bytes, size_t unit)
{
	return bytes > SIZE_MAX - unit ? SIZE_MAX / unit * unit : (bytes + unit - 1) / unit * unit;
}

int p4d_account_device(void)
{
	return current;
}

bool p4d_account_set_device(int device)
{
	if (device < 0 || device >= p4d_settings()->devices)
		return false;
	current = device;
	return true;
}

bool p4d_account_is_device(const void *address)
{
	return range && (const char *)address >= range && (const char *)address < range + range_bytes;
}

/* Index of the last block that begins at ADDRESS or before it; -1: none. */
static long find(const void *address)
{
	size_t low = 0, high = blocks_used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (blocks[middle].start <= (const char *)address)
			low = middle + 1;
		else
			high = middle;
	}
	return (long)low - 1;
}

static account_block *block_of(const void *address)
{
	long at = find(address);

	if (at < 0 || !blocks[at].bytes || (const char *)address >= blocks[at].start + blocks[at].bytes)
		return NULL;
	return &blocks[at];
}

static void sweep(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < blocks_used; i++)
		if (blocks[i].bytes)
			blocks[kept++] = blocks[i];
	blocks_used = kept;
	blocks_given = 0;
}

static bool make_room(void)
{
	if (blocks_given > 64 && blocks_given > blocks_used / 3)
		sweep();
	if (blocks_used < blocks_room)
		return true;
	size_t room = blocks_room ? 2 * blocks_room : 1024;
	account_block *more = realloc(blocks, room * sizeof(*more));
	if (!more)
		return false;
	blocks = more;
	blocks_room = room;
	return true;
}

static char *next_address(size_t bytes)
{
	size_t room = round_up(bytes ? bytes : 1, P4D_ACCOUNT_GRANULE);

	pthread_once(&once, reserve_range);
	if (!range || room > range_bytes - range_used)
		return NULL;
	char *start = range + range_used;
	range_used += room;
	return start;
}

static void open_device(account *a)
{
	if (a->opened)
		return;
	a->opened = true;
	a->used = p4d_settings()->context_bytes;
	a->peak = a->used;
}

/* Small blocks share granules: a device reserves the sum of their bytes, rounded up. */
static bool is_small(size_t bytes)
{
	return bytes < P4D_ACCOUNT_GRANULE / 2;
}

static uint64_t growth(const account *a, size_t bytes)
{
	if (!is_small(bytes))
		return round_up(bytes, P4D_ACCOUNT_GRANULE);
	return round_up(a->small + bytes, P4D_ACCOUNT_GRANULE) - round_up(a->small, P4D_ACCOUNT_GRANULE);
}

static bool charge(account *a, uint64_t bytes)
{
	open_device(a);
	if (bytes > p4d_settings()->bytes - a->used) {
		if (bytes > a->refused) {
			a->refused = bytes;
			a->held = a->used;
		}
		return false;
	}
	a->used += bytes;
	if (a->used > a->peak)
		a->peak = a->used;
	p4d_report_add(P4D_REPORT_ALLOCATIONS, 1);
	return true;
}

static void *take(size_t bytes, int device)
{
	account *a = &accounts[device];
	char *start;

	if (!make_room() || !charge(a, growth(a, bytes)))
		return NULL;
	start = next_address(bytes);
	if (!start) {
		a->used -= growth(a, bytes);
		return NULL;
	}
	if (is_small(bytes))
		a->small += bytes;
	blocks[blocks_used++] = (account_block){start, bytes, device};
	return start;
}

void *p4d_account_take(size_t bytes, int device)
{
	if (device < 0 || device >= p4d_settings()->devices)
		return NULL;
	bytes = round_up(bytes ? bytes : 1, 512);
	pthread_mutex_lock(&lock);
	void *start = take(bytes, device);
	pthread_mutex_unlock(&lock);
	return start;
}

static void give(account_block *b)
{
	account *a = &accounts[b->device];

	if (is_small(b->bytes)) {
		a->small -= b->bytes;
		a->used -= growth(a, b->bytes);
	} else {
		a->used -= round_up(b->bytes, P4D_ACCOUNT_GRANULE);
	}
	if (b->bytes >= P4D_ACCOUNT_SMALL)
		madvise(b->start, b->bytes, MADV_DONTNEED);
	b->bytes = 0;
	blocks_given++;
	p4d_report_add(P4D_REPORT_FREED, 1);
}

bool p4d_account_give(void *address)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	account_block *b = block_of(address);
	if (b && b->start == address) {
		give(b);
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

bool p4d_account_charge(uint64_t bytes, int device)
{
	if (device < 0 || device >= p4d_settings()->devices)
		return false;
	pthread_mutex_lock(&lock);
	bool fits = charge(&accounts[device], bytes);
	pthread_mutex_unlock(&lock);
	return fits;
}

void p4d_account_discharge(uint64_t bytes, int device)
{
	pthread_mutex_lock(&lock);
	accounts[device].used -= bytes;
	pthread_mutex_unlock(&lock);
	p4d_report_add(P4D_REPORT_FREED, 1);
}

void *p4d_account_address(size_t bytes)
{
	pthread_mutex_lock(&lock);
	char *start = next_address(bytes);
	pthread_mutex_unlock(&lock);
	return start;
}

bool p4d_account_block(const void *address, void **start, size_t *bytes)
{
	pthread_mutex_lock(&lock);
	account_block *b = block_of(address);
	if (b) {
		*start = b->start;
		*bytes = b->bytes;
	}
	pthread_mutex_unlock(&lock);
	return b;
}

int p4d_account_device_of(const void *address)
{
	pthread_mutex_lock(&lock);
	account_block *b = block_of(address);
	int device = b ? b->device : -1;
	pthread_mutex_unlock(&lock);
	return device;
}

uint64_t p4d_account_used(int device)
{
	pthread_mutex_lock(&lock);
	open_device(&accounts[device]);
	uint64_t used = accounts[device].used;
	pthread_mutex_unlock(&lock);
	return used;
}

uint64_t p4d_account_peak(int device)
{
	pthread_mutex_lock(&lock);
	uint64_t peak = accounts[device].peak;
	pthread_mutex_unlock(&lock);
	return peak;
}

uint64_t p4d_account_refused(int device, uint64_t *held)
{
	pthread_mutex_lock(&lock);
	uint64_t refused = accounts[device].refused;
	*held = accounts[device].held;
	pthread_mutex_unlock(&lock);
	return refused;
}

void p4d_account_copy(void *to, const void *from, size_t bytes)
{
	if (bytes <= P4D_ACCOUNT_SMALL || (!p4d_account_is_device(to) && !p4d_account_is_device(from)))
		memmove(to, from, bytes);
}

void p4d_account_fill(void *to, int value, size_t bytes)
{
	if (bytes <= P4D_ACCOUNT_SMALL || !p4d_account_is_device(to)) {
		memset(to, value, bytes);
		return;
	}
	/*
	 * Large memory must read as 0 afterwards. Its whole pages are given back; its first and last page may
	 * be shared with other blocks and are written.
	 */
	uintptr_t end = (uintptr_t)to + bytes;
	uintptr_t first = ((uintptr_t)to + 4095) & ~(uintptr_t)4095;
	uintptr_t last = end & ~(uintptr_t)4095;
	if (value)
		return;
	memset(to, 0, first - (uintptr_t)to);
	madvise((void *)first, last - first, MADV_DONTNEED);
	memset((void *)last, 0, end - last);
}
