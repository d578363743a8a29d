/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "device/device.h"
#include "run/job_plan.h"
#include "run/rank_cores.h"
#include "run/settings.h"

/*
 * For a run in which neither the plan nor the command line names a device: cuda if there is a GPU, else cpu.
 * Stores the choice in the request. why: if the choice is the cpu, the reason why no GPU can be used.
 */
void p4d_choose_device(p4d_settings *settings, p4d_error *why);

/* Opens the device. cores: filled only for the cpu without --threads. Errors: DEVICE, NO_MEMORY. */
int p4d_open_device(p4d_device *device, const p4d_settings *settings, const p4d_job_plan *plan,
		    const p4d_ranks *ranks, p4d_cores_now *cores, p4d_error *err);

/*
 * If the plan keeps tensors of a GPU on the host, opens the cpu device in addition. It gets as many threads
 * as this rank has cores. Otherwise *host does not change.
 */
int p4d_open_host(p4d_device *host, const p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err);
