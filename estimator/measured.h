/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_MEASURED_H
#define P4D_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "request.h"

/*
 * Measurements of training runs, as a CSV file with a line of column names (tests/data/measured_memory.csv).
 * Columns may stand in any order; those that p4d does not need are ignored. Fields may be quoted; a quote
 * inside is not possible.
 */
enum { P4D_MEASURED_COLUMNS = 64 };

typedef struct p4d_measured_file {
	const char *name; /* for messages; borrowed */
	char *at;         /* the rest of the text; borrowed and written to */
	char *header[P4D_MEASURED_COLUMNS];
	int columns;
	unsigned line;
} p4d_measured_file;

/* One run. */
typedef struct p4d_measured {
	char id[64], gpu[64];
	p4d_request request; /* what p4d would be asked about it: framework megatron */
	uint64_t gpus;
	bool complete;        /* column `validate` is 1: the row says everything that the closed form needs */
	double allocated_gib; /* peak of the allocator */
	double reserved_gib;  /* 0 when it was not measured */
} p4d_measured;

/* Reads the line of column names. text is NUL-terminated and will be cut up. Errors: VALUE. */
int p4d_measured_open(p4d_measured_file *file, const char *name, char *text, p4d_error *err);

/*
 * Reads the next row. Returns 1, 0 at the end, -1 with P4D_E_VALUE (`name:line: what`). Of a row that is not
 * complete only id, gpu and complete are filled.
 */
int p4d_measured_next(p4d_measured_file *file, p4d_measured *row, p4d_error *err);

#endif
