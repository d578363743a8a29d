/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Applies a fix as a user would. Appends its options to `options`, and changes the files of the current
 * folder that it names. Returns false with a reason if the fix does not say clearly what to do. */
bool apply_fix(const char *fix, char *options, size_t size, char *why, size_t room);
