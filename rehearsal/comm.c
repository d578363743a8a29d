/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces NCCL without the other ranks. It assumes that every other rank has the same data as this one: a
 * gather puts this rank's data in every place, and a sum over n ranks is n times this rank's data. The root
 * of a broadcast stores its data in a file, and ranks that run later read it there (comm_record.c). Small
 * data is really copied; large data is not touched.
 */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "account.h"
#include "real.h"
#include "report.h"

/* ncclDataType_t */
enum {
	INT8,
	UINT8,
	INT32,
	UINT32,
	INT64,
	UINT64,
	FLOAT16,
	FLOAT32,
	FLOAT64,
	BFLOAT16,
	FP8_E4M3,
	FP8_E5M2,
	TYPES
};
/* ncclRedOp_t */
enum { SUM = 0, AVERAGE = 4 };
enum { NO_COLOUR = -1 };

static size_t width(int type)
{
	static const size_t bytes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type >= 0 && type < TYPES ? bytes[type] : 1;
}

static void move(void *to, const void *from, size_t bytes)
{
	if (to != from && bytes && bytes <= P4D_ACCOUNT_SMALL)
		p4d_account_copy(to, from, bytes);
}

static void seen(size_t bytes)
{
	p4d_report_add(P4D_REPORT_COLLECTIVES, 1);
	p4d_report_add(P4D_REPORT_COLLECTIVE_BYTES, bytes);
}

ENTRY int ncclGetVersion(int *version)
{
	int (*real)(int *);

	*(void **)&real = p4d_real("libnccl.so.2", "ncclGetVersion");
	if (real && real != ncclGetVersion)
		return real(version);
	*version = 22703;
	return COMM_OK;
}

/* Communicators */

ENTRY int ncclGetUniqueId(char id[COMM_ID_BYTES])
{
	static int count;

	memset(id, 0, COMM_ID_BYTES);
	snprintf(id, COMM_ID_BYTES, "p4d-%d-%ld-%d", getpid(), (long)time(NULL),
		 __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
	return COMM_OK;
}

ENTRY int ncclCommGetUniqueId(const p4d_comm *c, char id[COMM_ID_BYTES])
{
	(void)c;
	return ncclGetUniqueId(id);
}

static int make(p4d_comm **c, int ranks, int rank, const char *id)
{
	*c = calloc(1, sizeof(**c));
	if (!*c)
		return COMM_SYSTEM;
	(*c)->ranks = ranks;
	(*c)->rank = rank;
	snprintf((*c)->id, sizeof((*c)->id), "%.*s", COMM_ID_BYTES - 1, id);
	p4d_report_add(P4D_REPORT_COMMUNICATORS, 1);
	return COMM_OK;
}

/* ncclUniqueId, which is passed by value */
typedef struct unique_id {
	char text[COMM_ID_BYTES];
} unique_id;

ENTRY int ncclCommInitRank(p4d_comm **c, int ranks, unique_id id, int rank)
{
	return make(c, ranks, rank, id.text);
}

ENTRY int ncclCommInitRankConfig(p4d_comm **c, int ranks, unique_id id, int rank)
{
	return make(c, ranks, rank, id.text);
}

ENTRY int ncclCommInitRankScalable(p4d_comm **c, int ranks, int rank, int ids, const unique_id *id)
{
	(void)ids;
	return make(c, ranks, rank, id->text);
}

ENTRY int ncclCommInitAll(p4d_comm **c, int devices)
{
	for (int i = 0; i < devices; i++) {
		int result = make(c + i, devices, i, "");
		if (result)
			return result;
	}
	return COMM_OK;
}

/*
 * The size of the next split-off group, and this rank's number in it. The call of NCCL does not say which
 * ranks have the same colour. But the Python module knows the group that PyTorch makes, and sets these before
 * the call.
 */
static _Thread_local int expected_ranks, expected_rank;

ENTRY void p4d_comm_expect_split(int ranks, int rank)
{
	expected_ranks = ranks;
	expected_rank = rank;
}

/*
 * If p4d_comm_expect_split was not called, the group is assumed to be as large as its parent, and `key`,
 * which orders the ranks, to be this rank's number.
 */
ENTRY int ncclCommSplit(p4d_comm *parent, int colour, int key, p4d_comm **c)
{
	int ranks = expected_ranks, rank = expected_rank;
	char id[COMM_ID_BYTES];

	*c = NULL;
	if (colour == NO_COLOUR)
		return COMM_OK;
	expected_ranks = 0;
	if (!ranks) {
		ranks = parent->ranks;
		rank = key >= 0 && key < ranks ? key : parent->rank;
	}
	snprintf(id, sizeof(id), "%.90s.%d.%d", parent->id, parent->splits++, colour);
	return make(c, ranks, rank, id);
}

ENTRY int ncclCommDestroy(p4d_comm *c)
{
	p4d_comm_record_end(c);
	free(c);
	p4d_report_add(P4D_REPORT_COMMUNICATORS_ENDED, 1);
	return COMM_OK;
}

ENTRY int ncclCommCount(const p4d_comm *c, int *ranks)
{
	*ranks = c->ranks;
	return COMM_OK;
}

ENTRY int ncclCommUserRank(const p4d_comm *c, int *rank)
{
	*rank = c->rank;
	return COMM_OK;
}

ENTRY int ncclCommCuDevice(const p4d_comm *c, int *device)
{
	(void)c;
	*device = p4d_account_device();
	return COMM_OK;
}

ENTRY int ncclCommGetAsyncError(const p4d_comm *c, int *result)
{
	(void)c;
	*result = COMM_OK;
	return COMM_OK;
}

ENTRY int ncclCommRegister(const p4d_comm *c, void *buffer, size_t bytes, void **handle)
{
	(void)c, (void)bytes;
	*handle = buffer;
	return COMM_OK;
}

#define DONE(name) \
	ENTRY int name(void) \
	{ \
		return COMM_OK; \
	}
DONE(ncclCommFinalize)
DONE(ncclCommAbort)
DONE(ncclCommDeregister)
DONE(ncclRedOpDestroy)

ENTRY int ncclMemAlloc(void **address, size_t bytes)
{
	*address = p4d_account_take(bytes, p4d_account_device());
	return *address ? COMM_OK : COMM_CUDA;
}

ENTRY int ncclMemFree(void *address)
{
	p4d_account_give(address);
	return COMM_OK;
}

ENTRY const char *ncclGetErrorString(int result)
{
	return result == COMM_OK     ? "no error"
	       : result == COMM_CUDA ? "unhandled cuda error"
				     : "unhandled system error";
}

ENTRY const char *ncclGetLastError(const p4d_comm *c)
{
	(void)c;
	return "";
}

/* Treats a scaled sum as an average: with equal data on all ranks, an average leaves the values unchanged. */
ENTRY int ncclRedOpCreatePreMulSum(int *operation)
{
	*operation = AVERAGE;
	return COMM_OK;
}

/* Collectives */

/*
 * Multiplies values. 8-bit and 16-bit values do not change, because programs do not derive sizes from them.
 */
static void multiply(void *values, size_t count, int type, int by)
{
	for (size_t i = 0; i < count; i++)
		switch (type) {
		case INT32:
		case UINT32:
			((uint32_t *)values)[i] *= (uint32_t)by;
			break;
		case INT64:
		case UINT64:
			((uint64_t *)values)[i] *= (uint64_t)by;
			break;
		case FLOAT32:
			((float *)values)[i] *= (float)by;
			break;
		case FLOAT64:
			((double *)values)[i] *= by;
			break;
		default:
			return;
		}
}

static void reduce(const void *from, void *to, size_t count, int type, int operation, const p4d_comm *c)
{
	size_t bytes = count * width(type);

	move(to, from, bytes);
	if (operation == SUM && bytes <= P4D_ACCOUNT_SMALL && c->ranks > 1)
		multiply(to, count, type, c->ranks);
}

ENTRY int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, const p4d_comm *c)
{
	seen(count * width(type));
	reduce(from, to, count, type, operation, c);
	return COMM_OK;
}

ENTRY int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
		     const p4d_comm *c)
{
	seen(count * width(type));
	if (root == c->rank)
		reduce(from, to, count, type, operation, c);
	return COMM_OK;
}

ENTRY int ncclReduceScatter(const char *from, void *to, size_t count, int type, int operation,
			    const p4d_comm *c)
{
	size_t bytes = count * width(type);

	seen(bytes * (size_t)c->ranks);
	reduce(from + bytes * (size_t)c->rank, to, count, type, operation, c);
	return COMM_OK;
}

/*
 * Returns how many parts of BYTES fit into the block at TO, but at most the number of ranks. The number of
 * ranks may be too large, because a split-off group may have its parent's.
 */
static size_t parts_at(const char *to, size_t bytes, const p4d_comm *c)
{
	size_t room, parts = (size_t)c->ranks;
	void *start;

	if (!bytes || !p4d_account_block(to, &start, &room))
		return parts;
	room -= (size_t)(to - (char *)start);
	return room / bytes < parts ? room / bytes : parts;
}

static void fill_all(char *to, const char *from, size_t bytes, const p4d_comm *c)
{
	if (bytes > P4D_ACCOUNT_SMALL)
		return;
	for (size_t i = 0, parts = parts_at(to, bytes, c); i < parts; i++)
		move(to + bytes * i, from, bytes);
}

ENTRY int ncclAllGather(const void *from, void *to, size_t count, int type, const p4d_comm *c)
{
	size_t bytes = count * width(type);

	seen(bytes * (size_t)c->ranks);
	fill_all(to, from, bytes, c);
	return COMM_OK;
}

/* Copies the part that this rank sends to itself to the places of all ranks. */
ENTRY int ncclAlltoAll(const char *from, void *to, size_t count, int type, const p4d_comm *c)
{
	size_t bytes = count * width(type);

	seen(bytes * (size_t)c->ranks);
	fill_all(to, from + bytes * (size_t)c->rank, bytes, c);
	return COMM_OK;
}

ENTRY int ncclGather(const void *from, void *to, size_t count, int type, int root, const p4d_comm *c)
{
	if (root == c->rank)
		return ncclAllGather(from, to, count, type, c);
	seen(count * width(type));
	return COMM_OK;
}

ENTRY int ncclScatter(const char *from, void *to, size_t count, int type, int root, const p4d_comm *c)
{
	size_t bytes = count * width(type);

	seen(bytes);
	if (root == c->rank)
		move(to, from + bytes * (size_t)root, bytes);
	else
		p4d_report_add(P4D_REPORT_UNANSWERED, 1);
	return COMM_OK;
}

/* Does a broadcast. False: this rank is not the root, and the record does not have the root's data. */
static bool broadcast(p4d_comm *c, const void *from, void *to, size_t bytes, int root)
{
	c->broadcasts++;
	if (root != c->rank)
		return p4d_comm_record_read(c, root, to, bytes);
	p4d_comm_record_write(c, from, bytes);
	move(to, from, bytes);
	return true;
}

ENTRY int ncclBcast(void *data, size_t count, int type, int root, p4d_comm *c)
{
	seen(count * width(type));
	if (!broadcast(c, data, data, count * width(type), root))
		p4d_report_add(P4D_REPORT_UNANSWERED, 1);
	return COMM_OK;
}

/*
 * A call between ncclGroupStart and ncclGroupEnd. These calls run together at the end, where sends and
 * receives are matched.
 */
typedef struct call {
	const void *from; /* NULL: a receive */
	void *to;         /* NULL: a send */
	size_t bytes;
	int peer;
	bool is_broadcast, is_whole; /* is_whole: the data are integers of 4 or 8 bytes */
	bool answered;               /* for a broadcast: the record has its data */
	const p4d_comm *comm;
} call;
enum { CALLS = 4096 };
static _Thread_local call calls[CALLS];
static _Thread_local int noted, groups;

/* Finds the call of this group that sends as many bytes to PEER as LIKE receives; NULL: there is none. */
static const call *sent_to(int peer, const call *like)
{
	for (const call *sent = calls; sent < calls + noted; sent++)
		if (sent->from && sent->comm == like->comm && sent->bytes == like->bytes &&
		    sent->is_broadcast == like->is_broadcast && sent->peer == peer)
			return sent;
	return NULL;
}

/*
 * Fills a receive. If this rank sends data to itself in the group, it receives the same data from all others.
 * Otherwise integers come from the record (comm_peers.c), and other data is what this rank sends to the same
 * peer.
 */
static void receive(const call *received)
{
	const call *own = sent_to(received->comm->rank, received);
	const call *sent = own ? own : sent_to(received->peer, received);

	if (!own && received->is_whole &&
	    p4d_comm_peers_read(received->comm, received->peer, received->to, received->bytes))
		return;
	if (sent)
		move(received->to, sent->from, received->bytes);
	else if (received->is_broadcast && !received->answered)
		p4d_report_add(P4D_REPORT_UNANSWERED, 1);
	else if (received->is_whole)
		p4d_comm_peers_doubt(received->bytes);
}

static void end_group(void)
{
	for (const call *sent = calls; sent < calls + noted; sent++)
		if (sent->from && sent->is_whole && !sent_to(sent->comm->rank, sent))
			p4d_comm_peers_sent(sent->comm, sent->peer, sent->from, sent->bytes);
	for (const call *received = calls; received < calls + noted; received++)
		if (received->to)
			receive(received);
	noted = 0;
}

static int note(call c)
{
	if (c.bytes <= P4D_ACCOUNT_SMALL && noted < CALLS)
		calls[noted++] = c;
	if (!groups)
		end_group();
	return COMM_OK;
}

static bool is_whole(int type)
{
	return type >= INT32 && type <= UINT64;
}

ENTRY int ncclSend(const void *from, size_t count, int type, int peer, const p4d_comm *c)
{
	size_t bytes = count * width(type);

	seen(bytes);
	return note(
	    (call){.from = from, .bytes = bytes, .peer = peer, .is_whole = is_whole(type), .comm = c});
}

ENTRY int ncclRecv(void *to, size_t count, int type, int peer, const p4d_comm *c)
{
	size_t bytes = count * width(type);

	seen(bytes);
	return note((call){.to = to, .bytes = bytes, .peer = peer, .is_whole = is_whole(type), .comm = c});
}

/*
 * Also serves PyTorch's gather into a list of tensors, which is a group of broadcasts with different roots.
 */
ENTRY int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, p4d_comm *c)
{
	size_t bytes = count * width(type);
	bool is_own = root == c->rank;

	seen(bytes);
	const bool answered = broadcast(c, from, to, bytes, root);
	return note((call){.from = is_own ? from : NULL,
			   .to = is_own ? NULL : to,
			   .bytes = bytes,
			   .peer = root,
			   .is_broadcast = true,
			   .answered = answered,
			   .comm = c});
}

ENTRY int ncclGroupStart(void)
{
	groups++;
	return COMM_OK;
}

ENTRY int ncclGroupEnd(void)
{
	if (groups && !--groups)
		end_group();
	return COMM_OK;
}
