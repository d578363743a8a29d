/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static void limits(void **state)
{
	char path[] = "/tmp/p4d-file-XXXXXX";
	size_t length = 77;

	(void)state;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	char *text = p4d_file_read(fd, 5, &length);
	assert_string_equal(text, "");
	assert_int_equal(length, 0);
	free(text);
	assert_int_equal(write(fd,
			       "12\0"
			       "45",
			       5),
			 5);
	close(fd);
	fd = p4d_file_open(path);
	errno = 0;
	assert_null(p4d_file_read(fd, 4, &length));
	assert_int_equal(errno, EFBIG);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	text = p4d_file_read(fd, 5, &length);
	assert_int_equal(length, 5);
	assert_memory_equal(text,
			    "12\0"
			    "45",
			    6);
	free(text);
	close(fd);
	unlink(path);
}

/* A pipe does not say how much will come. */
static void pipes(void **state)
{
	int ends[2];
	size_t length;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	assert_int_equal(write(ends[1], "def", 3), 3);
	close(ends[1]);
	char *text = p4d_file_read(ends[0], 6, &length);
	assert_string_equal(text, "abcdef");
	free(text);
	close(ends[0]);
}

static void nothing_is_waited_for(void **state)
{
	char directory[] = "/tmp/p4d-file-XXXXXX", path[64];
	size_t length;

	(void)state;
	assert_non_null(mkdtemp(directory));
	int fd = p4d_file_open(directory);
	assert_null(p4d_file_read(fd, 10, &length));
	assert_int_equal(errno, EISDIR);
	close(fd);
	snprintf(path, sizeof(path), "%s/fifo", directory);
	assert_int_equal(p4d_file_open(path), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = p4d_file_open(path); /* nobody writes there */
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits),
	    cmocka_unit_test(pipes),
	    cmocka_unit_test(nothing_is_waited_for),
	};

	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
