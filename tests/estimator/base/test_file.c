/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/new_file.h"

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

/* The size of a pipe's content is not known in advance. */
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
	fd = p4d_file_open(path); /* A pipe without a writer: opening it does not block. */
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	rmdir(directory);
}

/* A new file goes into the directory that was opened, even if that directory is renamed later. It is never
 * written through another user's link. */
static void new_files_stay_in_their_directory(void **state)
{
	char top[] = "/tmp/p4d-new-XXXXXX", path[4][64];
	p4d_new_file file;
	p4d_error err;

	(void)state;
	assert_non_null(mkdtemp(top));
	for (int i = 0; i < 4; i++)
		snprintf(path[i], sizeof(path[i]), "%s/%s", top,
			 (const char *[]){"real", "moved", "link", "link/file"}[i]);
	assert_int_equal(mkdir(path[0], 0700), 0);
	assert_int_equal(symlink("real", path[2]), 0);
	assert_int_equal(p4d_new_file_open(&file, path[3], &err), 0);
	assert_int_equal(p4d_new_file_write(&file, "x", 1, &err), 0);
	assert_int_equal(rename(path[0], path[1]), 0);
	assert_int_equal(p4d_new_file_sync(&file, &err), 0);
	assert_int_equal(p4d_new_file_publish(&file, &err), 0);
	assert_int_equal(rename(path[1], path[0]), 0);
	assert_int_equal(access(path[3], F_OK), 0);
	assert_int_equal(unlink(path[3]), 0);
	if (!lchown(path[2], 65534, 65534)) {
		assert_int_equal(p4d_new_file_put(path[3], "x", 1, &err), -1);
		assert_int_equal(err.code, P4D_E_IO);
		assert_non_null(strstr(err.text, "symbolic links"));
	}
	unlink(path[2]);
	assert_int_equal(rmdir(path[0]), 0);
	rmdir(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits),
	    cmocka_unit_test(pipes),
	    cmocka_unit_test(nothing_is_waited_for),
	    cmocka_unit_test(new_files_stay_in_their_directory),
	};

	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
