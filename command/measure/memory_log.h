/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* The peak GPU memory according to a log, in GiB; 0: the log does not have it. */
typedef struct p4d_memory_log {
	const char *format; /* the program that wrote the log: "Megatron-LM", "torchtitan", "p4d-train", "p4d
			       rehearse"; NULL: no measurement was found */
	double allocated, reserved, device;
	double total;   /* memory of the GPU; 0: the log does not have it */
	unsigned lines; /* number of lines with a measurement */
} p4d_memory_log;

/*
 * Reads one line, without its line break, and may change it. If a log has lines of several ranks, the
 * maximum is kept. *log is zero before the first line. Returns false if the line has no measurement of
 * memory.
 */
bool p4d_memory_log__line(p4d_memory_log *log, char *line);

/*
 * Reads a file, whose other lines it ignores; skips lines of more than 64 KiB. Errors: IO; VALUE: no line has
 * a measurement of memory.
 */
int p4d_memory_log_read(p4d_memory_log *log, const char *path, p4d_error *err);

/* The measurement of the log that includes the most, with its name in `p4d validate`: "device", "reserved"
 * or "allocated". */
double p4d_memory_log_gib(const p4d_memory_log *log, const char **what);
