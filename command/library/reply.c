/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of libp4d.so. */
#include "library/p4d.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library/library_internal.h"
#include <json-c/json_pointer.h>

enum { MOST_MESSAGES = 256 };

struct p4d_reply {
	struct json_object *object;
	int code;
	struct json_object *message[MOST_MESSAGES]; /* messages of the answer */
	size_t messages;
};

static void take_messages(p4d_reply *reply, struct json_object *list)
{
	for (size_t i = 0; i < json_object_array_length(list) && reply->messages < MOST_MESSAGES; i++)
		reply->message[reply->messages++] = json_object_array_get_idx(list, i);
}

/* Collects the messages for a job, and for the job that its script submits. */
static void take_job(p4d_reply *reply, struct json_object *job)
{
	struct json_object *member;

	for (; job; job = member) {
		if (json_object_object_get_ex(job, "messages", &member))
			take_messages(reply, member);
		if (!json_object_object_get_ex(job, "submits", &member))
			return;
	}
}

p4d_reply *p4d_library__reply(struct json_object *object, int code)
{
	p4d_reply *reply = object ? calloc(1, sizeof(*reply)) : NULL;
	struct json_object *components;

	if (!reply) {
		json_object_put(object);
		return NULL;
	}
	reply->object = object;
	reply->code = code;
	take_job(reply, object);
	if (json_object_object_get_ex(object, "components", &components))
		for (size_t i = 0; i < json_object_array_length(components); i++)
			take_job(reply, json_object_array_get_idx(components, i));
	return reply;
}

void p4d_reply_free(p4d_reply *reply)
{
	if (reply)
		json_object_put(reply->object);
	free(reply);
}

int p4d_reply_code(const p4d_reply *reply)
{
	return reply->code;
}

static const char *text_of(struct json_object *object)
{
	return json_object_is_type(object, json_type_string) ? json_object_get_string(object) : NULL;
}

const char *p4d_reply_verdict(const p4d_reply *reply)
{
	return text_of(json_object_object_get(reply->object, "verdict"));
}

size_t p4d_reply_messages(const p4d_reply *reply)
{
	return reply->messages;
}

static const char *of_message(const p4d_reply *reply, size_t index, const char *member)
{
	return index < reply->messages ? text_of(json_object_object_get(reply->message[index], member))
				       : NULL;
}

int p4d_reply_message_code(const p4d_reply *reply, size_t index)
{
	const char *code = of_message(reply, index, "code");
	int number;

	return code && sscanf(code, "P4D%d", &number) == 1 ? number : 0;
}

const char *p4d_reply_message_text(const p4d_reply *reply, size_t index)
{
	return of_message(reply, index, "text");
}

const char *p4d_reply_message_fix(const p4d_reply *reply, size_t index)
{
	const char *fix = of_message(reply, index, "fix");

	return fix && *fix ? fix : NULL;
}

static struct json_object *find(const p4d_reply *reply, const char *pointer)
{
	struct json_object *found = NULL;

	return pointer && json_pointer_get(reply->object, pointer, &found) == 0 ? found : NULL;
}

const char *p4d_reply_text(const p4d_reply *reply, const char *pointer)
{
	return text_of(find(reply, pointer));
}

int p4d_reply_number(const p4d_reply *reply, const char *pointer, double *value)
{
	struct json_object *found = find(reply, pointer);

	switch (json_object_get_type(found)) {
	case json_type_int:
	case json_type_double:
	case json_type_boolean:
		*value = json_object_get_double(found);
		return 0;
	default:
		return -1;
	}
}

const char *p4d_reply_json(const p4d_reply *reply)
{
	return json_object_to_json_string_ext(reply->object,
					      JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
}
