/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Safetensors files: u64 length of a header, little-endian; the header, a JSON object that begins with '{'
 * and may end in blanks, of at most 100,000,000 bytes; then the bytes of the tensors. In the header each
 * tensor is "name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, offsets counted from the
 * end of the header; "__metadata__" maps strings to strings. The tensors cover the data without holes or
 * overlaps. Matrices are row-major, numbers little-endian.
 *
 * Files that p4d writes have a checksum of each tensor (XXH3, 64 bits, as 16 hexadecimal digits) in the
 * metadata, under "xxh3:NAME". So the checksum of the header protects the whole file. The writer returns it,
 * for a manifest. Other programs can read these files like any others.
 */
typedef enum p4d_safetensors_type {
	P4D_ST_BOOL,
	P4D_ST_U8,
	P4D_ST_I8,
	P4D_ST_F8_E5M2,
	P4D_ST_F8_E4M3,
	P4D_ST_I16,
	P4D_ST_U16,
	P4D_ST_F16,
	P4D_ST_BF16,
	P4D_ST_I32,
	P4D_ST_U32,
	P4D_ST_F32,
	P4D_ST_F64,
	P4D_ST_I64,
	P4D_ST_U64,
	P4D_ST_TYPES
} p4d_safetensors_type;

const char *p4d_safetensors__type_name(p4d_safetensors_type type); /* "BF16" */
unsigned p4d_safetensors__type_bytes(p4d_safetensors_type type);   /* bytes of one element */

enum { P4D_STORED_DIMS = 8 };

typedef struct p4d_safetensors_tensor {
	const char *name;
	p4d_safetensors_type type;
	unsigned dims; /* 0: a scalar */
	uint64_t shape[P4D_STORED_DIMS];
	/* set by the reader: */
	uint64_t bytes;
	const void *data; /* in the mapped file; may not be aligned for its type */
	const char *file; /* for messages */
	bool has_checksum;
	uint64_t checksum;
} p4d_safetensors_tensor;

/* Number of elements times bytes of an element. Errors: VALUE if the result does not fit 64 bits. */
int p4d_safetensors__tensor_bytes(const p4d_safetensors_tensor *tensor, uint64_t *bytes, p4d_error *err);

/* ---- reading ---- */
typedef struct p4d_safetensors p4d_safetensors;

/*
 * path: a file; a model.safetensors.index.json ("weight_map": {tensor: file in the same directory}) with all
 * files it names; or a directory with that index or with model.safetensors. Files stay mapped until close.
 * Every offset is checked before it is used; data is not read. Errors: CHECKPOINT, with the file and what is
 * wrong (or that it is missing); NO_MEMORY.
 */
int p4d_safetensors__open(p4d_safetensors **files, const char *path, p4d_error *err);
/* Like p4d_safetensors__open, for a single file in memory, which is borrowed. name: its name in messages. */
int p4d_safetensors__parse(p4d_safetensors **files, const char *name, const void *data, uint64_t bytes,
			   p4d_error *err);
void p4d_safetensors__close(p4d_safetensors *files);

size_t p4d_safetensors__count(const p4d_safetensors *files);
const p4d_safetensors_tensor *p4d_safetensors__at(const p4d_safetensors *files,
						  size_t i); /* tensors in ascending order of their names */
const p4d_safetensors_tensor *
p4d_safetensors__find(const p4d_safetensors *files,
		      const char *name); /* NULL: there is no tensor of this name */
/* XXH3 of the first file's length and header. */
uint64_t p4d_safetensors__header_checksum(const p4d_safetensors *files);

/*
 * Reads the tensor's data and verifies its checksum. A tensor without a checksum passes. Errors: CHECKPOINT.
 */
int p4d_safetensors__verify(const p4d_safetensors_tensor *tensor, p4d_error *err);

/* ---- writing ---- */
typedef struct p4d_safetensors_writer p4d_safetensors_writer;

/*
 * Begins a file with these tensors in this order. Uses name, type, dims and shape of each tensor; all names
 * must be different. Tensors with wide types should come first, so that all data is aligned. metadata: pairs
 * of key and value, ended by NULL, or NULL; keys must not begin with "xxh3:". All arguments are copied.
 * Errors: IO, NO_MEMORY, VALUE.
 */
int p4d_safetensors__create(p4d_safetensors_writer **writer, const char *path,
			    const p4d_safetensors_tensor *tensors, size_t count, const char *const *metadata,
			    p4d_error *err);
/* Appends data: all tensors in order, in chunks of any size. Errors: IO, VALUE (more than the tensors hold).
 */
int p4d_safetensors__write(p4d_safetensors_writer *writer, const void *data, uint64_t bytes, p4d_error *err);
/*
 * Completes the file: writes the checksums, syncs and renames the file, and syncs the directory.
 * header_checksum: as in p4d_safetensors__header_checksum; may be NULL. Frees the writer, also after a
 * failure; then there is no new file. Errors: IO, VALUE (data is missing).
 */
int p4d_safetensors__finish(p4d_safetensors_writer *writer, uint64_t *header_checksum, p4d_error *err);
/* Aborts: removes the incomplete file. NULL: no-op. */
void p4d_safetensors__abandon(p4d_safetensors_writer *writer);

/*
 * Writes the index of sharded files: tensor names[i] is in files[i], a file name without directory. bytes:
 * bytes of all tensors together. Errors: IO, NO_MEMORY.
 */
int p4d_safetensors__write_index(const char *path, const char *const *names, const char *const *files,
				 size_t count, uint64_t bytes, p4d_error *err);
