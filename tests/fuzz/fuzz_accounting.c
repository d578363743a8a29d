/* SPDX-License-Identifier: Apache-2.0 */
/* Output of sacct. The first byte decides into which pieces the output is cut. Fields are separated by
 * "|". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accounting/accounting_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void read_all(p4d_accounting_jobs *jobs, const char *text, size_t size, size_t piece)
{
	p4d_accounting_records r = {.jobs = jobs, .all = true, .delimiter = "|", .text = {.grows = true}};
	p4d_error err = {.code = P4D_OK};

	for (int f = 0; f < P4D_FIELDS; f++)
		if (f != P4D_FIELD_STD_OUT && f != P4D_FIELD_EXTRA) /* the fields that sacct 22.05 prints */
			r.field[r.fields++] = (p4d_accounting_field)f;
	for (size_t at = 0; at < size; at += piece)
		check(p4d_accounting__records_take(&r, text + at, size - at < piece ? size - at : piece));
	check(p4d_accounting__records_end(&r, &err) == 0);
}

/* However the output is cut into pieces, the result is the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_accounting_jobs whole = {.count = 0}, pieces = {.count = 0};

	if (!size)
		return 0;
	read_all(&whole, (const char *)data + 1, size - 1, size);
	read_all(&pieces, (const char *)data + 1, size - 1, 1 + data[0] % 16);
	check(whole.count == pieces.count && whole.malformed == pieces.malformed &&
	      whole.seen == pieces.seen);
	for (size_t i = 0; i < whole.count; i++) {
		const p4d_accounting_job *job = &whole.job[i], *other = &pieces.job[i];
		check(!strcmp(job->submit_line, other->submit_line) && job->gpus == other->gpus);
		check(job->steps == other->steps && *job->id && *job->raw);
		for (size_t step = 0; step < job->steps; step++)
			check(!strcmp(job->step[step].id, other->step[step].id));
	}
	p4d_accounting_jobs_free(&whole);
	p4d_accounting_jobs_free(&pieces);
	return 0;
}
