/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Parts of p4d that are shared objects of their own, opened when they are asked for: what they need is not on
 * every machine, and loading it would cost every command.
 *
 * Such a part is looked for in the directory P4D_LIBDIR of the environment, where that is set; else beside
 * the program (where it was built), then where it is installed. name: "libp4d-cuda.so". Fills path[size],
 * also when there is none: then with where it should have been installed.
 */
bool p4d_library_find(const char *name, char *path, size_t size);
