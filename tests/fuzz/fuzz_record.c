/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a rehearsal, which sbatch reads. For any bytes, the result is either no record, or runs
 * that can be printed. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rehearsals/rehearsals_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static int is_text(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static p4d_rehearsals_record record;
	char *text = malloc(size + 1);

	check(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	if (p4d_rehearsals__parse(text, size, &record)) {
		check(record.runs && record.runs <= P4D_REHEARSALS_RUNS &&
		      record.files <= P4D_REHEARSALS_FILES);
		check(!record.python || strlen(record.python) < size);
		for (unsigned i = 0; i < record.runs; i++) {
			const p4d_rehearsal *run = &record.run[i];
			check(run->usable_bytes && run->verdict < P4D_REHEARSAL_VERDICTS && run->when >= 0);
			check(run->gpu[0] && is_text(run->gpu, sizeof(run->gpu)));
			check(is_text(run->reason, sizeof(run->reason)) &&
			      is_text(run->ranks, sizeof(run->ranks)));
			check(run->phases <= P4D_REHEARSAL_PHASES);
		}
		for (unsigned i = 0; i < record.files; i++)
			check(*record.file[i].path && strlen(record.file[i].path) < PATH_MAX);
	}
	free(text);
	return 0;
}
