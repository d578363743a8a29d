/* SPDX-License-Identifier: Apache-2.0 */
#include "data/pairs.h"

#include <inttypes.h>

#include "data/conversation.h"

static int wrong(const p4d_documents *documents, const char *what, p4d_error *err)
{
	return p4d_fail(err, P4D_E_JSON, "%.200s:%" PRIu64 ": %s", documents->name, documents->line, what);
}

/* A part of a pair that is being encoded. */
typedef struct text_part {
	const p4d_pair_sink *to;
	bool trained;
} text_part;

static int pass_on(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	const text_part *p = context;

	return p->to->add(p->to->context, tokens, count, p->trained, err);
}

static int put_text(const p4d_pair_sink *to, struct json_object *text, bool trained, p4d_error *err)
{
	text_part one = {to, trained};

	return p4d_tokenizer_encode(to->tokenizer, json_object_get_string(text),
				    (size_t)json_object_get_string_len(text), pass_on, &one, err);
}

static int put_texts(const p4d_pair_sink *to, struct json_object *prompt, struct json_object *answer,
		     p4d_error *err)
{
	if (put_text(to, prompt, false, err) < 0 || put_text(to, answer, true, err) < 0)
		return -1;
	return to->end >= 0 ? to->add(to->context, &to->end, 1, true, err) : 0;
}

static int put_messages(const p4d_pair_sink *to, const p4d_documents *documents, struct json_object *prompt,
			struct json_object *answer, p4d_error *err)
{
	p4d_conversation conversation = {.line = documents->object};
	const char *what = p4d_conversation__join(prompt, answer, &conversation.messages);

	if (what)
		return wrong(documents, what, err);
	const int rc = p4d_chat__encode(to->chat, &conversation, to->add, to->context, err);
	json_object_put(conversation.messages);
	return rc;
}

/* The reason if a pair is wrong; NULL: it is not. Without a prompt, both answers are whole conversations. */
static const char *what_is_wrong(struct json_object *prompt, struct json_object *const answer[2], bool texts)
{
	for (int i = 0; i < 2; i++)
		if (!answer[i] || (texts && !json_object_is_type(answer[i], json_type_string)))
			return texts ? "needs a chosen and a rejected text; lists of messages need --chat"
				     : "needs a chosen and a rejected answer";
	return texts && !json_object_is_type(prompt, json_type_string) ? "has no text in its field prompt"
								       : NULL;
}

int p4d_pairs__encode(const p4d_pair_sink *to, const p4d_documents *documents, p4d_error *err)
{
	struct json_object *line = documents->object, *prompt = NULL, *answer[2] = {NULL, NULL};

	json_object_object_get_ex(line, "prompt", &prompt);
	json_object_object_get_ex(line, "chosen", &answer[0]);
	json_object_object_get_ex(line, "rejected", &answer[1]);
	const char *what = what_is_wrong(prompt, answer, !to->chat);
	if (what)
		return wrong(documents, what, err);
	for (int i = 0; i < 2; i++)
		if ((to->chat ? put_messages(to, documents, prompt, answer[i], err)
			      : put_texts(to, prompt, answer[i], err)) < 0 ||
		    to->finish(to->context, err) < 0)
			return -1;
	return 0;
}
