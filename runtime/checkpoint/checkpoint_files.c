/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "checkpoint/checkpoint_internal.h"

enum { ASIDE_ATTEMPTS = 1000 };

static const char partial_prefix[] = ".partial-step-", old_prefix[] = ".old-step-", prefix[] = "step-";
static const char best_name[] = "best", best_partial[] = ".partial-best";

int p4d_checkpoint__join_path(char path[P4D_PATH], p4d_error *err, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	int length = vsnprintf(path, P4D_PATH, format, values);
	va_end(values);
	if (length < 0 || length >= P4D_PATH)
		return p4d_fail(err, P4D_E_VALUE, "the path %.200s... is too long", path);
	return 0;
}

bool p4d_checkpoint__is_one(const char *dir)
{
	char path[P4D_PATH];

	return p4d_checkpoint__join_path(path, NULL, "%s/manifest.json", dir) == 0 && access(path, F_OK) == 0;
}

int p4d_checkpoint_path(const char *dir, uint64_t step, char *path, size_t size, p4d_error *err)
{
	int length = p4d_checkpoint__is_one(dir) ? snprintf(path, size, "%s", dir)
						 : snprintf(path, size, "%s/%s%08" PRIu64, dir, prefix, step);

	if (length < 0 || (size_t)length >= size)
		return p4d_fail(err, P4D_E_VALUE, "the path %.200s... is too long", dir);
	return 0;
}

int p4d_checkpoint__partial_path(const char *dir, uint64_t step, char path[P4D_PATH], p4d_error *err)
{
	return p4d_checkpoint__join_path(path, err, "%s/%s%08" PRIu64, dir, partial_prefix, step);
}

int p4d_checkpoint__rank_path(const char *path, uint32_t rank, char file[P4D_PATH], p4d_error *err)
{
	return p4d_checkpoint__join_path(file, err, "%s/rank-%05" PRIu32 ".safetensors", path, rank);
}

int p4d_checkpoint__make_directory(const char *path, p4d_error *err)
{
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return p4d_fail(err, P4D_E_IO, "%.255s: cannot create: %m", path);
	return 0;
}

int p4d_checkpoint__make_partial(const char *dir, uint64_t step, char path[P4D_PATH], p4d_error *err)
{
	struct stat made;

	if (p4d_checkpoint__partial_path(dir, step, path, err) < 0 ||
	    p4d_checkpoint__make_directory(path, err) < 0)
		return -1;
	if (lstat(path, &made) < 0)
		return p4d_fail(err, P4D_E_IO, "%.255s: %m", path);
	if (!S_ISDIR(made.st_mode))
		return p4d_fail(err, P4D_E_IO, "%.255s: already exists, but is not a directory", path);
	return 0;
}

/* Reads a step number of eight or more digits after a prefix. The name must have nothing else. */
static bool parse_step(const char *name, const char *before, uint64_t *step)
{
	size_t length = strlen(before);
	char again[32];

	if (strncmp(name, before, length) != 0 || !p4d_number_whole(name + length, 0, UINT64_MAX, step))
		return false;
	snprintf(again, sizeof(again), "%08" PRIu64, *step);
	return !strcmp(again, name + length);
}

typedef struct step_list {
	uint64_t *at; /* ascending */
	size_t count;
} step_list;

static int by_number(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static int list_steps(const char *dir, const char *before, step_list *list, p4d_error *err)
{
	DIR *open = opendir(dir);
	uint64_t step;

	*list = (step_list){NULL, 0};
	if (!open)
		return p4d_fail(err, P4D_E_IO, "%.255s: cannot read: %m", dir);
	for (struct dirent *entry; (entry = readdir(open));) {
		if (!parse_step(entry->d_name, before, &step))
			continue;
		uint64_t *more = reallocarray(list->at, list->count + 1, sizeof(*more));
		if (!more) {
			closedir(open);
			free(list->at);
			*list = (step_list){NULL, 0};
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to list %.255s", dir);
		}
		list->at = more;
		more[list->count++] = step;
	}
	closedir(open);
	if (list->count)
		qsort(list->at, list->count, sizeof(*list->at), by_number);
	return 0;
}

int p4d_checkpoint_latest(const char *dir, uint64_t below, uint64_t *step, bool *found, p4d_error *err)
{
	step_list list;

	if (access(dir, F_OK) < 0 && errno == ENOENT) {
		*found = false;
		return 0;
	}
	if (p4d_checkpoint__is_one(dir)) {
		p4d_checkpoint_info info;
		if (p4d_checkpoint_read_info(dir, &info, err) < 0)
			return -1;
		*step = info.step;
		*found = info.step < below;
		return 0;
	}
	if (list_steps(dir, prefix, &list, err) < 0)
		return -1;
	*found = false;
	for (size_t i = list.count; i-- && !*found;)
		if (list.at[i] < below) {
			*step = list.at[i];
			*found = true;
		}
	free(list.at);
	return 0;
}

/*
 * Reads the step of the link's target; false: there is no link, or its target is no checkpoint of this
 * directory.
 */
static bool read_best(const char *dir, uint64_t *step)
{
	char path[P4D_PATH], target[64];

	if (p4d_checkpoint__join_path(path, NULL, "%s/%s", dir, best_name) < 0)
		return false;
	const ssize_t length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = '\0';
	return parse_step(target, prefix, step);
}

bool p4d_checkpoint_best(const char *dir, uint64_t *step)
{
	char path[P4D_PATH];

	return read_best(dir, step) && p4d_checkpoint_path(dir, *step, path, sizeof(path), NULL) == 0 &&
	       access(path, F_OK) == 0;
}

int p4d_checkpoint__name_best(const char *dir, uint64_t step, p4d_error *err)
{
	char partial[P4D_PATH], path[P4D_PATH], target[64];
	struct stat status;

	if (p4d_checkpoint__join_path(partial, err, "%s/%s", dir, best_partial) < 0 ||
	    p4d_checkpoint__join_path(path, err, "%s/%s", dir, best_name) < 0)
		return -1;
	if (lstat(path, &status) == 0 && !S_ISLNK(status.st_mode))
		return p4d_fail(err, P4D_E_IO, "%.255s: already exists, but is not a link to a checkpoint",
				path);
	snprintf(target, sizeof(target), "%s%08" PRIu64, prefix, step);
	(void)unlink(partial);
	if (symlink(target, partial) < 0 || rename(partial, path) < 0)
		return p4d_fail(err, P4D_E_IO, "%.255s: cannot link to %s: %m", path, target);
	return 0;
}

/*
 * Removes a checkpoint. Removes only files with p4d's names; if there are other files, the directory stays.
 */
static void remove_checkpoint(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *open_dir = fd < 0 ? NULL : fdopendir(fd);

	if (!open_dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(open_dir));)
		if (!strncmp(entry->d_name, "rank-", 5) || !strncmp(entry->d_name, "manifest.json", 13))
			unlinkat(fd, entry->d_name, 0);
	closedir(open_dir);
	rmdir(path);
}

static void remove_all(const char *dir, const char *before)
{
	char path[P4D_PATH];
	step_list list;

	if (list_steps(dir, before, &list, NULL) < 0)
		return;
	for (size_t i = 0; i < list.count; i++)
		if (p4d_checkpoint__join_path(path, NULL, "%s/%s%08" PRIu64, dir, before, list.at[i]) == 0)
			remove_checkpoint(path);
	free(list.at);
}

void p4d_checkpoint__remove_leftovers(const char *dir)
{
	remove_all(dir, partial_prefix);
	remove_all(dir, old_prefix);
}

static int sync_directory(const char *path, p4d_error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* EINVAL: the file system cannot sync */
	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL)) {
		p4d_fail(err, P4D_E_IO, "%.255s: cannot sync: %m", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

/* Renames a checkpoint to the first free name of DIR/abandoned-step-00000200, .1, .2, .. */
static int set_aside(const char *dir, uint64_t step, p4d_error *err)
{
	char from[P4D_PATH], to[P4D_PATH];

	if (p4d_checkpoint_path(dir, step, from, sizeof(from), err) < 0)
		return -1;
	for (unsigned i = 0; i < ASIDE_ATTEMPTS; i++) {
		char number[16] = "";
		if (i)
			snprintf(number, sizeof(number), ".%u", i);
		if (p4d_checkpoint__join_path(to, err, "%s/abandoned-step-%08" PRIu64 "%s", dir, step,
					      number) < 0)
			return -1;
		if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
			return 0;
		/*
		 * EINVAL: the file system lacks RENAME_NOREPLACE. A plain rename replaces only an empty
		 * directory.
		 */
		if (errno == EINVAL && rename(from, to) == 0)
			return 0;
		if (errno != EEXIST && errno != ENOTEMPTY)
			break;
	}
	return p4d_fail(err, P4D_E_IO, "%.255s: cannot rename: %m", from);
}

/*
 * Renames checkpoints of later steps. Otherwise the next start would take one of them for the latest,
 * although training continued from an older one. This runs before the new checkpoint gets its name. So if the
 * process ends in between, the latest checkpoint is the one from which this run continued.
 */
static int set_later_aside(const char *dir, uint64_t step, p4d_error *err)
{
	char best[P4D_PATH];
	step_list list;
	uint64_t named;
	int rc = list_steps(dir, prefix, &list, err);

	for (size_t i = 0; rc == 0 && i < list.count; i++)
		if (list.at[i] >= step)
			rc = set_aside(dir, list.at[i], err);
	/* removes the link, because it would name another checkpoint when training reaches that step again */
	if (rc == 0 && read_best(dir, &named) && named >= step &&
	    p4d_checkpoint__join_path(best, NULL, "%s/%s", dir, best_name) == 0)
		(void)unlink(best);
	free(list.at);
	return rc;
}

int p4d_checkpoint__publish(const char *dir, uint64_t step, p4d_error *err)
{
	char partial[P4D_PATH], path[P4D_PATH];

	if (p4d_checkpoint__partial_path(dir, step, partial, err) < 0 ||
	    p4d_checkpoint_path(dir, step, path, sizeof(path), err) < 0 || sync_directory(partial, err) < 0 ||
	    set_later_aside(dir, step, err) < 0)
		return -1;
	if (rename(partial, path) < 0)
		return p4d_fail(err, P4D_E_IO, "%.255s: cannot rename: %m", partial);
	return sync_directory(dir, err);
}

int p4d_checkpoint__remove_old(const char *dir, uint32_t keep, p4d_error *err)
{
	char from[P4D_PATH], to[P4D_PATH];
	step_list list;
	uint64_t best = 0;
	int rc = list_steps(dir, prefix, &list, err);

	if (rc < 0)
		return -1;
	const bool named = read_best(dir, &best);
	for (size_t i = 0; rc == 0 && keep && i + keep < list.count; i++) {
		if (named && list.at[i] == best)
			continue;
		/* renamed first, because a half removed checkpoint must not look complete */
		if (p4d_checkpoint_path(dir, list.at[i], from, sizeof(from), err) < 0 ||
		    p4d_checkpoint__join_path(to, err, "%s/%s%08" PRIu64, dir, old_prefix, list.at[i]) < 0)
			rc = -1;
		else if (rename(from, to) == 0)
			remove_checkpoint(to);
		else /* another file has this name, and p4d must not remove it */
			rc = set_aside(dir, list.at[i], err);
	}
	free(list.at);
	return rc;
}
