/* SPDX-License-Identifier: Apache-2.0 */
/* Batch scripts. #SBATCH lines are parsed like sbatch's command line, so the target tests the parser of
 * command lines as well. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/sbatch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

/* A failure has a code and a text; success does not change the error. */
static int consistent(int rc, p4d_error *err)
{
	check(rc == 0 ? err->code == P4D_OK : err->code != P4D_OK && *err->text);
	memset(err, 0, sizeof(*err));
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char first_line[] = "#!/bin/sh\n";
	p4d_error err = {0};
	unsigned components = 0;
	char *text = malloc(sizeof(first_line) - 1 + size);

	check(text != NULL);
	memcpy(text, first_line, sizeof(first_line) - 1);
	if (size)
		memcpy(text + sizeof(first_line) - 1, data, size);
	for (unsigned component = 0; component < 2; component++) {
		p4d_sbatch sbatch = {0};
		if (consistent(p4d_sbatch_script(&sbatch, text, sizeof(first_line) - 1 + size, component,
						 &components, &err),
			       &err) == 0) {
			check(components > 0);
			consistent(p4d_sbatch_job(&sbatch, &err), &err);
			consistent(p4d_sbatch_request(&sbatch, &err), &err);
		}
		p4d_sbatch_free(&sbatch);
		check(!sbatch.job.gres && !sbatch.value[P4D_SBATCH_PARTITION]);
	}
	free(text);
	return 0;
}
