/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Options with a type, in tables: request/options.def, and p4d-train's own. */
typedef enum p4d_kind {
	P4D_INTEGER_KIND,
	P4D_DECIMAL_KIND,
	P4D_CHOICE_KIND,
	P4D_TEXT_KIND,
	P4D_SWITCH_KIND
} p4d_kind;

/* The argument of an integer that is a length in tokens. */
#define P4D_TOKENS "TOKENS"

/* The argument of an integer that is a release of a library: 4057 for 4.57, 4999 for 4, the last of them. */
#define P4D_RELEASE "RELEASE"
enum { P4D_RELEASE_UNIT = 1000, P4D_RELEASE_LAST = P4D_RELEASE_UNIT - 1 };

/* Texts are in place: a table of pointers would be relocated, page by page, in every sbatch of the cluster.
 */
typedef struct p4d_option_info {
	char name[24];      /* "micro-batch" */
	char argument[136]; /* "N", "on|off", empty for a switch */
	char help[160];
	p4d_kind kind;
	unsigned where;      /* P4D_WHERE_* */
	unsigned heeds;      /* P4D_HEEDS_*; not in p4d-train's own table */
	int64_t min, max;    /* integers */
	double least, most;  /* real numbers */
	size_t field, size;  /* place in the struct that the table is of; size: of texts */
	int64_t number;      /* defaults, where the table has them: integers and choices, */
	double real;         /* real numbers */
	const char *choices; /* of a choice; NULL: those of `argument` */
} p4d_option_info;

/* A value: an integer, the index of a choice, 1 for a text or a switch, the bits of a real number. */
int64_t p4d_option_bits(double real);
double p4d_option_real(int64_t value);

/* -1: no such name ('_' counts as '-', case is ignored). */
int p4d_option_find(const p4d_option_info *table, int count, const char *name);

/*
 * Reads a value. Texts are only checked for length. prefix: of the option in messages ("--"). Errors: VALUE
 * with the accepted range or choices.
 */
int p4d_option_parse(const p4d_option_info *info, const char *prefix, const char *text, int64_t *value,
		     p4d_error *err);

/* For a repeated option: 0 where the values are the same, else -1 with USAGE. */
int p4d_option_twice(const char *name, const char *first, const char *second, p4d_error *err);

/* Prints any value but a text as it would be typed ("8", "1f1b"). buf may be truncated. */
const char *p4d_option_text(const p4d_option_info *info, int64_t value, char *buf, size_t size);

/* The words of a choice: "off|on". In the table they may begin with "|", as lists do that macros write. */
static inline const char *p4d_option_choices(const p4d_option_info *info)
{
	const char *list = info->choices ? info->choices : info->argument;

	return list + (list[0] == '|');
}

/* Its argument as help shows it: "on|off", "N"; NAME for a choice of more than a line of words; NULL for a
 * switch. */
const char *p4d_option_argument(const p4d_option_info *info);
