/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "device/device.h"
#include "run/job_plan.h"
#include "run/rank_cores.h"
#include "run/settings.h"

/*
 * For a run in which neither the plan nor the command line names a device: cuda if there is a GPU, else cpu.
 * Stores it in the request. why: for a cpu that nobody chose, why it is not a GPU.
 */
void p4d_choose_device(p4d_settings *settings, p4d_error *why);

/* Opens the plan's device. cores: filled on the cpu without --threads. Errors: DEVICE, NO_MEMORY. */
int p4d_open_device(p4d_device *device, const p4d_settings *settings, const p4d_job_plan *plan,
		    const p4d_ranks *ranks, p4d_cores_now *cores, p4d_error *err);

/* Opens the cpu in addition to a GPU, if the plan keeps tensors on the host; with this rank's share of the
 * cores. Otherwise *host does not change. */
int p4d_open_host(p4d_device *host, const p4d_settings *settings, const p4d_job_plan *plan, p4d_error *err);
