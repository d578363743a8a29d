/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int map_fd(p4d_mapping *mapping, int fd, const char *path, p4d_code code, p4d_error *err)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return p4d_fail(err, code, "%.255s: cannot be read: %m", path);
	if (S_ISDIR(status.st_mode))
		return p4d_fail(err, code, "%.255s: is a directory, not a file", path);
	if (!S_ISREG(status.st_mode))
		return p4d_fail(err, code, "%.255s: not a regular file", path);
	*mapping = (p4d_mapping){NULL, (uint64_t)status.st_size};
	if (!mapping->bytes)
		return 0;
	void *data = mmap(NULL, (size_t)mapping->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED) {
		*mapping = (p4d_mapping){NULL, 0};
		return p4d_fail(err, code, "%.255s: cannot be mapped into memory: %m", path);
	}
	mapping->data = data;
	return 0;
}

int p4d_mapping_open(p4d_mapping *mapping, const char *path, p4d_code code, p4d_error *err)
{
	int fd = p4d_file_open(path);

	if (fd < 0)
		return p4d_fail(err, code, "%.255s: cannot be read: %m", path);
	int rc = map_fd(mapping, fd, path, code, err);
	close(fd);
	return rc;
}

void p4d_mapping_close(p4d_mapping *mapping)
{
	if (mapping->data)
		munmap((void *)(uintptr_t)mapping->data, (size_t)mapping->bytes);
	*mapping = (p4d_mapping){NULL, 0};
}
