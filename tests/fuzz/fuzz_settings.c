/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of p4d-train, with one argument on each line. The result is either an error with a
 * text, or valid settings. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void use(const p4d_settings *settings)
{
	check(settings->data && settings->steps > 0);
	check(p4d_settings_hash(settings) < (uint64_t)1 << 52);
	p4d_rate rate = p4d_settings_rate(settings);
	for (uint64_t step = 1; step && step <= settings->steps; step *= 8) {
		double lr = p4d_learning_rate(&rate, step);
		check(isfinite(lr) && lr >= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MOST = 64 };
	char name[] = "p4d-train", *argv[MOST + 2] = {name};
	char *text = malloc(size + 1);
	p4d_settings settings;
	p4d_error err = {.code = P4D_OK};
	int argc = 1;

	check(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	for (char *at = text; at && *at && argc <= MOST; argc++) {
		argv[argc] = at;
		at = strchr(at, '\n');
		if (at)
			*at++ = '\0';
	}
	if (p4d_settings_parse(&settings, argc, argv, &err) < 0)
		check(err.code != P4D_OK && err.text[0]);
	else if (!settings.help && !settings.version)
		use(&settings);
	free(text);
	return 0;
}
