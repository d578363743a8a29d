/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calculator: the subcommands of `p4d` that answer from a command line alone, for a web page. There is no
 * cluster, p4d.conf or terminal, so the answers are JSON at the built-in site.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "command_pages.h"
#include "report/report.h"
#include "report/table.h"

enum { MOST_WORDS = 256, JOB = P4D_TAKES_JOB | P4D_TAKES_CONF | P4D_TAKES_JSON };

/* The options of each command are those in command.c. */
static const p4d_subcommand subcommands[] = {
    {"estimate", "", "", JOB | P4D_TAKES_SVG | P4D_TAKES_LENGTH, 0, p4d_command_estimate, NULL, NULL},
    {"plan", "", "", JOB | P4D_TAKES_TOP | P4D_TAKES_PLACES, 0, p4d_command_plan, NULL, NULL},
    {"models", "", "", P4D_TAKES_CONF | P4D_TAKES_JSON, 1, p4d_command_models, NULL, NULL},
    {"gpus", "", "", P4D_TAKES_CONF | P4D_TAKES_JSON, 1, p4d_command_gpus, NULL, NULL},
};

static int run(int argc, char *argv[], p4d_error *err)
{
	p4d_line line = {0};

	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
		if (strcmp(subcommands[i].name, argv[0]) != 0)
			continue;
		if (p4d_line_parse(&line, &subcommands[i], argc, argv, err) < 0)
			return -1;
		line.json = true;
		return subcommands[i].run(&line, err);
	}
	return p4d_fail(err, P4D_E_USAGE, "the calculator has no command \"%.64s\"", argv[0]);
}

/* Like main in command.c. An error is also printed as JSON, because it is an answer. */
static int answer(int argc, char *argv[])
{
	p4d_error err = {P4D_OK, "", ""};
	int status = run(argc, argv, &err);

	if (status < 0) {
		p4d_request_without_prefix(err.text);
		p4d_request_without_prefix(err.fix);
		p4d_report_json_print(p4d_report_json_error(&err), NULL);
		status = (int)err.code;
	}
	fflush(stdout);
	return status;
}

/* Answers a command line without "p4d". words: one word per line; the text is changed. Prints the answer
 * to stdout, and returns the exit status. */
int p4d_web_answer(char *words)
{
	char *argv[MOST_WORDS + 1], *rest = words, *word;
	int argc = 0;

	while (argc < MOST_WORDS && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	argv[argc] = NULL;
	return answer(argc, argv);
}

/* The comparison and the context of the running sort. One pair is enough, because there are no threads,
 * and no comparison starts another sort. */
static int (*sorted_by)(const void *, const void *, void *);
static void *sorted_with;

static int compare(const void *a, const void *b)
{
	return sorted_by(a, b, sorted_with);
}

void qsort_r(void *base, size_t count, size_t size, int (*order)(const void *, const void *, void *),
	     void *context)
{
	sorted_by = order;
	sorted_with = context;
	qsort(base, count, size, compare);
}

void *reallocarray(void *array, size_t count, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? NULL : realloc(array, bytes);
}

/* Stubs for what command/line/ asks about the machine: a web page has no data directory, p4d.conf or
 * cluster. */
const char *p4d_line_data_directory(void)
{
	return NULL;
}

p4d_site *p4d_line_open_site(const char *option, p4d_error *err)
{
	if (!option)
		return p4d_site_default(NULL, P4D_MODE_ENFORCE, err);
	p4d_fail(err, P4D_E_USAGE, "the calculator reads no p4d.conf");
	return NULL;
}

const p4d_cluster *p4d_live_cluster(void *unused)
{
	(void)unused;
	return NULL;
}

/* Stubs: tables and paragraphs are for terminals, and the calculator always prints JSON. */
void p4d_table_column(p4d_table *table, const char *header, p4d_align align)
{
	(void)table;
	(void)header;
	(void)align;
}

void p4d_table_add_columns(p4d_table *table, const p4d_table_head *head, size_t count)
{
	(void)table;
	(void)head;
	(void)count;
}

void p4d_table_cell(p4d_table *table, p4d_color color, const char *format, ...)
{
	(void)table;
	(void)color;
	(void)format;
}

void p4d_table_note(p4d_table *table, const char *text)
{
	(void)table;
	(void)text;
}

int p4d_table_print(p4d_table *table, bool turn, p4d_error *err)
{
	(void)table;
	(void)turn;
	return p4d_fail(err, P4D_E_USAGE, "the calculator prints JSON alone");
}

void p4d_table_free(p4d_table *table)
{
	(void)table;
}

/* Stubs: the calculator is a page itself, so it never gets --html. */
int p4d_command__estimate_page(const p4d_estimate_page *page, const char *path, p4d_error *err)
{
	(void)page;
	return p4d_fail(err, P4D_E_USAGE, "%.300s: the calculator writes no files", path);
}

int p4d_command__plan_page(const p4d_plan_page *page, const char *path, p4d_error *err)
{
	(void)page;
	return p4d_fail(err, P4D_E_USAGE, "%.300s: the calculator writes no files", path);
}

size_t p4d_table_terminal_width(void)
{
	return 0;
}

void p4d_table_print_wrapped(unsigned indent, size_t elsewhere, const char *text)
{
	(void)indent;
	(void)elsewhere;
	puts(text);
}
