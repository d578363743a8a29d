/* SPDX-License-Identifier: Apache-2.0 */
/* Saving in the background, loading an older checkpoint if the latest is damaged, full disks, and killed
 * processes. */
#include "support/support.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/checkpoint_ranks.h"

/* What ranks do in threads, and their results. */
typedef struct session {
	const char *dir;
	uint32_t keep;
	uint64_t first, last; /* steps to save */
	bool wait;            /* whether to wait for each checkpoint */
	int rc[MOST_RANKS];
	p4d_error err[MOST_RANKS];
	p4d_checkpoint_info info[MOST_RANKS];
	bool found[MOST_RANKS];
	unsigned completed[MOST_RANKS];
	unsigned warnings;
	char warning[512];
	const char *plan;
} session;

static void save_steps(test_rank *rank, void *context)
{
	session *s = context;
	const uint32_t me = rank->peers.rank;
	p4d_error *err = &s->err[me];
	p4d_checkpoint_saver *saver;
	bool done;

	s->rc[me] = p4d_checkpoint_saver_open(&saver, s->dir, s->keep, &rank->storage, &rank->peers, err);
	if (s->rc[me] < 0)
		return;
	for (uint64_t step = s->first; step <= s->last && s->rc[me] == 0; step++) {
		p4d_checkpoint_info info = {.step = step, .consumed = 96 * step, .seed = UINT64_MAX - step};
		snprintf(info.plan, sizeof(info.plan), "%s", s->plan);
		visit_rank(rank, set_element, &step);
		s->rc[me] = p4d_checkpoint_saver_begin(saver, &info, err);
		/* the next step changes the numbers while the copy is being saved */
		uint64_t other = ~step;
		visit_rank(rank, set_element, &other);
		for (int polls = 0; polls < 3 && s->rc[me] == 0; polls++) {
			s->rc[me] = p4d_checkpoint_saver_poll(saver, s->wait, &done, err);
			s->completed[me] += s->rc[me] == 0 && done;
		}
	}
	if (s->rc[me] == 0)
		s->rc[me] = p4d_checkpoint_saver_poll(saver, true, &done, err);
	p4d_checkpoint_saver_close(saver);
}

static void warned(void *context, const char *text)
{
	session *s = context;

	s->warnings++;
	snprintf(s->warning, sizeof(s->warning), "%s", text);
}

static void resume(test_rank *rank, void *context)
{
	session *s = context;
	const uint32_t me = rank->peers.rank;

	s->rc[me] = p4d_checkpoint_resume(s->dir, &rank->storage, &rank->peers, warned, s, &s->info[me],
					  &s->found[me], &s->err[me]);
}

/* Checks that all ranks resumed at this step, with its values. */
static void check_resumed(test_job *job, const session *s, uint64_t step)
{
	uint64_t equal = 0;

	for (uint32_t i = 0; i < job->world; i++) {
		if (s->rc[i] < 0)
			fail_msg("%s", s->err[i].text);
		assert_true(s->found[i]);
		assert_int_equal(s->info[i].step, step);
		comparison c = {.salt = step};
		visit_rank(&job->rank[i], compare_element, &c);
		assert_int_equal(c.wrong, 0);
		equal += c.equal;
	}
	assert_true(equal > 0);
}

static unsigned count_in(const char *dir, const char *prefix)
{
	DIR *open = opendir(dir);
	unsigned count = 0;

	assert_non_null(open);
	for (struct dirent *entry; (entry = readdir(open));)
		count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(open);
	return count;
}

static void saved_in_the_background(void **state)
{
	for (int wait = 0; wait < 2; wait++) {
		test_job *job = open_or_fail(FOUR_RANKS);
		session s = {.dir = in_directory(wait ? "waits" : "background"),
			     .keep = 2,
			     .first = 1,
			     .last = 5,
			     .wait = wait,
			     .plan = job->plan};
		(void)state;
		run_job(job, resume, &s);
		for (uint32_t i = 0; i < job->world; i++)
			assert_true(s.rc[i] == 0 && !s.found[i]);
		run_job(job, save_steps, &s);
		for (uint32_t i = 0; i < job->world; i++) {
			if (s.rc[i] < 0)
				fail_msg("%s", s.err[i].text);
			if (wait)
				assert_int_equal(s.completed[i], 5);
		}
		assert_int_equal(count_in(s.dir, "step-"), 2);
		assert_int_equal(count_in(s.dir, "step-00000004"), 1);
		assert_int_equal(count_in(s.dir, "."), 2); /* . and .. */
		run_job(job, resume, &s);
		check_resumed(job, &s, 5);
		assert_int_equal(s.warnings, 0);
		close_job(job);
	}
}

/* If the file of one rank is damaged, all ranks load the previous checkpoint, and training continues from
 * there. */
static void falls_back_together(void **state)
{
	char path[P4D_PATH], file[P4D_PATH];
	test_job *job = open_or_fail(FOUR_RANKS);
	session s = {.dir = in_directory("back"), .first = 1, .last = 3, .wait = true, .plan = job->plan};

	(void)state;
	run_job(job, save_steps, &s);
	assert_int_equal(p4d_checkpoint_path(s.dir, 3, path, sizeof(path), NULL), 0);
	assert_int_equal(p4d_checkpoint__rank_path(path, 2, file, NULL), 0);
	whole_file whole = read_whole(file);
	poke(file, whole.size / 2, whole.data[whole.size / 2] ^ 0x10);
	free(whole.data);
	run_job(job, resume, &s);
	check_resumed(job, &s, 2);
	assert_int_equal(s.warnings, 1);
	assert_non_null(strstr(s.warning, "rank-00002.safetensors"));
	assert_non_null(strstr(s.warning, "expected"));

	/* whatever step is saved next, the damaged checkpoint must not count as the latest again */
	s.first = s.last = 3;
	run_job(job, save_steps, &s);
	assert_int_equal(count_in(s.dir, "abandoned-step-00000003"), 1);
	run_job(job, resume, &s);
	check_resumed(job, &s, 3);
	assert_int_equal(s.warnings, 1);

	/* if no checkpoint can be used, that is an error, not a new start */
	for (uint64_t step = 1; step <= 3; step++) {
		assert_int_equal(p4d_checkpoint_path(s.dir, step, path, sizeof(path), NULL), 0);
		assert_int_equal(p4d_checkpoint__join_path(file, NULL, "%s/manifest.json", path), 0);
		assert_int_equal(truncate(file, 100), 0);
	}
	run_job(job, resume, &s);
	for (uint32_t i = 0; i < job->world; i++) {
		assert_int_equal(s.rc[i], -1);
		assert_int_equal(s.err[i].code, P4D_E_CHECKPOINT);
		assert_non_null(strstr(s.err[i].text, "none of the 3 checkpoints"));
	}
	assert_int_equal(s.warnings, 4);
	close_job(job);
}

/* A job saved on four ranks in the background is resumed on other numbers of ranks. */
static void resumes_on_another_layout(void **state)
{
	test_job *job = open_or_fail(FOUR_RANKS);
	session s = {.dir = in_directory("moved"), .first = 7, .last = 7, .wait = true, .plan = job->plan};

	(void)state;
	run_job(job, save_steps, &s);
	for (int i = 0; i < 5; i++) {
		test_job *to = random_job(SMALL_MODEL "tied=off bias=none qk-norm=off");
		run_job(to, resume, &s);
		check_resumed(to, &s, 7);
		close_job(to);
	}
	close_job(job);
}

/* Writes fail at a file size limit, as on a full disk. The test tries limits from zero to nearly the size
 * of the whole checkpoint. */
static void full_disk_leaves_the_last_one(void **state)
{
	static const rlim_t limits[] = {0, 1, 100, 1000, 4096, 30000};
	struct rlimit before, small;
	test_job *job = open_or_fail(FOUR_RANKS);
	session s = {.dir = in_directory("full"), .keep = 1, .first = 1, .last = 1, .wait = true};
	void (*old)(int) = signal(SIGXFSZ, SIG_IGN);

	(void)state;
	s.plan = job->plan;
	run_job(job, save_steps, &s);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (unsigned i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		s.first = s.last = 2;
		s.wait = i % 2;
		small = (struct rlimit){limits[i], before.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		run_job(job, save_steps, &s);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		for (uint32_t r = 0; r < job->world; r++) {
			assert_int_equal(s.rc[r], -1);
			assert_int_equal(s.err[r].code, P4D_E_IO);
			assert_non_null(strstr(s.err[r].text, "checkpoint of step 2, rank "));
			assert_non_null(strstr(s.err[r].text, "cannot be written: File too large"));
		}
		assert_int_equal(count_in(s.dir, "step-"), 1);
		assert_int_equal(count_in(s.dir, "."), 2);
		run_job(job, resume, &s);
		check_resumed(job, &s, 1);
	}
	assert_int_equal(s.warnings, 0);
	/* when there is space again, saving works and leaves no partial files */
	run_job(job, save_steps, &s);
	run_job(job, resume, &s);
	check_resumed(job, &s, 2);
	assert_int_equal(count_in(s.dir, "."), 2);
	assert_int_equal(count_in(s.dir, "step-"), 1);
	signal(SIGXFSZ, old);
	close_job(job);
}

static void one_rank_that_fails_fails_all(void **state)
{
	test_job *job = open_or_fail(FOUR_RANKS);
	session s = {.dir = in_directory("fails"), .first = 1, .last = 1, .plan = job->plan};

	(void)state;
	run_job(job, save_steps, &s);
	job->rank[3].read_fails = true;
	s.first = s.last = 2;
	run_job(job, save_steps, &s);
	for (uint32_t i = 0; i < job->world; i++) {
		assert_int_equal(s.rc[i], -1);
		assert_string_equal(s.err[i].text, "checkpoint of step 2, rank 3: the device is lost");
	}
	job->rank[3].read_fails = false;
	run_job(job, resume, &s);
	check_resumed(job, &s, 1);
	/* p4d reports a directory that it cannot write to before training begins */
	write_file(in_directory("file"), "", 0);
	s.dir = in_directory("file/below");
	run_job(job, save_steps, &s);
	for (uint32_t i = 0; i < job->world; i++) {
		assert_int_equal(s.rc[i], -1);
		assert_int_equal(s.err[i].code, P4D_E_IO);
	}
	close_job(job);
}

/* Partial files of a process that was killed while it wrote or removed a checkpoint are removed. Files of
 * other programs stay. */
static void leftovers_are_removed(void **state)
{
	static const char *const made[] = {"left/.partial-step-00000009", "left/.old-step-00000003",
					   "left/.old-step-00000004"};
	char file[P4D_PATH], dir[160];
	test_job *job = open_or_fail(FOUR_RANKS);
	session s = {.dir = dir, .first = 1, .last = 1, .plan = job->plan};

	(void)state;
	snprintf(dir, sizeof(dir), "%s", in_directory("left"));
	assert_int_equal(p4d_checkpoint__make_directory(dir, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(p4d_checkpoint__make_directory(in_directory(made[i]), NULL), 0);
		assert_int_equal(p4d_checkpoint__join_path(file, NULL, "%s/rank-00001.safetensors.123-0",
							   in_directory(made[i])),
				 0);
		write_file(file, "x", 1);
	}
	write_file(in_directory("left/.old-step-00000004/mine"), "x", 1);
	run_job(job, save_steps, &s);
	assert_int_equal(s.rc[0], 0);
	assert_int_equal(count_in(dir, ".partial"), 0);
	assert_int_equal(count_in(dir, ".old"), 1);
	assert_int_equal(access(in_directory("left/.old-step-00000004/mine"), F_OK), 0);
	assert_int_equal(count_in(dir, "step-"), 1);

	/* such partial files must not prevent the removal of a later checkpoint with the same name */
	s.first = 4;
	s.last = 5;
	s.keep = 1;
	s.wait = true;
	run_job(job, save_steps, &s);
	if (s.rc[0] < 0)
		fail_msg("%s", s.err[0].text);
	assert_int_equal(count_in(dir, "step-"), 1);
	assert_int_equal(count_in(dir, "abandoned-step-00000004"), 1);
	close_job(job);
}

/* Another user has put a symbolic link under the name of the next checkpoint. */
static void links_are_not_followed(void **state)
{
	char dir[160], elsewhere[160];
	test_job *job = open_or_fail(FOUR_RANKS);
	session s = {.dir = dir, .first = 1, .last = 1, .plan = job->plan};

	(void)state;
	snprintf(dir, sizeof(dir), "%s", in_directory("linked"));
	snprintf(elsewhere, sizeof(elsewhere), "%s", in_directory("elsewhere"));
	assert_int_equal(p4d_checkpoint__make_directory(dir, NULL), 0);
	assert_int_equal(p4d_checkpoint__make_directory(elsewhere, NULL), 0);
	assert_int_equal(symlink(elsewhere, in_directory("linked/.partial-step-00000001")), 0);
	run_job(job, save_steps, &s);
	for (uint32_t i = 0; i < job->world; i++) {
		assert_int_equal(s.err[i].code, P4D_E_IO);
		assert_non_null(
		    strstr(s.err[i].text, ".partial-step-00000001: already exists, but is not a directory"));
	}
	assert_int_equal(count_in(elsewhere, ""), 2); /* . and .. */
	close_job(job);
}

/* Saves checkpoints until it is killed. */
static void save_until_killed(const char *dir, uint64_t first, int ready)
{
	test_job *job = open_or_fail(TWO_RANKS);
	session s = {.dir = dir, .keep = 2, .first = first, .last = UINT64_MAX, .plan = job->plan};

	if (write(ready, "", 1) != 1)
		_exit(1);
	run_job(job, save_steps, &s);
	_exit(1);
}

/* If a process is killed at any moment, the latest checkpoint is complete, and is at least the last one
 * that was complete before. */
static void killed_at_any_moment(void **state)
{
	const char *dir = in_directory("killed");
	test_job *job = open_or_fail(TWO_RANKS);
	session s = {.dir = dir, .keep = 2, .first = 1, .last = 1, .wait = true, .plan = job->plan};
	uint64_t step = 1, leftovers = 0;

	(void)state;
	run_job(job, save_steps, &s);
	for (int kill_number = 0; kill_number < 50; kill_number++) {
		int ready[2], status;
		char byte;
		assert_int_equal(pipe(ready), 0);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0)
			save_until_killed(dir, step + 1, ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		struct timespec moment = {.tv_nsec = below(12000000)};
		nanosleep(&moment, NULL);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		close(ready[0]);
		close(ready[1]);
		leftovers += count_in(dir, ".partial") + count_in(dir, ".old");
		run_job(job, resume, &s);
		assert_true(s.rc[0] == 0 && s.found[0] && s.info[0].step >= step);
		step = s.info[0].step;
		check_resumed(job, &s, step);
		assert_int_equal(s.warnings, 0);
	}
	printf("50 kills: %llu checkpoints, %llu unfinished\n", (unsigned long long)step,
	       (unsigned long long)leftovers);
	close_job(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(saved_in_the_background),       cmocka_unit_test(falls_back_together),
	    cmocka_unit_test(resumes_on_another_layout),     cmocka_unit_test(full_disk_leaves_the_last_one),
	    cmocka_unit_test(one_rank_that_fails_fails_all), cmocka_unit_test(leftovers_are_removed),
	    cmocka_unit_test(links_are_not_followed),        cmocka_unit_test(killed_at_any_moment),
	};

	return cmocka_run_group_tests(tests, make_quick_directory, remove_directory);
}
