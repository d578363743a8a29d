/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include "data/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP = 1 << 17 };

typedef struct packed_file {
	const p4d_unpacker *by;
	p4d_unpack_fault *fault;
	void *stream;
	int fd;
	bool ended;      /* the file has no more bytes */
	bool whole;      /* the last part is complete */
	uint64_t before; /* number of bytes in the file before those in `bytes` */
	uint64_t part;   /* offset in the file at which the current part begins */
	bool silent;     /* no contents were read from it yet */
	p4d_unpack_bytes in;
	char bytes[STEP];
} packed_file;

/* Reads more bytes from the file. */
static int fill(packed_file *file)
{
	ssize_t got;

	file->before += file->in.size;
	do
		got = read(file->fd, file->bytes, sizeof(file->bytes));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -1;
	file->ended = got == 0;
	file->in = (p4d_unpack_bytes){file->bytes, (size_t)got, 0};
	return 0;
}

/* Whether only zeros follow in the file, as on tapes. */
static bool is_padded(const packed_file *file, uint64_t from)
{
	unsigned char bytes[4096];
	ssize_t got;

	while ((got = pread(file->fd, bytes, sizeof(bytes), (off_t)from)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			if (bytes[i])
				return false;
		from += (uint64_t)got;
	}
	return got == 0;
}

/* Called if the file cannot be expanded further. Returns 0 if only zeros follow, which are padding.
 * Otherwise fills *fault and returns -1. */
static ssize_t stop(packed_file *file)
{
	const bool follows = file->part && file->silent;

	if (follows && is_padded(file, file->part)) {
		file->ended = file->whole = true;
		file->in.place = file->in.size;
		return 0;
	}
	*file->fault = (p4d_unpack_fault){
	    .of = file->by,
	    .at = follows ? file->part : file->before + file->in.place,
	    .follows = follows,
	};
	errno = EBADMSG;
	return -1;
}

static ssize_t read_file(void *cookie, char *to, size_t size)
{
	packed_file *file = cookie;
	p4d_unpack_bytes out = {to, size, 0};

	while (size && !out.place) {
		if (file->in.place == file->in.size && !file->ended && fill(file) < 0)
			return -1;
		if (file->ended && file->whole)
			return 0;
		if (file->whole) {
			file->part = file->before + file->in.place;
			file->silent = true;
		}
		const size_t before = file->in.place;
		const p4d_unpack_state state = file->by->expand(file->stream, &out, &file->in);
		const bool stands = file->ended && !out.place && file->in.place == before;
		if (state == P4D_UNPACK_DAMAGED || stands)
			return stop(file);
		file->silent = file->silent && !out.place;
		file->whole = state == P4D_UNPACK_WHOLE;
	}
	return (ssize_t)out.place;
}

static int close_file(void *cookie)
{
	packed_file *file = cookie;

	if (file->stream)
		file->by->release(file->stream);
	if (file->fd >= 0)
		close(file->fd);
	free(file);
	return 0;
}

static FILE *open_packed(FILE *in, const p4d_unpacker *by, p4d_unpack_fault *fault)
{
	packed_file *file = calloc(1, sizeof(*file));
	FILE *opened = NULL;

	if (!file)
		return NULL;
	file->by = by;
	file->fault = fault;
	file->whole = true;
	file->fd = dup(fileno(in));
	file->stream = by->create ? by->create() : NULL;
	if (file->fd >= 0 && file->stream)
		opened =
		    fopencookie(file, "r", (cookie_io_functions_t){.read = read_file, .close = close_file});
	if (!opened)
		close_file(file);
	return opened;
}

/* Chooses the decompressor by the file's first bytes, because file names differ. NULL: there is none. */
static const p4d_unpacker *unpacker_of(FILE *in)
{
	static const p4d_unpacker *const all[] = {&p4d_unpack__gzip, &p4d_unpack__zstd};
	char first[4];

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (pread(fileno(in), first, all[i]->magic_bytes, 0) == (ssize_t)all[i]->magic_bytes &&
		    !memcmp(first, all[i]->magic, all[i]->magic_bytes))
			return all[i];
	return NULL;
}

int p4d_unpack__open(FILE **in, const char *name, p4d_unpack_fault *fault, p4d_error *err)
{
	const p4d_unpacker *by = unpacker_of(*in);

	*fault = (p4d_unpack_fault){.of = NULL};
	if (!by)
		return 0;
	FILE *opened = open_packed(*in, by, fault);
	fclose(*in);
	*in = opened;
	if (opened)
		return 0;
	p4d_fail(err, P4D_E_IO, "%.200s: compressed by %s, and %s", name, by->name, by->needs);
	return p4d_fix(err, "%s %.200s | p4d data ... -", by->fix, name);
}
