/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the same scalars, event files have the same bytes as those of TensorBoard's own writer
 * (scalars.tfevents, made with RecordWriter and Event of tensorboard 2.21). Each file ends with a complete
 * record.
 */
#include "support/support.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "run/tensorboard.h"

static size_t read_file(const char *path, uint8_t *to, size_t size)
{
	FILE *from = fopen(path, "rb");

	assert_non_null(from);
	const size_t bytes = fread(to, 1, size, from);
	fclose(from);
	return bytes;
}

static void records_are_those_of_tensorboard(void **state)
{
	const p4d_scalar first[] = {{"train/loss", 2.5}, {"left/out", NAN}, {"validation/web", -1e-3}};
	const p4d_scalar second[] = {{"performance/tokens_per_second", 123456.789}};
	uint8_t want[1024], got[2 * P4D_TENSORBOARD_RECORD];
	char path[1024];

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/data/scalars.tfevents", getenv("P4D_TEST_SRCDIR"));
	const size_t bytes = read_file(path, want, sizeof(want));
	size_t made = p4d_tensorboard_record(got, 1700000000.25, 1, first, 3);
	made += p4d_tensorboard_record(got + made, 1700000001.5, 300, second, 1);
	assert_int_equal(made, bytes);
	assert_memory_equal(got, want, bytes);
}

static void tags_and_counts_are_bounded(void **state)
{
	p4d_scalar many[P4D_TENSORBOARD_SCALARS + 5];
	uint8_t record[P4D_TENSORBOARD_RECORD];
	char tag[P4D_TENSORBOARD_TAG + 50];

	(void)state;
	memset(tag, 'x', sizeof(tag) - 1);
	tag[sizeof(tag) - 1] = '\0';
	for (size_t i = 0; i < sizeof(many) / sizeof(*many); i++)
		many[i] = (p4d_scalar){tag, 1e300};
	many[0].value = 0.5;
	assert_true(p4d_tensorboard_record(record, 1e9, UINT64_MAX, many, sizeof(many) / sizeof(*many)) <
		    sizeof(record));
}

static void the_only_file(const char *directory, char *path, size_t size)
{
	DIR *listed = opendir(directory);
	const struct dirent *entry;
	unsigned count = 0;

	assert_non_null(listed);
	while ((entry = readdir(listed)))
		if (entry->d_name[0] != '.') {
			snprintf(path, size, "%s/%s", directory, entry->d_name);
			assert_int_equal(strncmp(entry->d_name, "events.out.tfevents.", 20), 0);
			count++;
		}
	closedir(listed);
	assert_int_equal(count, 1);
}

/* Checks the length, data and checksums of each record. The second record says that the run continues with
 * step 11. */
static void a_file_is_whole_records(void **state)
{
	static const uint8_t start[] = {0x10, 11, 0x3a, 2, 0x08, 1};
	char directory[] = "/tmp/p4d-board.XXXXXX", path[512];
	const p4d_scalar loss = {"train/loss", 1};
	uint8_t all[1024];
	p4d_tensorboard board;
	p4d_error err;
	unsigned records = 0;

	(void)state;
	assert_non_null(mkdtemp(directory));
	assert_int_equal(p4d_tensorboard_open(&board, directory, 11, &err), 0);
	p4d_tensorboard_add(&board, 11, &loss, 1);
	p4d_tensorboard_add(&board, 12, &loss, 1);
	p4d_tensorboard_close(&board);
	p4d_tensorboard_add(&board, 13, &loss, 1); /* adds nothing, because the board is closed */
	the_only_file(directory, path, sizeof(path));
	const size_t bytes = read_file(path, all, sizeof(all));
	size_t at = 0;
	for (uint64_t length; at < bytes; at += 16 + length, records++) {
		memcpy(&length, all + at, sizeof(length));
		assert_true(at + 16 + length <= bytes);
		if (records == 0)
			assert_memory_equal(all + at + 12 + length - 13, "brain.Event:2", 13);
		if (records == 1)
			assert_memory_equal(all + at + 12 + length - sizeof(start), start, sizeof(start));
	}
	assert_int_equal(records, 4);
	/* a second run in the same second gets another file */
	assert_int_equal(p4d_tensorboard_open(&board, directory, 1, &err), 0);
	p4d_tensorboard_close(&board);
	char command[600];
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
}

static void failures_are_said(void **state)
{
	p4d_tensorboard board;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_tensorboard_open(&board, "/nonexistent/board", 1, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
	assert_non_null(strstr(err.text, "--tensorboard /nonexistent/board"));
	assert_int_equal(board.fd, -1);
	assert_int_equal(p4d_tensorboard_open(&board, "/dev/null", 1, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(records_are_those_of_tensorboard),
	    cmocka_unit_test(tags_and_counts_are_bounded),
	    cmocka_unit_test(a_file_is_whole_records),
	    cmocka_unit_test(failures_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
