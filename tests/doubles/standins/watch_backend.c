/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of a libp4d-cuda.so that is linked with the rehearsal's stand-ins. It writes the stand-ins' counts
 * at the events of watch.h, and gives the backend the stand-ins' cuDNN. The linker's --wrap redirects
 * calls to these functions.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "doubles/standins/watch.h"
#include "model/net.h"
#include "report.h"

cudaError_t __real_cudaMemGetInfo(size_t *left, size_t *total);
cudaError_t __wrap_cudaMemGetInfo(size_t *left, size_t *total);
cudaError_t __real_cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cublasStatus_t __real_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
						     cublasLtMatmulDescAttributes_t attribute,
						     const void *value, size_t bytes);
cublasStatus_t __wrap_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
						     cublasLtMatmulDescAttributes_t attribute,
						     const void *value, size_t bytes);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

static void note(const char *moment)
{
	char text[P4D_REPORT_COUNTS * 22] = "";
	size_t left = 0, total = 0, used = 0;

	__real_cudaMemGetInfo(&left, &total);
	for (int i = 0; i < P4D_REPORT_COUNTS; i++)
		used +=
		    (size_t)snprintf(text + used, sizeof(text) - used, " %" PRIu64, p4d_report_count_of(i));
	watch_line("%s %zu%s", moment, total - left, text);
}

cudaError_t __wrap_cudaMemGetInfo(size_t *left, size_t *total)
{
	note("asked");
	return __real_cudaMemGetInfo(left, total);
}

/* A step begins where p4d_net_begin clears the step's scalars. Nothing else clears memory of this size. */
cudaError_t __wrap_cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
	if (bytes == sizeof(p4d_scalars))
		note("began");
	return __real_cudaMemsetAsync(to, value, bytes, stream);
}

/* Records matmuls that are limited to some of the multiprocessors. */
cublasStatus_t __wrap_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
						     cublasLtMatmulDescAttributes_t attribute,
						     const void *value, size_t bytes)
{
	if (attribute == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET)
		watch_line("target %d", (int)*(const int32_t *)value);
	return __real_cublasLtMatmulDescSetAttribute(description, attribute, value, bytes);
}

__attribute__((destructor)) static void end(void)
{
	note("ended");
}

/* Looks for a function of cuDNN in the stand-ins first, and then in cuDNN's library, as the dynamic linker
 * does for programs that link cuDNN. */
void *__wrap_dlsym(void *library, const char *name)
{
	void *standins = dlopen("libp4d-rehearsal.so", RTLD_NOW | RTLD_NOLOAD);
	void *own = standins && !strncmp(name, "cudnn", 5) ? __real_dlsym(standins, name) : NULL;

	return own ? own : __real_dlsym(library, name);
}
