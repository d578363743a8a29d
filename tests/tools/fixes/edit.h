/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Does what a fix says, as a user would: options into `options` (appended), the rest in the files of the
 * current folder that it names. False, with a reason: it is not clear what to do.
 */
bool apply_fix(const char *fix, char *options, size_t size, char *why, size_t room);
