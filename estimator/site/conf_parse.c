/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the words of p4d.conf into sections, keys and values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/grow.h"
#include "base/suggest.h"
#include "site/conf_words.h"

typedef struct parse {
	p4d_conf *conf;
	unsigned versioned; /* line number of the key `version`; 0: not read yet */
	p4d_conf_words words;
} parse;

#define fail(p, line, code, ...) \
	p4d_conf__fail((p)->conf, line, (p)->words.err, P4D_E_CONF_##code, __VA_ARGS__)

/*
 * Stores a value. There is always room for its NUL, because a quote, `=`, `{` or `,` precedes each value in
 * the text.
 */
static void keep_value(parse *p, p4d_conf_section *section, int key)
{
	const size_t size = strlen(p->words.word) + 1;

	if (!section->count[key]++)
		section->first[key] = (unsigned)p->conf->used;
	memcpy(p->conf->values + p->conf->used, p->words.word, size);
	p->conf->used += size;
}

static bool at_value(const parse *p)
{
	return p->words.token == P4D_TOKEN_WORD || p->words.token == P4D_TOKEN_STRING;
}

static int read_values(parse *p, p4d_conf_section *section, int key, const char *name, bool list)
{
	if (p4d_conf_words__next(&p->words) < 0)
		return -1;
	if (at_value(p)) {
		keep_value(p, section, key);
		return 0;
	}
	if (p->words.token != P4D_TOKEN_OPEN)
		return p4d_conf_words__unexpected(&p->words, "a value");
	if (!list)
		return fail(p, p->words.token_line, SYNTAX, "`%s` takes one value, not a list", name);
	if (p4d_conf_words__next(&p->words) < 0)
		return -1;
	while (p->words.token != P4D_TOKEN_CLOSE) {
		if (!at_value(p))
			return p4d_conf_words__unexpected(&p->words, "a value or `}`");
		keep_value(p, section, key);
		if (p4d_conf_words__next(&p->words) < 0)
			return -1;
		if (p->words.token == P4D_TOKEN_COMMA) {
			if (p4d_conf_words__next(&p->words) < 0)
				return -1;
		} else if (p->words.token != P4D_TOKEN_CLOSE) {
			return p4d_conf_words__unexpected(&p->words, "`,` or `}`");
		}
	}
	return 0;
}

/* Index of the key in section->lines, or -1. */
static int find_key(const p4d_conf_section *section, const char *name, bool *list)
{
	*list = false;
	if (section->kind == P4D_DEFAULTS_SECTION) {
		char known[64];
		for (int i = 0; i < P4D_OPTIONS; i++)
			if (!strcmp(p4d_conf__default_name((p4d_option)i, known, sizeof(known)), name))
				return i;
		return -1;
	}
	for (int i = 0; i < P4D_KEYS; i++)
		if (p4d_conf__key_table[i].where & (1u << section->kind) &&
		    !strcmp(p4d_conf__key_table[i].name, name)) {
			*list = p4d_conf__key_table[i].type == P4D_CONF_NAMES;
			return i;
		}
	return -1;
}

static const char *section_text(const p4d_conf_section *section, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s%s", p4d_conf__section_names[section->kind], section->title[0] ? " " : "",
		 section->title);
	return buf;
}

/*
 * The section that a message names for a misplaced key. If several sections allow the key, it names
 * `partition`.
 */
static int section_of(const p4d_conf_key_info *key)
{
	int kind = P4D_GLOBAL_SECTION + 1;

	if (key->where & (1u << P4D_PARTITION_SECTION))
		return P4D_PARTITION_SECTION;
	while (kind < P4D_DEFAULTS_SECTION && !(key->where & (1u << kind)))
		kind++;
	return kind;
}

static int unknown_key(parse *p, const p4d_conf_section *section, const char *name, unsigned line)
{
	char where[96], known[P4D_OPTIONS][32];
	p4d_suggest alike = {.wanted = name};

	if (section->kind == P4D_DEFAULTS_SECTION) {
		for (int i = 0; i < P4D_OPTIONS; i++)
			p4d_suggest_offer(&alike,
					  p4d_conf__default_name((p4d_option)i, known[i], sizeof(known[i])));
		return fail(p, line, SYNTAX, "unknown plan option `%.64s` in `defaults`%s", name,
			    p4d_suggest_text(&alike));
	}
	section_text(section, where, sizeof(where));
	for (int i = P4D_GLOBAL_SECTION + 1; i < P4D_SECTION_KINDS; i++) {
		if (strcmp(p4d_conf__section_names[i], name) || i == P4D_GPU_SECTION)
			continue; /* gpu is also the name of a key */
		if (section->kind == P4D_GLOBAL_SECTION)
			return fail(p, line, SYNTAX, "`%s` is a section, not a key", name);
		return fail(p, line, SYNTAX, "section `%s` cannot be nested in section `%s`", name, where);
	}
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_conf_key_info *key = &p4d_conf__key_table[i];
		if (!strcmp(key->name, name)) {
			if (section->kind == P4D_GLOBAL_SECTION)
				return fail(p, line, SYNTAX, "`%s` belongs in a `%s` section", name,
					    p4d_conf__section_names[section_of(key)]);
			return fail(p, line, SYNTAX, "`%s` is not allowed in a `%s` section", name,
				    p4d_conf__section_names[section->kind]);
		}
		if (key->where & (1u << section->kind))
			p4d_suggest_offer(&alike, key->name);
	}
	if (section->kind == P4D_GLOBAL_SECTION)
		return fail(p, line, SYNTAX, "unknown key `%.64s`%s", name, p4d_suggest_text(&alike));
	return fail(p, line, SYNTAX, "unknown key `%.64s` in `%s`%s", name, where, p4d_suggest_text(&alike));
}

static int read_key(parse *p, p4d_conf_section *section, const char *name, unsigned line)
{
	char where[96], place[240];
	bool list;
	int key = find_key(section, name, &list);

	if (key < 0)
		return unknown_key(p, section, name, line);
	if (section->kind == P4D_GLOBAL_SECTION && key == P4D_KEY_INCLUDE && p->conf->files > 1)
		return fail(p, line, SYNTAX, "an included file cannot include further files");
	if (section->lines[key]) {
		p4d_conf__place(p->conf, section->lines[key], line, place, sizeof(place));
		if (section->kind == P4D_GLOBAL_SECTION)
			return fail(p, line, DUPLICATE, "`%s` is set twice; the first is on %s", name, place);
		return fail(p, line, DUPLICATE, "`%s` is set twice in `%s`; the first is on %s", name,
			    section_text(section, where, sizeof(where)), place);
	}
	section->lines[key] = line;
	if (read_values(p, section, key, name, list) < 0)
		return -1;
	if (section->kind != P4D_GLOBAL_SECTION || key != P4D_KEY_VERSION)
		return 0;
	if (strcmp(p->words.word, "1"))
		return fail(p, line, RANGE, "version = %.64s: this p4d reads only version 1", p->words.word);
	p->versioned = line;
	return 0;
}

static p4d_conf_section *add_section(parse *p, p4d_conf_section_kind kind, const char *title, unsigned line)
{
	p4d_conf *conf = p->conf;
	char place[240];

	for (size_t i = 0; i < conf->sections; i++) {
		const p4d_conf_section *other = &conf->section[i];
		if (other->kind != kind)
			continue;
		if (p4d_conf__folds_case(kind) ? strcasecmp(other->title, title)
					       : strcmp(other->title, title))
			continue;
		fail(p, line, DUPLICATE, "section `%s%s%s` appears twice; the first is on %s",
		     p4d_conf__section_names[kind], *title ? " " : "", title,
		     p4d_conf__place(conf, other->line, line, place, sizeof(place)));
		return NULL;
	}
	if (conf->sections == P4D_CONF_SECTIONS) {
		fail(p, line, RANGE, "more than %d sections", P4D_CONF_SECTIONS - 1);
		return NULL;
	}
	if (!p4d_grow(&conf->section, &conf->room, conf->sections + 1, sizeof(*conf->section))) {
		p4d_fail(p->words.err, P4D_E_NO_MEMORY, "%s: no memory for %zu sections", conf->file[0].path,
			 conf->sections + 1);
		return NULL;
	}
	p4d_conf_section *section = &conf->section[conf->sections++];
	*section = (p4d_conf_section){.kind = kind, .line = line};
	snprintf(section->title, sizeof(section->title), "%s", title);
	return section;
}

static int read_body(parse *p, p4d_conf_section_kind kind, const char *title, unsigned line);

/*
 * Reads what follows a word in the body of section `at`. The word is a key, or begins the defaults of a
 * partition.
 */
static int read_setting(parse *p, size_t at, const char *name, unsigned line)
{
	p4d_conf_section *section = &p->conf->section[at];
	char title[sizeof(section->title)];
	bool list;

	if (p->words.token == P4D_TOKEN_EQUALS)
		return read_key(p, section, name, line);
	if (p->words.token == P4D_TOKEN_OPEN && section->kind == P4D_PARTITION_SECTION &&
	    !strcmp(name, p4d_conf__section_names[P4D_DEFAULTS_SECTION])) {
		memcpy(title, section->title,
		       sizeof(title)); /* a copy, because adding a section moves the sections */
		return read_body(p, P4D_DEFAULTS_SECTION, title, line);
	}
	if (p->words.token != P4D_TOKEN_END && find_key(section, name, &list) < 0)
		return unknown_key(p, section, name, line);
	return p4d_conf_words__unexpected(&p->words, "`=`");
}

/* Reads the body of a section. The current token is its `{`. */
static int read_body(parse *p, p4d_conf_section_kind kind, const char *title, unsigned line)
{
	const size_t at = p->conf->sections;
	char where[96], key[P4D_CONF_WORD];

	if (!add_section(p, kind, title, line))
		return -1;
	for (;;) {
		if (p4d_conf_words__next(&p->words) < 0)
			return -1;
		if (p->words.token == P4D_TOKEN_CLOSE)
			return 0;
		if (p->words.token == P4D_TOKEN_END)
			return fail(p, p->words.token_line, TRUNCATED,
				    "the file ends inside section `%s`, which starts in line %u",
				    section_text(&p->conf->section[at], where, sizeof(where)),
				    line & P4D_CONF_LINE);
		if (p->words.token != P4D_TOKEN_WORD)
			return p4d_conf_words__unexpected(&p->words, "a key or `}`");
		unsigned key_line = p->words.token_line;
		memcpy(key, p->words.word, strlen(p->words.word) + 1);
		if (p4d_conf_words__next(&p->words) < 0 || read_setting(p, at, key, key_line) < 0)
			return -1;
	}
}

/* Reads a section after its name; the current token is the one after the name. */
static int read_section(parse *p, const char *name, unsigned line)
{
	char title[sizeof(((p4d_conf_section *)0)->title)] = "";
	int kind = P4D_GLOBAL_SECTION + 1;

	while (kind < P4D_SECTION_KINDS && strcmp(p4d_conf__section_names[kind], name))
		kind++;
	if (kind == P4D_SECTION_KINDS) {
		bool list;
		if (p->words.token == P4D_TOKEN_END || find_key(&p->conf->section[0], name, &list) >= 0)
			return p4d_conf_words__unexpected(&p->words, "`=`");
		p4d_suggest alike = {.wanted = name};
		for (int i = P4D_GLOBAL_SECTION + 1; i < P4D_SECTION_KINDS; i++)
			p4d_suggest_offer(&alike, p4d_conf__section_names[i]);
		return fail(p, line, SYNTAX, "unknown section `%.64s`%s", name, p4d_suggest_text(&alike));
	}
	if (kind != P4D_DEFAULTS_SECTION) {
		if (!at_value(p))
			return p4d_conf_words__unexpected(&p->words, "the name of the section");
		if (strlen(p->words.word) >= sizeof(title))
			return fail(p, line, RANGE,
				    "the name of a section has %zu characters: at most %zu are accepted",
				    strlen(p->words.word), sizeof(title) - 1);
		memcpy(title, p->words.word, strlen(p->words.word) + 1);
		if (p4d_conf_words__next(&p->words) < 0)
			return -1;
	}
	if (p->words.token != P4D_TOKEN_OPEN)
		return p4d_conf_words__unexpected(&p->words, "`{`");
	return read_body(p, (p4d_conf_section_kind)kind, title, line);
}

static int read_all(parse *p)
{
	if (!p->conf->sections && !add_section(p, P4D_GLOBAL_SECTION, "", p->words.line))
		return -1;
	/* each file must have its own `version` */
	p->conf->section[0].lines[P4D_KEY_VERSION] = p->conf->section[0].count[P4D_KEY_VERSION] = 0;
	for (;;) {
		char name[P4D_CONF_WORD];

		if (p4d_conf_words__next(&p->words) < 0)
			return -1;
		if (p->words.token == P4D_TOKEN_END)
			break;
		if (p->versioned)
			return fail(p, p->versioned, TRUNCATED,
				    "`version = 1` must be the last line, but line %u follows",
				    p->words.token_line & P4D_CONF_LINE);
		if (p->words.token != P4D_TOKEN_WORD)
			return p4d_conf_words__unexpected(&p->words, "a key or a section");
		unsigned line = p->words.token_line;
		memcpy(name, p->words.word, strlen(p->words.word) + 1);
		if (p4d_conf_words__next(&p->words) < 0)
			return -1;
		if (p->words.token == P4D_TOKEN_EQUALS ? read_key(p, &p->conf->section[0], name, line) < 0
						       : read_section(p, name, line) < 0)
			return -1;
	}
	if (!p->versioned)
		return fail(p, p->words.line, TRUNCATED,
			    "the file is truncated: its last line must be `version = 1`");
	return 0;
}

/* Reserves room for the path, and for the values of a file with `length` bytes. */
static int make_room(p4d_conf *conf, const char *path, size_t length, p4d_error *err)
{
	char *values = realloc(conf->values, conf->used + length + 1);

	if (values)
		conf->values = values;
	conf->file[conf->files].path = values ? strdup(path) : NULL;
	if (!conf->file[conf->files].path)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%s: no memory for %zu bytes", path, length + 1);
	conf->files++;
	return 0;
}

int p4d_conf__parse(p4d_conf *conf, const char *path, const char *text, size_t length, p4d_error *err)
{
	parse p = {.conf = conf,
		   .words = {.conf = conf,
			     .err = err,
			     .at = text,
			     .end = text + length,
			     .line = (conf->files << P4D_CONF_LINE_BITS) + 1}};

	if (make_room(conf, path, length, err) == 0 && read_all(&p) == 0)
		return 0;
	p4d_conf__free(conf);
	return -1;
}
