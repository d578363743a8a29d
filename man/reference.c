/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the parts of the manual that are tables in the source, as scdoc: `reference codes`,
 * `reference options` or `reference settings`. Run by make, so that the pages cannot drift from codes.def,
 * options.def and settings.def.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
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
static void print_option(const char *prefix, const char *before, const p4d_option_info *info)
{
	printf("*%s%s*", prefix, info->name);
	if (info->kind != P4D_SWITCH_KIND) {
		printf("%s_", before);
		print_escaped(p4d_option_choices(info));
		printf("_");
	}
	printf("\n\t");
	print_escaped(info->help);
}

static void print_options(void)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (!(info->where & P4D_WHERE_SLURM))
			continue;
		print_option("--p4d-", "=", info);
		if (info->kind == P4D_INTEGER_KIND)
			printf(" (%" PRId64 " to %" PRId64 ")", info->min, info->max);
		if (info->kind == P4D_DECIMAL_KIND)
			printf(" (%g to %g)", info->least, info->most);
		printf("%s\n\n", info->where & P4D_WHERE_MODEL ? "; overrides the model's number" : "");
	}
}

static void print_settings(void)
{
	size_t count;
	const p4d_option_info *table = p4d_settings_table(&count);
	char otherwise[40];

	for (size_t i = 0; i < count; i++) {
		print_option("--", " ", &table[i]);
		p4d_settings_default(&table[i], otherwise, sizeof(otherwise));
		printf(*otherwise ? " (%s)\n\n" : "\n\n", otherwise);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "codes"))
		print_codes();
	else if (argc == 2 && !strcmp(argv[1], "options"))
		print_options();
	else if (argc == 2 && !strcmp(argv[1], "settings"))
		print_settings();
	else
		return 1;
	return fflush(stdout) == 0 ? 0 : 1;
}
