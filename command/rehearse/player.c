/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/player.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/library.h"
#include "line/line.h"
#include "rehearse/played_progress.h"
#include "rehearse/rank_environment.h"
#include "rehearse/strays.h"

static const char *const driver_names[] = {"libcuda.so.1", "libnvidia-ml.so.1"};

static volatile sig_atomic_t interrupted;
static volatile pid_t running; /* the leader of the program's process group */

static void interrupt(int signal)
{
	interrupted = signal;
	if (running > 0)
		kill(-running, SIGKILL);
}

static void path_in(const char *directory, const char *name, char *path, size_t size)
{
	if (snprintf(path, size, "%s/%s", directory, name) >= (int)size)
		path[0] = '\0'; /* opening this path fails */
}

void p4d_player__file(const p4d_player *player, const char *name, uint64_t rank, char *path, size_t size)
{
	char file[64];

	snprintf(file, sizeof(file), "%s-%" PRIu64, name, rank);
	path_in(player->directory, file, path, size);
}

/* Finds the directory of the libraries: next to the program in a build tree, else where they are
 * installed. */
static int find_parts(p4d_player *p, p4d_error *err)
{
	const char *data = p4d_line_data_directory();
	char link[PATH_MAX], built[PATH_MAX + 32];
	ssize_t length = readlink("/proc/self/exe", link, sizeof(link) - 1);

	if (!p4d_library_find("libp4d-rehearsal.so", p->library, sizeof(p->library)))
		return p4d_fail(err, P4D_E_INSTALLATION,
				"%.300s is missing: this p4d was installed without the files of p4d rehearse",
				p->library);
	link[length > 0 ? length : 0] = '\0';
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(link, '/');
		if (slash)
			*slash = '\0';
		snprintf(built, sizeof(built), "%s/rehearsal/python", link);
		if (!access(built, R_OK)) {
			snprintf(p->python, sizeof(p->python), "%.4000s", built);
			return 0;
		}
	}
	snprintf(p->python, sizeof(p->python), "%.4000s/rehearsal", data ? data : P4D_DATADIR);
	if (access(p->python, R_OK))
		return p4d_fail(err, P4D_E_INSTALLATION,
				"%.300s is missing: this p4d was installed without the files of p4d rehearse",
				p->python);
	return 0;
}

/* Puts a link into the rehearsal's directory. */
static int link_to(const p4d_player *p, const char *target, const char *name, p4d_error *err)
{
	char path[P4D_PLAYER_PATH];

	path_in(p->directory, name, path, sizeof(path));
	return symlink(target, path) ? p4d_fail(err, P4D_E_IO, "%.300s: %s", path, strerror(errno)) : 0;
}

/* Links the libraries of the driver to the stand-ins, and nvidia-smi to this program. */
static int link_driver(const p4d_player *p, p4d_error *err)
{
	char own[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

	for (size_t i = 0; i < sizeof(driver_names) / sizeof(driver_names[0]); i++)
		if (link_to(p, p->library, driver_names[i], err))
			return -1;
	own[length > 0 ? length : 0] = '\0';
	return link_to(p, own, "nvidia-smi", err);
}

int p4d_player__open(p4d_player *p, p4d_error *err)
{
	const char *tmp = getenv("TMPDIR");
	char path[P4D_PLAYER_PATH];

	if (find_parts(p, err))
		return -1;
	/* an absolute path, because the program may start in another directory */
	char *absolute = realpath(tmp && *tmp ? tmp : "/tmp", NULL);
	if (!absolute)
		return p4d_fail(err, P4D_E_IO, "TMPDIR=%.300s: %s", tmp ? tmp : "", strerror(errno));
	snprintf(p->directory, sizeof(p->directory), "%.4000s/p4d-rehearse.XXXXXX", absolute);
	free(absolute);
	if (!mkdtemp(p->directory)) {
		p4d_fail(err, P4D_E_IO, "%.300s: %s", p->directory, strerror(errno));
		p->directory[0] = '\0';
		return -1;
	}
	if (link_driver(p, err))
		return -1;
	path_in(p->directory, "record", path, sizeof(path));
	if (mkdir(path, 0700))
		return p4d_fail(err, P4D_E_IO, "%.300s: %s", path, strerror(errno));
	return 0;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status, (void)kind, (void)walk;
	remove(path);
	return 0;
}

void p4d_player__close(p4d_player *p)
{
	if (p->directory[0])
		nftw(p->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	p->directory[0] = '\0';
}

uint64_t p4d_player__world(const p4d_player *p)
{
	return p->nodes * p->ranks_per_node;
}

/* The command line of a rank, with its local rank in place of ${local_rank}. NULL: no memory. */
static char **words_of(const p4d_player *p, uint64_t rank)
{
	static const char name[] = P4D_PLAYER_LOCAL_RANK;
	size_t count = 0;

	while (p->program[count])
		count++;
	char **words = calloc(count + 1, sizeof(*words));
	for (size_t i = 0; words && i < count; i++) {
		const char *at = strstr(p->program[i], name);
		words[i] = p->program[i];
		if (at && asprintf(&words[i], "%.*s%" PRIu64 "%s", (int)(at - p->program[i]), p->program[i],
				   rank % p->ranks_per_node, at + strlen(name)) < 0)
			return NULL;
	}
	return words;
}

/* The program's output goes to a file or to stderr, because stdout is only for the answer. */
static void redirect(const p4d_player *p, uint64_t rank)
{
	char path[P4D_PLAYER_PATH];
	int fd = -1, none = open("/dev/null", O_RDONLY | O_CLOEXEC);

	p4d_player__file(p, "output", rank, path, sizeof(path));
	if (!p->verbose)
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (none >= 0)
		dup2(none, STDIN_FILENO); /* a process of another process group would be stopped if it read
					     the terminal */
	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
}

/* Starts the program in the child process. */
static void start(const p4d_player *p, uint64_t rank, pid_t parent)
{
	const struct rlimit none = {0, 0};
	char **words = words_of(p, rank);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the program ends if p4d ends */
	if (getppid() != parent)
		_exit(126);
	setrlimit(RLIMIT_CORE, &none);
	redirect(p, rank);
	if (!words || p4d_rank_environment__set(p, rank))
		_exit(126);
	if (p->working && chdir(p->working)) {
		fprintf(stderr, "p4d: %s: %s\n", p->working, strerror(errno));
		_exit(127);
	}
	execvp(words[0], words);
	fprintf(stderr, "p4d: %s: %s\n", words[0], strerror(errno));
	_exit(127);
}

static double seconds_since(const struct timespec *began)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)(t.tv_sec - began->tv_sec) + (double)(t.tv_nsec - began->tv_nsec) / 1e9;
}

/* 1: the program has ended. It is not reaped, so that no other process group can get its number. */
static int has_ended(pid_t child)
{
	siginfo_t ended;

	memset(&ended, 0, sizeof(ended));
	if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT))
		return errno == EINTR ? 0 : -1;
	return ended.si_pid == child;
}

/*
 * Waits for the program. It sleeps briefly between checks, because it must also notice the timeout. At the
 * timeout it sends SIGABRT, at which Python prints its stack, so that the output shows where the program
 * hangs.
 */
static int await(const p4d_player *p, pid_t child, p4d_played *played)
{
	const struct timespec nap = {.tv_nsec = 20000000};
	struct timespec began;
	p4d_played_progress progress = {.next = 0};
	struct rusage use;
	char launch[P4D_PLAYER_PATH], served[P4D_PLAYER_PATH];
	int status;

	p4d_player__file(p, "launch", played->rank, launch, sizeof(launch));
	p4d_player__file(p, "served", played->rank, served, sizeof(served));

	clock_gettime(CLOCK_MONOTONIC, &began);
	for (;;) {
		const int ended = has_ended(child);
		played->seconds = seconds_since(&began);
		if (ended < 0)
			return -1;
		if (ended)
			break;
		if (interrupted)
			kill(-child, SIGKILL);
		if (!played->timed_out && played->seconds > (double)p->timeout) {
			played->timed_out = true;
			kill(-child, SIGABRT);
		} else if (played->timed_out && played->seconds > (double)p->timeout + 5) {
			kill(-child, SIGKILL);
		}
		if (p->ends_at_launch && !access(launch, F_OK))
			kill(-child, SIGKILL);
		if (!access(served, F_OK) && (played->served = true))
			kill(-child, SIGKILL);
		p4d_played_progress__look(&progress, p, played);
		nanosleep(&nap, NULL);
	}
	played->served = played->served || !access(served, F_OK);
	p4d_played_progress__end(&progress, p);
	for (int i = 0; played->timed_out && i < 25; i++)
		nanosleep(&nap, NULL); /* if the group began with a shell, its Python is still printing */
	kill(-child, SIGKILL);         /* ends the rest of the group, such as workers that load data */
	running = 0;
	while (wait4(child, &status, 0, &use) < 0)
		if (errno != EINTR)
			return -1;
	played->status = played->served        ? 0
			 : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					       : WEXITSTATUS(status);
	played->resident_bytes = (uint64_t)use.ru_maxrss * 1024;
	return 0;
}

int p4d_player__play(const p4d_player *p, uint64_t rank, p4d_played *played, p4d_error *err)
{
	enum { SIGNALS = 3 };
	static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction on = {.sa_handler = interrupt}, old[SIGNALS];
	const pid_t own = getpid();
	char launch[P4D_PLAYER_PATH], served[P4D_PLAYER_PATH];
	p4d_strays strays;

	*played = (p4d_played){.rank = rank};
	p4d_player__file(p, "served", rank, served, sizeof(served));
	unlink(served);
	p4d_strays__begin(&strays);
	for (int i = 0; i < SIGNALS; i++) {
		sigaction(signals[i], &on, &old[i]);
		if (signals[i] == SIGHUP && old[i].sa_handler == SIG_IGN)
			sigaction(SIGHUP, &old[i], NULL); /* keeps SIGHUP ignored if it was, as under nohup */
	}
	fflush(NULL);
	pid_t child = fork();
	if (!child)
		start(p, rank, own);
	if (child > 0) {
		setpgid(child, child);
		running = played->pid = child;
	}
	int rc = child < 0 ? -1 : await(p, child, played);
	running = 0;
	p4d_strays__end(&strays);
	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &old[i], NULL);
	p4d_player__file(p, "launch", rank, launch, sizeof(launch));
	if (!rc && !interrupted && !p->quiet && (played->status || played->timed_out) && access(launch, F_OK))
		p4d_played_progress__print_output(p, rank);
	if (rc)
		return p4d_fail(err, P4D_E_IO, "rank %" PRIu64 " cannot be rehearsed: %s", rank,
				strerror(errno));
	if (interrupted)
		return p4d_fail(err, P4D_E_IO, "ended by signal %d", (int)interrupted);
	return 0;
}
