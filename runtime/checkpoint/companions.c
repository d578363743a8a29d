/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/companions.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/json_file.h"
#include "base/mapping.h"
#include "base/new_file.h"
#include "checkpoint/checkpoint_internal.h"

enum { CONFIG_BYTES = 1 << 20, MOST_TEMPLATES = 64 };

static const char more_templates[] = "additional_chat_templates";

static int copy_one(const char *from, const char *to, unsigned *copied, p4d_error *err)
{
	p4d_mapping file = {.data = NULL};

	if (access(from, F_OK) < 0 || access(to, F_OK) == 0)
		return 0;
	if (p4d_mapping_open(&file, from, P4D_E_IO, err) < 0)
		return -1;
	int rc = p4d_new_file_put(to, file.data ? (const void *)file.data : "", file.bytes, err);
	p4d_mapping_close(&file);
	*copied += rc == 0;
	return rc;
}

/* Copies a file to the file of the same name in the other folder. */
static int copy_named(const char *released, const char *to, const char *name, unsigned *copied,
		      p4d_error *err)
{
	char from[P4D_PATH], target[P4D_PATH];

	if (p4d_checkpoint__join_path(from, err, "%s/%s", released, name) < 0 ||
	    p4d_checkpoint__join_path(target, err, "%s/%s", to, name) < 0)
		return -1;
	return copy_one(from, target, copied, err);
}

/* Copies the chat templates for other purposes, such as "tool_use.jinja". */
static int copy_templates(const char *released, const char *to, unsigned *copied, p4d_error *err)
{
	char from[P4D_PATH], target[P4D_PATH];
	unsigned left = MOST_TEMPLATES;
	int rc = 0;

	if (p4d_checkpoint__join_path(from, err, "%s/%s", released, more_templates) < 0 ||
	    p4d_checkpoint__join_path(target, err, "%s/%s", to, more_templates) < 0)
		return -1;
	DIR *folder = opendir(from);
	if (!folder)
		return 0;
	for (struct dirent *entry; rc == 0 && left && (entry = readdir(folder));) {
		const char *end = strrchr(entry->d_name, '.');
		if (!end || strcmp(end, ".jinja") != 0)
			continue;
		left--;
		rc = p4d_checkpoint__make_directory(target, err);
		if (rc == 0)
			rc = copy_named(from, target, entry->d_name, copied, err);
	}
	closedir(folder);
	return rc;
}

int p4d_companions__copy(const char *released, const char *to, unsigned *copied, p4d_error *err)
{
	static const char *const names[] = {
	    "tokenizer.json",     "tokenizer_config.json",
	    "tokenizer.model",    "special_tokens_map.json",
	    "added_tokens.json",  "vocab.json",
	    "merges.txt",         "spiece.model",
	    "tekken.json",        "chat_template.jinja",
	    "chat_template.json", "generation_config.json",
	};

	*copied = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (copy_named(released, to, names[i], copied, err) < 0)
			return -1;
	return copy_templates(released, to, copied, err);
}

static int write_back(const char *path, struct json_object *config, p4d_error *err)
{
	const char *text =
	    json_object_to_json_string_ext(config, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);

	return text ? p4d_new_file_put(path, text, strlen(text), err)
		    : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %.300s", path);
}

static void take(struct json_object *config, struct json_object *released, const char *key)
{
	struct json_object *value;

	json_object_object_del(config, key);
	if (json_object_object_get_ex(released, key, &value))
		json_object_object_add(config, key, json_object_get(value));
}

int p4d_companions__special_tokens(const char *released, const char *to, p4d_error *err)
{
	static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
	char from[P4D_PATH], path[P4D_PATH];
	int rc = -1;

	if (p4d_checkpoint__join_path(from, err, "%s/config.json", released) < 0 ||
	    p4d_checkpoint__join_path(path, err, "%s/config.json", to) < 0)
		return -1;
	if (access(from, F_OK) < 0 || access(path, F_OK) < 0)
		return 0;
	struct json_object *theirs = p4d_json_read(from, CONFIG_BYTES, err),
			   *ours = theirs ? p4d_json_read(path, CONFIG_BYTES, err) : NULL;
	if (ours) {
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			take(ours, theirs, keys[i]);
		rc = write_back(path, ours, err);
	}
	json_object_put(ours);
	json_object_put(theirs);
	return rc;
}
