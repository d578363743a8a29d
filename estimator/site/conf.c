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
#include "base/text.h"

int p4d_conf__fail(const p4d_conf *conf, unsigned line, p4d_error *err, p4d_code code, const char *format,
		   ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return p4d_fail(err, code, "%s:%u: %s", conf->file[line >> P4D_CONF_LINE_BITS].path,
			line & P4D_CONF_LINE, text);
}

const char *p4d_conf__place(const p4d_conf *conf, unsigned line, unsigned from, char *buf, size_t size)
{
	const unsigned file = line >> P4D_CONF_LINE_BITS;
	const bool other = file != from >> P4D_CONF_LINE_BITS;

	snprintf(buf, size, "line %u%s%.200s", line & P4D_CONF_LINE, other ? " of " : "",
		 other ? conf->file[file].path : "");
	return buf;
}

static int check_owner(const char *path, const struct stat *st, uint32_t trusted_uid, p4d_error *err)
{
	if (st->st_uid != 0 && st->st_uid != trusted_uid) {
		p4d_fail(err, P4D_E_CONF_TRUST,
			 "%s: owned by uid %u, but p4d trusts only files of root and uid %u", path,
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

/* Reads an open file completely; NUL-terminated; the caller frees it. NULL on failure. */
static char *read_open_file(int fd, const char *path, bool trust, uint32_t trusted_uid, struct stat *st,
			    size_t *length, p4d_error *err)
{
	if (fstat(fd, st) < 0) {
		p4d_fail(err, P4D_E_IO, "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!S_ISREG(st->st_mode)) {
		p4d_fail(err, trust ? P4D_E_CONF_TRUST : P4D_E_IO, "%s: not a regular file", path);
		return NULL;
	}
	if (trust && check_owner(path, st, trusted_uid, err) < 0)
		return NULL;
	if (st->st_size > P4D_CONF_BYTES) {
		p4d_fail(err, P4D_E_IO, "%s: has %lld bytes, but p4d reads at most %d", path,
			 (long long)st->st_size, P4D_CONF_BYTES);
		return NULL;
	}
	char *text = p4d_file_read(fd, P4D_CONF_BYTES, length);
	if (!text)
		p4d_fail(err, errno == ENOMEM ? P4D_E_NO_MEMORY : P4D_E_IO, "%s: %m", path);
	return text;
}

static int read_one(p4d_conf *conf, const char *path, bool trust, uint32_t trusted_uid, p4d_error *err)
{
	int fd = p4d_file_open(path);
	size_t length;
	struct stat st;

	if (fd < 0)
		return p4d_fail(err, P4D_E_IO, "%s: %s", path, strerror(errno));
	char *text = read_open_file(fd, path, trust, trusted_uid, &st, &length, err);
	close(fd);
	if (!text)
		return -1;
	int rc = p4d_conf__parse(conf, path, text, length, err);
	free(text);
	if (rc == 0)
		conf->file[conf->files - 1].read = st;
	return rc;
}

static int read_included(p4d_conf *conf, unsigned i, bool trust, uint32_t trusted_uid, p4d_error *err)
{
	const unsigned line = conf->section[0].lines[P4D_KEY_INCLUDE];
	const char *value = p4d_conf__value(conf, &conf->section[0], P4D_KEY_INCLUDE, i);

	if (*value != '/')
		return p4d_conf__fail(conf, line, err, P4D_E_CONF_RANGE,
				      "include = %.200s: not an absolute path", value);
	if (i == P4D_CONF_FILES - 1)
		return p4d_conf__fail(conf, line, err, P4D_E_CONF_RANGE, "include: more than %d files",
				      P4D_CONF_FILES - 1);
	char *path = strdup(value); /* a copy, because parsing may move the values */
	if (!path)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %s", value);
	int rc = read_one(conf, path, trust, trusted_uid, err);
	free(path);
	return rc;
}

int p4d_conf__read(p4d_conf *conf, const char *path, bool trust, uint32_t trusted_uid, p4d_error *err)
{
	int rc = read_one(conf, path, trust, trusted_uid, err);

	for (unsigned i = 0; rc == 0 && i < conf->section[0].count[P4D_KEY_INCLUDE]; i++)
		rc = read_included(conf, i, trust, trusted_uid, err);
	if (rc < 0)
		p4d_conf__free(conf);
	return rc;
}

void p4d_conf__free(p4d_conf *conf)
{
	for (unsigned i = 0; i < conf->files; i++)
		free(conf->file[i].path);
	free(conf->values);
	free(conf->section);
	*conf = (p4d_conf){0};
}

/* Whether a file was replaced, edited, or given other permissions. */
static bool differ(const struct stat *a, const struct stat *b)
{
	return a->st_dev != b->st_dev || a->st_ino != b->st_ino || a->st_size != b->st_size ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
	       a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

bool p4d_conf__is_current(const p4d_conf *conf)
{
	struct stat now;

	for (unsigned i = 0; i < conf->files; i++)
		if (stat(conf->file[i].path, &now) < 0 || differ(&now, &conf->file[i].read))
			return false;
	return true;
}

static const char *key_name(const p4d_conf_section *section, int key, char *buf, size_t size)
{
	return section->kind == P4D_DEFAULTS_SECTION ? p4d_conf__default_name((p4d_option)key, buf, size)
						     : p4d_conf__key_table[key].name;
}

/* Writes a value in quotes. The grammar allows only one kind of quotes in a value. */
static void write_value(p4d_text *text, const char *value)
{
	const char *quote = strchr(value, '"') ? "'" : "\"";

	p4d_text_print(text, "%s%s%s", quote, value, quote);
}

static void write_keys(p4d_text *text, const p4d_conf *conf, const p4d_conf_section *section)
{
	char name[64];

	for (int key = 0; key < P4D_CONF_KEYS; key++) {
		if (!section->lines[key] || (section->kind == P4D_GLOBAL_SECTION &&
					     (key == P4D_KEY_INCLUDE || key == P4D_KEY_VERSION)))
			continue;
		const bool list = section->count[key] != 1;
		p4d_text_print(text, "%s = %s", key_name(section, key, name, sizeof(name)), list ? "{" : "");
		for (unsigned i = 0; i < section->count[key]; i++) {
			p4d_text_add(text, i ? ", " : "");
			write_value(text, p4d_conf__value(conf, section, key, i));
		}
		p4d_text_add(text, list ? "}\n" : "\n");
	}
}

static void write_section(p4d_text *text, const p4d_conf *conf, const p4d_conf_section *section)
{
	p4d_text_print(text, "%s ", p4d_conf__section_names[section->kind]);
	if (section->title[0] && section->kind != P4D_DEFAULTS_SECTION)
		write_value(text, section->title);
	p4d_text_add(text, " {\n");
	write_keys(text, conf, section);
	/* the defaults of a partition follow its section */
	if (section->kind == P4D_PARTITION_SECTION && section + 1 < conf->section + conf->sections &&
	    section[1].kind == P4D_DEFAULTS_SECTION && section[1].title[0])
		write_section(text, conf, section + 1);
	p4d_text_add(text, "}\n");
}

char *p4d_conf__text(const p4d_conf *conf)
{
	p4d_text text = {.grows = true};

	write_keys(&text, conf, &conf->section[0]);
	for (const p4d_conf_section *at = conf->section + 1; at < conf->section + conf->sections; at++)
		if (at->kind != P4D_DEFAULTS_SECTION || !at->title[0])
			write_section(&text, conf, at);
	p4d_text_add(&text, "version = 1\n");
	if (!text.truncated)
		return text.at;
	free(text.at);
	return NULL;
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
