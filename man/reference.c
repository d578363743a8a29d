/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the parts of the manual that are tables in the source, as scdoc: `reference codes`,
 * `reference options`, `reference page`, `reference heeds` or `reference settings`. Run by make, so that the
 * pages cannot drift from codes.def, options.def and settings.def.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "request/options_page.h"
#include "request/request.h"
#include "run/settings.h"

/* scdoc takes some characters as markup, and a '-' at the start of a line as a list; '\' escapes. */
static void print_escaped(const char *text)
{
	if (*text == '-')
		putchar('\\');
	for (; *text; text++) {
		if (strchr("_*<>\\#~[", *text))
			putchar('\\');
		putchar(*text);
	}
}

static void print_codes(void)
{
	for (int i = 1; i <= 125; i++) {
		if (!p4d_error_code_title((p4d_code)i))
			continue;
		printf("*P4D%03d* ", i);
		print_escaped(p4d_error_code_title((p4d_code)i));
		printf("\n\t");
		print_escaped(p4d_error_code_text((p4d_code)i));
		printf("\n\n");
	}
}

/* before: what stands between a name and its argument. */
static void print_option(const char *prefix, const char *before, const p4d_option_info *info,
			 const char *help)
{
	printf("*%s%s*", prefix, info->name);
	if (info->kind != P4D_SWITCH_KIND) {
		printf("%s_", before);
		print_escaped(p4d_option_choices(info));
		printf("_");
	}
	printf("\n\t");
	print_escaped(help);
}

static void print_options(void)
{
	char help[P4D_HELP_TEXT];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (!(info->where & P4D_WHERE_SLURM))
			continue;
		print_option("--p4d-", "=", info, p4d_request_help((p4d_option)i, help));
		if (info->kind == P4D_INTEGER_KIND)
			printf(" (%" PRId64 " to %" PRId64 ")", info->min, info->max);
		if (info->kind == P4D_DECIMAL_KIND)
			printf(" (%g to %g)", info->least, info->most);
		printf("%s\n\n", info->where & P4D_WHERE_MODEL ? "; overrides the model's" : "");
	}
}

typedef struct page {
	p4d_option option;
	int heading;
	const char *otherwise, *example, *text;
} page;

static const page pages[] = {
#define PAGE(id, heading, usual, otherwise, example, text) \
	{P4D_##id, P4D_HEADING_##heading, otherwise, example, text},
#include "request/options_page.def"
#undef PAGE
};

/* One option of p4d-options(7); the paragraph is markup already. */
static void print_page(const page *p)
{
	const p4d_option_info *info = p4d_request_option_info(p->option);
	char by[64];

	printf("*--%s*", info->name);
	if (info->kind != P4D_SWITCH_KIND) {
		printf(" _");
		print_escaped(p4d_option_choices(info));
		printf("_");
	}
	printf("\n\t%s", p->text);
	if (p->otherwise[0]) {
		printf(" Default: ");
		print_escaped(p->otherwise);
		putchar('.');
	}
	p4d_request_heeded_by(p->option, by, sizeof(by));
	if (by[0]) {
		printf(" With ");
		print_escaped(by);
		putchar('.');
	}
	printf("++\nExample: _");
	print_escaped(p->example);
	printf("_\n\n");
}

static bool has_page(int option)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		if (pages[i].option == (p4d_option)option)
			return true;
	return false;
}

/* Options of which options_page.def has no row, by their help text. */
static void print_others(void)
{
	const char *title = "# Others\n\n";
	char help[P4D_HELP_TEXT];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (has_page(i) || !(info->where & (P4D_WHERE_COMMAND | P4D_WHERE_SLURM)))
			continue;
		printf("%s", title);
		title = "";
		print_option("--", " ", info, p4d_request_help((p4d_option)i, help));
		printf("\n\n");
	}
}

static void print_pages(void)
{
#define TITLE(id, word, title) title,
	static const char *const titles[] = {P4D_OPTION_HEADINGS(TITLE)};
#undef TITLE

	for (int heading = 0; heading < P4D_HEADING_COUNT; heading++) {
		printf("# %s\n\n", titles[heading]);
		for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
			if (pages[i].heading == heading)
				print_page(&pages[i]);
	}
	print_others();
}

static void print_settings(void)
{
	size_t count;
	const p4d_option_info *table = p4d_settings_table(&count);
	char otherwise[40];

	for (size_t i = 0; i < count; i++) {
		print_option("--", " ", &table[i], table[i].help);
		p4d_settings_default(&table[i], otherwise, sizeof(otherwise));
		printf(*otherwise ? " (%s)\n\n" : "\n\n", otherwise);
	}
}

/* Prints the options, grouped by the programs and workloads in which they have an effect. A group stands
 * where its first option stands in options.def. */
static void print_heeds(void)
{
	char by[P4D_OPTIONS][64];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		int first = 0;
		p4d_request_heeded_by((p4d_option)i, by[i], sizeof(by[i]));
		while (strcmp(by[first], by[i]) != 0)
			first++;
		if (first < i)
			by[i][0] = '\0';
	}
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const char *before = "";
		char of[64];
		if (!*by[i])
			continue;
		printf("*%s*\n\t", by[i]);
		for (int k = i; k < P4D_OPTIONS; k++) {
			if (strcmp(p4d_request_heeded_by((p4d_option)k, of, sizeof(of)), by[i]) != 0)
				continue;
			printf("%s*--%s*", before, p4d_request_option_info((p4d_option)k)->name);
			before = ", ";
		}
		printf("\n\n");
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "codes"))
		print_codes();
	else if (argc == 2 && !strcmp(argv[1], "options"))
		print_options();
	else if (argc == 2 && !strcmp(argv[1], "page"))
		print_pages();
	else if (argc == 2 && !strcmp(argv[1], "heeds"))
		print_heeds();
	else if (argc == 2 && !strcmp(argv[1], "settings"))
		print_settings();
	else
		return 1;
	return fflush(stdout) == 0 ? 0 : 1;
}
