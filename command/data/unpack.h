/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Reads files that gzip or zstd compressed, as streams of their contents. */

/* A buffer of bytes. The bytes before `place` have been used. */
typedef struct p4d_unpack_bytes {
	void *at;
	size_t size, place;
} p4d_unpack_bytes;

typedef enum p4d_unpack_state {
	P4D_UNPACK_MORE,
	P4D_UNPACK_WHOLE, /* one compressed part is complete; another one may follow */
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

/* Why reading failed with EBADMSG. */
typedef struct p4d_unpack_fault {
	const p4d_unpacker *of; /* the program whose file it was; NULL: reading did not fail this way */
	uint64_t at;            /* offset in the compressed file, in bytes */
	bool follows; /* the bytes at `at` were not compressed by this program; all parts before them are
		       * complete */
} p4d_unpack_fault;

/*
 * If *in begins like a compressed file, closes *in and replaces it by a stream of the file's expanded
 * content, which the caller closes. Does not change other files. name: the file's name in messages.
 * Several compressed parts in a row are one content, and zeros after them are padding. If the file is
 * damaged or cut off, or if other bytes follow, reading fails with EBADMSG and *fault has the reason.
 * *fault must live as long as the stream. Errors: IO (this p4d or this machine cannot expand the file, or
 * no memory); *in is then NULL.
 */
int p4d_unpack__open(FILE **in, const char *name, p4d_unpack_fault *fault, p4d_error *err);
