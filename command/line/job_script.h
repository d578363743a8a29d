/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * Opens a job script as sbatch does: relative to --chdir (NULL: not given); a bare name that is not found
 * there is searched in PATH. path gets where it is. -1: no regular file. Errors: IO.
 */
int p4d_line_open_script(const char *name, const char *directory, char *path, size_t size, p4d_error *err);
