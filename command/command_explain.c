/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/number.h"
#include "command.h"
#include "measure/jobstats.h"
#include "report/table.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "unknown"
#endif
#ifdef HAVE_SLURM_SPANK_H
#include <slurm/slurm_version.h>
#endif

enum { LAST_CODE = 125 };

/* Reads a code: "12", "012", "P4D012" and "p4d12" mean the same. -1: it is no code. */
static int read_code(const char *text)
{
	uint64_t code;

	if (!strncasecmp(text, "p4d", 3))
		text += 3;
	return p4d_number_whole(text, 1, LAST_CODE, &code) ? (int)code : -1;
}

int p4d_command_explain(const p4d_line *line, p4d_error *err)
{
	if (!line->operands) {
		for (int code = 1; code <= LAST_CODE; code++)
			if (p4d_error_code_title((p4d_code)code))
				printf("P4D%03d  %s\n", code, p4d_error_code_title((p4d_code)code));
		return 0;
	}
	int code = read_code(line->operand[0]);
	if (code < 0 || !p4d_error_code_title((p4d_code)code)) {
		p4d_fail(err, P4D_E_USAGE, "there is no code \"%.64s\"", line->operand[0]);
		return p4d_fix(err, "p4d explain (lists all codes)");
	}
	printf("P4D%03d: %s\n\n", code, p4d_error_code_title((p4d_code)code));
	p4d_table_print_wrapped(2, 80, p4d_error_code_text((p4d_code)code));
	return 0;
}

static void print_choices(const char *key, p4d_option option)
{
	printf("%s: ", key);
	for (const char *at = p4d_option_choices(p4d_request_option_info(option)); *at; at++)
		putchar(*at == '|' ? ' ' : *at);
	putchar('\n');
}

int p4d_command_dump_features(const p4d_line *line, p4d_error *err)
{
	/* a broken p4d.conf is also reported, because it concerns this installation */
	p4d_error broken;
	p4d_site *site = p4d_line_open_site(line->conf, &broken);

	(void)err;
	puts("version: " PACKAGE_VERSION);
#ifdef SLURM_VERSION_NUMBER
	printf("slurm: %d.%02d.%d\n", SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER),
	       SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER), SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER));
#else
	puts("slurm: none");
#endif
	print_choices("frameworks", P4D_FRAMEWORK);
	print_choices("methods", P4D_METHOD);
	print_choices("schedules", P4D_SCHEDULE);
	print_choices("precisions", P4D_PRECISION);
	print_choices("devices", P4D_DEVICE);
	printf("jobstats: %s\n", p4d_jobstats_is_built() ? "yes" : "no: built without zlib");
	puts("plan: p4d1");
	if (site)
		printf("conf: %s\n", *p4d_site_path(site) ? p4d_site_path(site) : "none");
	else
		printf("conf: unusable: %s\n", broken.text);
	const char *data = site ? p4d_site_datadir(site) : p4d_line_data_directory();
	printf("data: %s\n", data ? data : "built in");
	p4d_site_free(site);
	return 0;
}
