/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Files that gzip or zstd compressed, as streams of what they hold. */

/* Bytes, of which those before `place` are done. */
typedef struct p4d_unpack_bytes {
	void *at;
	size_t size, place;
} p4d_unpack_bytes;

typedef enum p4d_unpack_state {
	P4D_UNPACK_MORE,
	P4D_UNPACK_WHOLE, /* a part that was compressed by itself is complete; another may follow */
	P4D_UNPACK_DAMAGED
} p4d_unpack_state;

/* What one program compresses. */
typedef struct p4d_unpacker {
	const char *name, *fix; /* the program, and the one that expands its files */
	const char *needs;      /* why create may have failed */
	const char *magic;      /* the first bytes of its files */
	size_t magic_bytes;
	void *(*create)(void); /* NULL: not possible here */
	p4d_unpack_state (*expand)(void *stream, p4d_unpack_bytes *out, p4d_unpack_bytes *in);
	void (*release)(void *stream);
} p4d_unpacker;

extern const p4d_unpacker p4d_unpack__gzip, p4d_unpack__zstd;

/* Why reading failed with EBADMSG. */
typedef struct p4d_unpack_fault {
	const p4d_unpacker *of; /* NULL: reading did not fail this way */
	uint64_t at;            /* byte of the compressed file, from 0 on */
	bool follows; /* what is there was not compressed by this program, and all before it is whole */
} p4d_unpack_fault;

/*
 * What a compressed file holds, read from its beginning. Closes *in then, and puts the stream in its place,
 * which the caller closes; leaves files alone that do not begin as compressed ones do. name: of the file, in
 * messages. Several compressed parts in a row are one text. Zeros after them are padding. Reading fails with
 * EBADMSG where the file is damaged or cut off, or where other bytes follow: *fault, which has to live as
 * long as the stream. Errors: IO (not possible with this p4d or on this machine, no memory); *in is then
 * NULL.
 */
int p4d_unpack__open(FILE **in, const char *name, p4d_unpack_fault *fault, p4d_error *err);
