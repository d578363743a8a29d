/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Parts of p4d that are separate shared objects, opened on demand: some machines lack the libraries that they
 * need, and loading them would slow down every command.
 *
 * The directory is $P4D_LIBDIR if that is set; otherwise the program's own (build tree), then the one of the
 * installation. name: "libp4d-cuda.so". Fills path[size] also if it is not found: then with the install
 * location.
 */
bool p4d_library_find(const char *name, char *path, size_t size);
