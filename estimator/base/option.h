/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Typed options in tables: request/options.def, and the options of p4d-train. */
typedef enum p4d_kind {
	P4D_INTEGER_KIND,
	P4D_DECIMAL_KIND,
	P4D_CHOICE_KIND,
	P4D_TEXT_KIND,
	P4D_SWITCH_KIND
} p4d_kind;

/* The argument of an integer that is a length in tokens. */
#define P4D_TOKENS "TOKENS"

/* The argument of an integer that is a release of a library: 4057 for 4.57; 4999 for 4, the last release
 * of 4. */
#define P4D_RELEASE "RELEASE"
enum { P4D_RELEASE_UNIT = 1000, P4D_RELEASE_LAST = P4D_RELEASE_UNIT - 1 };

/* Texts are arrays instead of pointers, because the loader would relocate a table of pointers, page by page,
 * in every sbatch of the cluster. */
typedef struct p4d_option_info {
	char name[24];      /* "micro-batch" */
	char argument[136]; /* "N", "on|off", empty for a switch */
	char help[160];
	p4d_kind kind;
	unsigned where;      /* P4D_WHERE_* */
	unsigned heeds;      /* P4D_HEEDS_*; not in p4d-train's own table */
	int64_t min, max;    /* integers */
	double least, most;  /* real numbers */
	size_t field, size;  /* offset of the member that the option sets; size of the member, for texts */
	int64_t number;      /* default of integers and choices, if the table has defaults */
	double real;         /* default of real numbers */
	const char *choices; /* the choices; NULL: those in `argument` */
} p4d_option_info;

/* A value: an integer, the index of a choice, 1 for a text or a switch, the bits of a real number. */
int64_t p4d_option_bits(double real);
double p4d_option_real(int64_t value);

/* -1: no such name ('_' counts as '-', case is ignored). */
int p4d_option_find(const p4d_option_info *table, int count, const char *name);

/*
 * Reads a value. For texts, only the length is checked. prefix: that of the option in messages ("--").
 * Errors: VALUE with the accepted range or choices.
 */
int p4d_option_parse(const p4d_option_info *info, const char *prefix, const char *text, int64_t *value,
		     p4d_error *err);

/* For a repeated option: 0 if the values are the same, else -1 with USAGE. */
int p4d_option_twice(const char *name, const char *first, const char *second, p4d_error *err);

/* Prints a value as a user would type it ("8", "1f1b"), except texts. buf may be truncated. */
const char *p4d_option_text(const p4d_option_info *info, int64_t value, char *buf, size_t size);

/* The words of a choice: "off|on". In the table they may begin with "|", because some macros write lists that
 * way. */
static inline const char *p4d_option_choices(const p4d_option_info *info)
{
	const char *list = info->choices ? info->choices : info->argument;

	return list + (list[0] == '|');
}

/* The argument as help prints it: "on|off", "N"; NAME for a choice whose words do not fit on a line; NULL for
 * a switch. */
const char *p4d_option_argument(const p4d_option_info *info);
