/* SPDX-License-Identifier: Apache-2.0 */
/* Compares nccl_library.h with NVIDIA's header if that is available, at compile time. */
#include "comm/transport/nccl_library.h"

#if defined(__has_include)
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#define P4D_HAVE_NCCL_H
#include <nccl.h>
#endif
#endif

#ifdef P4D_HAVE_NCCL_H
#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)

SAME(sizeof(p4d_nccl_id), sizeof(ncclUniqueId));
#define MEMBER(own, theirs) \
	SAME(offsetof(p4d_nccl_config, own), offsetof(ncclConfig_t, theirs)); \
	SAME(sizeof(((p4d_nccl_config *)0)->own), sizeof(((ncclConfig_t *)0)->theirs))
MEMBER(size, size);
MEMBER(magic, magic);
MEMBER(version, version);
MEMBER(blocking, blocking);
MEMBER(cga_cluster_size, cgaClusterSize);
MEMBER(min_ctas, minCTAs);
MEMBER(max_ctas, maxCTAs);
MEMBER(net_name, netName);
SAME((int)P4D_NCCL_SUCCESS, (int)ncclSuccess);
SAME((int)P4D_NCCL_IN_PROGRESS, (int)ncclInProgress);
SAME((int)P4D_NCCL_SUM, (int)ncclSum);
SAME((int)P4D_NCCL_MAX, (int)ncclMax);
SAME((int)P4D_NCCL_BYTES, (int)ncclUint8);
SAME((int)P4D_NCCL_FP16, (int)ncclFloat16);
SAME((int)P4D_NCCL_FP32, (int)ncclFloat32);
SAME((int)P4D_NCCL_FP64, (int)ncclFloat64);
SAME((int)P4D_NCCL_BF16, (int)ncclBfloat16);
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(NCCL_CONFIG_UNDEF_INT, (-2147483647 - 1));

/* The same arguments in the same positions: these calls must compile without warnings about conversions. */
#define FROM (const void *)0
#define TO (void *)0
#define COUNT (size_t)0
#define TYPE ncclFloat32
#define COMM (ncclComm_t)0
#define STREAM (cudaStream_t)0
#define RESULT(call) SAME(sizeof(call), sizeof(int))
RESULT(ncclGetVersion((int *)0));
RESULT(ncclGetUniqueId((ncclUniqueId *)0));
RESULT(ncclCommInitRankConfig((ncclComm_t *)0, 1, (ncclUniqueId){{0}}, 0, (ncclConfig_t *)0));
RESULT(ncclCommDestroy(COMM));
RESULT(ncclCommGetAsyncError(COMM, (ncclResult_t *)0));
SAME(sizeof(*ncclGetErrorString(ncclSuccess)), sizeof(char));
SAME(sizeof(*ncclGetLastError(COMM)), sizeof(char));
RESULT(ncclAllReduce(FROM, TO, COUNT, TYPE, ncclSum, COMM, STREAM));
RESULT(ncclReduceScatter(FROM, TO, COUNT, TYPE, ncclSum, COMM, STREAM));
RESULT(ncclAllGather(FROM, TO, COUNT, TYPE, COMM, STREAM));
RESULT(ncclBroadcast(FROM, TO, COUNT, TYPE, 0, COMM, STREAM));
RESULT(ncclReduce(FROM, TO, COUNT, TYPE, ncclSum, 0, COMM, STREAM));
RESULT(ncclSend(FROM, COUNT, TYPE, 0, COMM, STREAM));
RESULT(ncclRecv(TO, COUNT, TYPE, 0, COMM, STREAM));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
RESULT(ncclCommRegister(COMM, TO, COUNT, (void **)0));
RESULT(ncclCommDeregister(COMM, (void *)0));
#endif
#endif
