/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * TensorBoard's event files. A record has a u64 length, the checksum of the length, the data, and the
 * checksum of the data. Checksums are CRC-32C, masked as in TFRecord. The data are a protocol buffer Event,
 * whose summaries have scalars. Each run opens its own file. If the run continues from a checkpoint, the file
 * begins with a record that makes readers drop later steps of earlier files.
 */
typedef struct p4d_tensorboard {
	int fd; /* -1: none */
	char what[400];
} p4d_tensorboard;

typedef struct p4d_scalar {
	const char *tag; /* "train/loss" */
	double value;    /* left out if it is not finite */
} p4d_scalar;

/* The maximum number of scalars in a record, and of bytes in a tag. */
enum { P4D_TENSORBOARD_SCALARS = 16, P4D_TENSORBOARD_TAG = 80 };

/* next: number of the first step that will be added. Errors: IO. */
int p4d_tensorboard_open(p4d_tensorboard *board, const char *directory, uint64_t next, p4d_error *err);
/* Writes a record in a single write. If the file cannot be written, reports that once. */
void p4d_tensorboard_add(p4d_tensorboard *board, uint64_t step, const p4d_scalar *scalars, size_t count);
/* A board that was never opened must have the fd -1. */
void p4d_tensorboard_close(p4d_tensorboard *board);

/* Formats a record of scalars, with a time in seconds since 1970. Returns its length; buf has room for
 * P4D_TENSORBOARD_RECORD. */
enum { P4D_TENSORBOARD_RECORD = 64 + P4D_TENSORBOARD_SCALARS * (P4D_TENSORBOARD_TAG + 16) };
size_t p4d_tensorboard_record(uint8_t *buf, double time, uint64_t step, const p4d_scalar *scalars,
			      size_t count);
