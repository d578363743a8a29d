/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "run/rank_cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cgroup's quota in cores, rounded up; 0: it has none. */
static uint32_t quota_of(const char *folder)
{
	char path[4200];
	unsigned long long quota, period;

	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", folder);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	const bool limited = fscanf(file, "%llu %llu", &quota, &period) == 2 && period;
	fclose(file);
	return limited ? (uint32_t)((quota + period - 1) / period) : 0;
}

/*
 * Returns the smallest quota of this process's cgroup (version 2) and of its parent cgroups; 0: none has a
 * quota.
 */
static uint32_t quota(void)
{
	char line[4096];
	uint32_t least = 0;
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		char *folder = line + 3;
		folder[strcspn(folder, "\n")] = '\0';
		for (char *end; (end = strrchr(folder, '/')); *end = '\0') {
			const uint32_t one = quota_of(folder);
			least = one && (!least || one < least) ? one : least;
		}
	}
	if (file)
		fclose(file);
	return least;
}

uint32_t p4d_rank_cores(uint32_t ranks, bool forked)
{
	const char *on_node = getenv("SLURM_CPUS_ON_NODE");
	cpu_set_t set;
	uint32_t cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
	const bool shared = forked || !on_node || strtoul(on_node, NULL, 10) <= cores;
	const uint32_t most = quota();

	cores = shared && ranks ? cores / ranks : cores;
	if (most && ranks && cores > most / ranks)
		cores = most / ranks;
	return cores ? cores : 1;
}

/*
 * Shares of the time in which the main thread waited for a core, between which the number of threads changes.
 * If two processes share a core, each waits half of the time.
 */
static const double busy = 0.2, crowded = 0.05, idle = 0.01;

/*
 * Returns the seconds in which the main thread could run but had no core; below 0: the kernel does not tell.
 * *ran: the seconds in which it ran.
 */
static double waited_for_core(double *ran)
{
	unsigned long long on, off;
	FILE *file = fopen("/proc/self/schedstat", "re");

	if (!file)
		return -1;
	const bool found = fscanf(file, "%llu %llu", &on, &off) == 2;
	fclose(file);
	*ran = found ? 1e-9 * (double)on : 0;
	return found ? 1e-9 * (double)off : -1;
}

uint32_t p4d_cores_begin(p4d_cores_now *cores, uint32_t most)
{
	double ran = 0;

	*cores = (p4d_cores_now){.most = most, .now = most, .waited = waited_for_core(&ran)};
	if (cores->waited > busy * (ran + cores->waited))
		cores->now = 1;
	return cores->now;
}

bool p4d_cores_follow(p4d_cores_now *cores, double seconds)
{
	double ran;

	return cores->most > 1 && p4d_cores_decide(cores, seconds, waited_for_core(&ran));
}

bool p4d_cores_decide(p4d_cores_now *cores, double seconds, double waited)
{
	const uint32_t before = cores->now;

	if (waited < 0 || cores->waited < 0 || !(seconds > 0))
		return false;
	const double share = (waited - cores->waited) / seconds;
	cores->waited = waited;
	if (share > busy)
		cores->now = 1;
	else if (share > crowded && cores->now > 1)
		cores->now /= 2;
	else if (share < idle && cores->now < cores->most)
		cores->now = cores->most / 2 < cores->now ? cores->most : 2 * cores->now;
	return cores->now != before;
}
