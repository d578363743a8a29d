/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime: errors. */
#include "abi.h"
#include "result.h"

static _Thread_local int last;

int p4d_result(int result)
{
	if (result)
		last = result;
	return result;
}

ENTRY int cudaGetLastError(void)
{
	int result = last;

	last = CUDA_OK;
	return result;
}

ENTRY int cudaPeekAtLastError(void)
{
	return last;
}

static const struct {
	int result;
	const char *name, *text;
} errors[] = {
    {CUDA_OK, "cudaSuccess", "no error"},
    {CUDA_INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"},
    {CUDA_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "out of memory"},
    {CUDA_INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {CUDA_NOT_SUPPORTED, "cudaErrorNotSupported", "operation not supported"},
    {CUDA_UNKNOWN, "cudaErrorUnknown", "unknown error"},
};

ENTRY const char *cudaGetErrorName(int result)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].result == result)
			return errors[i].name;
	return "cudaErrorUnknown";
}

ENTRY const char *cudaGetErrorString(int result)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].result == result)
			return errors[i].text;
	return "unknown error";
}
