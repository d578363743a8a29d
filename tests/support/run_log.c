/* SPDX-License-Identifier: Apache-2.0 */
#include "support/run_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number after "key": in a line. */
static double number_of(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at ? strtod(at + strlen(key), NULL) : NAN;
}

static void note_step(run_log *log, const char *line, const run_curve *curve, run_curve *keep)
{
	const char *begin = strstr(line, "\"loss\":"), *end = strstr(line, ",\"learning_rate\":");
	char losses[sizeof(curve->step[0])] = "";

	log->steps++;
	log->step = (uint64_t)number_of(line, "\"step\":");
	if (log->step > RUN_LOG_STEPS || !begin || !end || end - begin >= (long)sizeof(losses)) {
		log->differ++;
		log->off = INFINITY;
		return;
	}
	memcpy(losses, begin, (size_t)(end - begin));
	if (keep)
		memcpy(keep->step[log->step], losses, sizeof(losses));
	const double wanted = number_of(curve->step[log->step], "\"loss\":");
	const double off = fabs(number_of(losses, "\"loss\":") - wanted) / wanted;
	log->differ += strcmp(curve->step[log->step], losses) != 0;
	log->off = isnan(off) ? INFINITY : fmax(log->off, off);
}

static run_log read_log(const char *path, const run_curve *curve, run_curve *keep)
{
	run_log log = {.starts = 0};
	char line[2048];
	FILE *file = fopen(path, "re");

	/* a line without a line break is still being written */
	while (file && fgets(line, sizeof(line), file) && strchr(line, '\n')) {
		if (strstr(line, "\"event\":\"start\"")) {
			log.starts++;
			log.resumed = (uint64_t)number_of(line, "\"resumed_step\":");
			log.step = 0;
		} else if (strstr(line, "\"event\":\"saved\"")) {
			log.saved = (uint64_t)number_of(line, "\"step\":");
		} else if (strstr(line, "\"event\":\"step\"")) {
			note_step(&log, line, curve, keep);
		}
	}
	if (file)
		fclose(file);
	return log;
}

run_log run_log_keep(const char *path, run_curve *curve)
{
	return read_log(path, curve, curve);
}

run_log run_log_compare(const char *path, const run_curve *curve)
{
	return read_log(path, curve, NULL);
}
