/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Applies a fix as a user would: appends its options to `options`, and changes the files of the current
 * folder that it names. False, with a reason: it is not clear how to apply it.
 */
bool apply_fix(const char *fix, char *options, size_t size, char *why, size_t room);
