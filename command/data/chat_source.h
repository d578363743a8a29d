/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * A chat template in Jinja, from one of the files that released models have: chat_template.jinja;
 * chat_template in tokenizer_config.json, which is a text or several named texts;
 * additional_chat_templates/NAME.jinja; or chat_template.json.
 */
typedef struct p4d_chat_source {
	char place[PATH_MAX]; /* the path where it was found, for messages */
	char *text;
	size_t length;
	char *for_tools; /* the template "tool_use" for conversations with tools; NULL: `text` is also for
			  * these */
	size_t for_tools_length;
	struct json_object
	    *names; /* special tokens by name, bos_token for instance: a text, or a list of texts */
	struct json_object *added; /* list of all special tokens that were added to the tokenizer */
} p4d_chat_source;

/*
 * Finds a template. wanted: "own" for the template of the tokenizer's model, the name of another template
 * of this model, a file, or the folder of a model. tokenizer: the name given to p4d_tokenizer_open. The
 * caller closes *source, also after an error. Returns 1 and fills *source; 0: there is no such template;
 * -1: error VALUE, JSON, IO or NO_MEMORY.
 */
int p4d_chat__find_source(p4d_chat_source *source, const char *wanted, const char *tokenizer, p4d_error *err);
void p4d_chat__close_source(p4d_chat_source *source);
