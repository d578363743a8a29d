/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the progress of a rank, and the output of a rank that failed. */
#include "rehearse/played_progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAIL = 16 << 10, OUTPUT = 256 << 10, LINES = 40, LINE = 2000 };

/* Reads the end of a rank's file; "" if there is none. */
static void read_tail(const p4d_player *player, const char *name, uint64_t rank, char *buf, size_t size)
{
	char path[P4D_PLAYER_PATH];
	ssize_t length = 0;

	p4d_player__file(player, name, rank, path, sizeof(path));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (lseek(fd, -(off_t)(size - 1), SEEK_END) < 0)
			lseek(fd, 0, SEEK_SET);
		length = read(fd, buf, size - 1);
		close(fd);
	}
	buf[length > 0 ? length : 0] = '\0';
}

/* Parses the last complete line about a phase. */
static struct json_object *last_phase(char *text)
{
	struct json_object *found = NULL, *name;
	char *end = strrchr(text, '\n');

	while (end && !found) {
		*end = '\0';
		char *before = strrchr(text, '\n');
		found = json_tokener_parse(before ? before + 1 : text);
		if (found && !json_object_object_get_ex(found, "phase", &name)) {
			json_object_put(found);
			found = NULL;
		}
		end = before;
	}
	return found;
}

static void describe(const p4d_player *player, const p4d_played *played, char *buf, size_t size)
{
	char text[TAIL];
	struct json_object *name;

	read_tail(player, "phases", played->rank, text, sizeof(text));
	struct json_object *phase = last_phase(text);
	snprintf(buf, size, "p4d: rank %" PRIu64 ": starting", played->rank);
	if (phase && json_object_object_get_ex(phase, "phase", &name))
		snprintf(buf, size, "p4d: rank %" PRIu64 ": step %" PRIu64 " after %.24s, %.1f GiB reserved",
			 played->rank, json_object_get_uint64(json_object_object_get(phase, "step")),
			 json_object_get_string(name),
			 p4d_to_gib(json_object_get_uint64(json_object_object_get(phase, "reserved"))));
	json_object_put(phase);
}

void p4d_played_progress__look(p4d_played_progress *progress, const p4d_player *player,
			       const p4d_played *played)
{
	char text[sizeof(progress->last)];
	const bool terminal = isatty(STDERR_FILENO);

	if (!player->progress || player->verbose || played->seconds < progress->next)
		return;
	progress->next = played->seconds + 0.5;
	describe(player, played, text, sizeof(text));
	if (terminal)
		fprintf(stderr, "\r%s, %.0f s\033[K", text, played->seconds);
	else if (strcmp(text, progress->last) != 0)
		fprintf(stderr, "%s\n", text);
	snprintf(progress->last, sizeof(progress->last), "%s", text);
}

void p4d_played_progress__end(p4d_played_progress *progress, const p4d_player *player)
{
	if (player->progress && *progress->last && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

/* The meaning of Python's last error in a rehearsal, by a word that it contains. */
static const struct {
	const char *word, *advice;
} advices[] = {
    {"ModuleNotFoundError:",
     "This Python lacks a package of the program. Activate the job's environment, in the job "
     "script or before p4d, and rehearse again."},
    {"FileNotFoundError:",
     "p4d runs the program itself, which needs its files. Rehearse where they are, or put a "
     "small data set in their place."},
    {"PermissionError:",
     "p4d runs the program itself, which writes its files. Give it an output folder that you can "
     "write, and rehearse again."},
    {"LocalEntryNotFoundError:",
     "The program tries to download its model or data. Download them first, or replace the model's "
     "name by a folder with its config.json. Then rehearse again."},
    {"ConnectionError:",
     "The program tries to reach a server. Download its model and data first, or rehearse where "
     "the server can be reached."},
};

static void print_advice(const char *text)
{
	const char *last = NULL, *advice = NULL;

	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		for (const char *at = text; (at = strstr(at, advices[i].word)); at++)
			if (at > last || !last) {
				last = at;
				advice = advices[i].advice;
			}
	if (advice)
		fprintf(stderr, "p4d: %s\n", advice);
}

/* Prints the lines. It leaves out the end of a very long line, such as an error that prints its arguments. */
static void print_lines(const char *at)
{
	while (*at) {
		const size_t length = strcspn(at, "\n");

		if (length > LINE)
			fprintf(stderr, "%.*s ... (%zu more bytes)\n", LINE, at, length - LINE);
		else
			fprintf(stderr, "%.*s\n", (int)length, at);
		at += length + (at[length] == '\n');
	}
}

/* Where the last lines of a text begin. */
static const char *last_lines(const char *text)
{
	const char *from = text + strlen(text);
	int lines = 0;

	while (from > text && lines <= LINES)
		lines += *--from == '\n';
	return from + (*from == '\n');
}

void p4d_played_progress__print_output(const p4d_player *player, uint64_t rank)
{
	char *text = malloc(OUTPUT);

	if (!text)
		return;
	read_tail(player, "output", rank, text, OUTPUT);
	const char *from = player->verbose ? text : last_lines(text);
	if (!player->verbose && *from) { /* with --verbose, the output is already on the terminal */
		fprintf(stderr, "p4d: the last lines that rank %" PRIu64 " printed:\n", rank);
		print_lines(from);
	}
	print_advice(from);
	free(text);
}
