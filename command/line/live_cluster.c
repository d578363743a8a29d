/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live cluster, queried through `sinfo` and `scontrol` instead of Slurm's library. The command
 * therefore works with every version of Slurm, and without Slurm. If a query fails, p4d assumes that there
 * is no cluster, which is not an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "job/cluster.h"
#include "line/line.h"

/*
 * Partition (* marks the default), memory in MiB, CPUs, sockets, cores of each, nodes, features, GRES, which
 * is last because it contains blanks and commas.
 */
#define NODES "--format=%P|%m|%c|%X|%Y|%N|%f|%G"

enum { MOST_BYTES = 4 << 20, PATIENCE_MS = 10000 /* sbatch waits for slurmctld as long */ };

extern char **environ;

static p4d_cluster live;
static bool asked, answered, late; /* late: a command of Slurm did not answer in time */

/* Uses posix_spawn instead of fork, because the process may have threads (libp4d.so). */
static pid_t start(const char *const *words, int *from)
{
	posix_spawn_file_actions_t actions;
	pid_t child;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	const int failed = posix_spawnp(&child, words[0], &actions, NULL, (char **)words, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (failed) {
		close(ends[0]);
		return -1;
	}
	*from = ends[0];
	return child;
}

/* Reads until the end, the deadline or the size limit. Returns the text; NULL: it is incomplete. */
static char *read_all(int from)
{
	const int64_t deadline = p4d_clock_ms() + PATIENCE_MS;
	p4d_text text = {.grows = true};
	char some[1 << 14];

	p4d_text_add(&text, "");
	while (text.length < MOST_BYTES && !text.truncated) {
		int64_t left = deadline - p4d_clock_ms();
		struct pollfd ready = {.fd = from, .events = POLLIN};
		const int rc = left > 0 ? poll(&ready, 1, (int)left) : 0;
		late = late || rc == 0;
		if (rc <= 0)
			break;
		ssize_t got = read(from, some, sizeof(some));
		if (got == 0)
			return text.at;
		if (got > 0)
			p4d_text_add_bytes(&text, some, (size_t)got);
		else if (errno != EINTR)
			break;
	}
	free(text.at);
	return NULL;
}

/* Runs a command and returns its standard output; NULL if it cannot be run, fails or takes too long. */
static char *output_of(const char *const *words)
{
	int from, status = 0; /* stays 0 if SIGCHLD is ignored, because waitpid then returns no status */
	pid_t child = start(words, &from);

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

/* partition: "--partition=NAME"; NULL: all */
static char *run_sinfo(const char *format, const char *partition)
{
	return output_of((const char *const[]){"sinfo", "--noheader", "--exact", format, partition, NULL});
}

/* Adds the nodes of one line in the format NODES. */
static void add_line(char *line)
{
	char *rest = line;
	char *partition = strsep(&rest, "|"), *memory = strsep(&rest, "|"), *cpus = strsep(&rest, "|");
	char *sockets = strsep(&rest, "|"), *cores = strsep(&rest, "|");
	char *names = strsep(&rest, "|"), *features = strsep(&rest, "|");
	uint64_t mib, count, of_socket, number;

	if (!rest || !p4d_number_digits(memory, &mib) || !p4d_number_digits(cpus, &count) ||
	    !p4d_number_digits(sockets, &number) || !p4d_number_digits(cores, &of_socket))
		return;
	size_t length = strlen(partition);
	bool is_default = length && partition[length - 1] == '*';
	if (is_default)
		partition[length - 1] = '\0';
	const p4d_cluster_nodes nodes = {
	    .partition = partition,
	    .is_default = is_default,
	    .names = names,
	    .gres = rest,
	    .features = strcmp(features, "(null)") ? features : NULL,
	    .cpus = (uint32_t)count,
	    .cores = (uint32_t)number * (uint32_t)of_socket,
	    .mem_bytes = mib << 20,
	    .memory = {.cpus_unknown = true}, /* until scontrol has answered */
	};
	p4d_cluster_add(&live, &nodes);
}

/* The number in "MaxNodes=4"; 0: UNLIMITED. */
static uint32_t most_nodes(const char *line)
{
	static const char key[] = " MaxNodes=";
	const char *at = strstr(line, key);
	uint64_t nodes;

	return at && p4d_number_digits(at + sizeof(key) - 1, &nodes) && nodes < UINT32_MAX ? (uint32_t)nodes
											   : 0;
}

/* The text after " KEY=" in a line, or after "KEY" and blanks; NULL: the key is not there. */
static const char *value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) + strspn(at + strlen(key), " =") : NULL;
}

/* DefMemPerNode or DefMemPerCPU in mebibytes; 0: UNLIMITED, or absent. */
static uint64_t default_mebibytes(const char *text, bool *per_cpu)
{
	const char *node = value_of(text, "DefMemPerNode"), *cpu = value_of(text, "DefMemPerCPU");
	uint64_t number;

	*per_cpu = cpu != NULL;
	return (cpu || node) && p4d_number_digits(cpu ? cpu : node, &number) ? number : 0;
}

/* A number in JobDefaults; 0: the line does not have it. */
static uint64_t number_of(const char *line, const char *key)
{
	const char *at = strcasestr(line, key);
	uint64_t number;

	return at && p4d_number_digits(at + strlen(key), &number) ? number : 0;
}

static p4d_gpu_defaults gpu_defaults(const char *line)
{
	return (p4d_gpu_defaults){.mebibytes = number_of(line, "DefMemPerGPU="),
				  .cpus = number_of(line, "DefCpuPerGPU=")};
}

/*
 * The default memory of jobs in a partition, by the same rules as p4d.so. line: the partition's line of
 * scontrol. config: the output of `scontrol show config`.
 */
static p4d_default_memory default_memory(const char *line, const char *config)
{
	const char *select = config ? value_of(config, "SelectTypeParameters") : NULL;
	const char *memory = select ? strcasestr(select, "MEMORY") : NULL;
	const char *all = config ? value_of(config, "JobDefaults") : NULL;
	char everywhere[128] = "";

	if (all)
		snprintf(everywhere, sizeof(everywhere), "%.*s", (int)strcspn(all, "\n"), all);
	p4d_memory_defaults d = {.partition = gpu_defaults(line),
				 .everywhere = gpu_defaults(everywhere),
				 .everywhere_unknown = !config,
				 .no_memory = !memory || memory > strchrnul(select, '\n')};
	d.mebibytes = default_mebibytes(line, &d.per_cpu);
	d.of_partition = d.mebibytes;
	if (!d.mebibytes && config)
		d.mebibytes = default_mebibytes(config, &d.per_cpu);
	return p4d_cluster_default_memory(&d);
}

/*
 * Asks for facts about partitions that sinfo does not print: MaxNodes, the default memory of jobs, and
 * whether jobs get whole nodes (OverSubscribe=EXCLUSIVE; since 26.05 Exclusive=NODE).
 */
static void ask_partitions(void)
{
	static const char name[] = "PartitionName=";
	char *text = output_of((const char *const[]){"scontrol", "--oneliner", "show", "partition", NULL});
	char *config = output_of((const char *const[]){"scontrol", "show", "config", NULL});
	char *rest = text;

	for (char *line; rest && (line = strsep(&rest, "\n"));) {
		if (strncmp(line, name, sizeof(name) - 1) != 0)
			continue;
		const bool whole =
		    strstr(line, " OverSubscribe=EXCLUSIVE") || strstr(line, " Exclusive=NODE");
		const char *partition = line + sizeof(name) - 1;
		const size_t length = strcspn(partition, " ");
		for (size_t i = 0; i < live.count; i++)
			if (strlen(live.row[i].partition) == length &&
			    !strncmp(live.row[i].partition, partition, length)) {
				live.row[i].whole_nodes = whole;
				live.row[i].max_nodes = most_nodes(line);
				live.row[i].memory = default_memory(line, config);
			}
	}
	free(config);
	free(text);
}

const p4d_cluster *p4d_live_cluster(void *unused)
{
	(void)unused;
	if (!asked) {
		asked = true;
		char *text = run_sinfo(NODES, NULL), *rest = text;
		answered = text != NULL;
		for (char *line; rest && (line = strsep(&rest, "\n"));)
			add_line(line);
		free(text);
		if (answered)
			ask_partitions();
	}
	return answered ? &live : NULL;
}

unsigned p4d_live_cluster_release(void)
{
	char *config = output_of((const char *const[]){"scontrol", "show", "config", NULL});
	const char *version = config ? value_of(config, "SLURM_VERSION") : NULL;
	unsigned year = 0, month = 0;

	if (!version || sscanf(version, "%2u.%2u", &year, &month) != 2)
		year = month = 0;
	free(config);
	return year * 100 + month;
}

bool p4d_live_cluster_is(const char *name)
{
	static const char key[] = "ClusterName";
	char *text = output_of((const char *const[]){"scontrol", "show", "config", NULL}), *rest = text;
	bool is = false;

	for (char *line; rest && !is && (line = strsep(&rest, "\n"));)
		if (!strncmp(line, key, sizeof(key) - 1)) {
			line += sizeof(key) - 1;
			line += strspn(line, " =");
			line[strcspn(line, " ")] = '\0';
			is = !strcmp(line, name);
		}
	free(text);
	return is;
}

char *p4d_live_names(const char *entity)
{
	const char *format = strcmp(entity, "qos") ? "format=account" : "format=name";

	return output_of(
	    (const char *const[]){"sacctmgr", "--noheader", "--parsable2", "list", entity, format, NULL});
}

const char *p4d_live_preempt_mode(const char *partition, char *buf, size_t size)
{
	char option[128];

	snprintf(option, sizeof(option), "--partition=%s", partition);
	char *text = *partition ? run_sinfo("--format=%M", option) : NULL;
	snprintf(buf, size, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	free(text);
	return buf;
}

bool p4d_live_cluster_is_late(void)
{
	return late;
}

void p4d_live_cluster_free(void)
{
	p4d_cluster_free(&live);
	asked = answered = late = false;
}
