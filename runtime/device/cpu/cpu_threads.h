/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Threads of the cpu device, by OpenMP. They divide rows, heads or blocks that do not depend on each other,
 * never a sum, so results are the same with any number of threads. Without OpenMP there is one thread.
 */
#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#endif

extern int p4d_cpu_threads; /* maximum number of threads; set by p4d_device_cpu_threads */

/*
 * Returns how many threads are worth starting for this many elements, for the num_threads of `omp parallel
 * for`.
 */
static inline int p4d_cpu_team(uint64_t numbers)
{
	const uint64_t each = 1 << 14, useful = numbers / each;

	return useful < 2 ? 1 : useful < (uint64_t)p4d_cpu_threads ? (int)useful : p4d_cpu_threads;
}

/* Like p4d_cpu_team, but at most `pieces` threads, because each piece of the work runs on one thread. */
static inline int p4d_cpu_team_of(uint64_t pieces, uint64_t numbers)
{
	const int team = p4d_cpu_team(numbers);

	return pieces < (uint64_t)team ? (int)pieces + !pieces : team;
}

/* The calling thread's number in its team, from 0. */
static inline int p4d_cpu_thread(void)
{
#ifdef _OPENMP
	return omp_get_thread_num();
#else
	return 0;
#endif
}

/* A sum over rows is divided among threads by columns. Each task has this many columns. */
enum { P4D_CPU_COLUMNS = 256 };

static inline uint64_t p4d_cpu_columns(uint64_t first, uint64_t columns)
{
	return columns - first < P4D_CPU_COLUMNS ? columns - first : P4D_CPU_COLUMNS;
}

/*
 * Working memory for each thread of a team. The first thread uses planned memory, `bytes` bytes at `first`.
 * For each other thread `bytes` bytes are allocated on the host and kept until p4d_cpu_rooms_close. If that
 * fails, the team has one thread.
 */
typedef struct p4d_cpu_rooms {
	char *first, *more;
	uint64_t bytes;
	int team;
} p4d_cpu_rooms;

p4d_cpu_rooms p4d_cpu_rooms_for(void *first, uint64_t bytes, int team);
void p4d_cpu_rooms_close(void);

static inline void *p4d_cpu_room(const p4d_cpu_rooms *rooms)
{
	const int thread = p4d_cpu_thread();

	return thread ? rooms->more + (uint64_t)(thread - 1) * rooms->bytes : rooms->first;
}
