/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces fused attention in a build without cuDNN's headers. */
#include "device/cuda/sdpa.h"

int p4d_sdpa_open(p4d_sdpa **fused, int sm, cudaStream_t stream, p4d_error *err)
{
	(void)fused, (void)sm, (void)stream;
	return p4d_fail(err, P4D_E_DEVICE, "built without cuDNN");
}

void p4d_sdpa_close(p4d_sdpa *fused)
{
	(void)fused;
}

const char *p4d_sdpa_name(const p4d_sdpa *fused)
{
	(void)fused;
	return "";
}

void p4d_sdpa_lend(p4d_sdpa *fused, void *workspace, uint64_t bytes)
{
	(void)fused, (void)workspace, (void)bytes;
}

bool p4d_sdpa_takes(p4d_sdpa *fused, const p4d_sdpa_shape *shape, const char **why)
{
	(void)fused, (void)shape;
	*why = "built without cuDNN";
	return false;
}

int p4d_sdpa_run(p4d_sdpa *fused, const p4d_sdpa_shape *shape, const p4d_sdpa_call *call, p4d_error *err)
{
	(void)fused, (void)shape, (void)call;
	return p4d_fail(err, P4D_E_DEVICE, "built without cuDNN");
}
