/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include "data/unpack_zstd.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A part of libzstd's stable interface (version 1.3 and later), which is opened only for such a file. */
typedef struct zstd_buffer {
	void *at;
	size_t size, place;
} zstd_buffer;

typedef struct zstd_calls {
	void *(*create)(void);
	size_t (*release)(void *stream);
	size_t (*expand)(void *stream, zstd_buffer *out, zstd_buffer *in);
	unsigned (*is_error)(size_t code);
} zstd_calls;

enum { STEP = 1 << 17 };

typedef struct zstd_file {
	zstd_calls calls;
	void *stream;
	int fd;
	bool ended, whole; /* no more bytes are in the file; the last frame is complete */
	zstd_buffer in;
	char bytes[STEP];
} zstd_file;

static bool find_calls(zstd_calls *calls)
{
	static const char *const names[] = {"ZSTD_createDStream", "ZSTD_freeDStream", "ZSTD_decompressStream",
					    "ZSTD_isError"};
	void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL), *found[4];

	for (size_t i = 0; i < 4; i++)
		if (!library || !(found[i] = dlsym(library, names[i])))
			return false;
	/* a function's address in an object's pointer: POSIX has it so */
	memcpy(&calls->create, &found[0], sizeof(found[0]));
	memcpy(&calls->release, &found[1], sizeof(found[1]));
	memcpy(&calls->expand, &found[2], sizeof(found[2]));
	memcpy(&calls->is_error, &found[3], sizeof(found[3]));
	return true;
}

/* More bytes of the file. */
static int fill(zstd_file *file)
{
	ssize_t got;

	do
		got = read(file->fd, file->bytes, sizeof(file->bytes));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -1;
	file->ended = got == 0;
	file->in = (zstd_buffer){file->bytes, (size_t)got, 0};
	return 0;
}

static ssize_t read_file(void *cookie, char *to, size_t size)
{
	zstd_file *file = cookie;
	zstd_buffer out = {to, size, 0};

	while (size && !out.place) {
		if (file->in.place == file->in.size && !file->ended && fill(file) < 0)
			return -1;
		if (file->ended && file->whole)
			return 0;
		const size_t before = file->in.place;
		const size_t left = file->calls.expand(file->stream, &out, &file->in);
		const bool stands = file->ended && !out.place;
		if (file->calls.is_error(left) || (stands && file->in.place == before)) {
			errno = EBADMSG;
			return -1;
		}
		file->whole = left == 0;
	}
	return (ssize_t)out.place;
}

static int close_file(void *cookie)
{
	zstd_file *file = cookie;

	file->calls.release(file->stream);
	close(file->fd);
	free(file);
	return 0;
}

static void give_up(zstd_file *file, const char *name, p4d_error *err)
{
	const bool there = file && file->calls.create;

	if (there && file->stream)
		file->calls.release(file->stream);
	if (file && file->fd >= 0)
		close(file->fd);
	free(file);
	p4d_fail(err, P4D_E_IO, "%.200s: compressed by zstd, and %s", name,
		 there || !file ? "there is no memory to expand it" : "libzstd.so.1 is not there");
	if (!there)
		p4d_fix(err, "zstdcat %.200s | p4d data ... -", name);
}

FILE *p4d_unpack_zstd(int fd, const char *name, p4d_error *err)
{
	zstd_file *file = calloc(1, sizeof(*file));

	if (file) {
		file->whole = true;
		file->fd = dup(fd);
		if (find_calls(&file->calls))
			file->stream = file->calls.create();
	}
	FILE *opened =
	    file && file->fd >= 0 && file->stream
		? fopencookie(file, "r", (cookie_io_functions_t){.read = read_file, .close = close_file})
		: NULL;
	if (!opened)
		give_up(file, name, err);
	return opened;
}
