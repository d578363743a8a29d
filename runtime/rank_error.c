/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool p4d_rank_speaks(uint32_t rank, const char *text)
{
	if (rank == 0)
		return true;
	/* "rank 0 (host): cause" was printed by rank 0 itself, "rank 0 (host) ended ..." was not */
	const char *end = strncmp(text, "rank 0 (", 8) ? NULL : strchr(text, ')');
	return rank == 1 && end && end[1] != ':';
}

const char *p4d_rank_cause(const p4d_error *err, uint64_t step, char *buf, size_t size)
{
	char where[40] = "";

	if (step)
		snprintf(where, sizeof(where), "step %" PRIu64 ": ", step);
	snprintf(buf, size, "%s[P4D%03d] %s%s%s", where, err->code, err->text, err->fix[0] ? "; fix: " : "",
		 err->fix);
	return buf;
}

void p4d_rank_report(const p4d_error *err, const char *host, uint32_t rank)
{
	char line[1400], who[320] = "";

	if (host)
		snprintf(who, sizeof(who), "rank %u (%.200s): ", rank, host);
	int length = snprintf(line, sizeof(line), "p4d-train: [P4D%03d] %s%s%s%s\n", err->code, who,
			      err->text, err->fix[0] ? "\np4d-train: fix: " : "", err->fix);
	if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* nobody is left to tell */
}
