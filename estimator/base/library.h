/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Parts of p4d are separate shared objects, opened on demand: some machines lack the libraries that they
 * need, and loading them would slow down every command.
 *
 * The directory is $P4D_LIBDIR if that is set; otherwise the directory of the program (in a build tree), then
 * the installation's. name: such as "libp4d-cuda.so". Fills path[size]. If the file is in none of these
 * directories, path is its place in the installation.
 */
bool p4d_library_find(const char *name, char *path, size_t size);
