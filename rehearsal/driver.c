/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: devices, contexts, modules, kernels. libcuda.so.1 in the same directory is another name for
 * this library. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "account.h"
#include "device.h"
#include "report.h"
#include "settings.h"
#include "stream.h"

ENTRY int cuInit(void)
{
	return CUDA_OK;
}

ENTRY int cuDriverGetVersion(int *version)
{
	*version = p4d_settings_cuda() < 13 ? 12090 : 13020;
	return CUDA_OK;
}

ENTRY int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal >= 0 && ordinal < p4d_settings()->devices ? CUDA_OK : CUDA_INVALID_DEVICE;
}

ENTRY int cuDeviceGetCount(int *count)
{
	*count = p4d_settings()->devices;
	return CUDA_OK;
}

ENTRY int cuDeviceGetName(char *name, int room)
{
	snprintf(name, room > 0 ? (size_t)room : 0, "%s", p4d_settings()->name);
	return CUDA_OK;
}

ENTRY int cuDeviceGetUuid(char *uuid, int device)
{
	memset(uuid, device + 1, 16);
	return CUDA_OK;
}

ENTRY int cuDeviceGetUuid_v2(char *uuid, int device)
{
	return cuDeviceGetUuid(uuid, device);
}

ENTRY int cuDeviceTotalMem_v2(size_t *bytes)
{
	*bytes = p4d_settings()->bytes;
	return CUDA_OK;
}

ENTRY int cuDeviceGetAttribute(int *value, int attribute)
{
	*value = p4d_device_attribute(attribute);
	return CUDA_OK;
}

ENTRY int cuDeviceGetPCIBusId(char *text, int room, int device)
{
	p4d_device_bus_id(text, room > 0 ? (size_t)room : 0, device);
	return CUDA_OK;
}

ENTRY int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer;
	return CUDA_OK;
}

/* A context is represented by its device: an address that nobody reads. */
static char contexts[P4D_REHEARSAL_DEVICES];

ENTRY int cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = &contexts[device];
	return CUDA_OK;
}

ENTRY int cuDevicePrimaryCtxRelease_v2(void)
{
	return CUDA_OK;
}

ENTRY int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	(void)device;
	*flags = 0;
	*active = 1;
	return CUDA_OK;
}

ENTRY int cuCtxGetCurrent(void **context)
{
	*context = &contexts[p4d_account_device()];
	return CUDA_OK;
}

ENTRY int cuCtxSetCurrent(const char *context)
{
	if (context >= contexts && context < contexts + P4D_REHEARSAL_DEVICES)
		p4d_account_set_device((int)(context - contexts));
	return CUDA_OK;
}

ENTRY int cuCtxPushCurrent_v2(const char *context)
{
	return cuCtxSetCurrent(context);
}

ENTRY int cuCtxPopCurrent_v2(void **context)
{
	return cuCtxGetCurrent(context);
}

ENTRY int cuCtxGetDevice(int *device)
{
	*device = p4d_account_device();
	return CUDA_OK;
}

ENTRY int cuCtxGetId(const void *context, unsigned long long *id)
{
	*id = (uintptr_t)context;
	return CUDA_OK;
}

#define WAIT(name) \
	ENTRY int name(void) \
	{ \
		p4d_report_add(P4D_REPORT_WAITS, 1); \
		return CUDA_OK; \
	}
WAIT(cuCtxSynchronize)

ENTRY int cuGetErrorString(int result, const char **text)
{
	*text = result == CUDA_OUT_OF_MEMORY ? "out of memory" : "operation not supported";
	return CUDA_OK;
}

ENTRY int cuGetErrorName(int result, const char **name)
{
	*name = result == CUDA_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_NOT_SUPPORTED";
	return CUDA_OK;
}

/*
 * Modules and kernels, as Triton, nvrtc and cuDNN's plans load them. They never run, so a handle only has to
 * be an address.
 */
static int new_handle(void **handle)
{
	*handle = calloc(1, sizeof(long));
	return *handle ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

#define HANDLE(name) \
	ENTRY int name(void **handle) \
	{ \
		return new_handle(handle); \
	}
HANDLE(cuModuleLoad)
HANDLE(cuModuleLoadData)
HANDLE(cuModuleLoadDataEx)
HANDLE(cuModuleGetFunction)
HANDLE(cuLibraryLoadData)
HANDLE(cuLibraryGetKernel)
HANDLE(cuLibraryGetModule)
HANDLE(cuKernelGetFunction)
HANDLE(cuFuncGetModule)

#define DONE(name) \
	ENTRY int name(void) \
	{ \
		return CUDA_OK; \
	}
DONE(cuModuleUnload)
DONE(cuLibraryUnload)
DONE(cuKernelSetAttribute)
DONE(cuFuncSetAttribute)
DONE(cuFuncSetCacheConfig)

ENTRY int cuModuleGetLoadingMode(int *mode)
{
	*mode = 2; /* loaded lazily */
	return CUDA_OK;
}

ENTRY int cuModuleGetGlobal_v2(void **address, size_t *bytes)
{
	if (address)
		*address = p4d_account_address(4096);
	if (bytes)
		*bytes = 4096;
	return CUDA_OK;
}

ENTRY int cuLibraryGetGlobal(void **address, size_t *bytes)
{
	return cuModuleGetGlobal_v2(address, bytes);
}

/* CUfunction_attribute: 0 is the threads of a block, 4 the registers of a thread */
ENTRY int cuKernelGetAttribute(int *value, int attribute)
{
	*value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;
	return CUDA_OK;
}

ENTRY int cuFuncGetAttribute(int *value, int attribute)
{
	return cuKernelGetAttribute(value, attribute);
}

ENTRY int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks)
{
	*blocks = 1;
	return CUDA_OK;
}

ENTRY int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks);
}

ENTRY int cuOccupancyMaxActiveClusters(int *clusters)
{
	*clusters = p4d_settings()->multiprocessors / 2;
	return CUDA_OK;
}

ENTRY int cuOccupancyMaxPotentialClusterSize(int *size)
{
	*size = 8;
	return CUDA_OK;
}

#define LAUNCH(name) \
	ENTRY int name(void) \
	{ \
		p4d_report_add(P4D_REPORT_LAUNCHES, 1); \
		return CUDA_OK; \
	}
LAUNCH(cuLaunchKernel)
LAUNCH(cuLaunchKernelEx)
LAUNCH(cuLaunchCooperativeKernel)

/* CUtensorMap has 128 bytes. */
ENTRY int cuTensorMapEncodeTiled(void *map)
{
	memset(map, 0, 128);
	return CUDA_OK;
}

/* Streams and events: see runtime_streams.c. */
WAIT(cuStreamSynchronize)
DONE(cuStreamQuery)
DONE(cuStreamWaitValue32_v2)
DONE(cuStreamWriteValue32_v2)
WAIT(cuEventSynchronize)
DONE(cuEventQuery)

ENTRY int cuStreamIsCapturing(const p4d_runtime_stream *stream, int *status)
{
	*status = p4d_stream_capture(stream) ? 1 : 0;
	return CUDA_OK;
}

ENTRY int cuEventCreate(p4d_event **event)
{
	*event = p4d_event_new();
	return *event ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

ENTRY int cuEventRecord(p4d_event *event, const p4d_runtime_stream *stream)
{
	p4d_event_record(event, stream);
	return CUDA_OK;
}

ENTRY int cuEventDestroy_v2(p4d_event *event)
{
	free(event);
	return CUDA_OK;
}

ENTRY int cuEventElapsedTime_v2(float *milliseconds)
{
	*milliseconds = P4D_STREAM_ELAPSED_MS;
	return CUDA_OK;
}

/*
 * Finds a function by its name. The runtime inside NVIDIA's libraries asks for names without version, and
 * must get the newest version.
 */
static void *entry_point(const char *name)
{
	char versioned[128];
	void *found = NULL;

	for (int version = 4; version > 1 && !found; version--) {
		snprintf(versioned, sizeof(versioned), "%s_v%d", name, version);
		found = dlsym(RTLD_DEFAULT, versioned);
	}
	return found ? found : dlsym(RTLD_DEFAULT, name);
}

/* CUdriverProcAddressQueryResult and cudaDriverEntryPointQueryResult: 0: found, 1: not found */
ENTRY int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
	(void)version, (void)flags;
	*address = entry_point(name);
	if (status)
		*status = !*address;
	return *address ? CUDA_OK : CUDA_NOT_FOUND;
}

ENTRY int cuGetProcAddress(const char *name, void **address, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(name, address, version, flags, NULL);
}

ENTRY int cudaGetDriverEntryPoint(const char *name, void **address, unsigned long long flags, int *status)
{
	(void)flags;
	*address = entry_point(name);
	if (status)
		*status = !*address;
	return CUDA_OK;
}

ENTRY int cudaGetDriverEntryPointByVersion(const char *name, void **address, unsigned version,
					   unsigned long long flags, int *status)
{
	(void)version;
	return cudaGetDriverEntryPoint(name, address, flags, status);
}

/* Undocumented tables and driver messages are refused. Callers then continue without them. */
ENTRY int cuGetExportTable(const void **table)
{
	*table = NULL;
	return CUDA_NOT_SUPPORTED;
}

ENTRY int cuLogsRegisterCallback(void)
{
	return CUDA_NOT_SUPPORTED;
}
