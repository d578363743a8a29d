/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/new_file.h"

/* A file of logits that NumPy reads (.npy 1.0): fp32 (tokens, vocabulary), little-endian. Zero before use. */
typedef struct p4d_logits_file {
	p4d_new_file file;
	uint64_t columns, rows; /* rows: number of rows added so far */
} p4d_logits_file;

/* The file appears when it is published. Errors: IO, NO_MEMORY. */
int p4d_logits_file_open(p4d_logits_file *file, const char *path, uint64_t columns, p4d_error *err);
int p4d_logits_file_add(p4d_logits_file *file, const float *row, p4d_error *err);
int p4d_logits_file_publish(p4d_logits_file *file, p4d_error *err);
/* Removes an unpublished file. */
void p4d_logits_file_abandon(p4d_logits_file *file);
