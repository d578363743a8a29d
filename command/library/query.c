/* SPDX-License-Identifier: Apache-2.0 */
/* Answers queries of libp4d.so by the functions of the command. */
#include "library/p4d.h"

#include <getopt.h>
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "config.h"
#include "library/library_internal.h"
#include "report/report.h"

struct p4d_query {
	char **word; /* the first word is the command */
	size_t words;
	char *script, *directory;
	size_t length;      /* length of the script */
	char **environment; /* list that ends with NULL */
	bool quick;
};

enum { MOST_WORDS = 1 << 16, JOB = P4D_TAKES_JOB | P4D_TAKES_CONF | P4D_TAKES_JSON };

/* Held while a query is answered. getopt's state and the cached cluster belong to the whole process. */
static pthread_mutex_t answering = PTHREAD_MUTEX_INITIALIZER;

const char *p4d_version(void)
{
	return PACKAGE_VERSION;
}

int p4d_query_word(p4d_query *query, const char *word)
{
	if (!query || !word || query->words == MOST_WORDS)
		return -1;
	char **longer = reallocarray(query->word, query->words + 2, sizeof(*longer));
	if (!longer)
		return -1;
	query->word = longer;
	longer[query->words] = strdup(word);
	if (!longer[query->words])
		return -1;
	longer[++query->words] = NULL;
	return 0;
}

static void free_list(char **list)
{
	for (char **at = list; at && *at; at++)
		free(*at);
	free(list);
}

p4d_query *p4d_query_new(const char *command)
{
	p4d_query *query = calloc(1, sizeof(*query));

	if (query && p4d_query_word(query, command) == 0)
		return query;
	p4d_query_free(query);
	return NULL;
}

void p4d_query_free(p4d_query *query)
{
	if (!query)
		return;
	free_list(query->word);
	free_list(query->environment);
	free(query->directory);
	free(query->script);
	free(query);
}

int p4d_query_script(p4d_query *query, const char *name, const char *text, size_t length)
{
	const bool hides =
	    name && (!*name || *name == '-' ||
		     *name == ':'); /* such a name would be an option or a separator in the command line */
	char *word = NULL, *copy = query && name && text && length < SIZE_MAX ? malloc(length + 1) : NULL;

	const bool added =
	    copy && asprintf(&word, "%s%s", hides ? "./" : "", name) >= 0 && p4d_query_word(query, word) == 0;
	free(word);
	if (!added) {
		free(copy);
		return -1;
	}
	memcpy(copy, text, length);
	copy[length] = '\0';
	free(query->script);
	query->script = copy;
	query->length = length;
	return 0;
}

int p4d_query_quick(p4d_query *query)
{
	if (!query)
		return -1;
	query->quick = true;
	return 0;
}

int p4d_query_directory(p4d_query *query, const char *path)
{
	char *copy = query && path ? strdup(path) : NULL;

	if (!copy)
		return -1;
	free(query->directory);
	query->directory = copy;
	return 0;
}

int p4d_query_environment(p4d_query *query, const char *const *variables)
{
	size_t count = 0;

	while (variables && variables[count])
		count++;
	char **copy = query && variables ? calloc(count + 1, sizeof(*copy)) : NULL;
	if (!copy)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (!(copy[i] = strdup(variables[i]))) {
			free_list(copy);
			return -1;
		}
	free_list(query->environment);
	query->environment = copy;
	return 0;
}

/* The options of each command are those in command.c, without options that write files. */
static const p4d_subcommand commands[] = {
    {"estimate", "", "", JOB | P4D_TAKES_LENGTH, 0, p4d_command_estimate, NULL, NULL},
    {"plan", "", "", JOB | P4D_TAKES_TOP | P4D_TAKES_PLACES, 0, p4d_command_plan, NULL, NULL},
};

/* p4d estimate without --conf, which reads a file, and without "auto", which searches. */
static const p4d_subcommand quick_estimate = {
    "estimate", "", "", P4D_TAKES_JOB | P4D_TAKES_JSON, 0, p4d_command_estimate, NULL, NULL};

/* Runs a command that reads a model, a layout and a GPU. */
static int answer_line(const p4d_subcommand *command, bool quick, int argc, char *argv[], p4d_error *err)
{
	p4d_line line = {.json = true, .quick = quick};

	if (p4d_line_parse(&line, command, argc, argv, err) < 0)
		return -1;
	if (line.help || line.env) {
		p4d_fail(err, P4D_E_USAGE, "libp4d answers in JSON, and prints neither help nor variables");
		return p4d_fix(err, "p4d %s %s", command->name, line.help ? "--help" : "--env");
	}
	return command->run(&line, err);
}

/* NULL: there is no command of this name. */
static const p4d_subcommand *find_command(const p4d_query *query, const char *name)
{
	const p4d_subcommand *const all = query->quick ? &quick_estimate : commands;
	const size_t count = query->quick ? 1 : sizeof(commands) / sizeof(commands[0]);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(all[i].name, name))
			return &all[i];
	return NULL;
}

static int answer(const p4d_query *query, char *argv[], p4d_error *err)
{
	const int argc = (int)query->words;
	const p4d_check_source source = {.script = query->script,
					 .length = query->length,
					 .directory = query->directory,
					 .environment = query->environment};

	if (!strcmp(argv[0], "check") && !query->quick)
		return p4d_command_check_from(&source, argc, argv, err);
	const p4d_subcommand *command = find_command(query, argv[0]);
	if (!command) {
		p4d_fail(err, P4D_E_USAGE, "libp4d has no %scommand \"%.64s\"", query->quick ? "quick " : "",
			 argv[0]);
		return p4d_fix(err, "%s", query->quick ? "estimate" : "estimate, plan or check");
	}
	const int status = answer_line(command, query->quick, argc, argv, err);
	p4d_request_without_prefix(err->text);
	p4d_request_without_prefix(err->fix);
	return status;
}

/*
 * Answers a query. Saves and restores the process's getopt state and its locale, because numbers need a
 * decimal point.
 */
static struct json_object *answer_apart(const p4d_query *query, char *argv[], int *status)
{
	const int at = optind, errors = opterr, letter = optopt;
	char *const argument = optarg;
	const locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), own = plain ? uselocale(plain) : NULL;
	struct json_object *object = NULL;
	p4d_error err = {P4D_OK, "", ""};

	p4d_report_json_take(&object);
	*status = answer(query, argv, &err);
	if (*status < 0) {
		p4d_report_json_print(p4d_report_json_error(&err), NULL);
		*status = (int)err.code;
	}
	p4d_report_json_take(NULL);
	p4d_live_cluster_free();
	optind = at;
	opterr = errors;
	optopt = letter;
	optarg = argument;
	if (plain) {
		uselocale(own);
		freelocale(plain);
	}
	return object;
}

p4d_reply *p4d_query_run(const p4d_query *query)
{
	/* a copy, because getopt changes the order of words */
	char **argv = query ? calloc(query->words + 1, sizeof(*argv)) : NULL;
	int status;

	if (!argv)
		return NULL;
	memcpy(argv, query->word, query->words * sizeof(*argv));
	pthread_mutex_lock(&answering);
	struct json_object *object = answer_apart(query, argv, &status);
	pthread_mutex_unlock(&answering);
	free(argv);
	return p4d_library__reply(object, status);
}
