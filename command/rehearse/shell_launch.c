/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the launchers that a job script finds while a real shell runs it. */
#include "rehearse/shell_launch.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "rehearse/command_rehearse.h"
#include "rehearse/launch_ranks.h"
#include "rehearse/read_command.h"

extern char **environ;

static const char told[] = "P4D_REHEARSAL_LAUNCH"; /* names the file for reports of launchers */

static const char *const names[] = {"srun",       "mpirun",   "mpiexec",    "mpiexec.hydra",     "orterun",
				    "horovodrun", "torchrun", "accelerate", "accelerate-launch", "deepspeed"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static bool is_name(const char *name)
{
	for (int i = 0; i < NAMES; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Adds the script's interpreter and its option, from its first line. */
static void add_interpreter(p4d_words *words, const char *script)
{
	char line[PATH_MAX] = "", *rest = NULL;
	FILE *in = fopen(script, "re");

	if (in && !fgets(line, sizeof(line), in))
		line[0] = '\0';
	if (in)
		fclose(in);
	char *first = strncmp(line, "#!", 2) ? NULL : strtok_r(line + 2, " \t\n", &rest);
	p4d_words__add(words, first ? first : "bash");
	char *option = first ? strtok_r(NULL, "\n", &rest) : NULL;
	if (option)
		p4d_words__add(words, option);
}

void p4d_shell_launch__words(p4d_words *words, const char *script, char *const *arguments)
{
	add_interpreter(words, script);
	p4d_words__add(words, script);
	for (; *arguments; arguments++)
		p4d_words__add(words, *arguments);
}

bool p4d_shell_launch__starts_shell(const p4d_words *words)
{
	static const char *const shells[] = {"bash", "sh", "dash", "ksh", "zsh"};
	const char *name = words->count ? p4d_file_name(words->at[0].text) : "";
	const size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (!strcmp(shells[i], name))
			return true;
	return length > 3 && !strcmp(name + length - 3, ".sh");
}

static int link_launchers(const char *bin, p4d_error *err)
{
	char own[PATH_MAX], path[P4D_PLAYER_PATH + 64];
	const ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[length > 0 ? length : 0] = '\0';
	if (mkdir(bin, 0700))
		return errno == EEXIST ? 0 : p4d_fail(err, P4D_E_IO, "%.300s: %s", bin, strerror(errno));
	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s", bin, names[i]);
		if (symlink(own, path))
			return p4d_fail(err, P4D_E_IO, "%.300s: %s", path, strerror(errno));
	}
	return 0;
}

/*
 * Besides p4d's directory in PATH, this defines shell functions: a virtual environment that the script
 * activates comes before the directory, but not before functions.
 */
int p4d_shell_launch__open(const p4d_player *player, p4d_words *words, p4d_error *err)
{
	char bin[P4D_PLAYER_PATH + 8];
	const char *search = p4d_words__variable(words, "PATH");

	snprintf(bin, sizeof(bin), "%s/bin", player->directory);
	if (link_launchers(bin, err))
		return -1;
	for (int i = 0; i < NAMES; i++)
		p4d_words__assign(words,
				  p4d_words__print(words->memory, "BASH_FUNC_%s%%%%=() { '%s/%s' \"$@\"\n}",
						   names[i], bin, names[i]));
	p4d_words__set(
	    words, "PATH",
	    p4d_words__print(words->memory, "%s%s%s", bin, search ? ":" : "", search ? search : ""));
	return words->memory->spent ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the words of the shell")
				    : 0;
}

/* The value of PATH without p4d's directories: that of launchers, and the rehearsal's. */
static char *path_without(const char *path, const char *launch)
{
	const int directory =
	    (int)(p4d_file_name(launch) - launch); /* length of the directory, including the slash */
	char *kept = calloc(1, strlen(path) + 1);

	for (const char *at = path; kept && *at; at += strcspn(at, ":"), at += *at == ':') {
		const int length = (int)strcspn(at, ":");
		const bool is_own = length == directory - 1 ||
				    (length == directory + 3 && !strncmp(at + directory, "bin", 3));
		if (is_own && !strncmp(at, launch, (size_t)(length < directory ? length : directory)))
			continue;
		if (*kept)
			strcat(kept, ":");
		strncat(kept, at, (size_t)length);
	}
	return kept;
}

/* Whether a variable belongs to the rehearsal; other variables stay unchanged. */
static bool is_of_rehearsal(const char *variable)
{
	static const char function[] = "BASH_FUNC_";
	const size_t length = strlen(function);
	char name[64];

	if (!strncmp(variable, "P4D_REHEARSAL_", strlen("P4D_REHEARSAL_")))
		return true;
	if (strncmp(variable, function, length) != 0)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(variable + length, "%="), variable + length);
	return is_name(name);
}

static void drop_launchers(const char *launch)
{
	char name[128];

	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "BASH_FUNC_%s%%%%", names[i]);
		unsetenv(name);
	}
	char *path = path_without(getenv("PATH") ? getenv("PATH") : "", launch);
	if (path)
		setenv("PATH", path, 1);
	free(path);
}

/* The ranks that would be started, as p4d interprets the words. */
static int tell(const char *launch, int argc, char *argv[])
{
	struct json_object *o = json_object_new_object(), *words = json_object_new_array(),
			   *variables = json_object_new_array();
	char here[PATH_MAX] = ".", path[PATH_MAX + 8];

	drop_launchers(launch);
	json_object_array_add(words, json_object_new_string(p4d_file_name(argv[0])));
	for (int i = 1; i < argc; i++)
		json_object_array_add(words, json_object_new_string(argv[i]));
	for (char **variable = environ; *variable; variable++)
		if (!is_of_rehearsal(*variable))
			json_object_array_add(variables, json_object_new_string(*variable));
	json_object_object_add(o, "words", words);
	json_object_object_add(o, "environment", variables);
	if (getcwd(here, sizeof(here)))
		json_object_object_add(o, "directory", json_object_new_string(here));
	snprintf(path, sizeof(path), "%s.new", launch);
	const int rc = json_object_to_file(path, o) || rename(path, launch);
	json_object_put(o);
	return rc ? 1 : 0;
}

/*
 * Runs a program that does not train, as in `srun hostname`: once, with the variables that its launcher would
 * set.
 */
static int run(p4d_words *words)
{
	p4d_rehearse_ranks ranks = {.nodes = 1};
	p4d_error err;

	if (p4d_launch__ranks(words, &ranks, &err)) {
		fprintf(stderr, "p4d: %s\n", err.text);
		return 1;
	}
	for (size_t i = 0; i < words->variables; i++) {
		char *equals = strchr(words->variable[i], '=');
		if (!equals)
			continue;
		*equals = '\0';
		setenv(words->variable[i], equals + 1, 1);
	}
	char **list = p4d_words__list(words);
	if (list)
		execvp(list[0], list);
	fprintf(stderr, "p4d: %s: %s\n", words->at[0].text, strerror(errno));
	return 127;
}

bool p4d_shell_launch_is(int argc, char *argv[], int *status)
{
	const char *launch = getenv(told), *name = argc ? p4d_file_name(argv[0]) : "";
	p4d_words_memory memory = {.block = NULL};
	p4d_words words = {.memory = &memory};

	if (!launch || !is_name(name))
		return false;
	p4d_words__add(&words, name);
	for (int i = 1; i < argc; i++)
		p4d_words__add(&words, argv[i]);
	if (p4d_read_command__trains(&words)) {
		*status = tell(launch, argc, argv);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause(); /* p4d ends the script here */
	} else {
		drop_launchers(launch);
		*status = run(&words);
	}
	p4d_words__free(&memory);
	return true;
}
