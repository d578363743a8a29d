/* SPDX-License-Identifier: Apache-2.0 */
#include "run/log_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "run/rank_error.h"

void p4d_log_file_write(int *fd, const void *data, size_t bytes, const char *what)
{
	p4d_error err;

	for (size_t done = 0; *fd >= 0 && done < bytes;) {
		const ssize_t wrote = write(*fd, (const char *)data + done, bytes - done);
		if (wrote > 0) {
			done += (size_t)wrote;
		} else if (wrote == 0 || errno != EINTR) {
			*fd = -1;
			p4d_fail(&err, P4D_E_IO,
				 "%.300s cannot be written: %s; training continues without it",
				 what ? what : "", strerror(wrote == 0 ? ENOSPC : errno));
			if (what)
				p4d_rank_report(&err, NULL, 0);
		}
	}
}
