/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/blas_kernels.h"

#include <cblas.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#define CHOICE "OPENBLAS_CORETYPE"
#define REPLACED "P4D_OPENBLAS_REPLACED" /* only from one run of this program to the next */

static char text[80];

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcasecmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

const char *p4d_blas_kernels_for(const char *taken, bool avx2, bool avx512)
{
	/* AMD's with AVX-512 are known as Zen: what it takes for those is left */
	static const char *const with_avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids", "Zen", NULL};
	static const char *const with_avx2[] = {"Haswell", "Excavator", NULL};

	if (is_one_of(taken, with_avx512))
		return NULL;
	if (avx512)
		return "SKYLAKEX";
	return avx2 && !is_one_of(taken, with_avx2) ? "HASWELL" : NULL;
}

/* What this processor, and its system, can do. */
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

void p4d_blas_kernels_choose(char *const argv[])
{
	const char *taken = openblas_get_corename(), *replaced = getenv(REPLACED);

	if (replaced) {
		snprintf(text, sizeof(text), "OpenBLAS kernels %.20s in place of %.20s", taken, replaced);
		unsetenv(REPLACED);
		unsetenv(CHOICE);
		return;
	}
	const char *choice = getenv(CHOICE) ? NULL : better(taken);
	if (!choice || setenv(CHOICE, choice, 1) < 0 || setenv(REPLACED, taken, 1) < 0)
		return;
	execv("/proc/self/exe", argv);
	unsetenv(REPLACED);
	unsetenv(CHOICE);
}

const char *p4d_blas_kernels_text(void)
{
	return text;
}
