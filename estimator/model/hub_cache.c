/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hub_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_PATH = 1024, REVISION = 64 };

/* Finds the cache folder; "" if the environment names none. */
static void cache_folder(char *path, size_t size)
{
	static const struct {
		const char *variable, *below;
	} places[] = {{"HF_HUB_CACHE", ""},
		      {"HF_HOME", "/hub"},
		      {"XDG_CACHE_HOME", "/huggingface/hub"},
		      {"HOME", "/.cache/huggingface/hub"}};

	path[0] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !*path; i++) {
		const char *folder = getenv(places[i].variable);
		if (folder && *folder)
			snprintf(path, size, "%s%s", folder, places[i].below);
	}
}

/* Whether a name is "ORG/NAME" and cannot leave the cache's directory. */
static bool is_repository(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && slash != name && slash[1] && !strchr(slash + 1, '/') && name[0] != '.' &&
	       slash[1] != '.' && !strstr(name, "..");
}

/* Reads the revision: the first line of refs/main. */
static bool read_revision(const char *folder, char *revision, size_t size)
{
	char path[MAX_PATH];
	struct stat status;

	if (snprintf(path, sizeof(path), "%s/refs/main", folder) >= (int)sizeof(path))
		return false;
	const int fd = p4d_file_open(path);
	if (fd < 0)
		return false;
	size_t length = 0;
	char *text =
	    fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? p4d_file_read(fd, size - 1, &length) : NULL;
	close(fd);
	snprintf(revision, size, "%s", text ? text : "");
	free(text);
	revision[strcspn(revision, "\r\n")] = '\0';
	return *revision && !strchr(revision, '/') && revision[0] != '.';
}

bool p4d_hub_cache_find(const char *name, char *path, size_t size)
{
	char cache[MAX_PATH / 2], folder[MAX_PATH], revision[REVISION];
	struct stat status;

	cache_folder(cache, sizeof(cache));
	if (!*cache || !is_repository(name))
		return false;
	const int organization = (int)(strchr(name, '/') - name);
	if (snprintf(folder, sizeof(folder), "%s/models--%.*s--%s", cache, organization, name,
		     name + organization + 1) >= (int)sizeof(folder) ||
	    !read_revision(folder, revision, sizeof(revision)) ||
	    snprintf(path, size, "%s/snapshots/%s", folder, revision) >= (int)size)
		return false;
	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}
