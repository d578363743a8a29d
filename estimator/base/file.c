/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int p4d_file_open(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Reads until the end of the file or `size` bytes; -1 with errno. */
static ssize_t read_up_to(int fd, char *text, size_t size)
{
	size_t used = 0;

	while (used < size) {
		ssize_t got = read(fd, text + used, size - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	return (ssize_t)used;
}

char *p4d_file_read(int fd, size_t most, size_t *length)
{
	struct stat status;
	/* pipes and files in /proc report size 0; if a file grows, only its first size is read */
	const bool sized = fstat(fd, &status) == 0 && status.st_size > 0 && (size_t)status.st_size <= most;

	if (sized)
		most = (size_t)status.st_size;
	char *text = malloc(most + 1);
	ssize_t got = text ? read_up_to(fd, text, sized ? most : most + 1) : -1;
	if (got >= 0 && (size_t)got <= most) {
		text[got] = '\0';
		*length = (size_t)got;
		return text;
	}
	int why = !text ? ENOMEM : got < 0 ? errno : EFBIG;
	free(text);
	errno = why;
	return NULL;
}
