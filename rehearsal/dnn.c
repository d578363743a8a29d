/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN: graphs, heuristics and plans are cuDNN's own. Since release 9.8, cuDNN accepts a descriptor of a
 * device instead of the handle of a real GPU. So the engines and workspaces are those that cuDNN would choose
 * on that GPU. Nothing is executed. Older releases get the stand-in's own descriptors, without workspaces
 * (dnn_old.c).
 */
#include "dnn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "device.h"
#include "real.h"
#include "report.h"
#include "settings.h"

typedef struct dnn_handle {
	void *stream;
} dnn_handle;

ENTRY int cudnnCreate(dnn_handle **h)
{
	*h = calloc(1, sizeof(**h));
	return *h ? DNN_OK : DNN_NO_MEMORY;
}

ENTRY int cudnnDestroy(dnn_handle *h)
{
	free(h);
	return DNN_OK;
}

ENTRY int cudnnSetStream(dnn_handle *h, void *stream)
{
	h->stream = stream;
	return DNN_OK;
}

ENTRY int cudnnGetStream(const dnn_handle *h, void **stream)
{
	*stream = h->stream;
	return DNN_OK;
}

static p4d_dnn_library real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *describe_device(void)
{
	const p4d_rehearsal_settings *s = p4d_settings();
	const p4d_device_kind *d = p4d_device_get();
	char json[1024];
	void *device;

	snprintf(
	    json, sizeof(json),
	    "{\"deviceVer\":%d,\"driverVer\":13000,\"deviceName\":\"%s\",\"cudaDeviceId\":0,"
	    "\"multiProcessorCount\":%d,"
	    "\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
	    "\"regsPerBlock\":65536,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%zu,"
	    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,"
	    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,\"isTccDriver\":0,"
	    "\"supportCoopLaunch\":1,\"totalGlobalMem\":%llu,\"smClockRateKHz\":1980000,\"memClockRateKHz\":"
	    "2619000,"
	    "\"l2CacheSize\":%d}",
	    s->sm * 10, s->name, s->multiprocessors, d->block_shared_bytes, d->blocks, d->threads,
	    (unsigned long long)s->bytes, d->l2_bytes);
	if (real.create(DNN_DEVICE, &device))
		return NULL;
	if (!real.set(device, DNN_DEVICE_JSON, DNN_TYPE_CHAR, (int64_t)strlen(json), json) &&
	    !real.finalize(device))
		return device;
	real.destroy(device);
	return NULL;
}

static void load(void)
{
	static const char name[] = "libcudnn.so.9";

	*(void **)&real.create = p4d_real(name, "cudnnBackendCreateDescriptor");
	*(void **)&real.set = p4d_real(name, "cudnnBackendSetAttribute");
	*(void **)&real.get = p4d_real(name, "cudnnBackendGetAttribute");
	*(void **)&real.finalize = p4d_real(name, "cudnnBackendFinalize");
	*(void **)&real.destroy = p4d_real(name, "cudnnBackendDestroyDescriptor");
	if (real.create && real.set && real.get && real.finalize && real.destroy)
		real.device = describe_device();
	if (!real.device)
		p4d_report_doubt("cuDNN before 9.8 needs a real GPU to plan, so workspaces of convolutions "
				 "and attention are not counted");
}

/* Returns NVIDIA's functions; NULL: this release of cuDNN has no device descriptors. */
static const p4d_dnn_library *planner(void)
{
	pthread_once(&once, load);
	return real.device ? &real : NULL;
}

/* Returns which attribute of a descriptor takes the device instead of the handle; 0: none. */
static int device_attribute(int type)
{
	switch (type) {
	case DNN_HEURISTICS:
		return DNN_HEURISTICS_DEVICE;
	case DNN_ENGINE:
		return DNN_ENGINE_DEVICE;
	case DNN_PLAN:
		return DNN_PLAN_DEVICE;
	default:
		return 0;
	}
}

ENTRY int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
	const p4d_dnn_library *p = planner();
	int attribute = device_attribute(type);

	if (!p)
		return p4d_dnn_old_create(type, descriptor);
	int result = p->create(type, descriptor);
	if (!result && attribute)
		result = p->set(*descriptor, attribute, DNN_TYPE_DESCRIPTOR, 1, &p->device);
	return result;
}

ENTRY int cudnnBackendDestroyDescriptor(void *descriptor)
{
	const p4d_dnn_library *p = planner();

	if (!p)
		return p4d_dnn_old_destroy(descriptor);
	p4d_dnn_plan_forget(descriptor);
	return p->destroy(descriptor);
}

ENTRY int cudnnBackendFinalize(void *descriptor)
{
	const p4d_dnn_library *p = planner();

	return p ? p4d_dnn_plan_finalize(p, descriptor) : DNN_OK;
}

ENTRY int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t count,
				   const void *values)
{
	const p4d_dnn_library *p = planner();

	if (type == DNN_TYPE_HANDLE) /* the descriptor already has a device instead of the handle */
		return DNN_OK;
	if (!p)
		return p4d_dnn_old_set(descriptor, attribute, type, count, values);
	if (attribute == DNN_PLAN_CONFIGURATION && count == 1)
		p4d_dnn_plan_configure(p, descriptor, *(void *const *)values);
	if (attribute == DNN_PLAN_CONFIGURATION)
		p4d_report_add(P4D_REPORT_PLANS, 1);
	return p->set(descriptor, attribute, type, count, values);
}

ENTRY int cudnnBackendGetAttribute(const void *descriptor, int attribute, int type, int64_t room,
				   int64_t *count, void *values)
{
	const p4d_dnn_library *p = planner();

	if (!p)
		return p4d_dnn_old_get(descriptor, attribute, type, room, count, values);
	if (attribute == DNN_PLAN_WORKSPACE && room == 1 && p4d_dnn_plan_workspace(descriptor, values)) {
		if (count)
			*count = 1;
		return DNN_OK;
	}
	const int result = p4d_dnn_plan_complete(p, descriptor);
	return result ? result : p->get(descriptor, attribute, type, room, count, values);
}

ENTRY int cudnnBackendExecute(const dnn_handle *h, const void *plan, const void *pack)
{
	int64_t bytes = 0, count = 0;

	(void)h, (void)pack;
	p4d_report_add(P4D_REPORT_GRAPHS, 1);
	if (!cudnnBackendGetAttribute(plan, DNN_PLAN_WORKSPACE, DNN_TYPE_INT64, 1, &count, &bytes) &&
	    bytes > 0)
		p4d_report_workspace((uint64_t)bytes);
	return DNN_OK;
}

/*
 * Older calls for batch normalization. Their workspaces have only a few statistics per channel, so p4d does
 * not count them.
 */
ENTRY int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const void *h, int mode, int ops,
								   const void *x, const void *z,
								   const void *y, const void *scale,
								   const void *activation, size_t *bytes)
{
	(void)h, (void)mode, (void)ops, (void)x, (void)z, (void)y, (void)scale, (void)activation;
	*bytes = 0;
	return DNN_OK;
}

ENTRY int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(const void *h, int mode, int ops,
							       const void *activation, const void *x,
							       size_t *bytes)
{
	(void)h, (void)mode, (void)ops, (void)activation, (void)x;
	*bytes = 0;
	return DNN_OK;
}

ENTRY int cudnnGetBatchNormalizationBackwardExWorkspaceSize(const void *h, int mode, int ops, const void *x,
							    const void *y, const void *dy, const void *dz,
							    const void *dx, const void *scale,
							    const void *activation, size_t *bytes)
{
	(void)h, (void)mode, (void)ops, (void)x, (void)y, (void)dy, (void)dz, (void)dx, (void)scale,
	    (void)activation;
	*bytes = 0;
	return DNN_OK;
}

#define DONE(name) \
	ENTRY int name(void) \
	{ \
		return DNN_OK; \
	}
DONE(cudnnBatchNormalizationForwardTrainingEx)
DONE(cudnnBatchNormalizationForwardInference)
DONE(cudnnBatchNormalizationBackwardEx)
DONE(cudnnPoolingForward)
