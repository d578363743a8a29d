/* SPDX-License-Identifier: Apache-2.0 */
#include "data/conversation.h"

#include <string.h>

/* The role for a name in ShareGPT's data. */
static const char *role_of(const char *from)
{
	static const char *const names[][2] = {{"human", "user"},
					       {"gpt", "assistant"},
					       {"chatgpt", "assistant"},
					       {"bing", "assistant"},
					       {"bard", "assistant"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(from, names[i][0]))
			return names[i][1];
	return from;
}

static int add(struct json_object *messages, const char *role, struct json_object *content)
{
	struct json_object *one = json_object_new_object(), *name = json_object_new_string(role);

	if (one && name && json_object_object_add(one, "role", name) == 0 &&
	    json_object_object_add(one, "content", json_object_get(content)) == 0 &&
	    json_object_array_add(messages, one) == 0)
		return 0;
	json_object_put(one);
	return -1;
}

/* Adds a message from {"from": "human", "value": TEXT}. */
static const char *add_turn(struct json_object *messages, struct json_object *turn)
{
	struct json_object *from = NULL, *value = NULL;

	if (!json_object_is_type(turn, json_type_object) || !json_object_object_get_ex(turn, "from", &from) ||
	    !json_object_object_get_ex(turn, "value", &value) || !json_object_is_type(from, json_type_string))
		return "has a turn without from and value in its field conversations";
	return add(messages, role_of(json_object_get_string(from)), value) < 0 ? "no memory" : NULL;
}

/* Adds messages from a text, or from a list of messages. */
static const char *add_part(struct json_object *messages, struct json_object *part, const char *role)
{
	if (json_object_is_type(part, json_type_string))
		return add(messages, role, part) < 0 ? "no memory" : NULL;
	if (!json_object_is_type(part, json_type_array))
		return "has a prompt or an answer that is neither a string nor a list of messages";
	for (size_t i = 0; i < json_object_array_length(part); i++)
		if (json_object_array_add(messages, json_object_get(json_object_array_get_idx(part, i))) < 0)
			return "no memory";
	return NULL;
}

static const char *convert(struct json_object *line, struct json_object *messages)
{
	struct json_object *turns = NULL, *prompt = NULL, *completion = NULL;
	const char *wrong = NULL;

	if (json_object_object_get_ex(line, "conversations", &turns) &&
	    json_object_is_type(turns, json_type_array)) {
		for (size_t i = 0; !wrong && i < json_object_array_length(turns); i++)
			wrong = add_turn(messages, json_object_array_get_idx(turns, i));
		return wrong;
	}
	if (!json_object_object_get_ex(line, "prompt", &prompt) ||
	    !json_object_object_get_ex(line, "completion", &completion))
		return "has no messages, no conversations, and no prompt with a completion";
	wrong = add_part(messages, prompt, "user");
	return wrong ? wrong : add_part(messages, completion, "assistant");
}

const char *p4d_conversation__convert(struct json_object *line, struct json_object **messages)
{
	*messages = json_object_new_array();
	if (!*messages)
		return "no memory";
	const char *wrong = convert(line, *messages);
	if (wrong) {
		json_object_put(*messages);
		*messages = NULL;
	}
	return wrong;
}

const char *p4d_conversation__join(struct json_object *prompt, struct json_object *answer,
				   struct json_object **messages)
{
	*messages = json_object_new_array();
	const char *wrong = !*messages ? "no memory" : prompt ? add_part(*messages, prompt, "user") : NULL;

	wrong = wrong ? wrong : add_part(*messages, answer, "assistant");
	if (wrong) {
		json_object_put(*messages);
		*messages = NULL;
	}
	return wrong;
}
