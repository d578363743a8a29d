/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: memory, and virtual memory, which PyTorch's expandable segments use. */
#include <pthread.h>
#include <stdlib.h>

#include "abi.h"
#include "account.h"
#include "pinned.h"
#include "settings.h"

ENTRY int cuMemAlloc_v2(void **address, size_t bytes)
{
	*address = p4d_account_take(bytes, p4d_account_device());
	return *address ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

ENTRY int cuMemFree_v2(void *address)
{
	return !address || p4d_account_give(address) ? CUDA_OK : CUDA_INVALID_VALUE;
}

ENTRY int cuMemGetInfo_v2(size_t *left, size_t *total)
{
	*total = p4d_settings()->bytes;
	*left = *total - p4d_account_used(p4d_account_device());
	return CUDA_OK;
}

ENTRY int cuMemHostAlloc(void **address, size_t bytes)
{
	*address = p4d_pinned_take(bytes, P4D_PINNED_OWN);
	return *address ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

ENTRY int cuMemFreeHost(void *address)
{
	return p4d_pinned_end(address) ? CUDA_OK : CUDA_INVALID_VALUE;
}

#define COPY(name) \
	ENTRY int name(void *to, const void *from, size_t bytes) \
	{ \
		p4d_account_copy(to, from, bytes); \
		return CUDA_OK; \
	}
COPY(cuMemcpyHtoD_v2)
COPY(cuMemcpyDtoH_v2)
COPY(cuMemcpyDtoD_v2)
COPY(cuMemcpyHtoDAsync_v2)
COPY(cuMemcpyDtoHAsync_v2)
COPY(cuMemcpyDtoDAsync_v2)
COPY(cuMemcpyAsync)

ENTRY int cuMemsetD8Async(void *to, unsigned char value, size_t bytes)
{
	p4d_account_fill(to, value, bytes);
	return CUDA_OK;
}

/* Memory without an address. owners: its creator until it releases the handle, and each mapping. */
typedef struct physical {
	uint64_t bytes;
	int device;
	unsigned owners;
} physical;
typedef struct mapping {
	char *address;
	size_t bytes;
	physical *of;
	struct mapping *next;
} mapping;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *mappings;

ENTRY int cuMemGetAllocationGranularity(size_t *bytes)
{
	*bytes = P4D_ACCOUNT_GRANULE;
	return CUDA_OK;
}

ENTRY int cuMulticastGetGranularity(size_t *bytes)
{
	return cuMemGetAllocationGranularity(bytes);
}

/* CUmemLocationType */
enum { LOCATION_DEVICE = 1 };

ENTRY int cuMemCreate(physical **handle, size_t bytes, const cuda_allocation *wanted)
{
	physical *p = malloc(sizeof(*p));

	if (!p || wanted->location.type != LOCATION_DEVICE) {
		free(p);
		return p ? CUDA_NOT_SUPPORTED : CUDA_OUT_OF_MEMORY;
	}
	*p = (physical){bytes, wanted->location.id, 1};
	if (!p4d_account_charge(bytes, p->device)) {
		free(p);
		return CUDA_OUT_OF_MEMORY;
	}
	*handle = p;
	return CUDA_OK;
}

static void disown(physical *p)
{
	if (--p->owners)
		return;
	p4d_account_discharge(p->bytes, p->device);
	free(p);
}

ENTRY int cuMemRelease(physical *handle)
{
	pthread_mutex_lock(&lock);
	disown(handle);
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cuMemAddressReserve(void **address, size_t bytes)
{
	*address = p4d_account_address(bytes);
	return *address ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

/*
 * Addresses are never used again, so a stale address cannot belong to another block. There are enough
 * addresses.
 */
ENTRY int cuMemAddressFree(void)
{
	return CUDA_OK;
}

ENTRY int cuMemMap(char *address, size_t bytes, size_t offset, physical *handle)
{
	mapping *m = malloc(sizeof(*m));

	(void)offset;
	if (!m)
		return CUDA_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	*m = (mapping){address, bytes, handle, mappings};
	mappings = m;
	handle->owners++;
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

/* Unmaps all mappings that begin in a range. */
ENTRY int cuMemUnmap(char *address, size_t bytes)
{
	pthread_mutex_lock(&lock);
	for (mapping **m = &mappings; *m;) {
		mapping *ended = *m;
		if (ended->address < address || ended->address >= address + bytes) {
			m = &ended->next;
			continue;
		}
		*m = ended->next;
		p4d_account_fill(ended->address, 0, ended->bytes);
		disown(ended->of);
		free(ended);
	}
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cuMemSetAccess(void)
{
	return CUDA_OK;
}

/*
 * CUpointer_attribute: the attributes that Triton and vLLM ask for. Pinned memory has an address on the
 * device as well.
 */
enum {
	POINTER_CONTEXT = 1,
	POINTER_TYPE = 2,
	POINTER_DEVICE = 3,
	POINTER_HOST = 4,
	POINTER_MANAGED = 8,
	POINTER_ORDINAL = 9,
	POINTER_START = 11,
	POINTER_BYTES = 12
};
/* CUmemorytype */
enum { TYPE_HOST = 1, TYPE_DEVICE = 2 };
int cuCtxGetCurrent(void **context);

static int start_of(void *value, int attribute, void *address)
{
	void *start;
	size_t bytes;

	if (!p4d_account_block(address, &start, &bytes))
		return CUDA_INVALID_VALUE;
	if (attribute == POINTER_START)
		*(void **)value = start;
	else
		*(size_t *)value = bytes;
	return CUDA_OK;
}

ENTRY int cuPointerGetAttribute(void *value, int attribute, void *address)
{
	p4d_pinned_kind kind = P4D_PINNED_OWN;
	bool on_device = p4d_account_is_device(address);
	bool known = on_device || p4d_pinned_find(address, &kind);

	if (!known && attribute != POINTER_MANAGED)
		return CUDA_INVALID_VALUE;
	switch (attribute) {
	case POINTER_CONTEXT:
		return cuCtxGetCurrent(value);
	case POINTER_TYPE:
		*(unsigned *)value = on_device || kind == P4D_PINNED_MANAGED ? TYPE_DEVICE : TYPE_HOST;
		return CUDA_OK;
	case POINTER_DEVICE:
	case POINTER_HOST:
		*(void **)value = address;
		return CUDA_OK;
	case POINTER_MANAGED:
		*(unsigned *)value = known && !on_device && kind == P4D_PINNED_MANAGED;
		return CUDA_OK;
	case POINTER_ORDINAL:
		*(int *)value = on_device ? p4d_account_device_of(address) : p4d_account_device();
		if (*(int *)value < 0)
			*(int *)value = p4d_account_device();
		return CUDA_OK;
	case POINTER_START:
	case POINTER_BYTES:
		return start_of(value, attribute, address);
	default:
		return CUDA_NOT_SUPPORTED;
	}
}
