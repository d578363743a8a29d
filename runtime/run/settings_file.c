/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --config, with a key for each option. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "base/library.h"
#include "base/suggest.h"
#include "base/text.h"
#include "config/config_library.h"
#include "run/settings_internal.h"

/* A key of the file. read: settings as they would be if the file alone set them. */
typedef struct reading {
	p4d_settings *read;
	const p4d_config_node *node;
} reading;

/*
 * Returns the function that reads the file. Its format is TOML unless the name ends like that of a YAML or
 * JSON file.
 */
static p4d_config_read *library_for(const char *path, p4d_error *err)
{
	p4d_config_format format = P4D_CONFIG_TOML;
	char library[4096];

	(void)p4d_config_format_of(path, &format);
	const p4d_config_library *reads = &p4d_config_libraries[format];
	p4d_config_read *read =
	    p4d_library_find(reads->file, library, sizeof(library)) ? p4d_config_open(library, format) : NULL;
	if (!read)
		p4d_fail(
		    err, P4D_E_USAGE,
		    "--config %.200s: this p4d-train was built without the library that reads %s (%.100s)",
		    path, reads->language, library);
	return read;
}

static int read_tree(p4d_config *tree, const char *path, p4d_error *err)
{
	p4d_config_read *read = library_for(path, err);
	size_t size = 0;
	char *text = read ? p4d_text_read(path, P4D_CONFIG_BYTES, &size, err) : NULL;

	if (!text)
		return read ? p4d_error_in(err, "--config") : -1;
	const bool known = read(tree, text, size);
	free(text);
	if (!known)
		return p4d_fail(err, P4D_E_USAGE, "--config %.200s: %.120s", path, tree->why);
	if (tree->root && tree->root->kind != P4D_CONFIG_MAP)
		return p4d_fail(err, P4D_E_USAGE, "--config %.200s: contains no keys", path);
	return 0;
}

static int unknown_key(const char *key, p4d_error *err)
{
	p4d_suggest alike = {.wanted = key};
	const char *here = p4d_settings__other_word(key);

	if (here)
		return p4d_fail(err, P4D_E_USAGE, "unknown key %.64s: p4d-train has %s", key, here + 2);
	for (int i = 0; i < P4D_SETTINGS; i++)
		p4d_suggest_offer(&alike, p4d_settings__table[i].name);
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_settings__takes((p4d_option)i))
			p4d_suggest_offer(&alike, p4d_request_option_info((p4d_option)i)->name);
	return p4d_fail(err, P4D_E_USAGE, "unknown key %.64s%s", key, p4d_suggest_text(&alike));
}

/*
 * Returns a value as users type it; NULL: it has no such form. joins: a list is allowed, and its entries are
 * joined with commas.
 */
static const char *text_of(const p4d_config_node *node, bool joins, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);

	if (node->kind == P4D_CONFIG_SCALAR)
		return node->text;
	if (node->kind != P4D_CONFIG_LIST || !joins || !node->first)
		return NULL;
	for (const p4d_config_node *at = node->first; at; at = at->next) {
		if (at->kind != P4D_CONFIG_SCALAR)
			return NULL;
		p4d_text_entry(&text, ",", "%s", at->text);
	}
	return text.truncated ? NULL : buf;
}

static int wrong_kind(const char *name, const char *expected, p4d_error *err)
{
	return p4d_fail(err, P4D_E_VALUE, "%s: expected %s", name, expected);
}

/* true and false mean on and off. */
static const char *word_of(const p4d_option_info *info, const char *text)
{
	if (info->kind != P4D_CHOICE_KIND || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
		return text;
	return !strcmp(text, "true") ? "on" : "off";
}

/* Sets an option without a value. true in the file gives the option; false does not. */
static int set_switch(p4d_settings *read, p4d_setting setting, const p4d_config_node *node, p4d_error *err)
{
	const char *name = p4d_settings__table[setting].name;
	const char *text = node->kind == P4D_CONFIG_SCALAR ? node->text : "";

	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		return wrong_kind(name, "true or false", err);
	return strcmp(text, "true") != 0 ? 0 : p4d_settings__set(read, setting, "", "", err);
}

/* For an option that may be given several times: sets it once for each entry of a list. */
static int set_several(p4d_settings *read, p4d_setting setting, const p4d_config_node *node, p4d_error *err)
{
	const p4d_config_node *at = node->kind == P4D_CONFIG_LIST ? node->first : node;

	for (; at; at = node->kind == P4D_CONFIG_LIST ? at->next : NULL) {
		if (at->kind != P4D_CONFIG_SCALAR)
			return wrong_kind(p4d_settings__table[setting].name, "a text, or a list of texts",
					  err);
		if (p4d_settings__set(read, setting, "", at->text, err) < 0)
			return -1;
	}
	return 0;
}

static int set_setting(const reading *from, p4d_setting setting, p4d_error *err)
{
	const p4d_option_info *info = &p4d_settings__table[setting];
	const bool several = info->kind == P4D_TEXT_KIND && info->size;

	if (setting == P4D_SETTING_config || setting == P4D_SETTING_print_config)
		return p4d_fail(err, P4D_E_USAGE, "%s is only for the command line", info->name);
	if (from->read->source[setting])
		return p4d_fail(err, P4D_E_USAGE, "%s is given twice", info->name);
	from->read->source[setting] = P4D_SETTING_FILE;
	if (info->kind == P4D_SWITCH_KIND)
		return set_switch(from->read, setting, from->node, err);
	if (several)
		return set_several(from->read, setting, from->node, err);
	const char *text = text_of(from->node, false, NULL, 0);
	return text ? p4d_settings__set(from->read, setting, "", word_of(info, text), err)
		    : wrong_kind(info->name, "one value", err);
}

static int set_option(const reading *from, p4d_option option, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	char joined[1024];

	if (!p4d_settings__takes(option))
		return p4d_fail(err, P4D_E_USAGE, "p4d-train has no option %s", info->name);
	if (p4d_is_set(&from->read->request, option))
		return p4d_fail(err, P4D_E_USAGE, "%s is given twice", info->name);
	const char *text = text_of(from->node, true, joined, sizeof(joined));
	if (!text)
		return wrong_kind(info->name, "one value, or a list of values", err);
	if (p4d_request_set(&from->read->request, option, word_of(info, text), P4D_BY_USER, err) == 0)
		return 0;
	const size_t prefix = strlen("--p4d-");
	if (err && !strncmp(err->text, "--p4d-", prefix))
		memmove(err->text, err->text + prefix, strlen(err->text + prefix) + 1);
	return -1;
}

static int set_key(const reading *from, p4d_error *err)
{
	const char *key = from->node->key;
	const int setting = p4d_option_find(p4d_settings__table, P4D_SETTINGS, key);
	const int option = p4d_request_option_find(key);

	/* every option is a key at the top level of the file, so a table is refused */
	if (setting < 0 && from->node->kind == P4D_CONFIG_MAP)
		return p4d_fail(err, P4D_E_USAGE, "[%.64s] is a table; options are keys without tables", key);
	if (setting >= 0)
		return set_setting(from, (p4d_setting)setting, err);
	return option >= 0 ? set_option(from, (p4d_option)option, err) : unknown_key(key, err);
}

/* Whether a typed option replaces one in the file. */
static bool is_replaced(const p4d_settings *typed, p4d_setting setting)
{
	static const p4d_setting pairs[][2] = {
	    {P4D_SETTING_steps, P4D_SETTING_epochs},
	    {P4D_SETTING_valid_data, P4D_SETTING_valid_fraction},
	};

	if (typed->source[setting] == P4D_SETTING_TYPED)
		return true;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		for (int k = 0; k < 2; k++)
			if (setting == pairs[i][k] && typed->source[pairs[i][1 - k]] == P4D_SETTING_TYPED)
				return true;
	return false;
}

static void take(p4d_settings *typed, const p4d_settings *read)
{
	for (int i = 0; i < P4D_SETTINGS; i++) {
		const p4d_option_info *info = &p4d_settings__table[i];
		const bool several = info->kind == P4D_TEXT_KIND && info->size;
		if (!read->source[i] || is_replaced(typed, (p4d_setting)i))
			continue;
		memcpy((char *)typed + info->field, (const char *)read + info->field,
		       several ? sizeof(typed->valid_data) : sizeof(int64_t));
		typed->source[i] = P4D_SETTING_FILE;
	}
	for (int i = 0; i < P4D_OPTIONS; i++) {
		typed->in_file[i] =
		    p4d_is_set(&read->request, (p4d_option)i) && !p4d_is_set(&typed->request, (p4d_option)i);
		p4d_request_inherit(&typed->request, &read->request, (p4d_option)i, P4D_BY_USER);
	}
}

int p4d_settings__read_file(p4d_settings *typed, p4d_error *err)
{
	p4d_settings read = {.help = false};
	char where[320];

	if (read_tree(&typed->file, typed->config, err) < 0)
		return -1;
	for (const p4d_config_node *at = typed->file.root ? typed->file.root->first : NULL; at;
	     at = at->next) {
		const reading from = {.read = &read, .node = at};
		if (set_key(&from, err) == 0)
			continue;
		snprintf(where, sizeof(where), "%.255s:%" PRIu32, typed->config, at->line);
		return p4d_error_in(err, where);
	}
	take(typed, &read);
	return 0;
}
