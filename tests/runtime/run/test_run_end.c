/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ends: after a signal, by the watchdog, or because a rank fails. Also the memory limit of a
 * run. */
#include "support/support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/host_memory.h"
#include "run/local_ranks.h"
#include "run/rank_error.h"
#include "run/stop.h"
#include "run/watchdog.h"

/* Runs a function in a child; returns its wait status and its stderr. */
static int in_child(void (*work)(void), char *said, size_t size)
{
	int ends[2], status;
	size_t length = 0;
	ssize_t got;

	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		work();
		_exit(0);
	}
	close(ends[1]);
	while (length + 1 < size && (got = read(ends[0], said + length, size - 1 - length)) > 0)
		length += (size_t)got;
	said[length] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void stopped_politely(void)
{
	p4d_stop_catch();
	if (p4d_stop_asked())
		_exit(1);
	raise(SIGTERM);
	if (p4d_stop_asked() != SIGTERM)
		_exit(2);
	raise(SIGTERM);
	raise(SIGUSR1);
	raise(SIGPIPE);
	if (p4d_stop_asked() != SIGUSR1)
		_exit(3);
	p4d_stop_pass(getpid(), SIGINT);
	raise(SIGINT); /* the signal that was passed on has also reached the whole process group, so it
			* counts once */
	if (p4d_stop_asked() != SIGINT)
		_exit(4);
	raise(SIGINT); /* a second signal ends the process */
}

static void test_signals(void **state)
{
	char said[256];
	int status = in_child(stopped_politely, said, sizeof(said));

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGINT);
	assert_string_equal(p4d_stop_name(SIGUSR1), "SIGUSR1");
}

static void hangs(void)
{
	p4d_error err;

	if (p4d_watchdog_arm(100, "rank 3 (h2)", &err) < 0)
		_exit(2);
	p4d_watchdog_kick("step 12");
	raise(SIGALRM); /* the timer raises this signal at the end of the time */
}

static void works(void)
{
	struct timespec nap = {.tv_nsec = 400000000};
	p4d_error err;

	if (p4d_watchdog_arm(1, "rank 3 (h2)", &err) < 0)
		_exit(2);
	for (int i = 0; i < 3; i++) {
		nanosleep(&nap, NULL);
		p4d_watchdog_kick("a step");
	}
	p4d_watchdog_end();
	nap = (struct timespec){.tv_sec = 1, .tv_nsec = 50000000};
	nanosleep(&nap, NULL);
}

static void sleeps(void)
{
	struct timespec nap = {.tv_sec = 60};
	p4d_error err;

	if (p4d_watchdog_arm(1, "rank 0 (h1)", &err) == 0)
		nanosleep(&nap, NULL);
}

static void test_watchdog(void **state)
{
	char said[512];
	int status = in_child(hangs, said, sizeof(said));

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), P4D_E_RANK);
	assert_string_equal(said, "p4d-train: [P4D050] rank 3 (h2): no progress in step 12 for 100 s\n");
	status = in_child(sleeps, said, sizeof(said));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == P4D_E_RANK);
	status = in_child(works, said, sizeof(said));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Works for a while, as ranks do that save after they were asked to stop. */
static int saves(uint32_t rank, void *context)
{
	struct timespec nap = {.tv_nsec = 1000000};

	(void)rank, (void)context;
	while (!p4d_stop_asked())
		nanosleep(&nap, NULL);
	nap.tv_nsec = 100000000;
	nanosleep(&nap, NULL);
	return P4D_EXIT_AGAIN;
}

static void two_that_save(void)
{
	p4d_error err;

	setpgid(0, 0);
	_exit(p4d_local_ranks(2, saves, NULL, &err));
}

/* With `kill -INT %1`, parent and ranks get the signal. The parent also forwards it, and it must count
 * once. */
static void test_group_is_interrupted(void **state)
{
	const struct timespec nap = {.tv_nsec = 200000000};
	int status;

	(void)state;
	pid_t pid = fork();
	if (pid == 0)
		two_that_save();
	nanosleep(&nap, NULL);
	assert_int_equal(kill(-pid, SIGINT), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), P4D_EXIT_AGAIN);
}

static int says_rank(uint32_t rank, void *context)
{
	const int *codes = context;

	return codes[rank];
}

static int dies(uint32_t rank, void *context)
{
	struct timespec nap = {.tv_sec = 60};

	(void)context;
	if (rank == 1)
		raise(SIGKILL);
	/* this rank does not notice, so it is killed after the grace period */
	nanosleep(&nap, NULL);
	return 0;
}

static int passes_on(uint32_t rank, void *context)
{
	struct timespec nap = {.tv_nsec = 10000000};

	(void)context;
	p4d_stop_catch();
	if (rank == 0)
		kill(getppid(), SIGUSR1);
	while (!p4d_stop_asked())
		nanosleep(&nap, NULL);
	return P4D_EXIT_AGAIN;
}

static void test_local_ranks(void **state)
{
	int none[3] = {0, 0, 0}, one[3] = {P4D_E_RANK, P4D_E_DATA, P4D_E_RANK}, all[3] = {75, 75, 75};
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_local_ranks(3, says_rank, none, &err), 0);
	assert_int_equal(p4d_local_ranks(3, says_rank, one, &err), P4D_E_DATA);
	assert_int_equal(p4d_local_ranks(3, says_rank, all, &err), P4D_EXIT_AGAIN);
	assert_int_equal(p4d_local_ranks(0, says_rank, none, &err), -1);
	assert_int_equal(err.code, P4D_E_VALUE);
	assert_int_equal(p4d_local_ranks(3, passes_on, NULL, &err), P4D_EXIT_AGAIN);
}

/* The launcher prints a rank's error about another rank. A rank prints its own warnings itself. */
static int leaves_words(uint32_t rank, void *context)
{
	const p4d_error warning = {.code = P4D_E_CHECKPOINT, .text = "an old one"},
			lost = {.code = P4D_E_RANK, .text = "lost"};

	if (rank == 1)
		p4d_rank_report(&warning, NULL, 0);
	if (rank == 0)
		p4d_rank_error_final(&lost, "h1", 0);
	return rank == 1 ? dies(1, NULL) : *(const int *)context;
}

static void launches(void)
{
	p4d_error err;
	int fine = 0;

	_exit(p4d_local_ranks(3, leaves_words, &fine, &err));
}

static int words_only(uint32_t rank, void *context)
{
	const p4d_error err = {.code = P4D_E_DATA, .text = "no file", .fix = "--data b"};

	if (rank == 0)
		p4d_rank_error_final(&err, "h1", 0);
	return *(const int *)context;
}

static void launches_words(void)
{
	int status = P4D_E_DATA;
	p4d_error err;

	_exit(p4d_local_ranks(2, words_only, &status, &err));
}

static void test_local_rank_killed(void **state)
{
	time_t began = time(NULL);
	char said[512], host[65] = "", start[128];
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_local_ranks(3, dies, NULL, &err), 128 + SIGKILL);
	assert_true(time(NULL) - began < 40);
	gethostname(host, sizeof(host) - 1);
	int status = in_child(launches, said, sizeof(said));
	assert_int_equal(WEXITSTATUS(status), 128 + SIGKILL);
	const char *line = strstr(said, "p4d-train: [P4D050]");
	assert_true(line && strstr(said, "p4d-train: [P4D052] an old one\n"));
	snprintf(start, sizeof(start), "p4d-train: [P4D050] rank 1 (%s) ended unexpectedly: process ", host);
	assert_memory_equal(line, start, strlen(start));
	assert_non_null(strstr(line, " was killed by signal 9 (Killed)\n"));
	assert_null(strstr(said, "lost"));
	status = in_child(launches_words, said, sizeof(said));
	assert_int_equal(WEXITSTATUS(status), P4D_E_DATA);
	assert_string_equal(said, "p4d-train: [P4D051] rank 0 (h1): no file\np4d-train: fix: --data b\n");
}

static void test_who_speaks(void **state)
{
	const p4d_error err = {.code = P4D_E_DATA, .text = "no file", .fix = "--data b"};
	char text[200];

	(void)state;
	/* only rank 0 prints an error that another rank caused */
	assert_true(p4d_rank_error_claim(0, "rank 3 (h2): [P4D051] no file"));
	assert_true(
	    p4d_rank_error_claim(0, "rank 3 (h2) ended unexpectedly: process 7 was killed or crashed"));
	assert_false(p4d_rank_error_claim(1, "rank 3 (h2): [P4D051] no file"));
	/* an error of rank 0 is printed by rank 0 or, if rank 0 is gone, by rank 1 */
	assert_false(p4d_rank_error_claim(1, "rank 0 (h1): [P4D051] no file"));
	assert_true(
	    p4d_rank_error_claim(1, "rank 0 (h1) ended unexpectedly: process 7 was killed or crashed"));
	assert_false(
	    p4d_rank_error_claim(2, "rank 0 (h1) ended unexpectedly: process 7 was killed or crashed"));
	assert_string_equal(p4d_rank_cause(&err, 12, text, sizeof(text)),
			    "step 12: [P4D051] no file; fix: --data b");
	assert_string_equal(
	    p4d_rank_cause(&(p4d_error){.code = P4D_E_IO, .text = "x"}, 0, text, sizeof(text)), "[P4D003] x");
}

static void write_file(const char *root, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_host_memory(void **state)
{
	char root[] = "/tmp/p4d-memory-XXXXXX", command[64];
	uint64_t bytes = 0;
	p4d_error err;

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_int_equal(p4d_host_memory(root, &bytes, &err), -1);
	assert_int_equal(err.code, P4D_E_IO);
	write_file(root, "/proc/meminfo", "Flags: 1\nMemTotal:       1000 kB\nMemFree: 9 kB\n");
	assert_int_equal(p4d_host_memory(root, &bytes, &err), 0);
	assert_int_equal(bytes, 1024000);
	/* cgroup version 2: the limit is the lowest one of the process's group and of the groups above it */
	write_file(root, "/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
	write_file(root, "/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
	write_file(root, "/sys/fs/cgroup/slurm/job_7/memory.max", "500000\n");
	write_file(root, "/sys/fs/cgroup/slurm/memory.max", "700000\n");
	assert_int_equal(p4d_host_memory(root, &bytes, &err), 0);
	assert_int_equal(bytes, 500000);
	/* cgroup version 1, next to other controllers */
	write_file(root, "/proc/self/cgroup", "12:cpuset:/a\n5:cpu,memory:/slurm/uid_1\n1:name=systemd:/\n");
	write_file(root, "/sys/fs/cgroup/memory/slurm/uid_1/memory.limit_in_bytes", "400000\n");
	assert_int_equal(p4d_host_memory(root, &bytes, &err), 0);
	assert_int_equal(bytes, 400000);
	/* cgroup version 1 writes "no limit" as a number above the machine's memory */
	write_file(root, "/sys/fs/cgroup/memory/slurm/uid_1/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(p4d_host_memory(root, &bytes, &err), 0);
	assert_int_equal(bytes, 1024000);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
	assert_int_equal(p4d_host_memory("", &bytes, &err), 0);
	/* freeing memory does not lower the peak; mapped files do not count as new memory */
	const uint64_t before = p4d_host_memory_peak(), mapped = p4d_host_memory_mapped();
	const size_t some = 64 << 20;
	char *memory = mmap(NULL, some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	memset(memory, 1, some);
	assert_int_equal(munmap(memory, some), 0);
	assert_true(before > 0 && mapped > 0 && mapped <= before);
	/* the kernel counts pages per processor and adds the counts later, so they may be off by some MiB */
	assert_true(p4d_host_memory_peak() + (8 << 20) >= mapped + some);
	assert_true(p4d_host_memory_mapped() < mapped + (16 << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_signals),           cmocka_unit_test(test_watchdog),
	    cmocka_unit_test(test_local_ranks),       cmocka_unit_test(test_group_is_interrupted),
	    cmocka_unit_test(test_local_rank_killed), cmocka_unit_test(test_who_speaks),
	    cmocka_unit_test(test_host_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
