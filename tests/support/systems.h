/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Rows of p4d-systems(7). A row has a paper's figure for a case and p4d's figure for the same case. Each
 * comparison has a tolerance. If p4d's figure is outside of it, a test checks the reason. */
#include "support/cost_steps.h"

/*
 * The layout of a system that trains in fp16, which p4d-train does not: the same bytes as in bf16, and the
 * GPU's rate for fp16.
 */
static inline p4d_layout in_fp16(p4d_layout l)
{
	l.precision = P4D_FP16;
	return l;
}

/* Prints a row. p4d's figure must differ by at most the share `tolerance` from the published one. */
static inline void row(const char *name, double published, double said, double tolerance)
{
	const double error = said / published - 1;

	printf("%-46s published %8.3f   p4d %8.3f   %+6.1f %% (of %.0f)\n", name, published, said,
	       100 * error, 100 * tolerance);
	if (fabs(error) > tolerance)
		fail_msg("%s: %g published, %g said", name, published, said);
}
