/* SPDX-License-Identifier: Apache-2.0 */
#include "data/chat_source.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_file.h"
#include "model/hub_cache.h"
#include "template/template.h"

enum { CONFIG_BYTES = 1 << 24, MOST_ADDED = 256 };

static bool join(char path[PATH_MAX], const char *folder, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

/* Finds the folder of a file; false: the path is too long. */
static bool folder_of(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	const size_t length = slash ? (size_t)(slash - path) + (slash == path) : 1;

	if (length >= PATH_MAX)
		return false;
	memcpy(folder, slash ? path : ".", length);
	folder[length] = '\0';
	return true;
}

/* Stores a copy of a text. */
static int keep(const char *text, size_t length, char **to, size_t *to_length, p4d_error *err)
{
	free(*to);
	*to = malloc(length + 1);
	if (!*to)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a chat template");
	memcpy(*to, text, length);
	(*to)[length] = '\0';
	*to_length = length;
	return 1;
}

static int read_file(p4d_chat_source *source, const char *path, char **to, size_t *length, p4d_error *err)
{
	if (to == &source->text)
		snprintf(source->place, sizeof(source->place), "%s", path);
	*to = p4d_text_read(path, P4D_TEMPLATE_SOURCE + 1, length, err);
	return *to ? 1 : -1;
}

/* Takes one of several named templates. */
static int take_named(p4d_chat_source *source, struct json_object *list, const char *name, char **to,
		      size_t *length, p4d_error *err)
{
	(void)source;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i), *called = NULL, *text = NULL;
		if (!json_object_is_type(one, json_type_object) ||
		    !json_object_object_get_ex(one, "name", &called) ||
		    !json_object_object_get_ex(one, "template", &text) ||
		    !json_object_is_type(called, json_type_string) ||
		    !json_object_is_type(text, json_type_string) ||
		    strcmp(json_object_get_string(called), name) != 0)
			continue;
		return keep(json_object_get_string(text), (size_t)json_object_get_string_len(text), to,
			    length, err);
	}
	return 0;
}

/*
 * Takes the chat_template of a JSON file. It is a text; or it is several templates, of which `name` selects
 * one, such as default or tool_use.
 */
static int take_member(p4d_chat_source *source, const char *path, const char *name, char **to, size_t *length,
		       p4d_error *err)
{
	struct json_object *config = p4d_json_read(path, CONFIG_BYTES, err), *member = NULL;
	int rc = 0;

	if (!config)
		return -1;
	json_object_object_get_ex(config, "chat_template", &member);
	if (json_object_is_type(member, json_type_array))
		rc = take_named(source, member, name, to, length, err);
	else if (json_object_is_type(member, json_type_string) && !strcmp(name, "default"))
		rc = keep(json_object_get_string(member), (size_t)json_object_get_string_len(member), to,
			  length, err);
	json_object_put(config);
	if (rc > 0 && to == &source->text)
		snprintf(source->place, sizeof(source->place), "%s", path);
	return rc;
}

static int read_named(p4d_chat_source *source, const char *folder, const char *name, char **to,
		      size_t *length, p4d_error *err)
{
	static const char *const files[] = {"tokenizer_config.json", "chat_template.json"};
	char path[PATH_MAX], file[128];
	int rc = 0;

	snprintf(file, sizeof(file), "additional_chat_templates/%.90s.jinja", name);
	if (!strcmp(name, "default"))
		snprintf(file, sizeof(file), "chat_template.jinja");
	if (!strchr(name, '/') && join(path, folder, file))
		return read_file(source, path, to, length, err);
	for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(*files); i++)
		if (join(path, folder, files[i]))
			rc = take_member(source, path, name, to, length, err);
	return rc;
}

/* Reads the template of a folder, and its template for conversations with tools. */
static int read_own(p4d_chat_source *source, const char *folder, const char *name, p4d_error *err)
{
	int rc = read_named(source, folder, name, &source->text, &source->length, err);

	if (rc > 0 && !strcmp(name, "default") &&
	    read_named(source, folder, "tool_use", &source->for_tools, &source->for_tools_length, err) < 0)
		rc = -1;
	return rc;
}

/* The text of a token: the value itself, or the member `content` of an object. */
static struct json_object *token_text(struct json_object *token)
{
	struct json_object *content = NULL;

	if (json_object_is_type(token, json_type_string))
		return token;
	if (json_object_is_type(token, json_type_object) &&
	    json_object_object_get_ex(token, "content", &content) &&
	    json_object_is_type(content, json_type_string))
		return content;
	return NULL;
}

static int add_special(p4d_chat_source *source, struct json_object *text, p4d_error *err)
{
	if (!text || !json_object_get_string_len(text) ||
	    json_object_array_length(source->added) >= MOST_ADDED)
		return 0;
	return json_object_array_add(source->added, json_object_get(text)) == 0
		   ? 0
		   : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for special tokens");
}

/* Stores bos_token and other members whose names end like that, and additional_special_tokens. */
static int take_names(p4d_chat_source *source, struct json_object *config, p4d_error *err)
{
	json_object_object_foreach(config, key, value)
	{
		const size_t length = strlen(key);
		struct json_object *text =
		    length > 6 && !strcmp(key + length - 6, "_token") ? token_text(value) : NULL;
		if (!text || json_object_object_get_ex(source->names, key, NULL))
			continue;
		if (json_object_object_add(source->names, key, json_object_get(text)) < 0)
			return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for special tokens");
		if (add_special(source, text, err) < 0)
			return -1;
	}
	return 0;
}

/* Stores the special tokens in added_tokens_decoder and additional_special_tokens. */
static int take_added(p4d_chat_source *source, struct json_object *config, p4d_error *err)
{
	struct json_object *added = NULL, *more = NULL;

	if (json_object_object_get_ex(config, "added_tokens_decoder", &added) &&
	    json_object_is_type(added, json_type_object)) {
		json_object_object_foreach(added, number, token)
		{
			(void)number;
			if (add_special(source, token_text(token), err) < 0)
				return -1;
		}
	}
	if (json_object_object_get_ex(config, "additional_special_tokens", &more) &&
	    json_object_is_type(more, json_type_array))
		for (size_t i = 0; i < json_object_array_length(more); i++)
			if (add_special(source, token_text(json_object_array_get_idx(more, i)), err) < 0)
				return -1;
	return 0;
}

/*
 * Reads the special tokens that the template may name. If both files have a name, the first file's token is
 * used.
 */
static int read_special(p4d_chat_source *source, const char *folder, p4d_error *err)
{
	static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		if (!join(path, folder, files[i]))
			continue;
		struct json_object *config = p4d_json_read(path, CONFIG_BYTES, err);
		if (!config)
			return -1;
		const int rc = take_names(source, config, err) < 0 ? -1 : take_added(source, config, err);
		json_object_put(config);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static int find(p4d_chat_source *source, const char *wanted, const char *folder, p4d_error *err)
{
	const size_t length = strlen(wanted);

	if (!strcmp(wanted, "own"))
		return folder ? read_own(source, folder, "default", err) : 0;
	if (p4d_file_is_folder(wanted))
		return read_own(source, wanted, "default", err);
	if (access(wanted, F_OK) == 0)
		return length > 5 && !strcmp(wanted + length - 5, ".json")
			   ? take_member(source, wanted, "default", &source->text, &source->length, err)
			   : read_file(source, wanted, &source->text, &source->length, err);
	return folder ? read_own(source, folder, wanted, err) : 0;
}

int p4d_chat__find_source(p4d_chat_source *source, const char *wanted, const char *tokenizer, p4d_error *err)
{
	char folder[PATH_MAX], cached[PATH_MAX];

	if (access(tokenizer, F_OK) < 0 && p4d_hub_cache_find(tokenizer, cached, sizeof(cached)))
		tokenizer = cached;
	const bool has_model = access(tokenizer, F_OK) == 0;

	*source = (p4d_chat_source){.names = json_object_new_object(), .added = json_object_new_array()};
	if (!source->names || !source->added)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a chat template");
	if (has_model && p4d_file_is_folder(tokenizer))
		snprintf(folder, sizeof(folder), "%s", tokenizer);
	else if (!folder_of(tokenizer, folder))
		return 0;
	const int rc = find(source, wanted, has_model ? folder : NULL, err);
	if (rc <= 0)
		return rc;
	if (!has_model && p4d_file_is_folder(wanted))
		snprintf(folder, sizeof(folder), "%s", wanted);
	else if (!has_model && !folder_of(source->place, folder))
		return 0;
	return read_special(source, folder, err) < 0 ? -1 : 1;
}

void p4d_chat__close_source(p4d_chat_source *source)
{
	free(source->text);
	free(source->for_tools);
	json_object_put(source->names);
	json_object_put(source->added);
	*source = (p4d_chat_source){.text = NULL};
}
