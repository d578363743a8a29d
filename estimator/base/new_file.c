/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { BUFFER = 1 << 18, ATTEMPTS = 100, AT_ONCE = 1 << 30 };

static int fail(const p4d_new_file *file, p4d_error *err)
{
	int why = errno;

	return p4d_fail(err, P4D_E_IO, "%.255s: cannot be written: %s", file->path, strerror(why));
}

/*
 * Opens a directory. A symbolic link to it must belong to the user or to root: Linux checks this only in
 * sticky directories (protected_symlinks), p4d in every directory.
 */
static int open_directory(const char *path)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	struct stat link;
	int fd = open(path, flags | O_NOFOLLOW);

	if (fd < 0 && errno == EACCES) /* a directory that may be writable but not readable */
		fd = open(path, (flags |= O_PATH) | O_NOFOLLOW);
	if (fd >= 0 || (errno != ELOOP && errno != ENOTDIR) || lstat(path, &link) < 0 ||
	    !S_ISLNK(link.st_mode))
		return fd;
	if (!link.st_uid || link.st_uid == geteuid())
		return open(path, flags);
	errno = ELOOP;
	return -1;
}

/* Opens the directory of file->path. */
static int open_parent(p4d_new_file *file)
{
	char *copy = strdup(file->path);

	if (!copy)
		return -1;
	const char *slash = strrchr(copy, '/');
	copy[slash ? slash - copy + (slash == copy) : 0] = '\0';
	file->directory = open_directory(*copy ? copy : ".");
	free(copy);
	return file->directory < 0 ? -1 : 0;
}

/*
 * Creates a file under an unused temporary name. mkstemp is no choice, because only the owner can read its
 * files.
 */
static int open_unused(p4d_new_file *file)
{
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (asprintf(&file->temporary, "%s.%ld-%u", p4d_file_name(file->path), (long)getpid(),
			     attempt) < 0) {
			file->temporary = NULL;
			errno = ENOMEM;
			return -1;
		}
		file->fd = openat(file->directory, file->temporary,
				  O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
		if (file->fd >= 0)
			return 0;
		int why = errno;
		free(file->temporary);
		file->temporary = NULL;
		errno = why;
		/* a process on another host with the same process ID may use the same name */
		if (why != EEXIST)
			break;
	}
	return -1;
}

int p4d_new_file_open(p4d_new_file *file, const char *path, p4d_error *err)
{
	p4d_new_file made = {.fd = -1, .directory = -1, .path = strdup(path), .buffer = malloc(BUFFER)};

	if (!made.path || !made.buffer) {
		free(made.path);
		free(made.buffer);
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to write %.255s", path);
	}
	if (open_parent(&made) < 0 || open_unused(&made) < 0) {
		fail(&made, err);
		p4d_new_file_abandon(&made);
		return -1;
	}
	*file = made;
	return 0;
}

/* Writes all bytes at this offset; -1: at the end. */
static int write_all(p4d_new_file *file, const uint8_t *data, uint64_t bytes, off_t offset, p4d_error *err)
{
	while (bytes) {
		const size_t some = bytes < AT_ONCE ? bytes : AT_ONCE;
		ssize_t written =
		    offset < 0 ? write(file->fd, data, some) : pwrite(file->fd, data, some, offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return fail(file, err);
		data += written;
		bytes -= (uint64_t)written;
		offset += offset < 0 ? 0 : written;
	}
	return 0;
}

static int flush(p4d_new_file *file, p4d_error *err)
{
	size_t used = file->used;

	file->used = 0;
	return write_all(file, file->buffer, used, -1, err);
}

int p4d_new_file_write(p4d_new_file *file, const void *data, uint64_t bytes, p4d_error *err)
{
	if (bytes > BUFFER - file->used && flush(file, err) < 0)
		return -1;
	if (bytes > BUFFER) {
		if (write_all(file, data, bytes, -1, err) < 0)
			return -1;
	} else if (bytes) {
		memcpy(file->buffer + file->used, data, bytes);
		file->used += bytes;
	}
	file->bytes += bytes;
	return 0;
}

int p4d_new_file_rewrite(p4d_new_file *file, uint64_t offset, const void *data, uint64_t bytes,
			 p4d_error *err)
{
	if (offset > file->bytes || bytes > file->bytes - offset)
		return p4d_fail(err, P4D_E_VALUE, "%.255s: rewriting beyond its end", file->path);
	if (flush(file, err) < 0)
		return -1;
	return write_all(file, data, bytes, (off_t)offset, err);
}

int p4d_new_file_sync(p4d_new_file *file, p4d_error *err)
{
	if (flush(file, err) < 0)
		return -1;
	return fsync(file->fd) < 0 ? fail(file, err) : 0;
}

int p4d_new_file_publish(p4d_new_file *file, p4d_error *err)
{
	int fd = file->fd;

	file->fd = -1;
	if (close(fd) < 0 ||
	    renameat(file->directory, file->temporary, file->directory, p4d_file_name(file->path)) < 0)
		return fail(file, err);
	/* Without this a power failure may lose the new name, though not the data. EINVAL: the file system
	 * does not support it. EBADF: the directory is writable but not readable. */
	int rc = fsync(file->directory) < 0 && errno != EINVAL && errno != EBADF ? fail(file, err) : 0;
	free(file->temporary);
	file->temporary = NULL;
	p4d_new_file_abandon(file);
	return rc;
}

void p4d_new_file_abandon(p4d_new_file *file)
{
	if (file->path && file->fd >= 0)
		close(file->fd);
	if (file->temporary)
		unlinkat(file->directory, file->temporary, 0);
	if (file->path && file->directory >= 0)
		close(file->directory);
	free(file->temporary);
	free(file->path);
	free(file->buffer);
	*file = (p4d_new_file){.fd = -1, .directory = -1};
}

int p4d_new_file_put(const char *path, const void *data, uint64_t bytes, p4d_error *err)
{
	p4d_new_file file = {.fd = -1, .directory = -1};
	int rc = p4d_new_file_open(&file, path, err);

	if (rc == 0)
		rc = p4d_new_file_write(&file, data, bytes, err);
	if (rc == 0)
		rc = p4d_new_file_sync(&file, err);
	if (rc == 0)
		rc = p4d_new_file_publish(&file, err);
	p4d_new_file_abandon(&file);
	return rc;
}

int p4d_new_file_put_text(const char *path, p4d_text *text, p4d_error *err)
{
	const int rc = text->truncated ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %s", path)
				       : p4d_new_file_put(path, text->at, text->length, err);

	free(text->at);
	return rc;
}
