/* SPDX-License-Identifier: Apache-2.0 */
#include "spank_client.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#define LIBRARY "libp4d-client.so"

static const p4d_client_calls *client;
static bool tried;

/* Of a library that is missing or unusable, or of another build. */
static void reject(const char *path, const char *why)
{
	slurm_spank_log(
	    "p4d: %s is not usable, so p4d did not look at this job here: reinstall p4d (-v shows why)",
	    path);
	slurm_verbose("p4d: %s", why ? why : "no reason given");
}

/* The directory of p4d.so, with the slash. */
static void find_own(char *directory, size_t size)
{
	Dl_info own;

	*directory = '\0';
	if (dladdr(&tried, &own) && own.dli_fname && strchr(own.dli_fname, '/'))
		snprintf(directory, size, "%.*s", (int)(strrchr(own.dli_fname, '/') + 1 - own.dli_fname),
			 own.dli_fname);
}

static bool same_build(const p4d_client_build *other)
{
	static const p4d_client_build own = P4D_CLIENT_BUILD;

	return !strcmp(other->version, own.version) && other->slurm == own.slurm &&
	       other->options == own.options;
}

static const p4d_client_calls *open_library(void)
{
	char path[4096];
	size_t length;

	find_own(path, sizeof(path) - sizeof(LIBRARY));
	length = strlen(path);
	memcpy(path + length, LIBRARY, sizeof(LIBRARY));
	if (!length || access(path, F_OK))
		snprintf(path, sizeof(path), "%s/%s", P4D_LIBDIR, LIBRARY);
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	const p4d_client_calls *calls = library ? dlsym(library, "p4d_client") : NULL;
	if (!calls)
		reject(path, dlerror());
	else if (!same_build(&calls->build))
		reject(path, "it is of another build than p4d.so");
	else
		return calls;
	return NULL;
}

const p4d_client_calls *p4d_spank_client_open(void)
{
	if (!tried)
		client = open_library();
	tried = true;
	return client;
}

const p4d_client_calls *p4d_spank_client_opened(void)
{
	return client;
}
