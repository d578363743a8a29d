/* SPDX-License-Identifier: Apache-2.0 */
/* p4d refuses checkpoints with flipped bits, and files that are truncated, torn, or mixed from several
 * checkpoints. */
#include "support/support.h"

#include "support/checkpoint_ranks.h"

/* Whether all ranks load the checkpoint. */
static bool loads(test_job *job, const char *path, p4d_error *err)
{
	p4d_checkpoint_info info;

	for (uint32_t i = 0; i < job->world; i++)
		if (p4d_checkpoint_load(path, &job->rank[i].storage, &info, err) < 0) {
			assert_int_equal(err->code, P4D_E_CHECKPOINT);
			return false;
		}
	return true;
}

static void must_not_load(test_job *job, const char *path, const char *what, size_t at)
{
	p4d_error err = {.code = P4D_OK};

	if (loads(job, path, &err))
		fail_msg("%s at byte %zu: not noticed", what, at);
}

static const char *const parts[] = {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"};

static void part_path(const char *path, int part, char file[P4D_PATH])
{
	assert_int_equal(p4d_checkpoint__join_path(file, NULL, "%s/%s", path, parts[part]), 0);
}

static test_job *save_two(const char *dir, char path[P4D_PATH])
{
	test_job *job = open_or_fail(TWO_RANKS);

	fill_job(job, 1);
	save_job(job, dir, 1);
	assert_int_equal(p4d_checkpoint_path(dir, 1, path, P4D_PATH, NULL), 0);
	assert_true(loads(job, path, NULL));
	return job;
}

/* Flips each byte of the manifest, of the lengths and headers of files, and of their ends. Flips every 7th
 * byte of the data. */
static void every_flipped_byte_is_noticed(void **state)
{
	char path[P4D_PATH], file[P4D_PATH];
	test_job *job = save_two(in_directory("flip"), path);

	(void)state;
	for (int part = 0; part < 3; part++) {
		part_path(path, part, file);
		whole_file whole = read_whole(file);
		size_t header = 0;
		if (part)
			memcpy(&header, whole.data, sizeof(header));
		for (size_t at = 0; at < whole.size; at++) {
			if (part && at > header + 16 && at + 80 < whole.size && at % 7)
				continue;
			poke(file, at, whole.data[at] ^ (uint8_t)(1u << at % 8));
			must_not_load(job, path, parts[part], at);
			poke(file, at, whole.data[at]);
		}
		assert_true(loads(job, path, NULL));
		free(whole.data);
	}
	close_job(job);
}

static void every_cut_is_noticed(void **state)
{
	char path[P4D_PATH], file[P4D_PATH];
	test_job *job = save_two(in_directory("cut"), path);

	(void)state;
	for (int part = 0; part < 3; part++) {
		part_path(path, part, file);
		whole_file whole = read_whole(file);
		for (size_t at = 0; at < whole.size; at += at % 5 + 1) {
			assert_int_equal(truncate(file, (off_t)at), 0);
			must_not_load(job, path, parts[part], at);
			write_file(file, whole.data, whole.size);
		}
		/* longer files, files torn in the middle, and missing files */
		assert_int_equal(truncate(file, (off_t)whole.size + 1), 0);
		must_not_load(job, path, "longer", whole.size);
		uint8_t *torn = calloc(1, whole.size);
		assert_non_null(torn);
		memcpy(torn, whole.data, whole.size / 2);
		write_file(file, torn, whole.size);
		must_not_load(job, path, "torn", whole.size / 2);
		free(torn);
		assert_int_equal(remove(file), 0);
		must_not_load(job, path, "removed", 0);
		write_file(file, whole.data, whole.size);
		assert_true(loads(job, path, NULL));
		free(whole.data);
	}
	close_job(job);
}

/* Undamaged files of another rank or of another step. */
static void mixed_files_are_noticed(void **state)
{
	char path[P4D_PATH], file[P4D_PATH], other[P4D_PATH], later[P4D_PATH];
	const char *dir = in_directory("mixed");
	test_job *job = save_two(dir, path);

	(void)state;
	part_path(path, 1, file);
	part_path(path, 2, other);
	whole_file mine = read_whole(file), theirs = read_whole(other);
	assert_int_equal(mine.size, theirs.size);
	write_file(file, theirs.data, theirs.size);
	must_not_load(job, path, "another rank's", 0);
	write_file(file, mine.data, mine.size);
	fill_job(job, 2);
	save_job(job, dir, 2);
	assert_int_equal(p4d_checkpoint_path(dir, 2, later, sizeof(later), NULL), 0);
	part_path(later, 1, other);
	write_file(other, mine.data, mine.size);
	must_not_load(job, later, "another step's", 0);
	free(mine.data);
	free(theirs.data);
	close_job(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_flipped_byte_is_noticed),
	    cmocka_unit_test(every_cut_is_noticed),
	    cmocka_unit_test(mixed_files_are_noticed),
	};

	return cmocka_run_group_tests(tests, make_quick_directory, remove_directory);
}
