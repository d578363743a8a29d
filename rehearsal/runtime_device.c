/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA runtime: devices. Sizes for each compute capability are from the table in the CUDA C++ Programming
 * Guide.
 */
#include "device.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "account.h"
#include "result.h"
#include "settings.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* The row of a device is the first one whose capability is not above the device's. */
static const p4d_device_kind kinds[] = {
    {120, 100 * KIB, 99 * KIB, 1536, 24, 96 * MIB, 512},
    {100, 228 * KIB, 227 * KIB, 2048, 32, 126 * MIB, 8192},
    {90, 228 * KIB, 227 * KIB, 2048, 32, 50 * MIB, 5120},
    {89, 100 * KIB, 99 * KIB, 1536, 24, 72 * MIB, 384},
    {86, 100 * KIB, 99 * KIB, 1536, 16, 6 * MIB, 384},
    {80, 164 * KIB, 163 * KIB, 2048, 32, 40 * MIB, 5120},
    {75, 64 * KIB, 64 * KIB, 1024, 16, 4 * MIB, 256},
    {70, 96 * KIB, 96 * KIB, 2048, 32, 6 * MIB, 4096},
    {0, 64 * KIB, 48 * KIB, 2048, 32, 4 * MIB, 4096},
};

const p4d_device_kind *p4d_device_get(void)
{
	const p4d_device_kind *d = kinds;

	while (d->sm > p4d_settings()->sm)
		d++;
	return d;
}

void p4d_device_bus_id(char *text, size_t room, int device)
{
	snprintf(text, room, "0000:%02X:00.0", (unsigned)device + 1);
}

int p4d_device_attribute(int attribute)
{
	const p4d_device_kind *d = p4d_device_get();
	const struct {
		int attribute, value;
	} values[] = {
	    {1, 1024}, /* threads per block */
	    {2, 1024}, /* and in x, y, z */
	    {3, 1024},
	    {4, 64},
	    {5, INT32_MAX}, /* blocks of a grid in x, y, z */
	    {6, 65535},
	    {7, 65535},
	    {8, 48 * KIB}, /* shared memory per block */
	    {9, 64 * KIB}, /* constant memory */
	    {10, 32},      /* threads per warp */
	    {11, INT32_MAX},
	    {12, 65536}, /* registers per block */
	    {13, 1980000},
	    {14, 512}, /* alignment of textures */
	    {15, 1},
	    {16, p4d_settings()->multiprocessors},
	    {19, 1}, /* maps host memory */
	    {31, 1}, /* concurrent kernels */
	    {33, p4d_account_device() + 1},
	    {36, 2619000},
	    {37, d->bus_bits},
	    {38, d->l2_bytes},
	    {39, d->threads},
	    {40, 3}, /* copy engines */
	    {41, 1}, /* unified addresses */
	    {75, p4d_settings()->sm / 10},
	    {76, p4d_settings()->sm % 10},
	    {78, 1}, /* priorities of streams */
	    {79, 1},
	    {80, 1},
	    {81, (int)d->shared_bytes},
	    {82, 65536},
	    {83, 1}, /* managed memory */
	    {89, 1}, /* memory that host and device may use at the same time */
	    {90, 1},
	    {95, 1}, /* cooperative launches */
	    {97, (int)d->block_shared_bytes},
	    {99, 1},  /* registers host memory */
	    {102, 1}, /* virtual memory */
	    {106, d->blocks},
	    {111, 1 * KIB}, /* shared memory per block that the system reserves */
	    {115, 1},       /* memory pools */
	    {120, p4d_settings()->sm >= 90},
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].attribute == attribute)
			return values[i].value;
	return 0;
}

ENTRY int cudaGetDeviceCount(int *count)
{
	*count = p4d_settings()->devices;
	return CUDA_OK;
}

ENTRY int cudaGetDevice(int *device)
{
	*device = p4d_account_device();
	return CUDA_OK;
}

ENTRY int cudaSetDevice(int device)
{
	return p4d_result(p4d_account_set_device(device) ? CUDA_OK : CUDA_INVALID_DEVICE);
}

ENTRY int cudaDriverGetVersion(int *version)
{
	*version = p4d_settings_cuda() < 13 ? 12090 : 13020;
	return CUDA_OK;
}

ENTRY int cudaRuntimeGetVersion(int *version)
{
	return cudaDriverGetVersion(version);
}

ENTRY int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer;
	return CUDA_OK;
}

ENTRY int cudaDeviceEnablePeerAccess(void)
{
	return CUDA_OK;
}

ENTRY int cudaDeviceDisablePeerAccess(void)
{
	return CUDA_OK;
}

ENTRY int cudaDeviceGetPCIBusId(char *text, int room, int device)
{
	p4d_device_bus_id(text, room > 0 ? (size_t)room : 0, device);
	return CUDA_OK;
}

/* enum cudaLimit: 0 is the stack of a thread */
ENTRY int cudaDeviceGetLimit(size_t *value, int limit)
{
	*value = limit ? 8 * MIB : 1 * KIB;
	return CUDA_OK;
}

ENTRY int cudaDeviceSetLimit(void)
{
	return CUDA_OK;
}

ENTRY int cudaDeviceGetGraphMemAttribute(int device, int attribute, uint64_t *value)
{
	(void)device, (void)attribute;
	*value = 0;
	return CUDA_OK;
}

ENTRY int cudaDeviceSetGraphMemAttribute(void)
{
	return CUDA_OK;
}

ENTRY int cudaDeviceGetAttribute(int *value, int attribute)
{
	*value = p4d_device_attribute(attribute);
	return CUDA_OK;
}

/*
 * struct cudaDeviceProp: the members that are set, with their offsets in CUDA 12 and in CUDA 13. `attribute`
 * is the number of the attribute with the member's value; -1: a line below sets the value.
 */
static const struct {
	unsigned short at_12, at_13;
	short attribute;
	bool is_size;
} properties[] = {
    {296, 296, 8, true},    {304, 304, 12, false},  {308, 308, 10, false}, {320, 320, 1, false},
    {324, 324, 2, false},   {328, 328, 3, false},   {332, 332, 4, false},  {336, 336, 5, false},
    {340, 340, 6, false},   {344, 344, 7, false},   {352, 352, 9, true},   {360, 360, 75, false},
    {364, 364, 76, false},  {368, 368, 14, true},   {388, 384, 16, false}, {400, 392, 19, false},
    {576, 560, 31, false},  {600, 584, 40, false},  {604, 588, 41, false}, {612, 592, 37, false},
    {616, 596, 38, false},  {624, 604, 39, false},  {640, 624, 81, true},  {648, 632, 82, false},
    {652, 636, 83, false},  {676, 656, 89, false},  {680, 660, 90, false}, {688, 668, 95, false},
    {696, 672, 97, true},   {712, 688, 106, false}, {720, 696, 111, true}, {728, 704, 99, false},
    {744, 720, 115, false}, {772, 748, 120, false},
};
enum { PROPERTIES_12 = 1032, PROPERTIES_13 = 1008, AT_UUID = 256, UUID_BYTES = 16, AT_MEMORY = 288 };

static void fill_properties(char *p, int device, bool is_12)
{
	const p4d_rehearsal_settings *s = p4d_settings();
	int bus = device + 1;

	memset(p, 0, is_12 ? PROPERTIES_12 : PROPERTIES_13);
	snprintf(p, AT_UUID, "%s", s->name);
	memset(p + AT_UUID, bus, UUID_BYTES);
	memcpy(p + AT_MEMORY, &s->bytes, sizeof(s->bytes));
	memcpy(p + (is_12 ? 584 : 568), &bus, sizeof(bus));
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
		int value = p4d_device_attribute(properties[i].attribute);
		size_t size = (size_t)value;
		char *at = p + (is_12 ? properties[i].at_12 : properties[i].at_13);
		if (properties[i].is_size)
			memcpy(at, &size, sizeof(size));
		else
			memcpy(at, &value, sizeof(value));
	}
}

/* The name of this function in CUDA 12.0 to 12.9. */
ENTRY int cudaGetDeviceProperties_v2(char *p, int device)
{
	fill_properties(p, device, true);
	return CUDA_OK;
}

ENTRY int cudaGetDeviceProperties(char *p, int device)
{
	fill_properties(p, device, p4d_settings_cuda() < 13);
	return CUDA_OK;
}
