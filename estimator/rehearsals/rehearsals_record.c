/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a record:
 *
 *	p4d-rehearsal 2
 *	program train.py
 *	python /home/u/venv
 *	file SIZE CHANGED_NS HASH HASH PATH
 *	run NODES RANKS_PER_NODE GPUS_PER_NODE GPU VERDICT WHEN DEVICE_BYTES USABLE_BYTES REASON
 *	played PHASES RANKS
 *	end
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/number.h"
#include "rehearsals/rehearsals_internal.h"

const char *const p4d_rehearsals__verdicts[P4D_REHEARSAL_VERDICTS] = {"pass", "warn", "reject"};

/* Cuts the next word off a line; NULL: there is none. */
static char *take(char **line)
{
	char *word = strsep(line, " ");

	return word && *word ? word : NULL;
}

static bool take_number(char **line, uint64_t most, uint64_t *number)
{
	const char *word = take(line);

	return word && p4d_number_whole(word, 0, most, number);
}

static bool take_hash(char **line, p4d_rehearsals_hash *hash)
{
	for (int i = 0; i < 2; i++) {
		const char *word = take(line);
		if (!word || !p4d_number_hex(word, &hash->half[i]))
			return false;
	}
	return true;
}

static bool take_file(char *line, p4d_rehearsals_record *r)
{
	p4d_rehearsals_file file;

	if (r->files == P4D_REHEARSALS_FILES || !take_number(&line, UINT64_MAX, &file.size) ||
	    !take_number(&line, UINT64_MAX, &file.changed_ns) || !take_hash(&line, &file.hash) || !line ||
	    !*line || strlen(line) >= PATH_MAX)
		return false;
	r->file[r->files].path = line;
	r->file[r->files++].file = file;
	return true;
}

static bool take_verdict(char **line, p4d_rehearsal_verdict *verdict)
{
	const char *word = take(line);
	int i = 0;

	while (word && i < P4D_REHEARSAL_VERDICTS && strcmp(word, p4d_rehearsals__verdicts[i]) != 0)
		i++;
	*verdict = (p4d_rehearsal_verdict)i;
	return word && i < P4D_REHEARSAL_VERDICTS;
}

static bool take_run(char *line, p4d_rehearsals_record *r)
{
	enum { MOST_GPUS = 1 << 20 };
	const uint64_t far = UINT64_C(1) << 40; /* upper bound of a time in seconds */
	p4d_rehearsal run = {.nodes = 0};
	uint64_t nodes, ranks, gpus, when;

	if (r->runs == P4D_REHEARSALS_RUNS || !take_number(&line, MOST_GPUS, &nodes) ||
	    !take_number(&line, MOST_GPUS, &ranks) || !take_number(&line, MOST_GPUS, &gpus))
		return false;
	const char *gpu = take(&line);
	if (!gpu || strlen(gpu) >= sizeof(run.gpu) || !take_verdict(&line, &run.verdict) ||
	    !take_number(&line, far, &when) || !take_number(&line, UINT64_MAX, &run.device_bytes) ||
	    !take_number(&line, UINT64_MAX, &run.usable_bytes) || !run.usable_bytes ||
	    (line && strlen(line) >= sizeof(run.reason)))
		return false;
	run.nodes = (uint32_t)nodes;
	run.ranks_per_node = (uint32_t)ranks;
	run.gpus_per_node = (uint32_t)gpus;
	run.when = (int64_t)when;
	snprintf(run.gpu, sizeof(run.gpu), "%s", gpu);
	snprintf(run.reason, sizeof(run.reason), "%s", line ? line : "");
	r->run[r->runs++] = run;
	return true;
}

/* Reads the phases and ranks of the last run. */
static bool take_played(char *line, p4d_rehearsals_record *r)
{
	uint64_t phases;

	if (!r->runs || !take_number(&line, P4D_REHEARSAL_PHASES, &phases) || !line ||
	    strlen(line) >= sizeof(r->run[0].ranks) || strspn(line, "0123456789,.") != strlen(line))
		return false;
	r->run[r->runs - 1].phases = (unsigned)phases;
	snprintf(r->run[r->runs - 1].ranks, sizeof(r->run[0].ranks), "%s", line);
	return true;
}

static bool take_line(char *line, p4d_rehearsals_record *r)
{
	const char *kind = take(&line);

	if (!kind || !line)
		return false;
	if (!strcmp(kind, "program"))
		return true;
	if (!strcmp(kind, "python"))
		r->python = line;
	else if (!strcmp(kind, "file"))
		return take_file(line, r);
	else if (!strcmp(kind, "run"))
		return take_run(line, r);
	else if (!strcmp(kind, "played"))
		return take_played(line, r);
	else
		return false;
	return true;
}

bool p4d_rehearsals__parse(char *text, size_t length, p4d_rehearsals_record *r)
{
	char *rest = text, *line = NULL;

	r->python = NULL;
	r->files = r->runs = 0;
	if (strlen(text) != length || !(line = strsep(&rest, "\n")) ||
	    strcmp(line, P4D_REHEARSALS_TITLE) != 0)
		return false;
	while ((line = strsep(&rest, "\n")) && strcmp(line, "end") != 0)
		if (!take_line(line, r))
			return false;
	return line && rest && !*rest && r->runs;
}

/*
 * Opens a regular file that belongs to this user and that others cannot write. A symbolic link is refused,
 * because p4d makes none.
 */
static int open_own(const char *path)
{
	const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		       !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size <= P4D_REHEARSALS_BYTES))
		return fd;
	close(fd);
	return -1;
}

bool p4d_rehearsals__open(const char *key, p4d_rehearsals_record *r)
{
	char directory[PATH_MAX - P4D_REHEARSALS_KEY_TEXT - 1], path[PATH_MAX];
	size_t length;

	r->text = NULL;
	if (!p4d_rehearsals_directory(directory, sizeof(directory)))
		return false;
	snprintf(path, sizeof(path), "%s/%s", directory, key);
	const int fd = open_own(path);
	if (fd < 0)
		return false;
	r->text = p4d_file_read(fd, P4D_REHEARSALS_BYTES, &length);
	close(fd);
	return r->text && p4d_rehearsals__parse(r->text, length, r);
}

/*
 * Whether a file has the same content as when it was recorded. Also true for a file that was rewritten with
 * the same content, or checked out again.
 */
static bool is_same(const char *path, const p4d_rehearsals_file *then, uint64_t *reread)
{
	p4d_rehearsals_file now;

	if (!p4d_rehearsals__file(path, false, &now) || now.size != then->size)
		return false;
	if (now.changed_ns == then->changed_ns)
		return true;
	*reread += now.size > P4D_REHEARSALS_CONTENT ? 0 : now.size;
	return *reread <= P4D_REHEARSALS_REREAD && p4d_rehearsals__file(path, true, &now) &&
	       !memcmp(now.hash.half, then->hash.half, sizeof(now.hash.half));
}

bool p4d_rehearsals__is_current(const p4d_rehearsals_record *r, const char *directory, uint64_t *reread)
{
	char path[2 * PATH_MAX];

	for (unsigned i = 0; i < r->files; i++)
		if (!p4d_rehearsals__path(directory, r->file[i].path, path, sizeof(path)) ||
		    !is_same(path, &r->file[i].file, reread))
			return false;
	return true;
}
