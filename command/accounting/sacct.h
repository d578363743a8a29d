/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Runs sacct. */

/* Receives a piece of sacct's output. false: no more output is needed, so sacct is ended. */
typedef bool p4d_sacct__sink(void *context, const char *bytes, size_t length);

/*
 * Runs sacct and passes its output to `sink`. words: "sacct" first, NULL last. Times in the output are
 * seconds since 1970. Errors: IO: sacct is not in PATH, fails (with its first error line), or prints nothing
 * for ten minutes.
 */
int p4d_sacct__run(const char *const *words, p4d_sacct__sink *sink, void *context, p4d_error *err);

/* Like p4d_sacct__run, but returns all output up to `most` bytes. The caller frees it; NULL on failure. */
char *p4d_sacct__output(const char *const *words, size_t most, p4d_error *err);
