/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "doubles/fake_nccl.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/group.h"
#include "comm/transport/nccl_library.h"
#include "doubles/queued_device.h"

/* p4d-train looks these functions up by name, as it does with NCCL. */
#define FAKE(name, result, arguments) __attribute__((visibility("default"))) result nccl##name arguments;
P4D_NCCL_CALLS(FAKE)
P4D_NCCL_LATER_CALLS(FAKE)
#undef FAKE
__attribute__((visibility("default"))) void fake_nccl_break_call(const char *function, unsigned after,
								 fake_nccl_fault fault);
__attribute__((visibility("default"))) unsigned fake_nccl_channels_connected(void);
__attribute__((visibility("default"))) unsigned fake_nccl_registered(void);

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, REMOTE_ERROR = 6 };
enum { CHUNK = 64 << 10 }; /* bytes that each rank exchanges at a time */
/*
 * Channels that NCCL connects for each algorithm. It chooses the algorithm by collective, operation and
 * size. In this stand-in, small sums use the tree, large sums the switch, and sums of shards a second
 * tree. All other calls use the ring, as in NCCL, which has only rings for them.
 */
typedef enum channel { TREE = 1, RING = 2, DIRECT = 4, SWITCH = 8, SHARDS = 16 } channel;
enum { SMALL = 64 };

/* Memory that the ranks of a communicator share. */
typedef struct shared {
	_Atomic uint32_t arrived; /* number of arrivals at all barriers so far */
	uint8_t chunk[][CHUNK];
} shared;

typedef struct comm {
	int ranks, rank;
	size_t bytes;
	shared *shared;
	uint32_t barriers;
	_Atomic int state;
	_Atomic unsigned queued; /* number of unfinished calls */
	unsigned channels;       /* the channels that are connected */
} comm;

/* A unique id is the name of a file. Other processes can open the file as long as the process that made it
 * lives. */
typedef struct identity {
	char magic[8];
	pid_t maker;
	int file;
} identity;

static struct {
	char function[32];
	unsigned after;
	fake_nccl_fault fault;
} broken;

void fake_nccl_break_call(const char *function, unsigned after, fake_nccl_fault fault)
{
	snprintf(broken.function, sizeof(broken.function), "%s", function);
	broken.after = after;
	broken.fault = fault;
}

static unsigned connected;

unsigned fake_nccl_channels_connected(void)
{
	return connected;
}

/* Whether this call has a fault. With FAKE_HANGS this function does not return. */
static bool has_fault(const char *function)
{
	if (strcmp(function, broken.function) != 0 || (broken.after && --broken.after))
		return false;
	while (broken.fault == FAKE_HANGS)
		pause();
	return true;
}

static void barrier(comm *c)
{
	const uint32_t wanted = ++c->barriers * (uint32_t)c->ranks;
	uint32_t seen = atomic_fetch_add(&c->shared->arrived, 1) + 1;

	if (seen == wanted)
		syscall(SYS_futex, &c->shared->arrived, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	for (; (int32_t)(seen - wanted) < 0; seen = atomic_load(&c->shared->arrived))
		syscall(SYS_futex, &c->shared->arrived, FUTEX_WAIT, seen, NULL, NULL, 0);
}

int ncclGetVersion(int *version)
{
	const char *text = getenv("FAKE_NCCL_VERSION");

	*version = text ? atoi(text) : 22809;
	return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
	return result == REMOTE_ERROR       ? "remote process exited"
	       : result == INVALID_ARGUMENT ? "invalid argument"
					    : "unhandled system error";
}

const char *ncclGetLastError(void *of)
{
	(void)of;
	return "the fake was told to fail\nand this is a second line";
}

int ncclGetUniqueId(p4d_nccl_id *id)
{
	identity mine = {.magic = "fake", .maker = getpid()};

	if (has_fault("GetUniqueId"))
		return SYSTEM_ERROR;
	mine.file = memfd_create("fake nccl", MFD_CLOEXEC);
	if (mine.file < 0)
		return SYSTEM_ERROR;
	memset(id, 0, sizeof(*id));
	memcpy(id->bytes, &mine, sizeof(mine));
	return SUCCESS;
}

static int open_meeting(comm *c, const identity *from)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)from->maker, from->file);
	int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)c->bytes) < 0) {
		perror(path);
		return SYSTEM_ERROR;
	}
	void *memory = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory == MAP_FAILED)
		return SYSTEM_ERROR;
	c->shared = memory;
	return SUCCESS;
}

int ncclCommInitRankConfig(void **made, int ranks, p4d_nccl_id id, int rank, p4d_nccl_config *config)
{
	identity from;
	comm *c;

	if (has_fault("CommInitRankConfig"))
		return SYSTEM_ERROR;
	memcpy(&from, id.bytes, sizeof(from));
	if (strcmp(from.magic, "fake") != 0 || ranks < 2 || rank < 0 || rank >= ranks ||
	    config->magic != P4D_NCCL_CONFIG_MAGIC || config->size < offsetof(p4d_nccl_config, net_name) ||
	    config->version < 21700 || config->blocking != 1 || config->max_ctas == 0)
		return INVALID_ARGUMENT;
	c = calloc(1, sizeof(*c));
	if (!c)
		return SYSTEM_ERROR;
	c->ranks = ranks;
	c->rank = rank;
	c->bytes = sizeof(shared) + (size_t)ranks * CHUNK;
	if (open_meeting(c, &from) != SUCCESS) {
		free(c);
		return SYSTEM_ERROR;
	}
	barrier(c);
	if (from.maker == getpid())
		close(from.file);
	*made = c;
	return SUCCESS;
}

int ncclCommDestroy(void *of)
{
	comm *c = of;

	if (atomic_load(&c->queued)) {
		fprintf(stderr, "fake nccl: a communicator is destroyed with %u calls in flight\n",
			c->queued);
		abort();
	}
	/* all ranks of a node end together, because NCCL's proxy threads do */
	barrier(c);
	munmap(c->shared, c->bytes);
	free(c);
	return SUCCESS;
}

int ncclCommGetAsyncError(void *of, int *result)
{
	comm *c = of;

	*result = atomic_load(&c->state);
	return SUCCESS;
}

static unsigned registered;

unsigned fake_nccl_registered(void)
{
	return registered;
}

int ncclCommRegister(void *of, void *memory, size_t bytes, void **handle)
{
	if (!of || !memory || !bytes)
		return INVALID_ARGUMENT;
	if (has_fault("CommRegister"))
		return SYSTEM_ERROR;
	registered++;
	*handle = memory;
	return SUCCESS;
}

int ncclCommDeregister(void *of, void *handle)
{
	if (!of || !handle || !registered)
		return INVALID_ARGUMENT;
	registered--;
	return SUCCESS;
}

/* ---- execution on a stream ---- */

typedef struct call {
	p4d_call call;
	comm *c;
	const uint8_t *from;
	uint8_t *to;
	size_t count, width;
	int type, how, root;
} call;

static size_t width_of(int type)
{
	return type == P4D_NCCL_BYTES                           ? 1
	       : type == P4D_NCCL_FP16 || type == P4D_NCCL_BF16 ? 2
	       : type == P4D_NCCL_FP32                          ? 4
								: 8;
}

static float of_bf16(const uint8_t *from)
{
	uint16_t half;
	float x;

	memcpy(&half, from, sizeof(half));
	uint32_t bits = (uint32_t)half << 16;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* Rounds to nearest, ties to even. */
static uint16_t to_bf16(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Adds an element to a sum of the same type. */
static void add(uint8_t *sum, const uint8_t *operand, int type, int how)
{
	if (type == P4D_NCCL_FP64) {
		double a, b;
		memcpy(&a, sum, sizeof(a));
		memcpy(&b, operand, sizeof(b));
		a = how == P4D_NCCL_MAX ? (b > a ? b : a) : a + b;
		memcpy(sum, &a, sizeof(a));
	} else if (type == P4D_NCCL_FP32) {
		float a, b;
		memcpy(&a, sum, sizeof(a));
		memcpy(&b, operand, sizeof(b));
		a = how == P4D_NCCL_MAX ? (b > a ? b : a) : a + b;
		memcpy(sum, &a, sizeof(a));
	} else {
		uint16_t rounded = to_bf16(of_bf16(sum) + of_bf16(operand));
		memcpy(sum, &rounded, sizeof(rounded));
	}
}

/* Sums the elements of all ranks' chunks. The sum of element i starts with rank i modulo the number of
 * ranks, so the order of addition differs between elements. */
static void sum_chunks(const call *x, uint8_t *to, size_t at, size_t count)
{
	const comm *c = x->c;

	for (size_t i = 0; i < count; i++) {
		const size_t place = at + i * x->width;
		uint8_t sum[8];
		memcpy(sum, c->shared->chunk[i % (size_t)c->ranks] + place, x->width);
		for (int k = 1; k < c->ranks; k++)
			add(sum, c->shared->chunk[(i + (size_t)k) % (size_t)c->ranks] + place, x->type,
			    x->how);
		memcpy(to + i * x->width, sum, x->width);
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Exchanges elements at .. at+n-1 of the call's buffer, or of each rank's shard of it. */
static void exchange(const call *x, size_t at, size_t n)
{
	comm *c = x->c;
	const size_t own = (size_t)c->rank, bytes = n * x->width, first = at * x->width;
	const bool scatters = x->call == P4D_CALL_REDUCE_SCATTER, gathers = x->call == P4D_CALL_ALL_GATHER;
	const bool is_root = c->rank == x->root;

	if (scatters)
		for (size_t i = 0; i < (size_t)c->ranks; i++)
			memcpy(c->shared->chunk[own] + i * bytes, x->from + i * x->count * x->width + first,
			       bytes);
	else if (x->call != P4D_CALL_BROADCAST || is_root)
		memcpy(c->shared->chunk[own], x->from + first, bytes);
	barrier(c);
	if (scatters)
		sum_chunks(x, x->to + first, own * bytes, n);
	else if (gathers)
		for (size_t i = 0; i < (size_t)c->ranks; i++)
			memcpy(x->to + i * x->count * x->width + first, c->shared->chunk[i], bytes);
	else if (x->call == P4D_CALL_BROADCAST && !is_root)
		memcpy(x->to + first, c->shared->chunk[x->root], bytes);
	else if (x->call == P4D_CALL_ALL_REDUCE || (x->call == P4D_CALL_REDUCE && is_root))
		sum_chunks(x, x->to + first, 0, n);
	barrier(c);
}

static void perform(void *args)
{
	const call *x = args;
	const bool scatters = x->call == P4D_CALL_REDUCE_SCATTER;
	const size_t most = CHUNK / x->width / (scatters ? (size_t)x->c->ranks : 1);

	for (size_t at = 0; at < x->count; at += most)
		exchange(x, at, least(most, x->count - at));
	atomic_fetch_sub(&x->c->queued, 1);
}

static void never_end(void *args)
{
	(void)args;
	for (;;)
		pause();
}

static channel algorithm_of(const call *x)
{
	switch (x->call) {
	case P4D_CALL_REDUCE_SCATTER:
	case P4D_CALL_ALL_GATHER:
		return SHARDS;
	case P4D_CALL_ALL_REDUCE:
		return x->how == P4D_NCCL_MAX ? RING : x->count * x->width < SMALL ? TREE : SWITCH;
	default:
		return RING;
	}
}

/* Connects channels at their first use, like NCCL. */
static void connect_for(const call *x, bool message)
{
	const channel chosen = message ? DIRECT : algorithm_of(x);

	connected += !(x->c->channels & chosen);
	x->c->channels |= chosen;
}

static int queue(const char *function, void *on, call x)
{
	queued_stream *stream = on;

	x.width = width_of(x.type);
	if (!stream || !x.c || !x.count)
		return INVALID_ARGUMENT;
	if (has_fault(function)) {
		if (broken.fault == FAKE_FAILS)
			return SYSTEM_ERROR;
		atomic_store(&x.c->state, REMOTE_ERROR);
		stream->queue(stream, never_end, &x, sizeof(x));
		return SUCCESS;
	}
	connect_for(&x, !strcmp(function, "Send") || !strcmp(function, "Recv"));
	atomic_fetch_add(&x.c->queued, 1);
	stream->queue(stream, perform, &x, sizeof(x));
	return SUCCESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int how, void *of, void *stream)
{
	return queue("AllReduce", stream,
		     (call){.call = P4D_CALL_ALL_REDUCE,
			    .c = of,
			    .from = from,
			    .to = to,
			    .count = count,
			    .type = type,
			    .how = how});
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int how, void *of, void *stream)
{
	return queue("ReduceScatter", stream,
		     (call){.call = P4D_CALL_REDUCE_SCATTER,
			    .c = of,
			    .from = from,
			    .to = to,
			    .count = count,
			    .type = type,
			    .how = how});
}

int ncclAllGather(const void *from, void *to, size_t count, int type, void *of, void *stream)
{
	return queue(
	    "AllGather", stream,
	    (call){
		.call = P4D_CALL_ALL_GATHER, .c = of, .from = from, .to = to, .count = count, .type = type});
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *of, void *stream)
{
	return queue("Broadcast", stream,
		     (call){.call = P4D_CALL_BROADCAST,
			    .c = of,
			    .from = from,
			    .to = to,
			    .count = count,
			    .type = type,
			    .root = root});
}

int ncclReduce(const void *from, void *to, size_t count, int type, int how, int root, void *of, void *stream)
{
	return queue("Reduce", stream,
		     (call){.call = P4D_CALL_REDUCE,
			    .c = of,
			    .from = from,
			    .to = to,
			    .count = count,
			    .type = type,
			    .how = how,
			    .root = root});
}

/* A message is a broadcast between two ranks. The sender also waits for the receiver. */
int ncclSend(const void *from, size_t count, int type, int peer, void *of, void *stream)
{
	const comm *c = of;

	if (c->ranks != 2 || peer != 1 - c->rank)
		return INVALID_ARGUMENT;
	return queue("Send", stream,
		     (call){.call = P4D_CALL_BROADCAST,
			    .c = of,
			    .from = from,
			    .count = count,
			    .type = type,
			    .root = c->rank});
}

int ncclRecv(void *to, size_t count, int type, int peer, void *of, void *stream)
{
	const comm *c = of;

	if (c->ranks != 2 || peer != 1 - c->rank)
		return INVALID_ARGUMENT;
	return queue(
	    "Recv", stream,
	    (call){
		.call = P4D_CALL_BROADCAST, .c = of, .to = to, .count = count, .type = type, .root = peer});
}
