/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"
#include "request/request.h"

/*
 * p4d.conf as sections, keys and values with their line numbers; site_load.c interprets them.
 *
 * The grammar is a subset of the grammar of libconfuse. p4d does not use that library, for these reasons. It
 * accepts files that p4d must not accept (truncated inside a section, a repeated key, environment variables,
 * include()), keeps no line numbers, and needs a lock in slurmctld because its scanner has global state. It
 * also took a seventh of p4d's time in sbatch.
 */

typedef enum p4d_conf_section_kind {
	P4D_GLOBAL_SECTION, /* outside of sections */
	P4D_GPU_SECTION,
	P4D_PARTITION_SECTION,
	P4D_QOS_SECTION,
	P4D_ACCOUNT_SECTION,
	P4D_USER_SECTION,
	P4D_RESERVATION_SECTION,
	P4D_PROGRAM_SECTION, /* program sections: programs of job scripts */
	P4D_FRAMEWORK_SECTION,
	P4D_DEFAULTS_SECTION, /* for all partitions, or for the partition in the title */
	P4D_SECTION_KINDS
} p4d_conf_section_kind;

/* Every key, except that the keys of `defaults` are plan options. */
typedef enum p4d_conf_key {
#define KEY(id, name, sections, type, member, stricter) P4D_KEY_##id,
#include "site/conf_keys.def"
#undef KEY
	P4D_KEYS
} p4d_conf_key;

typedef enum p4d_conf_type {
	P4D_CONF_CHOICE,   /* int */
	P4D_CONF_BOOLEAN,  /* bool */
	P4D_CONF_FRACTION, /* double */
	P4D_CONF_GIB,      /* uint64_t, bytes */
	P4D_CONF_COUNT,    /* uint32_t */
	P4D_CONF_NUMBER,   /* double, from `least` to `most` */
	P4D_CONF_DATE,     /* int64_t, seconds since 1970 (the file has a date) */
	P4D_CONF_NAMES,    /* char *, comma-separated */
	P4D_CONF_STRING,   /* const char *, the text of the file */
	P4D_CONF_TEXT
} p4d_conf_type;

/* The struct that contains the member for a value. */
typedef enum p4d_conf_owner {
	P4D_CONF_OF_NONE,
	P4D_CONF_OF_POLICY,
	P4D_CONF_OF_PARTITION,
	P4D_CONF_OF_SITE
} p4d_conf_owner;

/* One row of conf_keys.def. */
typedef struct p4d_conf_key_info {
	const char *name;
	unsigned where; /* bit mask of (1 << p4d_conf_section_kind) */
	p4d_conf_type type;
	const char *choices; /* "a|b|c" */
	double least;        /* minimum of a number */
	uint32_t most;       /* maximum of a count or a number */
	p4d_conf_owner owner;
	size_t offset; /* offset of the member */
	int stricter;  /* which value is stricter: 1: the larger, -1: the smaller, 0: neither */
} p4d_conf_key_info;

extern const p4d_conf_key_info p4d_conf__key_table[P4D_KEYS];
/* Size of the struct member that takes the value of a key. */
size_t p4d_conf__member_bytes(p4d_conf_key key);
extern const char *const p4d_conf__section_names[P4D_SECTION_KINDS];

enum { P4D_CONF_BYTES = 1 << 20, P4D_CONF_SECTIONS = 1024, P4D_CONF_KEYS = 176, P4D_CONF_FILES = 16 };
/* A line number, with the index of the file in the upper bits. */
enum { P4D_CONF_LINE_BITS = 24, P4D_CONF_LINE = (1 << P4D_CONF_LINE_BITS) - 1 };
_Static_assert((int)P4D_CONF_BYTES < (int)P4D_CONF_LINE, "lines of a file");
_Static_assert((int)P4D_KEYS <= (int)P4D_CONF_KEYS && (int)P4D_OPTIONS <= (int)P4D_CONF_KEYS,
	       "lines of all keys");

typedef struct p4d_conf_section {
	p4d_conf_section_kind kind;
	char title[64];
	unsigned line;
	/* line of each key (in `defaults`: of each p4d_option) */
	unsigned lines[P4D_CONF_KEYS]; /* 0: the key is absent */
	unsigned count[P4D_CONF_KEYS]; /* number of values */
	unsigned first[P4D_CONF_KEYS]; /* index of the key's first value in p4d_conf.values */
} p4d_conf_section;

typedef struct p4d_conf_file {
	char *path;
	struct stat read; /* when it was read */
} p4d_conf_file;

typedef struct p4d_conf {
	unsigned files; /* file[0] is the main file; it includes the others */
	p4d_conf_file file[P4D_CONF_FILES];
	size_t sections, room; /* section[0] is the global one */
	p4d_conf_section *section;
	char *values; /* the values of all keys, one after another, each with its NUL */
	size_t used;  /* bytes of values */
} p4d_conf;

/*
 * Reads and parses `path` and the files that it includes into a zeroed *conf. trust: see p4d_site_load. After
 * a failure *conf is zeroed; p4d_conf__free accepts that. Errors: NO_MEMORY, IO, all CONF_ codes.
 */
int p4d_conf__read(p4d_conf *conf, const char *path, bool trust, uint32_t trusted_uid, p4d_error *err);
/* Parses a text as another file that follows the earlier ones. Does not open files that it includes. */
int p4d_conf__parse(p4d_conf *conf, const char *path, const char *text, size_t length, p4d_error *err);
void p4d_conf__free(p4d_conf *conf);

/* Whether no file has changed since it was read. */
bool p4d_conf__is_current(const p4d_conf *conf);

/* The settings as the text of one file without includes. The caller frees it. NULL: no memory. */
char *p4d_conf__text(const p4d_conf *conf);

/* The i-th value of a key (in `defaults`: of a p4d_option); NULL if there is none. conf owns it. */
const char *p4d_conf__value(const p4d_conf *conf, const p4d_conf_section *section, int key, unsigned i);

/* Whether the case of such a section's name is ignored, according to Slurm's own rules. */
bool p4d_conf__folds_case(p4d_conf_section_kind kind);

/* Name of a plan option as a key of `defaults` (seq_len); "" if it is not allowed there. */
const char *p4d_conf__default_name(p4d_option option, char *buf, size_t size);

/* "line 3" and, if `line` is in another file than line `from`, the name of that file. */
const char *p4d_conf__place(const p4d_conf *conf, unsigned line, unsigned from, char *buf, size_t size);

/* p4d_fail with the prefix `path:line: `. */
int p4d_conf__fail(const p4d_conf *conf, unsigned line, p4d_error *err, p4d_code code, const char *format,
		   ...) __attribute__((format(printf, 5, 6)));
