/* SPDX-License-Identifier: Apache-2.0 */
#include "conf.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <confuse.h>

/* libconfuse's scanner keeps global state, and its error callback takes no context. */
static pthread_mutex_t confuse_lock = PTHREAD_MUTEX_INITIALIZER;
static char confuse_error[256];

static void keep_error(cfg_t *cfg, const char *format, va_list args)
{
	int used = snprintf(confuse_error, sizeof(confuse_error), "line %d: ", cfg ? cfg->line : 0);

	vsnprintf(confuse_error + used, sizeof(confuse_error) - (size_t)used, format, args);
}

/* Whether any section of a kind has the key (in `defaults`: the plan option). */
static bool appears(const p4d_conf *conf, int kind, int key)
{
	for (size_t i = 0; i < conf->sections; i++)
		if ((int)conf->section[i].kind == kind && conf->section[i].lines[key])
			return true;
	return false;
}

/*
 * Every value is declared as text: libconfuse's own numbers depend on the locale and on a stale errno, and
 * its messages on the language. Only keys that appear are declared, because libconfuse copies all
 * declarations for every section, and sbatch waits for it.
 */
static cfg_t *declare(const p4d_conf *conf)
{
	cfg_opt_t options[P4D_SECTION_KINDS][P4D_CONF_KEYS + P4D_SECTION_KINDS];
	static char default_names[P4D_OPTIONS][32];
	size_t count[P4D_SECTION_KINDS] = {0};

	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_key_info *key = &p4d_key_table[i];
		for (int kind = 0; kind < P4D_SECTION_KINDS; kind++)
			if ((key->where & (1u << kind)) && appears(conf, kind, i))
				options[kind][count[kind]++] =
				    key->list ? (cfg_opt_t)CFG_STR_LIST(key->name, NULL, CFGF_NODEFAULT)
					      : (cfg_opt_t)CFG_STR(key->name, NULL, CFGF_NODEFAULT);
	}
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (appears(conf, P4D_DEFAULTS_SECTION, i) &&
		    *p4d_conf_default_name((p4d_option)i, default_names[i], sizeof(default_names[i])))
			options[P4D_DEFAULTS_SECTION][count[P4D_DEFAULTS_SECTION]++] =
			    (cfg_opt_t)CFG_STR(default_names[i], NULL, CFGF_NODEFAULT);
	for (int kind = P4D_SECTION_KINDS - 1; kind >= 0; kind--) {
		options[kind][count[kind]] = (cfg_opt_t)CFG_END();
		if (kind != P4D_GLOBAL_SECTION)
			options[P4D_GLOBAL_SECTION][count[P4D_GLOBAL_SECTION]++] = (cfg_opt_t)CFG_SEC(
			    p4d_section_names[kind], options[kind],
			    CFGF_MULTI | (kind == P4D_DEFAULTS_SECTION ? CFGF_NONE
								       : CFGF_TITLE | CFGF_NO_TITLE_DUPES));
	}
	return cfg_init(options[P4D_GLOBAL_SECTION], CFGF_NONE); /* copies the declarations */
}

static int parse_values(p4d_conf *conf, const char *text, p4d_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&confuse_lock);
	snprintf(confuse_error, sizeof(confuse_error), "out of memory");
	conf->cfg = declare(conf);
	if (!conf->cfg) {
		rc = p4d_fail(err, P4D_E_NO_MEMORY, "%s: no memory for libconfuse", conf->path);
	} else {
		cfg_set_error_function(conf->cfg, keep_error);
		if (cfg_parse_buf(conf->cfg, text) != CFG_SUCCESS)
			rc =
			    p4d_fail(err, P4D_E_CONF_SYNTAX, "%s: libconfuse: %s", conf->path, confuse_error);
	}
	pthread_mutex_unlock(&confuse_lock);
	return rc;
}

int p4d_conf_parse(p4d_conf *conf, const char *path, char *text, size_t length, p4d_error *err)
{
	*conf = (p4d_conf){.path = path};
	if (p4d_conf_scan(conf, text, length, err) < 0 || parse_values(conf, text, err) < 0) {
		p4d_conf_free(conf);
		return -1;
	}
	return 0;
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
	size_t size = (size_t)st.st_size, used = 0;
	char *text = malloc(size + 1);
	if (!text) {
		p4d_fail(err, P4D_E_NO_MEMORY, "%s: no memory for %zu bytes", path, size);
		return NULL;
	}
	while (used < size) {
		ssize_t got = read(fd, text + used, size - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			p4d_fail(err, P4D_E_IO, "%s: %s", path, strerror(errno));
			free(text);
			return NULL;
		}
		if (!got)
			break;
		used += (size_t)got;
	}
	text[used] = '\0';
	*length = used;
	return text;
}

int p4d_conf_read(p4d_conf *conf, const char *path, bool trust, uint32_t trusted_uid, p4d_error *err)
{
	/* O_NONBLOCK: opening a FIFO must not wait for a writer */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	size_t length;

	if (fd < 0)
		return p4d_fail(err, P4D_E_IO, "%s: %s", path, strerror(errno));
	char *text = read_open_file(fd, path, trust, trusted_uid, &length, err);
	close(fd);
	if (!text)
		return -1;
	int rc = p4d_conf_parse(conf, path, text, length, err);
	free(text);
	return rc;
}

void p4d_conf_free(p4d_conf *conf)
{
	pthread_mutex_lock(&confuse_lock); /* freeing a tree also resets the scanner */
	if (conf->cfg)
		cfg_free(conf->cfg);
	pthread_mutex_unlock(&confuse_lock);
	free(conf->section);
	*conf = (p4d_conf){0};
}

const char *p4d_conf_value(const p4d_conf *conf, const p4d_conf_section *section, const char *key, unsigned i)
{
	cfg_t *cfg = conf->cfg;

	if (section->kind != P4D_GLOBAL_SECTION)
		cfg = cfg_getnsec(cfg, p4d_section_names[section->kind], section->ordinal);
	return cfg && i < cfg_size(cfg, key) ? cfg_getnstr(cfg, key, i) : NULL;
}
