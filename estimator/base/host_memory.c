/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choice.h"
#include "base/file.h"
#include "base/number.h"

enum { PATH_MOST = 4096 };

/* The number at the start of a file; false for "max", a missing file, or any other text. */
static bool read_number(const char *path, uint64_t *number)
{
	size_t length;
	const int fd = p4d_file_open(path);
	char *text = fd < 0 ? NULL : p4d_file_read(fd, PATH_MOST, &length);
	const bool got = text && p4d_number_digits(text, number);

	free(text);
	if (fd >= 0)
		close(fd);
	return got;
}

/* The lowest limit of a cgroup and all its ancestors. */
static void limit_by(const char *root, const char *mount, const char *group, const char *file,
		     uint64_t *bytes)
{
	char path[PATH_MOST], inside[PATH_MOST];
	uint64_t limit;

	snprintf(inside, sizeof(inside), "%s", group);
	for (;;) {
		int length = snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, inside, file);
		if (length > 0 && length < (int)sizeof(path) && read_number(path, &limit) && limit < *bytes)
			*bytes = limit;
		char *slash = strrchr(inside, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/*
 * Applies the limits of the groups in /proc/self/cgroup: lines "number:controllers:/group"; version 2 has
 * number 0 and no controllers.
 */
static void limit_by_groups(const char *root, uint64_t *bytes)
{
	char path[PATH_MOST], line[PATH_MOST];

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		if (!*++controllers)
			limit_by(root, "/sys/fs/cgroup", group, "memory.max", bytes);
		else if (p4d_choice_index(controllers, ',', "memory", strlen("memory")) >= 0)
			limit_by(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", bytes);
	}
	fclose(file);
}

int p4d_host_memory(const char *root, uint64_t *bytes, p4d_error *err)
{
	char path[PATH_MOST], line[256];
	uint64_t total = 0;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	FILE *file = fopen(path, "re");
	while (file && !total && fgets(line, sizeof(line), file))
		if (!strncmp(line, "MemTotal:", 9))
			total = strtoull(line + 9, NULL, 10) << 10;
	if (file)
		fclose(file);
	if (!total)
		return p4d_fail(err, P4D_E_IO, "%.300s does not state the amount of memory", path);
	limit_by_groups(root, &total);
	*bytes = total;
	return 0;
}

/* Bytes in a line such as "VmHWM: 1234 kB" of /proc/self/status. */
static uint64_t status_of(const char *name)
{
	char status[8192];
	const int fd = p4d_file_open("/proc/self/status");
	const ssize_t length = fd < 0 ? 0 : read(fd, status, sizeof(status) - 1);

	if (fd >= 0)
		close(fd);
	status[length > 0 ? length : 0] = '\0';
	const char *at = strstr(status, name);
	return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

uint64_t p4d_host_memory_peak(void)
{
	return status_of("\nVmHWM:");
}

uint64_t p4d_host_memory_mapped(void)
{
	return status_of("\nRssFile:");
}
