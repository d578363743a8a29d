/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan line, which users can write. For any bytes, the result is either an error with a text, or a
 * request. If the request is written as a line, it is read as the same request. A valid layout has an
 * estimate or an error with a text. The test appends the right hash to lines without one, because nearly
 * all inputs fail the check of the hash.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "plan/plan_line.h"
#include "plan/stage_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

/* Estimates the layout, as slurmctld does with a job's line. */
static void estimate(const p4d_layout *layout)
{
	const p4d_capacity unknown = {.gpu = NULL};
	p4d_error err = {.code = P4D_OK};
	p4d_estimate e;

	if (p4d_memory_estimate(layout, P4D_METHOD_PLAN, &unknown, &e, &err) < 0)
		check(err.code != P4D_OK && err.text[0]);
}

static void read_line(const char *line)
{
	p4d_request request = {0}, again = {0};
	char written[P4D_PLAN_MAX], twice[P4D_PLAN_MAX];
	p4d_error err = {.code = P4D_OK};
	p4d_layout layout;

	if (p4d_plan_read(line, &request, &err) < 0) {
		check(err.code != P4D_OK && err.text[0]);
		return;
	}
	check(err.code == P4D_OK);
	/* percent-encoding may make the line too long */
	if (p4d_plan_write(&request, written, sizeof(written), &err) == 0) {
		check(!strpbrk(written, " \t\r\n\"'\\$`;&|<>"));
		check(p4d_plan_read(written, &again, &err) == 0);
		check(p4d_plan_write(&again, twice, sizeof(twice), &err) == 0 && !strcmp(written, twice));
	}
	if (p4d_layout_build(&request, (uint64_t)request.value[P4D_NODES],
			     (uint64_t)request.value[P4D_GPUS_PER_NODE], &layout, &err) < 0)
		check(err.code != P4D_OK && err.text[0]);
	else
		estimate(&layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = malloc(size + 32);

	check(line != NULL);
	memcpy(line, data, size);
	line[size] = '\0';
	size_t length = strcspn(line, "\r\n"); /* a seed may end with a newline */
	line[length] = '\0';
	read_line(line);
	if (!strstr(line, ":hash=")) {
		snprintf(line + length, 32, ":hash=%016" PRIx64, p4d_hash_bytes(line, length));
		read_line(line);
	}
	free(line);
	return 0;
}
