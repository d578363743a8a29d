/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the options of a command, by heading. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "line/line.h"
#include "request/options_page.h"

#define HEADING(id, word, title) {word, title},
static const struct {
	const char *word, *title;
} headings[P4D_HEADING_COUNT] = {P4D_OPTION_HEADINGS(HEADING)};
#undef HEADING

typedef struct page {
	p4d_option option;
	int heading, usual;
} page;

#define PAGE(id, heading, usual, otherwise, example, text) {P4D_##id, P4D_HEADING_##heading, usual},
static const page pages[] = {
#include "request/options_page.def"
};
#undef PAGE

static void print_option(const char *name, const char *argument, const char *help)
{
	char left[64];

	snprintf(left, sizeof(left), "--%s%s%s", name, argument ? " " : "", argument ? argument : "");
	if (strlen(left) <= 26)
		printf("  %-26s  %s\n", left, help);
	else
		printf("  %s\n  %26s  %s\n", left, "", help);
}

static bool is_printed(const page *p, const p4d_subcommand *command, int heading, bool all)
{
	return p->heading == heading && (all || p->usual) && p4d_line__takes(command, p->option);
}

static void print_heading(const p4d_subcommand *command, int heading, bool all)
{
	bool titled = false;

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		const p4d_option option = pages[i].option;
		char text[P4D_HELP_TEXT];
		if (!is_printed(&pages[i], command, heading, all))
			continue;
		if (!titled)
			printf("\n%s:\n", headings[heading].title);
		titled = true;
		print_option(p4d_request_option_info(option)->name,
			     p4d_option_argument(p4d_request_option_info(option)),
			     p4d_request_help(option, text));
	}
}

static bool has_page(int option)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (pages[i].option == (p4d_option)option)
			return true;
	return false;
}

/* Prints options that have no row in options_page.def. */
static void print_others(const p4d_subcommand *command)
{
	char text[P4D_HELP_TEXT];

	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_line__takes(command, i) && !has_page(i))
			print_option(p4d_request_option_info((p4d_option)i)->name,
				     p4d_option_argument(p4d_request_option_info((p4d_option)i)),
				     p4d_request_help((p4d_option)i, text));
}

static void print_own(const p4d_subcommand *command)
{
	bool titled = false;

	for (const p4d_line_option *own = p4d_line_own; own->name; own++) {
		if (!(command->takes & own->takes))
			continue;
		if (!titled)
			puts(command->takes & P4D_TAKES_JOB ? "\nOther options:" : "");
		titled = true;
		print_option(own->name, own->argument, own->help);
	}
}

void p4d_line_help(const p4d_subcommand *command, bool all)
{
	printf("p4d %s%s%s: %s\n", command->name, *command->synopsis ? " " : "", command->synopsis,
	       command->help);
	if (command->options)
		puts(command->options);
	for (int heading = 0; heading < P4D_HEADING_COUNT; heading++)
		print_heading(command, heading, all);
	if (all)
		print_others(command);
	print_own(command);
	if (!(command->takes & P4D_TAKES_JOB) || all)
		return;
	printf("\nAll options: p4d help %s --all, or by heading: p4d help", command->name);
	for (int heading = 0; heading < P4D_HEADING_COUNT; heading++)
		printf("%s%s", heading ? "|" : " ", headings[heading].word);
	puts("; p4d-options(7) describes them.");
}

bool p4d_line_help_heading(const char *word, const p4d_subcommand *command)
{
	for (int heading = 0; heading < P4D_HEADING_COUNT; heading++)
		if (!strcasecmp(word, headings[heading].word)) {
			print_heading(command, heading, true);
			return true;
		}
	return false;
}
