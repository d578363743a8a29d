/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A directory for the files of a test, and token files in memory. Include after support.h. */
#include <endian.h>
#include <ftw.h>
#include <unistd.h>

#include "data/tokens_writer.h"

static char test_directory[64];

static inline int make_directory(void **state)
{
	(void)state;
	snprintf(test_directory, sizeof(test_directory), "/tmp/p4d-test-XXXXXX");
	return mkdtemp(test_directory) ? 0 : -1;
}

/* Makes the directory, in memory if possible, because tests sync thousands of files. */
static inline int make_quick_directory(void **state)
{
	snprintf(test_directory, sizeof(test_directory), "/dev/shm/p4d-test-XXXXXX");
	return mkdtemp(test_directory) ? 0 : make_directory(state);
}

static inline int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

static inline int remove_directory(void **state)
{
	(void)state;
	return nftw(test_directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static int entries;

static inline int count_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)path, (void)status, (void)type;
	entries += walk->level > 0;
	return 0;
}

/* The number of files in the test's directory. */
static inline int count_files(void)
{
	entries = 0;
	assert_int_equal(nftw(test_directory, count_entry, 8, FTW_PHYS), 0);
	return entries;
}

/* The path of a file in the test's directory. It is valid until the fourth call after this one. */
static inline const char *in_directory(const char *name)
{
	static char path[4][160];
	static unsigned next;
	char *to = path[next++ % 4];

	snprintf(to, sizeof(path[0]), "%s/%s", test_directory, name);
	return to;
}

static inline void write_file(const char *path, const void *data, size_t size)
{
	FILE *out = fopen(path, "wb");

	assert_non_null(out);
	assert_int_equal(fwrite(data, 1, size, out), size);
	assert_int_equal(fclose(out), 0);
}

/* A random number (splitmix64). */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/* Bytes that are appended one after another. */
typedef struct bytes {
	uint8_t data[8192];
	size_t size;
} bytes;

static inline void put(bytes *b, uint64_t number, size_t width)
{
	number = htole64(number);
	assert_true(b->size + width <= sizeof(b->data));
	memcpy(b->data + b->size, &number, width);
	b->size += width;
}
