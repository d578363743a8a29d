/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: the queries of PyTorch and vLLM about devices. libnvidia-ml.so.1 in the same directory is another
 * name for this library. */
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "account.h"
#include "settings.h"

/* nvmlReturn_t */
enum { NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

/* A device's handle is an address in this array; its index is the number of the device. */
static char devices[P4D_REHEARSAL_DEVICES];

static int index_of(const char *handle)
{
	return handle >= devices && handle < devices + P4D_REHEARSAL_DEVICES ? (int)(handle - devices) : 0;
}

#define DONE(name) \
	ENTRY int name(void) \
	{ \
		return NVML_OK; \
	}
DONE(nvmlInit)
DONE(nvmlInit_v2)
DONE(nvmlInitWithFlags)
DONE(nvmlShutdown)

#define LACKS(name) \
	ENTRY int name(void) \
	{ \
		return NVML_NOT_SUPPORTED; \
	}
LACKS(nvmlDeviceGetNvLinkRemoteDeviceType)
LACKS(nvmlDeviceGetNvLinkRemotePciInfo_v2)
LACKS(nvmlDeviceGetGpuFabricInfo)
LACKS(nvmlDeviceGetGpuFabricInfoV)
LACKS(nvmlDeviceGetPowerManagementLimit)
LACKS(nvmlDeviceGetEnforcedPowerLimit)
LACKS(nvmlDeviceGetClockInfo)
LACKS(nvmlDeviceGetMaxClockInfo)
LACKS(nvmlDeviceGetFanSpeed)
LACKS(nvmlDeviceGetPcieThroughput)

ENTRY const char *nvmlErrorString(int result)
{
	return result ? "not supported" : "success";
}

ENTRY int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)p4d_settings()->devices;
	return NVML_OK;
}

ENTRY int nvmlDeviceGetHandleByIndex_v2(unsigned index, char **device)
{
	if (index >= (unsigned)p4d_settings()->devices)
		return NVML_NOT_FOUND;
	*device = &devices[index];
	return NVML_OK;
}

/* "00000000:01:00.0" */
ENTRY int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, char **device)
{
	unsigned domain, bus;

	if (sscanf(bus_id, "%x:%x", &domain, &bus) != 2 || !bus)
		return NVML_NOT_FOUND;
	return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}

ENTRY int nvmlDeviceGetIndex(const char *device, unsigned *index)
{
	*index = (unsigned)index_of(device);
	return NVML_OK;
}

/* A UUID of sixteen bytes, each of which is the bus number, as in cudaGetDeviceProperties. */
ENTRY int nvmlDeviceGetUUID(const char *device, char *text, unsigned room)
{
	unsigned b = (unsigned)index_of(device) + 1;

	snprintf(text, room, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b, b,
		 b, b, b, b, b, b, b, b, b, b, b, b, b, b);
	return NVML_OK;
}

ENTRY int nvmlDeviceGetHandleByUUID(const char *uuid, char **device)
{
	unsigned bus;

	if (sscanf(uuid, "GPU-%2x", &bus) != 1 || !bus)
		return NVML_NOT_FOUND;
	return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}

ENTRY int nvmlDeviceGetName(const char *device, char *text, unsigned room)
{
	(void)device;
	snprintf(text, room, "%s", p4d_settings()->name);
	return NVML_OK;
}

/* Returns the used memory. It must not create the context, because that would count as memory. */
static uint64_t used_by(const char *device)
{
	const int index = index_of(device);

	return p4d_account_peak(index) ? p4d_account_used(index) : 0;
}

/* nvmlMemory_t: total, free, used */
ENTRY int nvmlDeviceGetMemoryInfo(const char *device, unsigned long long memory[3])
{
	memory[0] = p4d_settings()->bytes;
	memory[2] = used_by(device);
	memory[1] = memory[0] - memory[2];
	return NVML_OK;
}

/* nvmlMemory_v2_t: version, total, reserved, free, used */
ENTRY int nvmlDeviceGetMemoryInfo_v2(const char *device, unsigned long long memory[5])
{
	memory[1] = p4d_settings()->bytes;
	memory[2] = 0;
	memory[4] = used_by(device);
	memory[3] = memory[1] - memory[4];
	return NVML_OK;
}

/* Programs log what a GPU does, and would fail without an answer. A simulated GPU is idle: its kernels take
 * no time. nvmlUtilization_t: per cent of the time in which kernels run, and in which memory is accessed. */
ENTRY int nvmlDeviceGetUtilizationRates(const char *device, unsigned percent[2])
{
	(void)device;
	percent[0] = percent[1] = 0;
	return NVML_OK;
}

ENTRY int nvmlDeviceGetTemperature(const char *device, int sensor, unsigned *celsius)
{
	(void)device, (void)sensor;
	*celsius = 0;
	return NVML_OK;
}

/* in mW */
ENTRY int nvmlDeviceGetPowerUsage(const char *device, unsigned *power)
{
	(void)device;
	*power = 0;
	return NVML_OK;
}

/* in mJ since the driver was loaded */
ENTRY int nvmlDeviceGetTotalEnergyConsumption(const char *device, unsigned long long *energy)
{
	(void)device;
	*energy = 0;
	return NVML_OK;
}

ENTRY int nvmlDeviceGetMinorNumber(const char *device, unsigned *number)
{
	*number = (unsigned)index_of(device);
	return NVML_OK;
}

ENTRY int nvmlDeviceGetCudaComputeCapability(const char *device, int *major, int *minor)
{
	(void)device;
	*major = p4d_settings()->sm / 10;
	*minor = p4d_settings()->sm % 10;
	return NVML_OK;
}

#define NO_PROCESSES(name) \
	ENTRY int name(const char *device, unsigned *count) \
	{ \
		(void)device; \
		*count = 0; \
		return NVML_OK; \
	}
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)

ENTRY int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = p4d_settings_cuda() < 13 ? 12090 : 13020;
	return NVML_OK;
}

ENTRY int nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

ENTRY int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
	snprintf(text, room, "%s", p4d_settings_cuda() < 13 ? "575.51.03" : "595.45.04");
	return NVML_OK;
}

ENTRY int nvmlDeviceGetCpuAffinity(const char *device, unsigned words, unsigned long *mask)
{
	(void)device;
	memset(mask, 0xff, words * sizeof(*mask));
	return NVML_OK;
}

ENTRY int nvmlDeviceGetP2PStatus(const char *device, const char *peer, int kind, int *status)
{
	(void)device, (void)peer, (void)kind;
	*status = 0;
	return NVML_OK;
}
