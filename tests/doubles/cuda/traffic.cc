/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the compiler calls for each access under -fsanitize=thread, whose own library is not
 * linked.
 */
#include "doubles/cuda/traffic.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "doubles/cuda/shim.h"

/* For each byte: the number of the launch, and of the block, that accessed it last. */
struct visits {
	uint32_t launch, block;
};

static uintptr_t first;
static uint64_t watched;
static visits *reads, *writes;

static traffic done[TRAFFIC_LAUNCHES];
static unsigned count;
static uint64_t launch_seen;
static uint32_t launch, block;
static dim3 block_seen;

/* "... p4d_launch(...) [with auto KERNEL = norm_rows<p4d_bf16, 8>; A = {...}]" */
static void name_kernel(char *to, const char *function)
{
	static const char before[] = "KERNEL = ";
	const char *from = strstr(function, before);
	unsigned n = 0;

	for (from = from ? from + sizeof(before) - 1 : function; *from && *from != ';' && *from != ']';
	     from++)
		if (!isspace((unsigned char)*from) && n < TRAFFIC_NAME - 1)
			to[n++] = *from;
	to[n] = 0;
}

static void see_where()
{
	if (p4d_shim_gpu.launches != launch_seen) {
		launch_seen = p4d_shim_gpu.launches;
		launch++;
		block++;
		if (count == TRAFFIC_LAUNCHES)
			abort();
		done[count] = traffic{};
		name_kernel(done[count++].name, p4d_shim_kernel);
	} else if (p4d_shim.block.x != block_seen.x || p4d_shim.block.y != block_seen.y) {
		block++;
	}
	block_seen = p4d_shim.block;
}

static void see(visits *all, const void *address, uint64_t bytes)
{
	const uintptr_t at = (uintptr_t)address - first;

	if (at >= watched)
		return;
	see_where();
	traffic *t = &done[count - 1];
	t->asked += bytes;
	for (uint64_t i = at; i < at + bytes && i < watched; i++) {
		t->blocks += all[i].block != block;
		t->least += all[i].launch != launch;
		all[i] = visits{launch, block};
	}
}

extern "C" {

void traffic_watch(const void *from, uint64_t bytes)
{
	free(reads);
	free(writes);
	reads = (visits *)calloc(bytes + 1, sizeof(*reads));
	writes = (visits *)calloc(bytes + 1, sizeof(*writes));
	if (!reads || !writes)
		abort();
	first = (uintptr_t)from;
	watched = bytes;
	launch_seen = p4d_shim_gpu.launches;
}

unsigned traffic_take(traffic (*launches)[TRAFFIC_LAUNCHES])
{
	const unsigned taken = count;

	memcpy(launches, done, sizeof(done));
	count = 0;
	return taken;
}

/*
 * Defines a function by its linker name, because under other sanitizers the compiler declares some of these
 * differently.
 */
#define HOOK(name, ...) \
	void traffic_##name(__VA_ARGS__) __asm__("__tsan_" #name); \
	void traffic_##name(__VA_ARGS__)
#define ACCESS(bytes) \
	HOOK(read##bytes, void *at) \
	{ \
		see(reads, at, bytes); \
	} \
	HOOK(write##bytes, void *at) \
	{ \
		see(writes, at, bytes); \
	} \
	HOOK(unaligned_read##bytes, void *at) \
	{ \
		see(reads, at, bytes); \
	} \
	HOOK(unaligned_write##bytes, void *at) \
	{ \
		see(writes, at, bytes); \
	}
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

HOOK(read_range, void *at, unsigned long bytes)
{
	see(reads, at, bytes);
}

HOOK(write_range, void *at, unsigned long bytes)
{
	see(writes, at, bytes);
}

HOOK(vptr_update, void **, void *)
{
}

HOOK(func_entry, void *)
{
}

HOOK(func_exit, void)
{
}

HOOK(init, void)
{
}
}
