/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "slurm_compat.h"

/*
 * The peak memory of a step's GPUs, from NVML's accounting mode (nvidia-smi -am 1). It is read only with
 * `measure=nvml` in plugstack.conf, because opening the driver takes time on a node without persistence
 * mode.
 */

/* Measurements of the GPU whose memory was used most. */
typedef struct p4d_spank_gpus {
	uint64_t bytes;        /* peak of the process that held most */
	unsigned gpu;          /* minor number of this GPU */
	unsigned gpus;         /* GPUs of the step with accounting mode on */
	unsigned without_mode; /* GPUs of the step with accounting mode off */
} p4d_spank_gpus;

/*
 * library: libnvidia-ml.so.1. list: minor numbers, "0,2-3". since: microseconds since 1970; processes that
 * started earlier belong to other steps. False: there is no driver, or it lacks a function.
 */
bool p4d_spank_gpus_read(const char *library, const char *list, uint64_t since, p4d_spank_gpus *out);

/*
 * Called when a step starts, and after each of its tasks. After the last task on a node, writes a line into
 * slurmd's log.
 */
void p4d_spank_gpus_start(void);
void p4d_spank_gpus_task_ended(spank_t spank, int argc, char **argv);
