/* SPDX-License-Identifier: Apache-2.0 */
#include "run/rank_error.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool p4d_rank_error_claim(uint32_t rank, const char *text)
{
	if (rank == 0)
		return true;
	/*
	 * If rank 0 has an error of its own ("rank 0 (host): cause"), it prints that itself. If it was killed
	 * ("rank 0 (host) ended ..."), it cannot.
	 */
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

/* Memory shared by a launcher and its ranks. */
typedef struct p4d_rank_final_report {
	atomic_bool taken;
	int length;
	char text[1400];
} p4d_rank_final_report;

static p4d_rank_final_report *report; /* NULL: no launcher prints the report */

static int line_of(char *line, size_t size, const p4d_error *err, const char *host, uint32_t rank)
{
	char who[320] = "";

	if (host)
		snprintf(who, sizeof(who), "rank %u (%.200s): ", rank, host);
	int length = snprintf(line, size, "p4d-train: [P4D%03d] %s%s%s%s\n", err->code, who, err->text,
			      err->fix[0] ? "\np4d-train: fix: " : "", err->fix);
	return length < (int)size ? length : (int)size - 1;
}

static void put(const char *line, int length)
{
	if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* there is no other place to report it */
}

void p4d_rank_report(const p4d_error *err, const char *host, uint32_t rank)
{
	char line[1400];

	put(line, line_of(line, sizeof(line), err, host, rank));
}

void p4d_rank_error_final(const p4d_error *err, const char *host, uint32_t rank)
{
	if (!report)
		p4d_rank_report(err, host, rank);
	else if (!atomic_exchange(&report->taken, true))
		report->length = line_of(report->text, sizeof(report->text), err, host, rank);
}

int p4d_rank_listen(p4d_error *err)
{
	void *shared = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the error report of the ranks: %m");
	report = shared;
	return 0;
}

void p4d_rank_conclude(const p4d_error *better)
{
	if (better)
		p4d_rank_report(better, NULL, 0);
	else
		put(report->text, report->length);
	munmap(report, sizeof(*report));
	report = NULL;
}
