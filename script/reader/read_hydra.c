/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations that hydra (1.3) composes: a primary file, which --config-path and --config-name name, and
 * the files of its defaults list, each of which fills one part. Words on the command line override both.
 */
#include <stdio.h>
#include <string.h>

#include "reader/reader_internal.h"

enum { DEEPEST = 6, NAME = 160 };

/* Values of hydra's own arguments; length 0: not given. */
typedef struct hydra_words {
	p4d_value path, folder, name;
} hydra_words;

/* One entry of a defaults list: "GROUP@PACKAGE: OPTION", or the name of a file. */
typedef struct entry {
	char group[NAME], package[NAME], option[NAME];
	bool optional, self, of_root;
} entry;

static void take_option(const p4d_launch *launch, size_t at, const char *const *names, p4d_value *to)
{
	const p4d_value word = launch->words[at];

	for (; *names; names++) {
		const uint32_t length = (uint32_t)strlen(*names);
		if (p4d_value_is(word, *names) && at + 1 < launch->count)
			*to = launch->words[at + 1];
		else if (word.length > length && word.at[length].c == '=' && !word.at[length].unknown &&
			 p4d_value_is((p4d_value){word.at, length}, *names))
			*to = (p4d_value){word.at + length + 1, word.length - length - 1};
	}
}

static void read_words(const p4d_launch *launch, size_t first, hydra_words *to)
{
	static const char *const path[] = {"--config-path", "-cp", "--config_path", NULL},
				 *const folder[] = {"--config-dir", "-cd", "--config_dir", NULL},
				 *const name[] = {"--config-name", "-cn", "--config_name", NULL};

	*to = (hydra_words){.path = {.length = 0}};
	for (size_t i = first; i < launch->count; i++) {
		take_option(launch, i, path, &to->path);
		take_option(launch, i, folder, &to->folder);
		take_option(launch, i, name, &to->name);
	}
}

/* Matches a pattern with at most one wildcard, at its end. */
static bool matches(const char *pattern, const char *text)
{
	const size_t length = strlen(pattern);

	return length && pattern[length - 1] == '*' ? !strncmp(text, pattern, length - 1)
						    : !strcmp(text, pattern);
}

/* Whether the program ships this configuration. Its values are then the reader's defaults. */
static bool take_shipped(p4d_read_context *c, const char *name, const p4d_read_given *place)
{
	const p4d_read_argument *a = p4d_reader__find(c->reading->reader, "--hydra.shipped");
	const char *const *known = c->reading->reader->hydra->shipped;
	char plain[NAME];

	snprintf(plain, sizeof(plain), "%s", name);
	char *const dot = strrchr(plain, '.');
	if (dot && !strcmp(dot, ".yaml"))
		*dot = '\0';
	for (; known && *known; known++) {
		if (!matches(*known, plain))
			continue;
		const p4d_read_given given = {
		    .name = "config-name", .value = plain, .file = place->file, .line = place->line};
		if (a)
			p4d_reader__take(c->reading, a, &given);
		return true;
	}
	return false;
}

static bool is_there(p4d_read_context *c, const char *path)
{
	p4d_value written;
	const char *text;
	size_t length;

	return p4d_shell_file(c->shell, p4d_reader__path(c, path), &written, &text, &length);
}

/* Folder of a program, from its file train/run.py or its module train.run. */
static void program_folder(p4d_value program, char *to, size_t size)
{
	p4d_value_text(program, to, size);
	const size_t length = strlen(to);
	const bool file = length > 3 && !strcmp(to + length - 3, ".py");

	for (char *at = to; *at && !file; at++)
		*at = *at == '.' ? '/' : *at;
	char *const slash = strrchr(to, '/');
	if (slash)
		*slash = '\0';
	else
		snprintf(to, size, ".");
}

/* Appends a part to a path of cells. */
static void add_part(p4d_read_context *c, uint32_t *length, p4d_value part, const char *text)
{
	for (uint32_t i = 0; i < part.length && *length < P4D_READ_PATH; i++)
		c->path[(*length)++] = part.at[i];
	for (; *text && *length < P4D_READ_PATH; text++)
		c->path[(*length)++] = (p4d_cell){.c = *text};
}

/* The primary file: FOLDER/NAME.yaml. A relative path starts at the program's folder. */
static p4d_value primary(p4d_read_context *c, const p4d_launch *launch, const hydra_words *w)
{
	const p4d_read_hydra *hydra = c->reading->reader->hydra;
	const bool absolute = w->path.length && (w->path.at[0].unknown || w->path.at[0].c == '/');
	const p4d_value none = {.length = 0};
	char folder[P4D_READ_PATH], ending[8];
	uint32_t length = 0;

	program_folder(launch->words[0], folder, sizeof(folder));
	if (w->path.length && !absolute)
		add_part(c, &length, none, folder), add_part(c, &length, none, "/");
	if (w->path.length || w->folder.length) {
		add_part(c, &length, w->path.length ? w->path : w->folder, "/");
	} else {
		add_part(c, &length, none, folder);
		add_part(c, &length, none, "/");
		add_part(c, &length, none, hydra->folder);
		add_part(c, &length, none, "/");
	}
	add_part(c, &length, w->name, w->name.length ? "" : hydra->name);
	p4d_value_text((p4d_value){c->path + (length > 5 ? length - 5 : 0), length > 5 ? 5 : 0}, ending,
		       sizeof(ending));
	if (strcmp(ending, ".yaml") != 0)
		add_part(c, &length, none, ".yaml");
	return (p4d_value){c->path, length};
}

void p4d_reader__hydra(p4d_read_context *c, const p4d_launch *launch, size_t first)
{
	const p4d_read_argument row = {"--config-name", P4D_READ_FILE, "", NULL};
	char text[NAME], name[NAME];
	hydra_words w;

	read_words(launch, first, &w);
	if (!w.path.length && !w.folder.length && !w.name.length)
		return;
	c->hydra = launch;
	const p4d_value path = primary(c, launch, &w);
	p4d_read_given given = {.name = "config-name", .value = p4d_value_text(path, text, sizeof(text))};
	p4d_reader__place(c->shell, w.name.length ? w.name : w.path.length ? w.path : w.folder, &given);
	p4d_value_text(w.name, name, sizeof(name));
	const bool own = w.path.length && (w.path.at[0].unknown || w.path.at[0].c == '/');
	p4d_value written;
	const char *content;
	size_t length;
	const bool there = p4d_shell_file(c->shell, path, &written, &content, &length);
	if (!there && !own && !w.folder.length && !p4d_value_unknown(w.name) && take_shipped(c, name, &given))
		return;
	if (p4d_value_unknown(path))
		given.unknown = p4d_shell_unknown(c->shell, p4d_value_unknown(path));
	p4d_reader__follow(c, &row, path, &given);
}

/* Finds the option that the command line selects for a group: "GROUP=OPTION". */
static void choose(const p4d_launch *launch, const char *key, char *option, size_t size)
{
	const size_t length = strlen(key);

	for (size_t i = 1; i < launch->count; i++) {
		p4d_value word = launch->words[i];
		while (word.length && !word.at[0].unknown && word.at[0].c == '+')
			word = (p4d_value){word.at + 1, word.length - 1};
		if (word.length > length && !word.at[length].unknown && word.at[length].c == '=' &&
		    p4d_value_is((p4d_value){word.at, (uint32_t)length}, key))
			p4d_value_text((p4d_value){word.at + length + 1, word.length - (uint32_t)length - 1},
				       option, size);
	}
}

static bool skip_word(const char **at, const char *word)
{
	const size_t length = strlen(word);

	if (strncmp(*at, word, length) != 0)
		return false;
	*at += length;
	return true;
}

/* Reads an entry of a defaults list. False: the entry sets nothing. */
static bool read_entry(const p4d_read_context *c, const p4d_config_node *node, entry *e)
{
	*e = (entry){.optional = false};
	if (node->kind == P4D_CONFIG_SCALAR) {
		e->self = !strcmp(node->text, "_self_");
		e->of_root = node->text[0] == '/';
		snprintf(e->option, sizeof(e->option), "%s", node->text + e->of_root);
		return true;
	}
	const p4d_config_node *option = node->kind == P4D_CONFIG_MAP ? node->first : NULL;
	if (!option || !option->key)
		return false;
	const char *key = option->key;
	e->optional = skip_word(&key, "optional ");
	const bool overrides = skip_word(&key, "override ");
	e->of_root = skip_word(&key, "/");
	const size_t length = strcspn(key, "@");
	snprintf(e->group, sizeof(e->group), "%.*s", (int)length, key);
	snprintf(e->package, sizeof(e->package), "%s", key[length] ? key + length + 1 : e->group);
	for (char *at = e->package; *at; at++)
		*at = *at == '/' ? '.' : *at;
	if (option->kind == P4D_CONFIG_SCALAR)
		snprintf(e->option, sizeof(e->option), "%s", option->text);
	choose(c->hydra, key, e->option, sizeof(e->option));
	/* except groups that only configure hydra's own logging and start */
	return *e->option && strcmp(e->option, "null") != 0 && !overrides &&
	       strncmp(e->group, "hydra", 5) != 0;
}

/*
 * Writes the prefix that the names in an entry's file get. below: the prefix in the file that lists the
 * entry.
 */
static void prefix_of(const entry *e, const char *below, char *to, size_t size)
{
	const bool global = !strcmp(e->package, "_global_"),
		   here = !*e->package || !strcmp(e->package, "_here_");

	if (global)
		snprintf(to, size, "%s", "");
	else if (here)
		snprintf(to, size, "%s", below);
	else
		snprintf(to, size, "%.*s%.*s.", NAME / 2 - 2, below, NAME / 2 - 2, e->package);
}

static void follow_entry(p4d_read_context *c, const entry *e, const char *file, const char *below,
			 uint32_t line)
{
	const char *slash = strrchr(file, '/');
	const char *folder = e->of_root && c->hydra_root ? c->hydra_root : file;
	const int length = e->of_root && c->hydra_root ? (int)strlen(folder)
			   : slash                     ? (int)(slash - file)
						       : 0;
	const size_t end = strlen(e->option);
	const char *ending = end > 5 && !strcmp(e->option + end - 5, ".yaml") ? "" : ".yaml";
	char path[P4D_READ_PATH + 1], prefix[NAME];
	const p4d_read_given given = {.name = "defaults", .value = e->option, .file = file, .line = line};

	snprintf(path, sizeof(path), "%.*s%s%s%s%s%s", length, folder, length ? "/" : "", e->group,
		 *e->group ? "/" : "", e->option, ending);
	prefix_of(e, below, prefix, sizeof(prefix));
	const p4d_read_argument row = {"--defaults", P4D_READ_FILE, prefix, NULL};
	if (!is_there(c, path) && (e->optional || take_shipped(c, e->option, &given)))
		return;
	p4d_reader__follow(c, &row, p4d_reader__path(c, path), &given);
}

void p4d_reader__compose(p4d_read_context *c, const p4d_config_node *root, const char *file,
			 const char *below, bool behind)
{
	const p4d_config_node *list = root->first;
	entry e;
	bool self = false; /* without _self_, the file's own values come last */

	while (list && !(list->key && !strcmp(list->key, "defaults") && list->kind == P4D_CONFIG_LIST))
		list = list->next;
	if (!list || c->hydra_depth >= DEEPEST)
		return;
	if (!c->hydra_root) {
		char folder[P4D_READ_PATH];
		const char *slash = strrchr(file, '/');
		snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - file) : 1, slash ? file : ".");
		c->hydra_root = p4d_shell_keep(c->shell, folder);
	}
	c->hydra_depth++;
	for (const p4d_config_node *n = list->first; n && c->values; n = n->next) {
		if (!read_entry(c, n, &e))
			continue;
		if (!e.self && self == behind)
			follow_entry(c, &e, file, below, n->line);
		self = self || e.self;
	}
	c->hydra_depth--;
}
