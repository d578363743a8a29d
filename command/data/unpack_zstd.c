/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "data/unpack.h"

/* Functions of libzstd's stable interface (version 1.3 and later). p4d opens the library only for a file
 * of zstd. The library's buffers have the same members as p4d_unpack_bytes. */
typedef struct zstd {
	void *(*create)(void);
	size_t (*release)(void *stream);
	size_t (*expand)(void *stream, p4d_unpack_bytes *out, p4d_unpack_bytes *in);
	unsigned (*is_error)(size_t code);
	void *stream;
} zstd;

static bool find_calls(zstd *z)
{
	static const char *const names[] = {"ZSTD_createDStream", "ZSTD_freeDStream", "ZSTD_decompressStream",
					    "ZSTD_isError"};
	void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL), *found[4];

	for (size_t i = 0; i < 4; i++)
		if (!library || !(found[i] = dlsym(library, names[i])))
			return false;
	/* POSIX allows to store a function's address in an object pointer */
	memcpy(&z->create, &found[0], sizeof(found[0]));
	memcpy(&z->release, &found[1], sizeof(found[1]));
	memcpy(&z->expand, &found[2], sizeof(found[2]));
	memcpy(&z->is_error, &found[3], sizeof(found[3]));
	return true;
}

static void *create(void)
{
	zstd *z = calloc(1, sizeof(*z));

	if (z && find_calls(z))
		z->stream = z->create();
	if (z && z->stream)
		return z;
	free(z);
	return NULL;
}

static p4d_unpack_state expand(void *stream, p4d_unpack_bytes *out, p4d_unpack_bytes *in)
{
	const zstd *z = stream;
	const size_t left = z->expand(z->stream, out, in);

	return z->is_error(left) ? P4D_UNPACK_DAMAGED : left ? P4D_UNPACK_MORE : P4D_UNPACK_WHOLE;
}

static void release(void *stream)
{
	zstd *z = stream;

	z->release(z->stream);
	free(z);
}

const p4d_unpacker p4d_unpack__zstd = {
    .name = "zstd",
    .fix = "zstdcat",
    .needs = "libzstd.so.1 is missing, or there is no memory",
    .magic = "\x28\xb5\x2f\xfd",
    .magic_bytes = 4,
    .create = create,
    .expand = expand,
    .release = release,
};
