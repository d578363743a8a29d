/* SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const p4d_module_build own = P4D_MODULE_BUILD;

/* Makes the path of LIBRARY in the directory of the library that contains this code. */
static bool find_beside(const char *library, char *path, size_t size)
{
	Dl_info self;
	const char *slash = dladdr(&own, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;

	if (!slash)
		return false;
	snprintf(path, size, "%.*s/%s", (int)(slash - self.dli_fname), self.dli_fname, library);
	return access(path, F_OK) == 0;
}

const char *p4d_module_find(const char *library, char *path, size_t size)
{
	if (!find_beside(library, path, size))
		snprintf(path, size, "%s/%s", P4D_LIBDIR, library);
	return path;
}

const void *p4d_module_open(const char *library, const char *symbol, char *path, size_t size,
			    const char **why)
{
	void *opened = dlopen(p4d_module_find(library, path, size), RTLD_LAZY | RTLD_LOCAL);
	const p4d_module_build *build = opened ? dlsym(opened, symbol) : NULL;
	if (!build) {
		*why = dlerror();
		*why = *why ? *why : "no reason given";
		return NULL;
	}
	if (strcmp(build->version, own.version) != 0 || build->slurm != own.slurm ||
	    build->options != own.options) {
		*why = "the file comes from another build of p4d than p4d.so";
		return NULL;
	}
	return build;
}
