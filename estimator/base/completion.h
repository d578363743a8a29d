/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/option.h"

/* What shells complete: lines of a completion script, printed for one option of a program. */
typedef struct p4d_completed {
	const char *prefix, *name, *help; /* --PREFIXNAME */
	const char *choices;              /* "a|b"; "": any value; NULL: no value */
	bool files;                       /* the value is the path of a file or a folder */
} p4d_completed;

/* Describes an option of a table for completion, with `help` instead of the table's help text. */
p4d_completed p4d_completed_of(const p4d_option_info *info, const char *prefix, const char *help);

/* Whether an argument as help prints it ("FILE") names a path. */
bool p4d_completed_is_path(const char *argument);

/*
 * bash: p4d_completed_word prints the option as a word of a list. p4d_completed_case prints a line of a
 * `case` that prints the option's values, or nothing if the option has no values.
 */
void p4d_completed_word(const p4d_completed *option);
void p4d_completed_case(const p4d_completed *option);
/*
 * bash: prints a function _NAME_split, which sets cur and prev to the word at the cursor and the word before
 * it.
 */
void p4d_completed_split(const char *name);
/* zsh: prints an argument of _arguments, with a backslash at the end of its line. */
void p4d_completed_zsh(const p4d_completed *option);
/* fish: prints a command. begin: "complete -c PROGRAM", with conditions. */
void p4d_completed_fish(const char *begin, const p4d_completed *option);

/* Prints a text for use inside single quotes of any shell. special: characters that get a backslash. */
void p4d_completed_quoted(const char *text, const char *special);
