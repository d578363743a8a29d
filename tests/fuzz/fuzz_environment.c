/* SPDX-License-Identifier: Apache-2.0 */
/* A job's environment, as slurmctld gets it from any user, and a comment with a plan. Each line is a
 * variable. Lines after a line "--" are variables of spank_job_env. The last line is the comment. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job_environment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 2048 };

static void check(int right)
{
	if (!right)
		abort();
}

/* Checks that a stored pointer points into the text of a line. */
static void inside(const char *value, const char *text, size_t size)
{
	check(!value || !strcmp(value, "on") || (value > text && value <= text + size));
}

static void take(const p4d_environment *env, const char *text, size_t size)
{
	p4d_request request = {0};
	p4d_error err = {.code = P4D_OK};
	unsigned options = 0, outputs = 0;

	for (int i = 0; i < P4D_OPTIONS; i++) {
		inside(env->option[i], text, size);
		options += env->option[i] != NULL;
	}
	for (int i = 0; i < P4D_ENVIRONMENT_OUTPUTS; i++) {
		inside(env->output[i], text, size);
		outputs += env->output[i] != NULL;
	}
	inside(env->note, text, size);
	check(options == env->options && outputs == env->outputs);
	if (p4d_environment_request(env, &request, &err) < 0)
		check(err.code != P4D_OK && err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char *line[MOST];
	char *text = malloc(size + 1);
	p4d_environment env = {0};
	size_t count = 0, spank = MOST;

	check(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	for (char *at = text; at && count < MOST; count++) {
		line[count] = at;
		at = strchr(at, '\n');
		if (at)
			*at++ = '\0';
		if (!strcmp(line[count], "--") && spank == MOST)
			spank = count;
	}
	p4d_environment_scan(&env, line, spank < count ? spank : count);
	if (spank < count) {
		line[spank] = NULL; /* the list may have NULL entries */
		p4d_environment_scan(&env, line + spank, count - spank);
	}
	take(&env, text, size);
	free(text);
	return 0;
}
