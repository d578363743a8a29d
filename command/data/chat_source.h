/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * A chat template in Jinja in the forms in which models are released: chat_template.jinja, chat_template of
 * tokenizer_config.json (a text, or several with names), additional_chat_templates/NAME.jinja, or
 * chat_template.json.
 */
typedef struct p4d_chat_source {
	char place[PATH_MAX]; /* the path where it was found, for messages */
	char *text;
	size_t length;
	char *for_tools; /* the template "tool_use", for conversations with tools; NULL: the same template as
			    for others */
	size_t for_tools_length;
	struct json_object
	    *names; /* special tokens by name, bos_token for instance: a text, or a list of texts */
	struct json_object *added; /* list of all special tokens that were added */
} p4d_chat_source;

/*
 * wanted: "own" (the template of the tokenizer's model), the name of another template of that model, a file,
 * or a folder with a model. tokenizer: of p4d_tokenizer_open. The caller closes *source, also after an error.
 * Returns 1 and *source; 0 if there is no such template; -1 with VALUE, JSON, IO or NO_MEMORY.
 */
int p4d_chat__find_source(p4d_chat_source *source, const char *wanted, const char *tokenizer, p4d_error *err);
void p4d_chat__close_source(p4d_chat_source *source);
