/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA runtime: stream-ordered pools (cudaMallocAsync). The used memory is exact. How much memory a pool
 * keeps is not documented. p4d assumes that a pool keeps the peak of its used memory, rounded up to 32 MiB,
 * until it is trimmed.
 */
#include <pthread.h>

#include "abi.h"
#include "account.h"
#include "report.h"
#include "result.h"
#include "settings.h"

/* enum cudaMemPoolAttr */
enum { RESERVED_NOW = 5, RESERVED_MOST = 6, USED_NOW = 7, USED_MOST = 8 };
enum { POOL_STEP = 32 << 20 };

typedef struct pool {
	uint64_t used, most, kept;
} pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pool pools[P4D_REHEARSAL_DEVICES];

static void count(pool *p, uint64_t bytes)
{
	p->used += bytes;
	if (p->used > p->most)
		p->most = p->used;
	if (p->used > p->kept)
		p->kept = (p->used + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
}

ENTRY int cudaMallocAsync(void **address, size_t bytes)
{
	int device = p4d_account_device();

	*address = p4d_account_take(bytes, device);
	if (!*address)
		return p4d_result(CUDA_OUT_OF_MEMORY);
	p4d_report_doubt("the program uses a memory pool of CUDA (cudaMallocAsync); how much memory the pool "
			 "keeps is an assumption");
	pthread_mutex_lock(&lock);
	count(&pools[device], (bytes + 511) / 512 * 512);
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaMallocFromPoolAsync(void **address, size_t bytes)
{
	return cudaMallocAsync(address, bytes);
}

ENTRY int cudaFreeAsync(void *address)
{
	void *start;
	size_t bytes;
	int device = p4d_account_device_of(address);

	if (device < 0 || !p4d_account_block(address, &start, &bytes) || start != address)
		return p4d_result(CUDA_INVALID_VALUE);
	pthread_mutex_lock(&lock);
	pools[device].used -= bytes;
	pthread_mutex_unlock(&lock);
	p4d_account_give(address);
	return CUDA_OK;
}

ENTRY int cudaDeviceGetDefaultMemPool(void **p, int device)
{
	if (device < 0 || device >= p4d_settings()->devices)
		return p4d_result(CUDA_INVALID_DEVICE);
	*p = &pools[device];
	return CUDA_OK;
}

ENTRY int cudaDeviceGetMemPool(void **p, int device)
{
	return cudaDeviceGetDefaultMemPool(p, device);
}

ENTRY int cudaMemPoolGetAttribute(pool *p, int attribute, uint64_t *value)
{
	pthread_mutex_lock(&lock);
	switch (attribute) {
	case RESERVED_NOW:
	case RESERVED_MOST:
		*value = p->kept;
		break;
	case USED_NOW:
		*value = p->used;
		break;
	case USED_MOST:
		*value = p->most;
		break;
	default:
		*value = 0;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaMemPoolSetAttribute(pool *p, int attribute, const void *value)
{
	(void)value;
	pthread_mutex_lock(&lock);
	if (attribute == USED_MOST)
		p->most = p->used;
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaMemPoolTrimTo(pool *p, size_t bytes)
{
	pthread_mutex_lock(&lock);
	p->kept = p->used > bytes ? p->used : bytes < p->kept ? bytes : p->kept;
	pthread_mutex_unlock(&lock);
	return CUDA_OK;
}

ENTRY int cudaMemPoolSetAccess(void)
{
	return CUDA_OK;
}
