/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* The most that a log says of a GPU's memory, in GiB; 0: it does not say. */
typedef struct p4d_memory_log {
	const char
	    *format; /* "Megatron-LM", "torchtitan", "p4d-train", "p4d rehearse"; NULL: nothing was found */
	double allocated, reserved, device;
	double total;   /* memory of the GPU, if the log has it */
	unsigned lines; /* lines with a measurement */
} p4d_memory_log;

/*
 * Reads one line, without its line break, which it may change. A log has lines of several ranks: the largest
 * value counts. *log is zero before the first line. False: the line says nothing of memory.
 */
bool p4d_memory_log__line(p4d_memory_log *log, char *line);

/* Reads a file, whatever else is in it; lines of more than 64 KiB are skipped. Errors: IO; VALUE: no line
 * says anything. */
int p4d_memory_log_read(p4d_memory_log *log, const char *path, p4d_error *err);

/* The largest kind that the log has, and what p4d validate calls it: "device", "reserved", "allocated". */
double p4d_memory_log_gib(const p4d_memory_log *log, const char **what);
