/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live cluster, asked through `sinfo` rather than through Slurm's library: the command works with every
 * version of Slurm, and without any. Whatever goes wrong here means that there is no cluster, which is no
 * error.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "line/line.h"

enum { MOST_BYTES = 4 << 20, PATIENCE_MS = 2000 };

static p4d_cluster live;
static bool asked, answered;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Partition (* marks the default), memory in MiB, features, GRES: the last because it holds blanks and
 * commas. */
static pid_t start_sinfo(int *from)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid_t child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);
		if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
		    dup2(ends[1], STDOUT_FILENO) < 0)
			_exit(127);
		execlp("sinfo", "sinfo", "--noheader", "--exact", "--format=%P|%m|%f|%G", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return -1;
	}
	*from = ends[0];
	return child;
}

/* Reads until the end, the deadline or too much; the text, or NULL when it is not complete. */
static char *read_all(int from)
{
	const int64_t deadline = now_ms() + PATIENCE_MS;
	size_t used = 0, room = 1 << 16;
	char *text = malloc(room);

	while (text && used < MOST_BYTES) {
		int64_t left = deadline - now_ms();
		struct pollfd ready = {.fd = from, .events = POLLIN};
		if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
			break;
		ssize_t got = read(from, text + used, room - used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		if (got == 0) {
			text[used] = '\0';
			return text;
		}
		used += (size_t)got;
		if (room - used < 4096) {
			char *grown = realloc(text, room *= 2);
			if (!grown)
				break;
			text = grown;
		}
	}
	free(text);
	return NULL;
}

/* Standard output of sinfo; NULL when it cannot be run, fails or takes too long. */
static char *run_sinfo(void)
{
	int from, status;
	pid_t child = start_sinfo(&from);

	if (child < 0)
		return NULL;
	char *text = read_all(from);
	close(from);
	if (!text)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			break;
	if (text && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
		free(text);
		text = NULL;
	}
	return text;
}

static p4d_partition_facts *row_of(const char *partition, bool is_default, const char *type)
{
	for (size_t i = 0; i < live.count; i++)
		if (!strcmp(live.row[i].partition, partition) && !strcmp(live.row[i].gpu_type, type))
			return &live.row[i];
	p4d_partition_facts *grown = reallocarray(live.row, live.count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	live.row = grown;
	p4d_partition_facts *row = &grown[live.count++];
	memset(row, 0, sizeof(*row));
	snprintf(row->partition, sizeof(row->partition), "%s", partition);
	snprintf(row->gpu_type, sizeof(row->gpu_type), "%s", type);
	row->is_default = is_default;
	row->gpus_per_node = UINT32_MAX;
	row->mem_bytes = UINT64_MAX;
	return row;
}

static bool has_feature(const char *list, const char *feature)
{
	size_t length = strlen(feature);

	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == length && !strncmp(list, feature, length))
			return true;
	return false;
}

static void add_features(p4d_partition_facts *row, const char *features)
{
	char copy[512], *rest = copy;

	snprintf(copy, sizeof(copy), "%s", features);
	for (char *feature; (feature = strsep(&rest, ","));) {
		size_t used = strlen(row->features);
		if (*feature && strcmp(feature, "(null)") != 0 && !has_feature(row->features, feature) &&
		    used + strlen(feature) + 2 <= sizeof(row->features))
			snprintf(row->features + used, sizeof(row->features) - used, "%s%s", used ? "," : "",
				 feature);
	}
}

/* The next entry of "gpu:h100:8(S:0,1),lustre:1", cut off in place; NULL at the end. */
static char *next_entry(char **rest)
{
	char *start = *rest;
	unsigned depth = 0;

	if (!start || !*start)
		return NULL;
	while (**rest && (depth || **rest != ',')) {
		depth += **rest == '(';
		depth -= depth && **rest == ')';
		++*rest;
	}
	if (**rest)
		*(*rest)++ = '\0';
	return start;
}

/* One line of start_sinfo's format. Partitions without GPUs get no row. */
static void add_line(char *line)
{
	char *rest = line, type[48];
	char *partition = strsep(&rest, "|"), *memory = strsep(&rest, "|"), *features = strsep(&rest, "|");
	uint32_t gpus;

	if (!rest)
		return;
	size_t length = strlen(partition);
	bool is_default = length && partition[length - 1] == '*';
	if (is_default)
		partition[length - 1] = '\0';
	const uint64_t mem_bytes = strtoull(memory, NULL, 10) << 20;
	for (char *entry; (entry = next_entry(&rest));) {
		if (p4d_gres_parse(entry, type, sizeof(type), &gpus, NULL) <= 0 || !gpus)
			continue;
		p4d_partition_facts *row = row_of(partition, is_default, type);
		if (!row)
			return;
		row->gpus_per_node = gpus < row->gpus_per_node ? gpus : row->gpus_per_node;
		row->mem_bytes = mem_bytes < row->mem_bytes ? mem_bytes : row->mem_bytes;
		add_features(row, features);
	}
}

const p4d_cluster *p4d_live_cluster(void *unused)
{
	(void)unused;
	if (!asked) {
		asked = true;
		char *text = run_sinfo(), *rest = text;
		answered = text != NULL;
		for (char *line; rest && (line = strsep(&rest, "\n"));)
			add_line(line);
		free(text);
	}
	return answered ? &live : NULL;
}

void p4d_live_cluster_free(void)
{
	free(live.row);
	live = (p4d_cluster){0, NULL};
}
