/* SPDX-License-Identifier: Apache-2.0 */
/* Writes records; only `p4d rehearse` does this. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new_file.h"
#include "base/text.h"
#include "rehearsals/rehearsals_internal.h"

/* Maximum number of records, and of directory entries that are examined. */
enum { KEPT = 256, ENTRIES = 4096 };

static int make_directories(char *path, p4d_error *err)
{
	for (char *at = path + 1;; at++) {
		if (*at && *at != '/')
			continue;
		const char end = *at;
		*at = '\0';
		if (access(path, F_OK) && mkdir(path, 0700) && errno != EEXIST)
			return p4d_fail(err, P4D_E_IO, "%.300s: %s", path, strerror(errno));
		*at = end;
		if (!end)
			return 0;
	}
}

/* A path below the directory is stored relative to it, because the same program may be started elsewhere. */
static const char *below(const char *path, const char *directory)
{
	const size_t length = strlen(directory);

	return length > 1 && !strncmp(path, directory, length) && path[length] == '/' ? path + length + 1
										      : path;
}

static bool is_one_line(const char *text)
{
	return !strchr(text, '\n');
}

static int add_file(p4d_text *text, const char *path, const char *directory, p4d_error *err)
{
	p4d_rehearsals_file file;

	if (!is_one_line(path) || !p4d_rehearsals__file(path, true, &file))
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read, so nothing is kept of the rehearsal",
				path);
	p4d_text_print(text, "file %" PRIu64 " %" PRIu64 " %016" PRIx64 " %016" PRIx64 " %s\n", file.size,
		       file.changed_ns, file.hash.half[0], file.hash.half[1], below(path, directory));
	return 0;
}

static void add_run(p4d_text *text, const p4d_rehearsal *run)
{
	char reason[sizeof(run->reason)];
	p4d_text escaped = p4d_text_in(reason, sizeof(reason));

	p4d_text_escaped(&escaped, run->reason);
	p4d_text_print(
	    text, "run %" PRIu32 " %" PRIu32 " %" PRIu32 " %s %s %" PRId64 " %" PRIu64 " %" PRIu64 "%s%s\n",
	    run->nodes, run->ranks_per_node, run->gpus_per_node, run->gpu,
	    p4d_rehearsals__verdicts[run->verdict], run->when, run->device_bytes, run->usable_bytes,
	    *reason ? " " : "", reason);
	p4d_text_print(text, "played %u %s\n", run->phases, run->ranks);
}

/*
 * Adds the record's runs with other GPUs. The new run replaces the one with the same GPUs; if there is no
 * room, the oldest run is dropped.
 */
static void add_others(p4d_text *text, const p4d_rehearsals_record *old, const p4d_rehearsal *run)
{
	const unsigned first = old->runs == P4D_REHEARSALS_RUNS;

	for (unsigned i = first; i < old->runs; i++)
		if (old->run[i].nodes != run->nodes || old->run[i].gpus_per_node != run->gpus_per_node ||
		    old->run[i].ranks_per_node != run->ranks_per_node ||
		    strcmp(old->run[i].gpu, run->gpu) != 0)
			add_run(text, &old->run[i]);
}

static int write_text(p4d_text *text, const p4d_rehearsals_subject *s, const p4d_rehearsals_record *old,
		      const p4d_rehearsal *run, p4d_error *err)
{
	char program[128];
	p4d_text escaped = p4d_text_in(program, sizeof(program));

	p4d_text_escaped(&escaped, s->program);
	p4d_text_print(text, "%s\nprogram %s\n", P4D_REHEARSALS_TITLE, program);
	if (s->python && is_one_line(s->python))
		p4d_text_print(text, "python %s\n", s->python);
	for (size_t i = 0; i < s->count; i++)
		if (add_file(text, s->files[i], s->directory, err))
			return -1;
	if (old)
		add_others(text, old, run);
	add_run(text, run);
	p4d_text_add(text, "end\n");
	if (text->truncated)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to keep the rehearsal");
	if (text->length > P4D_REHEARSALS_BYTES)
		return p4d_fail(err, P4D_E_VALUE, "the program uses too many files to keep its rehearsal");
	return 0;
}

static int put_file(const char *path, const p4d_text *text, p4d_error *err)
{
	p4d_new_file file;
	const mode_t mask = umask(077);
	int rc = p4d_new_file_open(&file, path, err);

	umask(mask);
	if (rc)
		return -1;
	rc = p4d_new_file_write(&file, text->at, text->length, err) || p4d_new_file_sync(&file, err) ||
	     p4d_new_file_publish(&file, err);
	if (rc)
		p4d_new_file_abandon(&file);
	return rc ? -1 : 0;
}

typedef struct listed {
	char name[64];
	struct timespec changed;
} listed;

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const listed *)a)->changed, *y = &((const listed *)b)->changed;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool is_record(const char *name)
{
	return strspn(name, "0123456789abcdef") == P4D_REHEARSALS_KEY_TEXT - 1;
}

/* Lists files that only p4d wrote, including those that an ended process left under a temporary name. */
static size_t list(DIR *directory, listed *entries)
{
	size_t count = 0;
	struct stat st;

	for (struct dirent *e; count < ENTRIES && (e = readdir(directory));) {
		if (!is_record(e->d_name) || strlen(e->d_name) >= sizeof(entries->name) ||
		    fstatat(dirfd(directory), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		memcpy(entries[count].name, e->d_name, strlen(e->d_name) + 1);
		entries[count++].changed = st.st_mtim;
	}
	return count;
}

static void prune(const char *path)
{
	DIR *directory = opendir(path);
	listed *entries = directory ? malloc(ENTRIES * sizeof(*entries)) : NULL;

	if (entries) {
		const size_t count = list(directory, entries);
		qsort(entries, count, sizeof(*entries), by_age);
		for (size_t i = 0; i + KEPT < count; i++)
			unlinkat(dirfd(directory), entries[i].name, 0);
	}
	free(entries);
	if (directory)
		closedir(directory);
}

static bool is_same_python(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : !a && !b;
}

int p4d_rehearsals_put(const p4d_rehearsals_subject *s, const p4d_rehearsal *run, p4d_error *err)
{
	char directory[PATH_MAX - P4D_REHEARSALS_KEY_TEXT - 1], path[PATH_MAX];
	p4d_text text = {.grows = true};
	uint64_t reread = 0;

	if (!p4d_rehearsals_directory(directory, sizeof(directory)))
		return p4d_fail(
		    err, P4D_E_IO,
		    "neither HOME nor XDG_CACHE_HOME is set, so nothing is kept of the rehearsal");
	if (s->count > P4D_REHEARSALS_FILES)
		return p4d_fail(err, P4D_E_VALUE,
				"the program uses more than %d files, so nothing is kept of its rehearsal",
				P4D_REHEARSALS_FILES);
	if (make_directories(directory, err))
		return -1;
	p4d_rehearsals_record *old = malloc(sizeof(*old));
	if (!old)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to keep the rehearsal");
	const bool keeps = p4d_rehearsals__open(s->key, old) && is_same_python(old->python, s->python) &&
			   p4d_rehearsals__is_current(old, s->directory, &reread);
	snprintf(path, sizeof(path), "%s/%s", directory, s->key);
	int rc = write_text(&text, s, keeps ? old : NULL, run, err);
	if (!rc)
		rc = put_file(path, &text, err);
	if (!rc)
		prune(directory);
	free(old->text);
	free(old);
	free(text.at);
	return rc;
}
