/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces NVML, with four GPUs whose minor numbers are 3, 2, 1 and 0. The variable FAKE_NVML has lines
 * "MINOR PID GIB START_S" for processes that accounting knows, and "MINOR off" for GPUs without accounting
 * mode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 4, OK = 0, NOT_FOUND = 6 };

typedef struct stats {
	unsigned gpu_percent, memory_percent;
	unsigned long long most_bytes, time_ms, start_us;
	unsigned is_running, reserved[5];
} stats;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor);
int nvmlDeviceGetAccountingMode(void *device, int *mode);
int nvmlDeviceGetAccountingPids(void *device, unsigned *count, unsigned *pids);
int nvmlDeviceGetAccountingStats(void *device, unsigned pid, stats *out);

static char devices[DEVICES];

static unsigned minor_of(void *device)
{
	return (unsigned)(DEVICES - 1 - ((char *)device - devices));
}

/* The first line of FAKE_NVML about a device, or the next one after `at`. NULL: there is none. */
static const char *next_line(const char *at, unsigned minor)
{
	at = at ? strchr(at, '\n') : getenv("FAKE_NVML");
	for (at += at && *at == '\n'; at && *at; at = strchr(at, '\n'), at += at != NULL)
		if (strtoul(at, NULL, 10) == minor)
			return at;
	return NULL;
}

int nvmlInit_v2(void)
{
	return getenv("FAKE_NVML") ? OK : 9;
}

int nvmlShutdown(void)
{
	return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = DEVICES;
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &devices[index];
	return index < DEVICES ? OK : NOT_FOUND;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *minor)
{
	*minor = minor_of(device);
	return OK;
}

int nvmlDeviceGetAccountingMode(void *device, int *mode)
{
	*mode = 1;
	for (const char *at = NULL; (at = next_line(at, minor_of(device)));)
		*mode = *mode && strncmp(at + 1, " off", 4) != 0;
	return OK;
}

int nvmlDeviceGetAccountingPids(void *device, unsigned *count, unsigned *pids)
{
	unsigned minor, found = 0;

	for (const char *at = NULL; (at = next_line(at, minor_of(device)));)
		found += found < *count && sscanf(at, "%u %u", &minor, &pids[found]) == 2;
	*count = found;
	return OK;
}

int nvmlDeviceGetAccountingStats(void *device, unsigned pid, stats *out)
{
	unsigned minor, of;
	double gib;
	long long start;

	for (const char *at = NULL; (at = next_line(at, minor_of(device)));)
		if (sscanf(at, "%u %u %lf %lld", &minor, &of, &gib, &start) == 4 && of == pid) {
			out->most_bytes = gib < 0 ? ~0ull : (unsigned long long)(gib * (1 << 30));
			out->start_us = (unsigned long long)start * 1000000;
			return OK;
		}
	return NOT_FOUND;
}
