/* SPDX-License-Identifier: Apache-2.0 */
#include "alike.h"
#include "conf.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GLOBAL (1u << P4D_GLOBAL_SECTION)
#define GPU (1u << P4D_GPU_SECTION)
#define PARTITION (1u << P4D_PARTITION_SECTION)
#define QOS (1u << P4D_QOS_SECTION)
#define ACCOUNT (1u << P4D_ACCOUNT_SECTION)
#define ANY (GLOBAL | GPU | PARTITION | QOS | ACCOUNT)

const p4d_key_info p4d_key_table[P4D_KEYS] = {
    [P4D_KEY_MODE] = {"mode", ANY, false},
    [P4D_KEY_SAFE] = {"safe", ANY, false},
    [P4D_KEY_LIMIT] = {"limit", ANY, false},
    [P4D_KEY_REWRITE] = {"rewrite", ANY, false},
    [P4D_KEY_UNMODELLED] = {"unmodelled", ANY, false},
    [P4D_KEY_ALLOW_OVERRIDE] = {"allow_override", ANY, false},
    [P4D_KEY_ON_ERROR] = {"on_error", GLOBAL | PARTITION, false},
    [P4D_KEY_REQUIRE_PLAN] = {"require_plan", PARTITION, false},
    [P4D_KEY_REQUIRE_PLAN_LIST] = {"require_plan", GLOBAL, true},
    [P4D_KEY_EXEMPT_ACCOUNTS] = {"exempt_accounts", GLOBAL, true},
    [P4D_KEY_EXEMPT_QOS] = {"exempt_qos", GLOBAL, true},
    [P4D_KEY_LOG] = {"log", GLOBAL, false},
    [P4D_KEY_DATA] = {"data", GLOBAL, false},
    [P4D_KEY_GPUS] = {"gpus", GLOBAL, false},
    [P4D_KEY_HOST_GIB_PER_RANK] = {"host_gib_per_rank", GLOBAL, false},
    [P4D_KEY_VERSION] = {"version", GLOBAL, false},
    [P4D_KEY_GPU] = {"gpu", PARTITION, true},
    [P4D_KEY_GPUS_PER_NODE] = {"gpus_per_node", PARTITION, false},
    [P4D_KEY_MEM_PER_NODE_GIB] = {"mem_per_node_gib", PARTITION, false},
    [P4D_KEY_DEFAULT] = {"default", PARTITION, false},
    [P4D_KEY_NAME] = {"name", GPU, false},
    [P4D_KEY_USABLE_GIB] = {"usable_gib", GPU, false},
};

const char *const p4d_section_names[P4D_SECTION_KINDS] = {
    [P4D_GLOBAL_SECTION] = "", [P4D_GPU_SECTION] = "gpu",         [P4D_PARTITION_SECTION] = "partition",
    [P4D_QOS_SECTION] = "qos", [P4D_ACCOUNT_SECTION] = "account", [P4D_DEFAULTS_SECTION] = "defaults",
};

enum { MAX_WORD = 1024 };

typedef enum token { END, WORD, STRING, OPEN = '{', CLOSE = '}', EQUALS = '=', COMMA = ',' } token;

typedef struct scan {
	p4d_conf *conf;
	p4d_error *err;
	char *at, *end;
	unsigned line;
	size_t room; /* allocated sections */
	token token; /* the current one */
	unsigned token_line;
	char word[MAX_WORD]; /* text of a WORD or STRING */
	unsigned versioned;  /* line of `version`; 0 not seen yet */
} scan;

int p4d_conf_fail(const p4d_conf *conf, unsigned line, p4d_error *err, p4d_code code, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return p4d_fail(err, code, "%s:%u: %s", conf->path, line, text);
}

#define fail(s, line, code, ...) p4d_conf_fail((s)->conf, line, (s)->err, P4D_E_CONF_##code, __VA_ARGS__)

const char *p4d_conf_default_name(p4d_option option, char *buf, size_t size)
{
	const p4d_option_info *info = p4d_option_info_of(option);
	const unsigned wanted = P4D_WHERE_SLURM | P4D_WHERE_PLAN;

	buf[0] = '\0';
	/* texts (the model, the split of its layers) describe one job, not a site */
	if ((info->where & (wanted | P4D_WHERE_MODEL)) != wanted || info->kind == P4D_TEXT_KIND)
		return buf;
	snprintf(buf, size, "%s", info->name);
	for (char *at = buf; *at; at++)
		if (*at == '-')
			*at = '_';
	return buf;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_-.:/@%", c));
}

/*
 * Comments may hold any bytes but control characters: names and places are not always ASCII. They are
 * blanked, because libconfuse knows comments between statements only, not inside a list.
 */
static int skip_blanks(scan *s)
{
	bool comment = false;

	for (; s->at < s->end; s->at++) {
		unsigned char c = (unsigned char)*s->at;
		if (c == '\n') {
			s->line++;
			comment = false;
		} else if (c != '\t' && (c < ' ' || c == 0x7f)) {
			return fail(s, s->line, SYNTAX, "control character 0x%02x", c);
		} else if (c == '#' || comment) {
			*s->at = ' ';
			comment = true;
		} else if (c != ' ' && c != '\t') {
			break;
		}
	}
	return 0;
}

static int read_string(scan *s)
{
	char quote = *s->at++;
	const char *start = s->at;

	for (; s->at < s->end && *s->at != quote; s->at++) {
		unsigned char c = (unsigned char)*s->at;
		if (c == '$' || c == '\\')
			return fail(s, s->line, SYNTAX,
				    "`%c` in a string: neither variables nor escapes are known here", c);
		if (c == '\n')
			return fail(s, s->line, SYNTAX, "a string is not closed on its line");
		if (c < ' ' || c == 0x7f)
			return fail(s, s->line, SYNTAX, "control character 0x%02x", c);
	}
	if (s->at == s->end)
		return fail(s, s->line, TRUNCATED, "the file ends inside a string");
	size_t length = (size_t)(s->at++ - start);
	if (!length || length >= MAX_WORD)
		return fail(s, s->line, RANGE, "a string of %zu characters: 1 to %d are accepted", length,
			    MAX_WORD - 1);
	memcpy(s->word, start, length);
	s->word[length] = '\0';
	s->token = STRING;
	return 0;
}

static int read_word(scan *s)
{
	const char *start = s->at;

	while (s->at < s->end && is_word(*s->at))
		s->at++;
	size_t length = (size_t)(s->at - start);
	if (length >= MAX_WORD)
		return fail(s, s->line, RANGE, "a word of %zu characters: at most %d are accepted", length,
			    MAX_WORD - 1);
	memcpy(s->word, start, length);
	s->word[length] = '\0';
	if (strstr(s->word, "//")) /* libconfuse takes some of these for comments */
		return fail(s, s->line, SYNTAX, "`//`: comments start with #");
	s->token = WORD;
	return 0;
}

static int next(scan *s)
{
	if (skip_blanks(s) < 0)
		return -1;
	s->token_line = s->line;
	if (s->at == s->end) {
		s->token = END;
		return 0;
	}
	char c = *s->at;
	if (c == '"' || c == '\'')
		return read_string(s);
	if (is_word(c))
		return read_word(s);
	if (!strchr("{}=,", c)) {
		if (isgraph((unsigned char)c))
			return fail(s, s->line, SYNTAX,
				    "unexpected `%c`: text other than names and numbers needs quotes", c);
		return fail(s, s->line, SYNTAX, "unexpected byte 0x%02x: names are ASCII", (unsigned char)c);
	}
	s->token = (token)c;
	s->at++;
	return 0;
}

/* Says what stands where something else should. */
static int unexpected(scan *s, const char *wanted)
{
	if (s->token == END)
		return fail(s, s->token_line, TRUNCATED, "the file ends where %s should follow", wanted);
	if (s->token == WORD || s->token == STRING)
		return fail(s, s->token_line, SYNTAX, "`%.64s` where %s should stand", s->word, wanted);
	return fail(s, s->token_line, SYNTAX, "`%c` where %s should stand", (char)s->token, wanted);
}

static int read_values(scan *s, const char *name, bool list)
{
	if (next(s) < 0)
		return -1;
	if (s->token == WORD || s->token == STRING)
		return 0;
	if (s->token != OPEN)
		return unexpected(s, "a value");
	if (!list)
		return fail(s, s->token_line, SYNTAX, "`%s` takes one value, not a list", name);
	if (next(s) < 0)
		return -1;
	while (s->token != CLOSE) {
		if (s->token != WORD && s->token != STRING)
			return unexpected(s, "a value or `}`");
		if (next(s) < 0)
			return -1;
		if (s->token == COMMA ? next(s) < 0 : s->token != CLOSE)
			return s->token == COMMA ? -1 : unexpected(s, "`,` or `}`");
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
			if (!strcmp(p4d_conf_default_name((p4d_option)i, known, sizeof(known)), name))
				return i;
		return -1;
	}
	for (int i = 0; i < P4D_KEYS; i++)
		if (p4d_key_table[i].where & (1u << section->kind) && !strcmp(p4d_key_table[i].name, name)) {
			*list = p4d_key_table[i].list;
			return i;
		}
	return -1;
}

static const char *section_text(const p4d_conf_section *section, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s%s", p4d_section_names[section->kind], section->title[0] ? " " : "",
		 section->title);
	return buf;
}

static int unknown_key(scan *s, const p4d_conf_section *section, const char *name, unsigned line)
{
	char where[96], known[P4D_OPTIONS][32];
	p4d_alike alike = {.wanted = name};

	if (section->kind == P4D_DEFAULTS_SECTION) {
		for (int i = 0; i < P4D_OPTIONS; i++)
			p4d_alike_offer(&alike,
					p4d_conf_default_name((p4d_option)i, known[i], sizeof(known[i])));
		return fail(s, line, SYNTAX, "unknown plan option `%.64s` in `defaults`%s", name,
			    p4d_alike_text(&alike));
	}
	section_text(section, where, sizeof(where));
	for (int i = P4D_GLOBAL_SECTION + 1; i < P4D_SECTION_KINDS; i++) {
		if (strcmp(p4d_section_names[i], name) || i == P4D_GPU_SECTION)
			continue; /* gpu is also a key */
		if (section->kind == P4D_GLOBAL_SECTION)
			return fail(s, line, SYNTAX, "`%s` is a section, not a key", name);
		return fail(s, line, SYNTAX, "section `%s` cannot stand inside section `%s`", name, where);
	}
	for (int i = 0; i < P4D_KEYS; i++) {
		const p4d_key_info *key = &p4d_key_table[i];
		if (!strcmp(key->name, name)) {
			if (section->kind == P4D_GLOBAL_SECTION)
				return fail(s, line, SYNTAX, "`%s` belongs into a `%s` section", name,
					    key->where & PARTITION ? "partition" : "gpu");
			return fail(s, line, SYNTAX, "`%s` cannot stand in a `%s` section", name,
				    p4d_section_names[section->kind]);
		}
		if (key->where & (1u << section->kind))
			p4d_alike_offer(&alike, key->name);
	}
	if (section->kind == P4D_GLOBAL_SECTION)
		return fail(s, line, SYNTAX, "unknown key `%.64s`%s", name, p4d_alike_text(&alike));
	return fail(s, line, SYNTAX, "unknown key `%.64s` in `%s`%s", name, where, p4d_alike_text(&alike));
}

static int read_key(scan *s, p4d_conf_section *section, const char *name, unsigned line)
{
	char where[96];
	bool list;
	int key = find_key(section, name, &list);

	if (key < 0)
		return unknown_key(s, section, name, line);
	if (section->lines[key]) {
		if (section->kind == P4D_GLOBAL_SECTION)
			return fail(s, line, DUPLICATE, "`%s` is set twice; the first is in line %u", name,
				    section->lines[key]);
		return fail(s, line, DUPLICATE, "`%s` is set twice in `%s`; the first is in line %u", name,
			    section_text(section, where, sizeof(where)), section->lines[key]);
	}
	section->lines[key] = line;
	if (read_values(s, name, list) < 0)
		return -1;
	if (section->kind != P4D_GLOBAL_SECTION || key != P4D_KEY_VERSION)
		return 0;
	if (strcmp(s->word, "1"))
		return fail(s, line, RANGE, "version = %.64s: this p4d reads version 1", s->word);
	s->versioned = line;
	return 0;
}

static p4d_conf_section *add_section(scan *s, p4d_section_kind kind, const char *title, unsigned line)
{
	p4d_conf *conf = s->conf;
	unsigned ordinal = 0;

	for (size_t i = 0; i < conf->sections; i++) {
		const p4d_conf_section *other = &conf->section[i];
		if (other->kind != kind)
			continue;
		ordinal++;
		/* Slurm's own rules: partitions are told apart by case, QOSes and accounts are not */
		if (kind == P4D_PARTITION_SECTION ? strcmp(other->title, title)
						  : strcasecmp(other->title, title))
			continue;
		fail(s, line, DUPLICATE, "section `%s%s%s` appears twice; the first is in line %u",
		     p4d_section_names[kind], *title ? " " : "", title, other->line);
		return NULL;
	}
	if (conf->sections == P4D_CONF_SECTIONS) {
		fail(s, line, RANGE, "more than %d sections", P4D_CONF_SECTIONS - 1);
		return NULL;
	}
	if (conf->sections == s->room) {
		size_t room = s->room ? s->room * 2 : 8;
		p4d_conf_section *grown = realloc(conf->section, room * sizeof(*grown));
		if (!grown) {
			p4d_fail(s->err, P4D_E_NO_MEMORY, "%s: no memory for %zu sections", conf->path, room);
			return NULL;
		}
		conf->section = grown;
		s->room = room;
	}
	p4d_conf_section *section = &conf->section[conf->sections++];
	*section = (p4d_conf_section){.kind = kind, .ordinal = ordinal, .line = line};
	snprintf(section->title, sizeof(section->title), "%s", title);
	return section;
}

/* A section whose name was just read; the current token is what follows it. */
static int read_section(scan *s, const char *name, unsigned line)
{
	char title[sizeof(((p4d_conf_section *)0)->title)] = "", where[96];
	int kind = P4D_GLOBAL_SECTION + 1;

	while (kind < P4D_SECTION_KINDS && strcmp(p4d_section_names[kind], name))
		kind++;
	if (kind == P4D_SECTION_KINDS) {
		bool list;
		if (s->token == END || find_key(&s->conf->section[0], name, &list) >= 0)
			return unexpected(s, "`=`");
		p4d_alike alike = {.wanted = name};
		for (int i = P4D_GLOBAL_SECTION + 1; i < P4D_SECTION_KINDS; i++)
			p4d_alike_offer(&alike, p4d_section_names[i]);
		return fail(s, line, SYNTAX, "unknown section `%.64s`%s", name, p4d_alike_text(&alike));
	}
	if (kind != P4D_DEFAULTS_SECTION) {
		if (s->token != WORD && s->token != STRING)
			return unexpected(s, "the name of the section");
		if (strlen(s->word) >= sizeof(title))
			return fail(s, line, RANGE,
				    "the name of a section has %zu characters: at most %zu are accepted",
				    strlen(s->word), sizeof(title) - 1);
		memcpy(title, s->word, strlen(s->word) + 1);
		if (next(s) < 0)
			return -1;
	}
	if (s->token != OPEN)
		return unexpected(s, "`{`");
	p4d_conf_section *section = add_section(s, (p4d_section_kind)kind, title, line);
	if (!section)
		return -1;
	for (;;) {
		char key[MAX_WORD];

		if (next(s) < 0)
			return -1;
		if (s->token == CLOSE)
			return 0;
		if (s->token == END)
			return fail(s, s->token_line, TRUNCATED,
				    "the file ends inside section `%s`, which starts in line %u",
				    section_text(section, where, sizeof(where)), line);
		if (s->token != WORD)
			return unexpected(s, "a key or `}`");
		unsigned key_line = s->token_line;
		memcpy(key, s->word, strlen(s->word) + 1);
		if (next(s) < 0)
			return -1;
		if (s->token != EQUALS) {
			bool list;
			if (s->token != END && find_key(section, key, &list) < 0)
				return unknown_key(s, section, key, key_line);
			return unexpected(s, "`=`");
		}
		if (read_key(s, section, key, key_line) < 0)
			return -1;
	}
}

static int scan_all(scan *s)
{
	if (!add_section(s, P4D_GLOBAL_SECTION, "", 1))
		return -1;
	for (;;) {
		char name[MAX_WORD];

		if (next(s) < 0)
			return -1;
		if (s->token == END)
			break;
		if (s->versioned)
			return fail(s, s->versioned, TRUNCATED,
				    "`version = 1` must be the last line, but line %u follows",
				    s->token_line);
		if (s->token != WORD)
			return unexpected(s, "a key or a section");
		unsigned line = s->token_line;
		memcpy(name, s->word, strlen(s->word) + 1);
		if (next(s) < 0)
			return -1;
		if (s->token == EQUALS ? read_key(s, &s->conf->section[0], name, line) < 0
				       : read_section(s, name, line) < 0)
			return -1;
	}
	if (!s->versioned)
		return fail(s, s->line, TRUNCATED,
			    "the file is cut off: its last line must be `version = 1`");
	return 0;
}

int p4d_conf_scan(p4d_conf *conf, char *text, size_t length, p4d_error *err)
{
	scan s = {.conf = conf, .err = err, .at = text, .end = text + length, .line = 1};

	return scan_all(&s);
}
