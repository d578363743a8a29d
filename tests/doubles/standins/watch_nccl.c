/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces libnccl.so.2: records calls and passes them to the rehearsal's stand-in. Other functions are the
 * stand-in's own.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "comm/transport/nccl_library.h"
#include "doubles/standins/watch.h"

#define DECLARE(name, result, arguments) result nccl##name arguments;
P4D_NCCL_CALLS(DECLARE)

static const p4d_nccl *standin(void)
{
	static p4d_nccl found;
	void *library = found.Send ? NULL : dlopen("libp4d-rehearsal.so", RTLD_NOW | RTLD_NOLOAD);

	if (library) {
#define FIND(name, result, arguments) *(void **)&found.name = dlsym(library, "nccl" #name);
		P4D_NCCL_CALLS(FIND)
	}
	return &found;
}

static void note(const void *comm, const char *operation, size_t count, int type, int peer)
{
	static const size_t width[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; /* of ncclDataType_t */

	watch_line("call %p %s %zu %d", comm, operation, count * width[type], peer);
}

int ncclCommInitRankConfig(void **comm, int ranks, p4d_nccl_id id, int rank, p4d_nccl_config *config)
{
	const int result = standin()->CommInitRankConfig(comm, ranks, id, rank, config);

	watch_line("comm %p %.127s %d %d", *comm, id.bytes, ranks, rank);
	return result;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int how, void *comm, void *stream)
{
	note(comm, how ? "all-reduce-other" : "all-reduce", count, type, -1);
	return standin()->AllReduce(from, to, count, type, how, comm, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int how, void *comm, void *stream)
{
	note(comm, "reduce-scatter", count, type, -1);
	return standin()->ReduceScatter(from, to, count, type, how, comm, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream)
{
	note(comm, "all-gather", count, type, -1);
	return standin()->AllGather(from, to, count, type, comm, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream)
{
	note(comm, "broadcast", count, type, root);
	return standin()->Broadcast(from, to, count, type, root, comm, stream);
}

int ncclReduce(const void *from, void *to, size_t count, int type, int how, int root, void *comm,
	       void *stream)
{
	note(comm, "reduce", count, type, root);
	return standin()->Reduce(from, to, count, type, how, root, comm, stream);
}

int ncclSend(const void *from, size_t count, int type, int peer, void *comm, void *stream)
{
	note(comm, "send", count, type, peer);
	return standin()->Send(from, count, type, peer, comm, stream);
}

int ncclRecv(void *to, size_t count, int type, int peer, void *comm, void *stream)
{
	note(comm, "receive", count, type, peer);
	return standin()->Recv(to, count, type, peer, comm, stream);
}
