/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* The text of a job script, NUL-terminated; the caller frees it. NULL: see *err. Errors: IO, NO_MEMORY. */

enum { P4D_LINE_SCRIPT_BYTES = 4 << 20 };

/*
 * Reads a file, found as sbatch finds it: relative to --chdir (NULL: not given); a bare name that does not
 * exist there is searched in PATH. name NULL: standard input.
 */
char *p4d_line_read_script(const char *name, const char *directory, size_t *length, p4d_error *err);
/* The script of --wrap. */
char *p4d_line_script_wrapped(const char *wrap, size_t *length, p4d_error *err);
/* A script from a text. name: for messages. */
char *p4d_line_script_copy(const char *from, size_t size, const char *name, size_t *length, p4d_error *err);
