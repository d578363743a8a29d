/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Reads files that gzip or zstd compressed, as streams of their contents. */

/* A buffer of bytes, of which those before `place` are done. */
typedef struct p4d_unpack_bytes {
	void *at;
	size_t size, place;
} p4d_unpack_bytes;

typedef enum p4d_unpack_state {
	P4D_UNPACK_MORE,
	P4D_UNPACK_WHOLE, /* one complete compressed part has ended; another may follow */
	P4D_UNPACK_DAMAGED
} p4d_unpack_state;

/* How to read the files of one compression program. */
typedef struct p4d_unpacker {
	const char *name, *fix; /* name of the program, and the program that expands its files */
	const char *needs;      /* why a file cannot be expanded, for a message */
	const char *magic;      /* the first bytes of its files */
	size_t magic_bytes;
	void *(*create)(void); /* NULL: this build cannot read such files */
	p4d_unpack_state (*expand)(void *stream, p4d_unpack_bytes *out, p4d_unpack_bytes *in);
	void (*release)(void *stream);
} p4d_unpacker;

extern const p4d_unpacker p4d_unpack__gzip, p4d_unpack__zstd;

/* Why reading the stream failed with EBADMSG. */
typedef struct p4d_unpack_fault {
	const p4d_unpacker *of; /* the program whose file it was; NULL: reading did not fail this way */
	uint64_t at;            /* offset in the compressed file, in bytes */
	bool follows; /* the bytes there were not compressed by this program, and all parts before them are
			 complete */
} p4d_unpack_fault;

/*
 * If *in begins like a compressed file, replaces *in by a stream of the file's contents, which the caller
 * closes, and closes the old *in. Does nothing to other files. name: the file's name in messages. Several
 * compressed parts in a row are one text. Zeros after them are padding. Reading fails with EBADMSG where the
 * file is damaged or cut off, or where other bytes follow. Then *fault says why; it must live as long as the
 * stream. Errors: IO (not possible with this p4d or on this machine, no memory); *in is then NULL.
 */
int p4d_unpack__open(FILE **in, const char *name, p4d_unpack_fault *fault, p4d_error *err);
