/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/blas_kernels.h"

#include <cblas.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#define CHOICE "OPENBLAS_CORETYPE"
#define WAITING "GOMP_SPINCOUNT"
/*
 * The program sets these for its second run. REPLACED: name of the kernels that OpenBLAS chose in the first
 * run. WAITS: the first run has set GOMP_SPINCOUNT.
 */
#define REPLACED "P4D_OPENBLAS_REPLACED"
#define WAITS "P4D_OPENMP_WAITS"

static char text[80];

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcasecmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

const char *p4d_blas_kernels_for(const char *taken, bool avx2, bool avx512)
{
	/* OpenBLAS calls all of AMD's processors with AVX-512 Zen if no other name fits */
	static const char *const with_avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids", "Zen", NULL};
	static const char *const with_avx2[] = {"Haswell", "Excavator", NULL};

	if (is_one_of(taken, with_avx512))
		return NULL;
	if (avx512)
		return "SKYLAKEX";
	return avx2 && !is_one_of(taken, with_avx2) ? "HASWELL" : NULL;
}

/*
 * Returns the name of better kernels than `taken`, for features that both processor and operating system
 * support.
 */
static const char *better(const char *taken)
{
#ifdef __x86_64__
	const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
			    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");

	return p4d_blas_kernels_for(taken, avx2, avx512);
#else
	(void)taken;
	return NULL;
#endif
}

/* Removes the variables that the previous run of this program has set. True: there was such a run. */
static bool restarted(const char *taken)
{
	const char *replaced = getenv(REPLACED);
	const bool waits = getenv(WAITS), any = replaced || waits;

	if (replaced) {
		snprintf(text, sizeof(text), "OpenBLAS kernels %.20s instead of %.20s", taken, replaced);
		unsetenv(CHOICE);
	}
	if (waits)
		unsetenv(WAITING);
	unsetenv(REPLACED);
	unsetenv(WAITS);
	return any;
}

static bool set(const char *name, const char *value, const char *mark, const char *marked)
{
	return setenv(name, value, 1) == 0 && setenv(mark, marked, 1) == 0;
}

/*
 * After its part of a loop, a thread of OpenMP spins, by default for 15 ms on a processor of 2023. If other
 * processes need the core, spinning threads take time from the very thread that they wait for. So this sets
 * one millisecond, which is longer than the gap between two loops.
 */
static bool set_waiting(void)
{
#ifdef _OPENMP
	return !getenv(WAITING) && !getenv("OMP_WAIT_POLICY") && set(WAITING, "20000", WAITS, "1");
#else
	return false;
#endif
}

void p4d_blas_kernels_choose(char *const argv[])
{
	const char *taken = openblas_get_corename();

	if (restarted(taken))
		return;
	const char *choice = getenv(CHOICE) ? NULL : better(taken);
	const bool chosen = choice && set(CHOICE, choice, REPLACED, taken), waits = set_waiting();
	if (chosen || waits)
		execv("/proc/self/exe", argv);
	(void)restarted(taken);
	text[0] = '\0';
}

const char *p4d_blas_kernels_text(void)
{
	return text;
}
