/* SPDX-License-Identifier: Apache-2.0 */
/* Reads configuration files, whose values have the names of arguments. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/evidence.h"

enum { CONFIG_FILES = 8, HYDRA_FILES = 24, CONFIG_NAME = 160 };

/* An unknown part of a text that the script writes is represented by one character of Unicode's private
 * use area, starting at this one. */
enum { UNKNOWN_FIRST = 0xe000 };

/* The content of a configuration file, or a text in the script. */
typedef struct config_text {
	const char *text;
	size_t length;
	char *made;        /* text that the caller must free */
	p4d_value written; /* the text, if the script contains it; length 0: it is a file */
	const char *file;  /* the file's name, if there is one */
	const p4d_config_node *root;
} config_text;

static void walk(p4d_read_context *c, const config_text *from, const p4d_config_node *node, char *name,
		 size_t length);

/* Writes the text for the parser, with a character of the private use area for each unknown part. */
static bool write_out(config_text *t)
{
	t->made = malloc(3 * (size_t)t->written.length + 1);
	if (!t->made)
		return false;
	char *at = t->made;
	for (uint32_t i = 0; i < t->written.length; i++) {
		const p4d_cell cell = t->written.at[i];
		const unsigned code = UNKNOWN_FIRST + cell.unknown;
		if (!cell.unknown) {
			*at++ = cell.c;
			continue;
		}
		*at++ = (char)(0xe0 | code >> 12);
		*at++ = (char)(0x80 | (code >> 6 & 0x3f));
		*at++ = (char)(0x80 | (code & 0x3f));
	}
	*at = '\0';
	t->text = t->made;
	t->length = (size_t)(at - t->made);
	return true;
}

/* The reason of the first unknown part of a text; 0: all of it is known. */
static uint16_t unknown_in(const config_text *from, const char *text)
{
	if (!from->written.length)
		return 0;
	for (; *text; text++) {
		const unsigned char *u = (const unsigned char *)text;
		if (u[0] != 0xee || !u[1])
			continue;
		const unsigned code = (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
		if (code > UNKNOWN_FIRST && code <= UNKNOWN_FIRST + P4D_SHELL_UNKNOWNS)
			return (uint16_t)(code - UNKNOWN_FIRST);
	}
	return 0;
}

/* Fills the place of line N of a text: in its file, or in the script that contains it. */
static void place_line(const p4d_read_context *c, const config_text *from, uint32_t line, p4d_read_given *to)
{
	uint32_t at = 0;

	to->file = from->file;
	to->line = line;
	if (!from->written.length)
		return;
	for (uint32_t i = 1; i < line && at < from->written.length; at++)
		i += from->written.at[at].c == '\n' && !from->written.at[at].unknown;
	const p4d_cell where = from->written.at[at < from->written.length ? at : 0];
	to->file = p4d_shell_file_name(c->shell, where.file);
	to->line = where.line;
}

/* Joins a list of values with commas. False: the list contains something other than values. */
static bool list_text(const p4d_config_node *list, char *text, size_t size)
{
	size_t length = 0;

	text[0] = '\0';
	for (const p4d_config_node *n = list->first; n; n = n->next) {
		if (n->kind != P4D_CONFIG_SCALAR)
			return false;
		const int more = snprintf(text + length, size - length, "%s%s", length ? "," : "", n->text);
		if (more < 0 || (size_t)more >= size - length)
			return false;
		length += (size_t)more;
	}
	return true;
}

p4d_value p4d_reader__path(p4d_read_context *c, const char *text)
{
	uint32_t length = 0;

	for (; length < P4D_READ_PATH && text[length]; length++)
		c->path[length] = (p4d_cell){.c = text[length]};
	return (p4d_value){c->path, length};
}

/*
 * Reads a file that another file names. Its path is relative to the folder of the script, or of the other
 * file.
 */
static void follow_text(p4d_read_context *c, const config_text *from, const p4d_read_argument *a,
			const p4d_read_given *given)
{
	const char *slash = from->file ? strrchr(from->file, '/') : NULL;
	const bool beside = a->words == p4d_reader__beside && slash && given->value[0] != '/';
	char path[P4D_READ_PATH + 1]; /* one more character, so that a truncated path counts as too long */

	snprintf(path, sizeof(path), "%.*s%s", beside ? (int)(slash + 1 - from->file) : 0,
		 beside ? from->file : "", given->value);
	p4d_reader__follow(c, a, p4d_reader__path(c, path), given);
}

/* The node with a dotted name; NULL: none. */
static const p4d_config_node *find_node(const p4d_config_node *node, const char *name, size_t length)
{
	while (node && length) {
		const char *dot = memchr(name, '.', length);
		const size_t part = dot ? (size_t)(dot - name) : length;
		if (node->kind != P4D_CONFIG_MAP)
			return NULL;
		for (node = node->first;
		     node && (!node->key || strlen(node->key) != part || memcmp(node->key, name, part) != 0);)
			node = node->next;
		name += part + (dot != NULL);
		length -= part + (dot != NULL);
	}
	return node;
}

/* The value to which a reference ${another.value} (OmegaConf) in the same file refers; NULL: the value is
 * no such reference. */
static const p4d_config_node *referred(const config_text *from, const p4d_config_node *node)
{
	enum { LINKS = 4 };

	for (int i = 0; node && i < LINKS; i++) {
		if (node->kind != P4D_CONFIG_SCALAR || strncmp(node->text, "${", 2) != 0)
			return node;
		const size_t length = strlen(node->text);
		node =
		    node->text[length - 1] == '}' ? find_node(from->root, node->text + 2, length - 3) : NULL;
	}
	return NULL;
}

static void take_leaf(p4d_read_context *c, const config_text *from, const p4d_config_node *node,
		      const char *name)
{
	char text[sizeof(c->reading->value[0].text)] = "", long_value[64];
	p4d_read_given given = {.name = name + 2, .value = text};
	const p4d_read_argument *a = p4d_reader__find(c->reading->reader, name);
	uint16_t unknown = 0;
	char refers[112];

	if (c->weighs && node->kind != P4D_CONFIG_MAP)
		p4d_reader__weigh(&c->evidence, c->reading->reader, name);
	if (!a)
		return;
	place_line(c, from, node->line, &given);
	const p4d_config_node *target = referred(from, node);
	if (!target) {
		snprintf(refers, sizeof(refers), "the value is computed from other values: %.60s",
			 node->text);
		given.unknown = refers;
		snprintf(text, sizeof(text), "%s", node->text);
		if (p4d_reader__is_file(a))
			follow_text(c, from, a, &given);
		else
			p4d_reader__take(c->reading, a, &given);
		if (c->hydra)
			p4d_reader__refer(c, a, node->text, &given);
		return;
	}
	node = target;
	if (node->kind == P4D_CONFIG_MAP || node->kind == P4D_CONFIG_NULL ||
	    (node->kind == P4D_CONFIG_LIST && !node->first) ||
	    (node->kind == P4D_CONFIG_SCALAR && !strcmp(node->text, "???"))) /* OmegaConf: no value yet */
		return;
	if (node->kind == P4D_CONFIG_LIST && !list_text(node, text, sizeof(text)))
		given.unknown = "the value is a list, which p4d does not read";
	if (node->kind == P4D_CONFIG_SCALAR) {
		unknown = unknown_in(from, node->text);
		snprintf(text, sizeof(text), "%s", node->text);
		if (strlen(node->text) >= sizeof(text)) {
			snprintf(long_value, sizeof(long_value),
				 "the value has %zu characters, too many for p4d", strlen(node->text));
			given.unknown = long_value;
		}
	}
	if (unknown)
		given.unknown = p4d_shell_unknown(c->shell, unknown);
	if (p4d_reader__is_file(a))
		follow_text(c, from, a, &given);
	else
		p4d_reader__take(c->reading, a, &given);
}

/* Visits a node of the tree. name: the node's full name, whose first `length` characters are in use. */
static void visit(p4d_read_context *c, const config_text *from, const p4d_config_node *node, char *name,
		  size_t length)
{
	const int more =
	    snprintf(name + length, CONFIG_NAME - length, "%s%s",
		     length > 2 && name[length - 1] != '.' ? "." : "", node->key ? node->key : "");

	if (more < 0 || (size_t)more >= CONFIG_NAME - length)
		return;
	take_leaf(c, from, node, name);
	if (node->kind == P4D_CONFIG_MAP)
		walk(c, from, node, name, length + (size_t)more);
	name[length] = '\0';
}

/* Whether an entry names a file whose content belongs to this one. */
static bool inherits(const p4d_read_context *c, const p4d_config_node *node, const char *name)
{
	const p4d_read_argument *a = !strcmp(name, "--") && node->key && !strcmp(node->key, "defaults")
					 ? p4d_reader__find(c->reading->reader, "--defaults")
					 : NULL;

	return a && a->words == p4d_reader__beside;
}

/*
 * Visits the entries of a map. Entries of inherited files, and those that YAML's "<<" merges, come first,
 * because the map's own entries override them.
 */
static void walk(p4d_read_context *c, const config_text *from, const p4d_config_node *node, char *name,
		 size_t length)
{
	for (int merged = 1; merged >= 0; merged--)
		for (const p4d_config_node *n = node->first; n && c->values; n = n->next) {
			const bool merges = n->key && !strcmp(n->key, "<<") && n->kind == P4D_CONFIG_MAP;
			if ((merges || inherits(c, n, name)) != (merged != 0))
				continue;
			c->values--;
			if (merges)
				walk(c, from, n, name, length);
			else
				visit(c, from, n, name, length);
		}
}

/* Collects the prefixes of names in a reader's files; NULL after the last. */
static void find_prefixes(const p4d_reader *reader, const char *prefix[CONFIG_FILES + 1])
{
	size_t count = 0;

	for (int i = 0; i < P4D_READ_TABLES && reader->arguments[i]; i++)
		for (const p4d_read_argument *a = reader->arguments[i]; a->name; a++)
			if (p4d_reader__is_file(a) && *a->value && count < CONFIG_FILES)
				prefix[count++] = a->value;
	prefix[count] = NULL;
}

/*
 * Whether a name begins with a prefix. Faster than strncmp, because it runs for every argument if a file
 * cannot be read, and most names differ in the first character.
 */
static bool begins_with(const char *name, const char *prefix)
{
	while (*prefix && *name == *prefix)
		name++, prefix++;
	return !*prefix;
}

static bool begins_with_one(const char *name, const char *const *prefix)
{
	while (*prefix && !begins_with(name, *prefix))
		prefix++;
	return *prefix;
}

/* Marks as unknown everything that an unreadable file may set: all names of the reader's files, except
 * those from other files. */
static void lose(p4d_reading *r, const char *prefix)
{
	const char *others[CONFIG_FILES + 1] = {NULL};

	r->more_arguments = true;
	if (!*prefix)
		find_prefixes(r->reader, others);
	for (int i = 0; i < P4D_READ_TABLES && r->reader->arguments[i]; i++)
		for (const p4d_read_argument *a = r->reader->arguments[i]; a->name; a++) {
			if (a->what < 0 || !begins_with(a->name, "--") || !begins_with(a->name + 2, prefix) ||
			    begins_with_one(a->name + 2, others))
				continue;
			p4d_reader__lose(r, a);
		}
}

/*
 * Marks values as unknown if a text without named values has an unknown part, which may set anything, or is
 * no configuration in this language.
 */
static void lose_unknown(p4d_read_context *c, const config_text *from, const char *prefix, const char *shown)
{
	const uint16_t unknown = unknown_in(from, from->text);

	if (!unknown && !from->root)
		return; /* an empty file */
	p4d_reader__unknown(c->reading, "file", "%.60s: %s", shown,
			    unknown ? p4d_shell_unknown(c->shell, unknown) : "it has no named values");
	lose(c->reading, prefix);
}

/* Whether a file of hydra sets its names without the prefix of its group. */
static bool is_global(const config_text *from)
{
	static const char package[] = "# @package _global_";
	const char *at = from->text, *const end = at + from->length;

	while (at < end && (*at == '#' || *at == '\n')) {
		if ((size_t)(end - at) >= sizeof(package) - 1 && !memcmp(at, package, sizeof(package) - 1))
			return true;
		at = memchr(at, '\n', (size_t)(end - at));
		if (!at)
			return false;
		at++;
	}
	return false;
}

/* Visits the values of a file, and of the files that hydra merges before and after it. */
static void walk_whole(p4d_read_context *c, const config_text *from, const p4d_config_node *root,
		       const char *prefix)
{
	char name[CONFIG_NAME];

	if (c->hydra && from->file && is_global(from))
		prefix = "";
	if (c->hydra && from->file)
		p4d_reader__compose(c, root, from->file, prefix, false);
	walk(c, from, root, name, (size_t)snprintf(name, sizeof(name), "--%s", prefix));
	if (c->hydra && from->file)
		p4d_reader__compose(c, root, from->file, prefix, true);
}

/* Parses a text and stores its values. */
static void read_text(p4d_read_context *c, config_text *from, p4d_config_format format, const char *prefix,
		      const char *shown)
{
	p4d_config_read *read = c->host->config ? c->host->config(c->host->shell.context, format) : NULL;
	if (read && !c->until_ns)
		c->until_ns = p4d_config_clock() + P4D_READ_CONFIG_NS;
	p4d_config tree = {.until_ns = c->until_ns};

	const bool known = read && read(&tree, from->text, from->length);
	from->root = tree.root;
	if (!read)
		p4d_reader__unknown(c->reading, "file", "%.80s: this p4d was built without support for %s",
				    shown, p4d_config_libraries[format].language);
	else if (!known)
		p4d_reader__unknown(c->reading, "file", "%.60s cannot be read: %.80s", shown, tree.why);
	if (!known)
		lose(c->reading, prefix);
	else if (!tree.root || tree.root->kind != P4D_CONFIG_MAP)
		lose_unknown(c, from, prefix, shown);
	else
		walk_whole(c, from, tree.root, prefix);
	if (!c->values)
		p4d_reader__unknown(c->reading, "file", "p4d did not read all values of %.80s", shown);
	p4d_config_free(&tree);
}

/* Reads a configuration file. False: p4d cannot tell its format. */
static bool read_file(p4d_read_context *c, p4d_value path, const char *prefix)
{
	config_text from = {.text = NULL};
	p4d_config_format format = P4D_CONFIG_YAML;
	char shown[P4D_READ_PATH];

	p4d_value_text(path, shown, sizeof(shown));
	const bool inline_json = shown[0] == '{';
	if (!inline_json && path.length >= sizeof(shown)) {
		p4d_reader__unknown(c->reading, "file",
				    "%.60s... is a path of %" PRIu32 " characters, too long for p4d", shown,
				    path.length);
		lose(c->reading, prefix);
		return true;
	}
	if (!inline_json && !p4d_config_format_of(shown, &format))
		return false;
	if (c->files++ >= (c->hydra ? HYDRA_FILES : CONFIG_FILES)) {
		p4d_reader__unknown(c->reading, "file", "%.80s: too many files", shown);
		lose(c->reading, prefix);
		return true;
	}
	if (inline_json)
		from.written = path;
	else if (!p4d_shell_file(c->shell, path, &from.written, &from.text, &from.length)) {
		p4d_reader__unknown(c->reading, "file",
				    "%.80s cannot be read, so p4d does not know what it sets", shown);
		lose(c->reading, prefix);
		return true;
	}
	if (from.written.length && !write_out(&from))
		return true;
	from.file = p4d_shell_keep(c->shell, shown);
	/* the output of a command has no name that shows its language; YAML begins with a name */
	if (from.written.length && !strncmp(shown, "/dev/fd/", strlen("/dev/fd/")) &&
	    from.text[strspn(from.text, " \t\n")] == '[')
		format = P4D_CONFIG_TOML;
	if (from.text)
		read_text(c, &from, format, prefix, shown);
	free(from.made);
	return true;
}

void p4d_reader__follow(p4d_read_context *c, const p4d_read_argument *a, p4d_value path,
			const p4d_read_given *given)
{
	p4d_reading *r = c->reading;

	if (!path.length)
		return;
	if (a->what < P4D_READ_FILE) {
		p4d_read_value *slot = &r->extra[P4D_READ_FILE - 1 - a->what];
		*slot = (p4d_read_value){.file = given->file, .line = given->line};
		snprintf(slot->text, sizeof(slot->text), "%s", given->value);
	}
	p4d_value written;
	const char *text;
	size_t length;
	/* the script itself writes the file, so the file exists in every job */
	if (given->unknown && !p4d_shell_file(c->shell, path, &written, &text, &length)) {
		p4d_reader__unknown(r, "file", "%s%.60s: %s", *given->name ? given->name : "configuration ",
				    *given->name ? "" : given->value, given->unknown);
		lose(r, a->value);
	} else if (!read_file(c, path, a->value) &&
		   !(r->reader->shipped && r->reader->shipped(r, a, given)) && *given->name) {
		p4d_reader__unknown(r, "file", "p4d does not know the configuration %s %.60s", given->name,
				    given->value);
		lose(r, a->value);
	}
}

void p4d_reader__follow_if_there(p4d_read_context *c, const p4d_read_argument *a, const char *path)
{
	const p4d_value value = p4d_reader__path(c, path);
	p4d_value written;
	const char *text;
	size_t length;

	if (p4d_shell_file(c->shell, value, &written, &text, &length))
		p4d_reader__follow(c, a, value, &(p4d_read_given){.name = "", .value = path});
	else if (!c->host->shell.file) /* slurmctld reads no files */
		p4d_reader__unknown(c->reading, "file",
				    "accelerate's default configuration may set values: %.60s", path);
}
