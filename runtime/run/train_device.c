/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the device of a run. */
#include "run/train_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cpu/blas_kernels.h"
#include "device/device_cuda.h"
#include "run/rank_cores.h"

void p4d_choose_device(p4d_settings *settings, p4d_error *why)
{
	if (p4d_is_set(&settings->request, P4D_DEVICE))
		return;
	const bool there = p4d_device_cuda_there(why);
	p4d_request_put(&settings->request, P4D_DEVICE, there ? P4D_CUDA : P4D_CPU, P4D_BY_P4D);
}

/* This rank's index among the ranks of this host. */
static uint32_t local_rank(const p4d_settings *settings, const p4d_ranks *ranks)
{
	const char *text = getenv("SLURM_LOCALID");

	if (settings->launched)
		return ranks->local;
	return settings->local_ranks || !text ? ranks->rank : (uint32_t)strtoul(text, NULL, 10);
}

static uint32_t own_cores(const p4d_settings *settings, const p4d_job_plan *plan)
{
	return p4d_rank_cores((uint32_t)plan->layout.gpus_per_node,
			      settings->local_ranks > 0 || settings->launched);
}

int p4d_open_host(p4d_device *host, const p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err)
{
	if (plan->layout.device == P4D_CPU || !plan->layout.offload)
		return 0;
	if (p4d_device_cpu_open(host, err) < 0)
		return -1;
	p4d_device_cpu_threads(own_cores(settings, plan));
	return 0;
}

int p4d_open_device(p4d_device *device, const p4d_settings *settings, const p4d_job_plan *plan,
		    const p4d_ranks *ranks, p4d_cores_now *cores, p4d_error *err)
{
	if (plan->layout.device != P4D_CPU) {
		if (settings->threads != UINT64_MAX)
			return p4d_fail(err, P4D_E_USAGE, "--threads has no effect without --device cpu");
		return p4d_device_cuda_load(device, local_rank(settings, ranks), err);
	}
	if (p4d_device_cpu_open(device, err) < 0)
		return -1;
	const uint32_t threads =
	    settings->threads != UINT64_MAX ? (uint32_t)settings->threads : own_cores(settings, plan);
	if (settings->threads != UINT64_MAX)
		p4d_device_cpu_threads(threads);
	else
		p4d_device_cpu_threads(p4d_cores_begin(cores, threads));
	const char *kernels = p4d_blas_kernels_text();
	int used = snprintf(device->text, sizeof(device->text), "cpu");
	if (threads > 1)
		used += snprintf(device->text + used, sizeof(device->text) - (size_t)used,
				 ", %" PRIu32 " threads", threads);
	if (*kernels)
		snprintf(device->text + used, sizeof(device->text) - (size_t)used, ", %s", kernels);
	return 0;
}
