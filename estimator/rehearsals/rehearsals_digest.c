/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "rehearsals/rehearsals_internal.h"

/* Odd constants without a pattern: the digits of the golden ratio and of the square root of 2. */
static const uint64_t factor[2] = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0x6a09e667f3bcc909)};

p4d_rehearsals_hash p4d_rehearsals__hash_begin(void)
{
	return (p4d_rehearsals_hash){{factor[1], factor[0]}};
}

static void add_unit(p4d_rehearsals_hash *hash, uint64_t unit)
{
	for (int i = 0; i < 2; i++) {
		hash->half[i] = (hash->half[i] ^ unit) * factor[i];
		hash->half[i] ^= hash->half[i] >> 29;
	}
}

/*
 * Hashes eight bytes at a time. Also adds the length, so that additional zero bytes at the end change the
 * hash.
 */
void p4d_rehearsals__hash_add(p4d_rehearsals_hash *hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	uint64_t unit;
	size_t i = 0;

	for (; i + sizeof(unit) <= length; i += sizeof(unit)) {
		memcpy(&unit, at + i, sizeof(unit));
		add_unit(hash, unit);
	}
	unit = 0;
	if (i < length)
		memcpy(&unit, at + i, length - i);
	add_unit(hash, unit);
	add_unit(hash, length);
}

static bool hash_content(int fd, p4d_rehearsals_file *file)
{
	size_t length;
	char *text = p4d_file_read(fd, P4D_REHEARSALS_CONTENT, &length);

	if (!text)
		return false;
	p4d_rehearsals__hash_add(&file->hash, text, length);
	free(text);
	return true;
}

bool p4d_rehearsals__file(const char *path, bool content, p4d_rehearsals_file *file)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	*file = (p4d_rehearsals_file){.size = (uint64_t)st.st_size,
				      .changed_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u +
						    (uint64_t)st.st_mtim.tv_nsec,
				      .hash = p4d_rehearsals__hash_begin()};
	if (!content)
		return true;
	if (file->size > P4D_REHEARSALS_CONTENT) {
		p4d_rehearsals__hash_add(&file->hash, &file->changed_ns, sizeof(file->changed_ns));
		return true;
	}
	const int fd = p4d_file_open(path);
	const bool read = fd >= 0 && hash_content(fd, file);
	if (fd >= 0)
		close(fd);
	return read;
}

bool p4d_rehearsals__path(const char *directory, const char *path, char *buf, size_t size)
{
	const int length =
	    path[0] == '/' ? snprintf(buf, size, "%s", path) : snprintf(buf, size, "%s/%s", directory, path);

	return length > 0 && (size_t)length < size;
}
