/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Tables of typed options: request/options.def, and the options of p4d-train. */
typedef enum p4d_kind {
	P4D_INTEGER_KIND,
	P4D_DECIMAL_KIND,
	P4D_CHOICE_KIND,
	P4D_TEXT_KIND,
	P4D_SWITCH_KIND
} p4d_kind;

/* The argument name of an integer option that is a length in tokens. */
#define P4D_TOKENS "TOKENS"

/* The argument name of an integer option that is a release of a library. 4.57 is stored as 4057; 4 is
 * stored as 4999, the last release of 4. */
#define P4D_RELEASE "RELEASE"
enum { P4D_RELEASE_UNIT = 1000, P4D_RELEASE_LAST = P4D_RELEASE_UNIT - 1 };

/*
 * A row has no pointers, only arrays and a distance in bytes. With pointers, the loader would have to
 * relocate the table's pages in every sbatch of the cluster.
 */
typedef struct p4d_option_info {
	char name[24];      /* "micro-batch" */
	char argument[136]; /* "N", "on|off"; empty for a switch */
	char help[160];
	p4d_kind kind;
	unsigned where;     /* P4D_WHERE_* */
	unsigned heeds;     /* P4D_HEEDS_*; unused in p4d-train's own table */
	int64_t min, max;   /* bounds of an integer */
	double least, most; /* bounds of a real number */
	size_t field, size; /* offset of the member that the option sets; for texts also the member's size */
	int64_t number;     /* default of an integer or a choice, if the table has defaults */
	double real;        /* default of a real number */
	size_t choices;     /* distance in bytes from this row to its choices; 0: they are in `argument` */
} p4d_option_info;

/* A value is an integer, the index of a choice, 1 for a text or a switch, or the bits of a real number. */
int64_t p4d_option_bits(double real);
double p4d_option_real(int64_t value);

/* The index of an option in the table; -1: no such name. '_' counts as '-', and case is ignored. */
int p4d_option_find(const p4d_option_info *table, int count, const char *name);

/*
 * Reads a value. For texts, it checks only the length. prefix: what precedes the option's name in messages
 * ("--"). Errors: VALUE with the accepted range or choices.
 */
int p4d_option_parse(const p4d_option_info *info, const char *prefix, const char *text, int64_t *value,
		     p4d_error *err);

/* For an option given twice: 0 if both values are the same, else -1 with USAGE. */
int p4d_option_twice(const char *name, const char *first, const char *second, p4d_error *err);
/* Stores the text of a free-text option in *to. Fails if the user gave another text for it before. */
int p4d_option_once(const char **to, const char *name, const char *text, p4d_error *err);

/* Prints a value as a user would type it ("8", "1f1b"). Not for texts. buf may be truncated. */
const char *p4d_option_text(const p4d_option_info *info, int64_t value, char *buf, size_t size);

/* The words of a choice, such as "off|on". In the table the list may begin with "|", because some macros
 * write it that way. */
static inline const char *p4d_option_choices(const p4d_option_info *info)
{
	const char *list = info->choices ? (const char *)info + info->choices : info->argument;

	return list + (list[0] == '|');
}

/* The argument as help prints it: "on|off", "N"; NAME for a choice whose words do not fit on a line; NULL
 * for a switch. */
const char *p4d_option_argument(const p4d_option_info *info);
