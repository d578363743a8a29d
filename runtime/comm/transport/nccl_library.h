/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "comm/world.h"
#include "device/device.h"

/*
 * libnccl.so.2, loaded at run time, so that p4d-train needs it neither to build nor to start. The
 * declarations are those of NCCL 2.18 and later. If nccl.h is installed, nccl_check.c compares them with it.
 */
enum { P4D_NCCL_LEAST = 21800 }; /* in the format of ncclGetVersion */

typedef struct p4d_nccl_id {
	char bytes[128];
} p4d_nccl_id;

/* The members of NCCL 2.17; NCCL fills in later ones. */
typedef struct p4d_nccl_config {
	size_t size;
	unsigned magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
} p4d_nccl_config;
enum { P4D_NCCL_CONFIG_VERSION = 21700 };
#define P4D_NCCL_CONFIG_MAGIC 0xcafebeefu

enum { P4D_NCCL_SUCCESS = 0, P4D_NCCL_IN_PROGRESS = 7 };
enum { P4D_NCCL_SUM = 0, P4D_NCCL_MAX = 2 };
enum { P4D_NCCL_BYTES = 1, P4D_NCCL_FP16 = 6, P4D_NCCL_FP32 = 7, P4D_NCCL_FP64 = 8, P4D_NCCL_BF16 = 9 };

/*
 * Each row: name without "nccl", result, arguments. Enumerations are declared as int, communicators and
 * streams as void pointers.
 */
#define P4D_NCCL_CALLS(CALL) \
	CALL(GetVersion, int, (int *version)) \
	CALL(GetUniqueId, int, (p4d_nccl_id *)) \
	CALL(CommInitRankConfig, int, (void **comm, int ranks, p4d_nccl_id, int rank, p4d_nccl_config *)) \
	CALL(CommDestroy, int, (void *comm)) \
	CALL(CommGetAsyncError, int, (void *comm, int *result)) \
	CALL(GetErrorString, const char *, (int result)) \
	CALL(GetLastError, const char *, (void *comm)) \
	CALL(AllReduce, int, \
	     (const void *from, void *to, size_t count, int type, int how, void *comm, void *stream)) \
	CALL(ReduceScatter, int, \
	     (const void *from, void *to, size_t count, int type, int how, void *comm, void *stream)) \
	CALL(AllGather, int, (const void *from, void *to, size_t count, int type, void *comm, void *stream)) \
	CALL(Broadcast, int, \
	     (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream)) \
	CALL(Reduce, int, \
	     (const void *from, void *to, size_t count, int type, int how, int root, void *comm, \
	      void *stream)) \
	CALL(Send, int, (const void *from, size_t count, int type, int peer, void *comm, void *stream)) \
	CALL(Recv, int, (void *to, size_t count, int type, int peer, void *comm, void *stream))

/* Calls of 2.19 and later; NULL before. */
#define P4D_NCCL_LATER_CALLS(CALL) \
	CALL(CommRegister, int, (void *comm, void *memory, size_t bytes, void **handle)) \
	CALL(CommDeregister, int, (void *comm, void *handle))

/* A communicator of two or more ranks. */
typedef struct p4d_nccl_comm {
	void *comm;
	void *registered; /* handle of memory; NULL: none */
	char about[80];   /* "messages to rank 3 (h2)" */
	struct p4d_nccl_comm *next;
} p4d_nccl_comm;

typedef struct p4d_nccl {
	int version;
#define MEMBER(name, result, arguments) result(*name) arguments;
	P4D_NCCL_CALLS(MEMBER)
	P4D_NCCL_LATER_CALLS(MEMBER)
#undef MEMBER
	p4d_nccl_comm *comms; /* list of all open communicators */
} p4d_nccl;

/* library NULL: libnccl.so.2. Never unloaded. Errors: IO (not found, or not NCCL), NO_MEMORY. */
int p4d_nccl__open(p4d_nccl **nccl, const char *library, p4d_error *err);
void p4d_nccl__close(p4d_nccl *nccl); /* after its communicators */

/*
 * Checks a result of NCCL. If it is an error, fails with RANK, and names the communicator, the action and the
 * reason.
 */
int p4d_nccl__result(const p4d_nccl *nccl, int result, const p4d_nccl_comm *comm, const char *doing,
		     p4d_error *err);

/*
 * Opens a communicator and runs its first operation, during which NCCL connects the ranks. Both block inside
 * NCCL, which does not notice a lost rank. So a thread makes these calls while the caller watches the world.
 * After an error the thread is abandoned and may still use the device. The process is about to end, so the
 * device stays open until then.
 */
typedef struct p4d_nccl_setup {
	p4d_nccl_id id;
	/* the maximum number of thread blocks, which take multiprocessors from operations; 0: no limit */
	int ranks, rank, most_ctas;
	/* calls NCCL on the communicator, with `scratch` and `stream`; returns NCCL's result */
	int (*first)(const p4d_nccl *nccl, const struct p4d_nccl_setup *setup, void *comm);
	void *scratch, *stream;
	uint64_t sum_bytes, maximum_bytes, shards_bytes, rooted_bytes; /* as in p4d_traffic */
	char about[sizeof(((p4d_nccl_comm *)0)->about)];
} p4d_nccl_setup;
int p4d_nccl__comm_open(p4d_nccl *nccl, p4d_world *world, p4d_device *device, const p4d_nccl_setup *setup,
			p4d_nccl_comm **comm, p4d_error *err);
/*
 * Lets NCCL send from this memory and receive in it without its own copies. This works only if all members
 * have registered their memory. False: not registered.
 */
bool p4d_nccl__comm_register(const p4d_nccl *nccl, p4d_nccl_comm *comm, void *memory, uint64_t bytes);
void p4d_nccl__comm_forget(const p4d_nccl *nccl, p4d_nccl_comm *comm);
/*
 * Closes a communicator and waits until the other ranks close it as well. orderly false: abandons it without
 * waiting. NULL: no-op.
 */
void p4d_nccl__comm_close(p4d_nccl *nccl, p4d_nccl_comm *comm, bool orderly);

/* Fails if any communicator has an asynchronous error. */
int p4d_nccl__watch(const p4d_nccl *nccl, p4d_error *err);
