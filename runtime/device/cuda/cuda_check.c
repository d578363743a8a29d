/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the first failure of the GPU, with the operation that noticed it. */
#include "device/cuda/cuda_internal.h"

void p4d_cuda_check(p4d_cuda *c, cudaError_t status, const char *what)
{
	if (status == cudaSuccess || c->failure.code != P4D_OK)
		return;
	p4d_fail(&c->failure, P4D_E_DEVICE, "the GPU failed, detected at %s: %s", what,
		 cudaGetErrorString(status));
	if (!c->careful)
		p4d_fix(&c->failure,
			"to find the failing operation, set P4D_CUDA_SYNC=1, which makes p4d-train slow");
}

void p4d_cuda_queued(p4d_cuda *c, const char *operation)
{
	p4d_cuda_check(c, cudaGetLastError(), operation);
	if (c->careful)
		p4d_cuda_check(c, cudaStreamSynchronize(c->stream), operation);
}
