/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of records. p4d.so calls it for every job, so this file uses no other part of p4d. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rehearsals/rehearsals.h"

bool p4d_rehearsals_directory(char *path, size_t size)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int length = -1;

	if (cache && *cache == '/')
		length = snprintf(path, size, "%s/p4d/rehearsals", cache);
	else if (home && *home == '/')
		length = snprintf(path, size, "%s/.cache/p4d/rehearsals", home);
	return length > 0 && (size_t)length < size;
}

bool p4d_rehearsals_any(void)
{
	char path[PATH_MAX];

	return p4d_rehearsals_directory(path, sizeof(path)) && !access(path, X_OK);
}
