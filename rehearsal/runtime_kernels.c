/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime: kernels, which are counted and do nothing, and the symbols of device code. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "account.h"
#include "report.h"
#include "result.h"
#include "settings.h"

static int launched(void)
{
	p4d_report_add(P4D_REPORT_LAUNCHES, 1);
	return CUDA_OK;
}

ENTRY int cudaLaunchKernel(void)
{
	return launched();
}

ENTRY int cudaLaunchKernelExC(void)
{
	return launched();
}

ENTRY int cudaLaunchCooperativeKernel(void)
{
	return launched();
}

ENTRY int __cudaLaunchKernel(void)
{
	return launched();
}

/*
 * The architecture that a kernel was compiled for. If the binary lacks the GPU's own architecture, the GPU
 * runs code of the next lower minor version. CUB chooses its parameters by this number, and fails if the
 * number is wrong.
 */
static int compiled_for(int sm)
{
	static const int built[] = {120, 100, 90, 86, 80,
				    75,  70,  60, 50}; /* architectures in PyTorch's
							* wheels */

	for (size_t i = 0; i < sizeof(built) / sizeof(built[0]); i++)
		if (built[i] <= sm)
			return built[i];
	return sm;
}

ENTRY int cudaFuncGetAttributes(cuda_function *a)
{
	memset(a, 0, sizeof(*a));
	a->max_threads = 1024;
	a->registers = 32;
	a->ptx = a->binary = compiled_for(p4d_settings()->sm);
	a->max_dynamic_shared_bytes = 48 << 10;
	return CUDA_OK;
}

ENTRY int cudaFuncSetAttribute(void)
{
	return CUDA_OK;
}

ENTRY int cudaFuncSetCacheConfig(void)
{
	return CUDA_OK;
}

ENTRY int cudaKernelSetAttributeForDevice(void)
{
	return CUDA_OK;
}

ENTRY int cudaGetFuncBySymbol(const void **function, const void *symbol)
{
	*function = symbol;
	return CUDA_OK;
}

ENTRY int __cudaGetKernel(const void **kernel, const void *symbol)
{
	return cudaGetFuncBySymbol(kernel, symbol);
}

ENTRY int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks)
{
	*blocks = 2;
	return CUDA_OK;
}

ENTRY int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks);
}

ENTRY int cudaOccupancyMaxActiveClusters(int *clusters)
{
	*clusters = p4d_settings()->multiprocessors / 2;
	return CUDA_OK;
}

ENTRY int cudaOccupancyMaxPotentialClusterSize(int *size)
{
	*size = 8;
	return CUDA_OK;
}

/* Arguments of a launch with <<< >>>, which the compiler's code stores before the launch and reads in it. */
typedef struct configuration {
	cuda_dim grid, block;
	size_t shared_bytes;
	void *stream;
} configuration;
enum { NESTED = 8 };
static _Thread_local configuration pushed[NESTED];
static _Thread_local int depth;

ENTRY unsigned __cudaPushCallConfiguration(cuda_dim grid, cuda_dim block, size_t shared_bytes, void *stream)
{
	if (depth == NESTED)
		return CUDA_INVALID_VALUE;
	pushed[depth++] = (configuration){grid, block, shared_bytes, stream};
	return CUDA_OK;
}

ENTRY int __cudaPopCallConfiguration(cuda_dim *grid, cuda_dim *block, size_t *shared_bytes, void **stream)
{
	if (!depth)
		return CUDA_INVALID_VALUE;
	const configuration *c = &pushed[--depth];
	*grid = c->grid;
	*block = c->block;
	*shared_bytes = c->shared_bytes;
	*stream = c->stream;
	return CUDA_OK;
}

/* Registers the device code of a library when that is loaded. */
ENTRY void **__cudaRegisterFatBinary(void)
{
	static void *handle[2];

	return handle;
}

ENTRY void __cudaRegisterFatBinaryEnd(void)
{
}

ENTRY void __cudaUnregisterFatBinary(void)
{
}

ENTRY char __cudaInitModule(void)
{
	return 1;
}

ENTRY void __cudaRegisterFunction(void)
{
}

/* A variable of device code. symbol: the address of its shadow on the host. */
typedef struct variable {
	const void *symbol;
	size_t bytes;
	void *address;
	struct variable *next;
} variable;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static variable *variables;

static void add_variable(const void *symbol, size_t bytes)
{
	variable *v = malloc(sizeof(*v));

	if (!v)
		return;
	pthread_mutex_lock(&lock);
	*v = (variable){symbol, bytes, NULL, variables};
	variables = v;
	pthread_mutex_unlock(&lock);
}

ENTRY void __cudaRegisterVar(void **handle, char *symbol, char *address, const char *name, int external,
			     size_t bytes)
{
	(void)handle, (void)address, (void)name, (void)external;
	add_variable(symbol, bytes);
}

static variable *find_variable(const void *symbol)
{
	for (variable *v = variables; v; v = v->next)
		if (v->symbol == symbol)
			return v;
	return NULL;
}

ENTRY int cudaGetSymbolAddress(void **address, const void *symbol)
{
	pthread_mutex_lock(&lock);
	variable *v = find_variable(symbol);
	if (v && !v->address)
		v->address = p4d_account_address(
		    v->bytes); /* its memory is part of the code's, which the context includes */
	*address = v ? v->address : NULL;
	pthread_mutex_unlock(&lock);
	return p4d_result(*address ? CUDA_OK : CUDA_INVALID_VALUE);
}

ENTRY int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset)
{
	void *address;
	int result = cudaGetSymbolAddress(&address, symbol);

	if (!result)
		p4d_account_copy((char *)address + offset, from, bytes);
	return result;
}

ENTRY int cudaProfilerStart(void)
{
	return CUDA_OK;
}

ENTRY int cudaProfilerStop(void)
{
	return CUDA_OK;
}
