/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads command lines and scripts like sbatch. */
#include "support/support.h"

#include "job/sbatch.h"

#define SCRIPT(lines) "#!/bin/sh\n" lines "srun hostname\n"

enum { WORDS = 32 };

/* Reads a command line that is one string. Returns the first operand; "": there is none. */
static inline const char *arguments(p4d_sbatch *sbatch, const char *line)
{
	static char text[1024];
	char *words[WORDS] = {text}, *save = NULL;
	int count = 1, operand;
	p4d_error err;

	snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok_r(text, " ", &save); word && count < WORDS - 1;
	     word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	if (p4d_sbatch_arguments(sbatch, count, words, &operand, &err) < 0)
		fail_msg("%s: %s", line, err.text);
	return operand < count ? words[operand] : "";
}

static inline void script(p4d_sbatch *sbatch, const char *text)
{
	unsigned components;
	p4d_error err;

	if (p4d_sbatch_script(sbatch, text, strlen(text), 0, &components, &err) < 0)
		fail_msg("%s: %s", text, err.text);
}

static inline void understand(p4d_sbatch *sbatch)
{
	p4d_error err;

	if (p4d_sbatch_job(sbatch, &err) < 0 || p4d_sbatch_request(sbatch, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void assert_mentions(const p4d_error *err, const char *what)
{
	if (!strstr(err->text, what))
		fail_msg("\"%s\" does not mention \"%s\"", err->text, what);
}
