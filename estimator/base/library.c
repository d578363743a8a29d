/* SPDX-License-Identifier: Apache-2.0 */
#include "base/library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory of this program; "": unknown. */
static void find_program(char directory[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);

	directory[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(directory, '/');
	if (slash)
		*slash = '\0';
}

bool p4d_library_find(const char *name, char *path, size_t size)
{
	const char *named = getenv("P4D_LIBDIR");
	char program[PATH_MAX], beside[PATH_MAX + 8];

	find_program(program);
	snprintf(beside, sizeof(beside), "%s/.libs", program); /* libtool's directory in a build tree */
	const char *const places[] = {program, beside, P4D_LIBDIR};
	if (named && *named) {
		snprintf(path, size, "%s/%s", named, name);
		return access(path, R_OK) == 0;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, size, "%s/%s", places[i], name);
		if (access(path, R_OK) == 0)
			return true;
	}
	return false;
}
