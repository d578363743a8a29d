/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_gpus.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Values from NVML's header, so that the build does not need it. */
enum { NVML_OK = 0, NVML_ON = 1, MOST_DEVICES = 64, MOST_PIDS = 4000 };
#define NVML_NOT_AVAILABLE UINT64_MAX

typedef struct nvml_stats {
	unsigned gpu_percent, memory_percent;
	unsigned long long most_bytes, time_ms, start_us;
	unsigned is_running, reserved[5];
} nvml_stats;

typedef struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned *count);
	int (*device)(unsigned index, void **device);
	int (*minor)(void *device, unsigned *minor);
	int (*mode)(void *device, int *mode);
	int (*pids)(void *device, unsigned *count, unsigned *pids);
	int (*stats)(void *device, unsigned pid, nvml_stats *stats);
} nvml;

static uint64_t step_start_us;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Looks up all functions of NVML; false: one is missing. */
static bool look_up(void *library, nvml *n)
{
	const struct {
		const char *name;
		void *to;
	} of[] = {{"nvmlInit_v2", &n->init},
		  {"nvmlShutdown", &n->shutdown},
		  {"nvmlDeviceGetCount_v2", &n->count},
		  {"nvmlDeviceGetHandleByIndex_v2", &n->device},
		  {"nvmlDeviceGetMinorNumber", &n->minor},
		  {"nvmlDeviceGetAccountingMode", &n->mode},
		  {"nvmlDeviceGetAccountingPids", &n->pids},
		  {"nvmlDeviceGetAccountingStats", &n->stats}};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		void *function = dlsym(library, of[i].name);
		if (!function)
			return false;
		memcpy(of[i].to, &function, sizeof(function));
	}
	return true;
}

/* Whether a number is in a list such as "0,2-3". */
static bool is_listed(const char *list, unsigned number)
{
	unsigned first, last;
	int length;

	for (const char *at = list; *at; at += strspn(at, ",")) {
		if (sscanf(at, "%u-%u%n", &first, &last, &length) < 2) {
			if (sscanf(at, "%u%n", &first, &length) != 1)
				return false;
			last = first;
		}
		if (number >= first && number <= last)
			return true;
		at += length;
	}
	return false;
}

static void read_device(const nvml *n, void *device, unsigned minor, uint64_t since, p4d_spank_gpus *out)
{
	unsigned pid[MOST_PIDS];
	unsigned count = MOST_PIDS;
	int mode = 0;
	nvml_stats stats;

	if (n->mode(device, &mode) != NVML_OK || mode != NVML_ON) {
		out->without_mode++;
		return;
	}
	out->gpus++;
	if (n->pids(device, &count, pid) != NVML_OK)
		return;
	for (unsigned i = 0; i < count && i < MOST_PIDS; i++) {
		memset(&stats, 0, sizeof(stats));
		if (n->stats(device, pid[i], &stats) != NVML_OK || stats.start_us < since ||
		    stats.most_bytes == NVML_NOT_AVAILABLE || stats.most_bytes <= out->bytes)
			continue;
		out->bytes = stats.most_bytes;
		out->gpu = minor;
	}
}

static void read_devices(const nvml *n, const char *list, uint64_t since, p4d_spank_gpus *out)
{
	unsigned count = 0, minor;
	void *device;

	if (n->count(&count) != NVML_OK)
		return;
	for (unsigned i = 0; i < count && i < MOST_DEVICES; i++)
		if (n->device(i, &device) == NVML_OK && n->minor(device, &minor) == NVML_OK &&
		    is_listed(list, minor))
			read_device(n, device, minor, since, out);
}

bool p4d_spank_gpus_read(const char *library, const char *list, uint64_t since, p4d_spank_gpus *out)
{
	void *driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	nvml n;

	*out = (p4d_spank_gpus){.bytes = 0};
	/* the library stays open: slurmstepd ends soon, and Slurm may have opened it as well */
	if (!driver || !look_up(driver, &n) || n.init() != NVML_OK)
		return false;
	read_devices(&n, list, since, out);
	n.shutdown();
	return true;
}

void p4d_spank_gpus_start(void)
{
	step_start_us = now_us();
}

static bool is_wanted(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], "measure=nvml"))
			return true;
	return false;
}

/* Lists the GPUs of the step; if these are unknown, the GPUs of the job. */
static bool list_of(spank_t spank, char *list, int size)
{
	return spank_getenv(spank, "SLURM_STEP_GPUS", list, size) == ESPANK_SUCCESS ||
	       spank_getenv(spank, "SLURM_JOB_GPUS", list, size) == ESPANK_SUCCESS;
}

void p4d_spank_gpus_task_ended(spank_t spank, int argc, char **argv)
{
	static uint32_t ended;
	uint32_t tasks = 0, job_id = 0, step_id = 0, node = 0;
	p4d_spank_gpus gpus;
	char list[512];

	if (!is_wanted(argc, argv) ||
	    spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || ++ended != tasks ||
	    !list_of(spank, list, sizeof(list)) ||
	    !p4d_spank_gpus_read("libnvidia-ml.so.1", list, step_start_us, &gpus))
		return;
	spank_get_item(spank, S_JOB_ID, &job_id);
	spank_get_item(spank, S_JOB_STEPID, &step_id);
	spank_get_item(spank, S_JOB_NODEID, &node);
	if (gpus.without_mode)
		slurm_info("p4d: event=\"end\" job_id=\"%" PRIu32 "\" step_id=\"%" PRIu32 "\" node=\"%" PRIu32
			   "\" max_gib=\"\" gpu=\"\" text=\"accounting mode is off on %u GPUs; fix: "
			   "nvidia-smi -am 1\"",
			   job_id, step_id, node, gpus.without_mode);
	else if (gpus.bytes)
		slurm_info("p4d: event=\"end\" job_id=\"%" PRIu32 "\" step_id=\"%" PRIu32 "\" node=\"%" PRIu32
			   "\" max_gib=\"%.2f\" gpu=\"%u\" text=\"\"",
			   job_id, step_id, node, (double)gpus.bytes / (1 << 30), gpus.gpu);
}
