/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a CSV table of tests/data row by row. Its first line has the names of the columns. Fields have no
 * commas. */
#include "gpu/gpu.h"
#include "support/support.h"

enum { ROW_COLUMNS = 96, ROW_LENGTH = 2048 };

typedef struct csv_row {
	FILE *file;
	char header[ROW_LENGTH], text[ROW_LENGTH]; /* each comma is replaced by a zero byte */
	char *name[ROW_COLUMNS], *field[ROW_COLUMNS];
	int columns;
	unsigned line; /* the number of the row's line in the file */
} csv_row;

/* The row's value in this column. NULL: the file does not have the column. */
static inline const char *row_find(const csv_row *r, const char *name)
{
	for (int i = 0; i < r->columns; i++)
		if (!strcmp(r->name[i], name))
			return r->field[i];
	return NULL;
}

static inline const char *row_field(const csv_row *r, const char *name)
{
	const char *found = row_find(r, name);

	if (!found)
		fail_msg("no column %s", name);
	return found;
}

static inline bool row_has(const csv_row *r, const char *name, const char *value)
{
	return !strcmp(row_field(r, name), value);
}

static inline uint64_t row_number(const csv_row *r, const char *name)
{
	return strtoull(row_field(r, name), NULL, 10);
}

static inline int row_split(char *text, char *field[ROW_COLUMNS])
{
	int n = 0;

	text[strcspn(text, "\r\n")] = '\0';
	for (char *at = text; at && n < ROW_COLUMNS; n++) {
		field[n] = at;
		at = strchr(at, ',');
		if (at)
			*at++ = '\0';
	}
	return n;
}

/* Opens a file of tests/data or, if `other` is not NULL, the file `other`. Reads the names of the columns. */
static inline void rows_open(csv_row *r, const char *name, const char *other)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/data/%s", dir ? dir : ".", name);
	r->file = fopen(other ? other : path, "r");
	assert_non_null(r->file);
	assert_non_null(fgets(r->header, sizeof(r->header), r->file));
	r->columns = row_split(r->header, r->name);
	r->line = 1;
}

/* Reads the next row. False: there is none, and the file is closed. */
static inline bool rows_next(csv_row *r)
{
	if (!fgets(r->text, sizeof(r->text), r->file)) {
		fclose(r->file);
		return false;
	}
	r->line++;
	assert_int_equal(row_split(r->text, r->field), r->columns);
	return true;
}

/* Sets an option of a request. If this fails, the test fails with the number of the table's line. */
static inline void row_set(p4d_request *q, const csv_row *r, int option, const char *value)
{
	p4d_error err;

	if (p4d_request_set(q, (p4d_option)option, value, P4D_BY_USER, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
}

/* Sets the global batch: micro-batch times micro-batches of the row times `ranks` data-parallel ranks. */
static inline void row_set_batch(p4d_request *q, const csv_row *r, uint64_t ranks)
{
	char batch[32];

	snprintf(batch, sizeof(batch), "%" PRIu64,
		 row_number(r, "micro-batch") * row_number(r, "micro-batches") * ranks);
	row_set(q, r, P4D_GLOBAL_BATCH, batch);
}

/* The GPU that a row names. NULL: its file has no such column. */
static inline const p4d_gpu *row_gpu(const csv_row *r)
{
	static p4d_gpus table;
	const char *name = row_find(r, "gpu");
	p4d_error err;

	if (!name)
		return NULL;
	if (!table.gpu)
		assert_int_equal(p4d_gpus_load(&table, NULL, &err), 0);
	const p4d_gpu *gpu = p4d_gpu_find(&table, name, NULL);
	assert_non_null(gpu);
	return gpu;
}
