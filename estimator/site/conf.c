/* SPDX-License-Identifier: Apache-2.0 */
#include "site/conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

int p4d_conf__fail(const p4d_conf *conf, unsigned line, p4d_error *err, p4d_code code, const char *format,
		   ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return p4d_fail(err, code, "%s:%u: %s", conf->path, line, text);
}

static int check_owner(const char *path, const struct stat *st, uint32_t trusted_uid, p4d_error *err)
{
	if (st->st_uid != 0 && st->st_uid != trusted_uid) {
		p4d_fail(err, P4D_E_CONF_TRUST, "%s: owned by uid %u: only root and uid %u are trusted", path,
			 (unsigned)st->st_uid, (unsigned)trusted_uid);
		return p4d_fix(err, "chown root %s", path);
	}
	if (st->st_mode & (S_IWGRP | S_IWOTH)) {
		p4d_fail(err, P4D_E_CONF_TRUST, "%s: mode %04o: group or others may write to it", path,
			 (unsigned)(st->st_mode & 07777));
		return p4d_fix(err, "chmod go-w %s", path);
	}
	return 0;
}

/* The whole file, NUL-terminated; the caller frees. NULL on failure. */
static char *read_open_file(int fd, const char *path, bool trust, uint32_t trusted_uid, size_t *length,
			    p4d_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		p4d_fail(err, P4D_E_IO, "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!S_ISREG(st.st_mode)) {
		p4d_fail(err, trust ? P4D_E_CONF_TRUST : P4D_E_IO, "%s: not a regular file", path);
		return NULL;
	}
	if (trust && check_owner(path, &st, trusted_uid, err) < 0)
		return NULL;
	if (st.st_size > P4D_CONF_BYTES) {
		p4d_fail(err, P4D_E_IO, "%s: %lld bytes: at most %d are read", path, (long long)st.st_size,
			 P4D_CONF_BYTES);
		return NULL;
	}
	char *text = p4d_file_read(fd, P4D_CONF_BYTES, length);
	if (!text)
		p4d_fail(err, errno == ENOMEM ? P4D_E_NO_MEMORY : P4D_E_IO, "%s: %m", path);
	return text;
}

int p4d_conf__read(p4d_conf *conf, const char *path, bool trust, uint32_t trusted_uid, p4d_error *err)
{
	int fd = p4d_file_open(path);
	size_t length;

	if (fd < 0)
		return p4d_fail(err, P4D_E_IO, "%s: %s", path, strerror(errno));
	char *text = read_open_file(fd, path, trust, trusted_uid, &length, err);
	close(fd);
	if (!text)
		return -1;
	int rc = p4d_conf__parse(conf, path, text, length, err);
	free(text);
	return rc;
}

void p4d_conf__free(p4d_conf *conf)
{
	free(conf->values);
	free(conf->section);
	*conf = (p4d_conf){0};
}

const char *p4d_conf__value(const p4d_conf *conf, const p4d_conf_section *section, int key, unsigned i)
{
	if (i >= section->count[key])
		return NULL;
	const char *value = conf->values + section->first[key];
	while (i--)
		value += strlen(value) + 1;
	return value;
}
