/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * Functions that return the text of a job script, NUL-terminated; the caller frees it. NULL: see *err.
 * Errors: IO, NO_MEMORY.
 */

enum { P4D_LINE_SCRIPT_BYTES = 4 << 20 };

/*
 * Reads a file, which it finds as sbatch does: relative to `directory`, the value of --chdir (NULL: not
 * given). A name without a slash that does not exist there is searched in PATH. name NULL: standard input.
 */
char *p4d_line_read_script(const char *name, const char *directory, size_t *length, p4d_error *err);
/* Makes the script that sbatch makes for --wrap. */
char *p4d_line_script_wrapped(const char *wrap, size_t *length, p4d_error *err);
/* Copies a script's text. name: for messages. */
char *p4d_line_script_copy(const char *from, size_t size, const char *name, size_t *length, p4d_error *err);
