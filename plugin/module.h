/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "config.h"
#include "request/request.h"
#include "slurm_compat.h"

/* Properties that two libraries of p4d must share, so that one may open the other. A release of Slurm
 * means its major and minor number. */
typedef struct p4d_module_build {
	const char *version; /* version of p4d */
	unsigned slurm, options;
} p4d_module_build;

#define P4D_MODULE_BUILD \
	{ \
		.version = PACKAGE_VERSION, .slurm = SLURM_VERSION_NUMBER >> 8, .options = P4D_OPTIONS \
	}

/* Finds a library: next to the library that contains this code, else where it is installed. Returns path. */
const char *p4d_module_find(const char *library, char *path, size_t size);

/*
 * Opens a library, next to the library that contains this code (build tree) or else where it is installed.
 * Returns its only symbol, which begins with a p4d_module_build. path: gets the path of the library. NULL:
 * the library cannot be used or comes from another build; *why says which.
 */
const void *p4d_module_open(const char *library, const char *symbol, char *path, size_t size,
			    const char **why);
