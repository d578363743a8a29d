/* SPDX-License-Identifier: Apache-2.0 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "data/unpack.h"

#include <limits.h>
#include <stdlib.h>
#ifdef HAVE_ZLIB
#include <zlib.h>

/* zlib's parameter for the largest window, with the header and check sum of gzip. */
enum { GZIP = 15 + 16 };

static void *create(void)
{
	z_stream *z = calloc(1, sizeof(*z));

	if (z && inflateInit2(z, GZIP) == Z_OK)
		return z;
	free(z);
	return NULL;
}

static unsigned some(size_t bytes)
{
	return bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
}

static p4d_unpack_state expand(void *stream, p4d_unpack_bytes *out, p4d_unpack_bytes *in)
{
	z_stream *z = stream;
	const unsigned room = some(out->size - out->place), bytes = some(in->size - in->place);

	z->next_in = (Bytef *)in->at + in->place;
	z->avail_in = bytes;
	z->next_out = (Bytef *)out->at + out->place;
	z->avail_out = room;
	const int rc = inflate(z, Z_NO_FLUSH);
	in->place += bytes - z->avail_in;
	out->place += room - z->avail_out;
	if (rc == Z_STREAM_END)
		return inflateReset(z) == Z_OK ? P4D_UNPACK_WHOLE : P4D_UNPACK_DAMAGED;
	return rc == Z_OK || rc == Z_BUF_ERROR ? P4D_UNPACK_MORE : P4D_UNPACK_DAMAGED;
}

static void release(void *stream)
{
	inflateEnd(stream);
	free(stream);
}
#endif

const p4d_unpacker p4d_unpack__gzip = {
    .name = "gzip",
    .fix = "zcat",
    .magic = "\x1f\x8b",
    .magic_bytes = 2,
#ifdef HAVE_ZLIB
    .needs = "there is no memory to expand it",
    .create = create,
    .expand = expand,
    .release = release,
#else
    .needs = "this p4d was built without zlib",
#endif
};
