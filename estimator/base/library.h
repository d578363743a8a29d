/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Parts of p4d that are separate shared objects, opened on demand: not every machine has what they need, and
 * loading it would slow every command.
 *
 * Searched in the directory $P4D_LIBDIR if set; else next to the program (build tree), then where it is
 * installed. name: "libp4d-cuda.so". Fills path[size], also when not found: then with the install location.
 */
bool p4d_library_find(const char *name, char *path, size_t size);
