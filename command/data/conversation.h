/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

/*
 * Converts a line of chat data without `messages` into messages with role and content. The line is
 * ShareGPT's {"conversations": [{"from": "human", "value": TEXT}, ...]}, or {"prompt": ..., "completion":
 * ...}, each of which is a text or a list of messages. The caller releases *messages. Returns the reason
 * if the line is wrong, otherwise NULL.
 */
const char *p4d_conversation__convert(struct json_object *line, struct json_object **messages);

/* Makes messages from a prompt (NULL: none) and an answer. Both are texts or lists of messages. Result and
 * ownership as in p4d_conversation__convert. */
const char *p4d_conversation__join(struct json_object *prompt, struct json_object *answer,
				   struct json_object **messages);
