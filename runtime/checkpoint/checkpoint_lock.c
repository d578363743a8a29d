/* SPDX-License-Identifier: Apache-2.0 */
/* Allows only one run at a time in a checkpoint directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint_internal.h"

static const char *variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : "-";
}

/* The run that holds the lock: host, process, job, and how often that job was requeued. */
typedef struct holder {
	char host[65], process[24], job[24], restarts[16];
} holder;

static holder own(void)
{
	holder h = {.host = "this host"};

	if (gethostname(h.host, sizeof(h.host) - 1) < 0)
		snprintf(h.host, sizeof(h.host), "-");
	snprintf(h.process, sizeof(h.process), "%d", (int)getpid());
	snprintf(h.job, sizeof(h.job), "%.23s", variable("SLURM_JOB_ID"));
	snprintf(h.restarts, sizeof(h.restarts), "%.15s", variable("SLURM_RESTART_COUNT"));
	return h;
}

/*
 * Reads the holder from the lock file. The texts are empty if the file has another form, or the holder has
 * not written it yet.
 */
static holder read_holder(int fd)
{
	holder h = {.host = ""};
	char text[160];
	const ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	sscanf(text, "%64s %23s %23s %15s", h.host, h.process, h.job, h.restarts);
	return h;
}

static bool is_job(const holder *h)
{
	return h->job[0] && strcmp(h->job, "-") != 0;
}

static bool is_before_requeue(const holder *theirs, const holder *mine)
{
	return is_job(mine) && !strcmp(theirs->job, mine->job) &&
	       strcmp(theirs->restarts, mine->restarts) != 0;
}

/*
 * Writes this run's name to the lock file. The lock is also valid without this text, for instance on a full
 * disk.
 */
static void write_holder(int fd, const holder *mine)
{
	char text[160];
	const int length = snprintf(text, sizeof(text), "%s %s %s %s\n", mine->host, mine->process, mine->job,
				    mine->restarts);

	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) < 0)
		return;
}

/* Whether the opened file is still the one at `path`. The previous holder may have removed it in between. */
static bool is_there(int fd, const char *path)
{
	struct stat here, there;

	return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino;
}

void p4d_checkpoint__unlock(const char *dir, int fd)
{
	char path[P4D_PATH];

	if (fd < 0)
		return;
	if (p4d_checkpoint__join_path(path, NULL, "%s/.lock", dir) == 0)
		unlink(path);
	close(fd);
}

int p4d_checkpoint__lock(const char *dir, int *result, p4d_error *err)
{
	const holder mine = own();
	char path[P4D_PATH];

	if (p4d_checkpoint__join_path(path, err, "%s/.lock", dir) < 0)
		return -1;
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return p4d_fail(err, P4D_E_IO, "%.255s: cannot create: %m", path);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		if (!is_there(fd, path)) {
			close(fd);
			return p4d_checkpoint__lock(dir, result, err);
		}
		write_holder(fd, &mine);
		*result = fd;
		return 0;
	}
	const bool held = errno == EWOULDBLOCK;
	const holder theirs = read_holder(fd);
	const bool taken = held && !is_before_requeue(&theirs, &mine);
	close(fd);
	*result = -1;
	if (!taken)
		return 0;
	return p4d_fail(err, P4D_E_CHECKPOINT,
			"%.200s: process %s on %s%s%s also saves checkpoints in this directory; give this "
			"run another --checkpoint",
			dir, theirs.process[0] ? theirs.process : "?", theirs.host[0] ? theirs.host : "?",
			is_job(&theirs) ? ", job " : "", is_job(&theirs) ? theirs.job : "");
}
