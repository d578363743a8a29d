/* SPDX-License-Identifier: Apache-2.0 */
#include "data/chat_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

/* The text of a token: a range in chat->pieces. */
typedef struct p4d_chat_piece {
	uint32_t length; /* length plus 1; 0: not read yet */
	uint32_t at;
} p4d_chat_piece;

int p4d_chat__no_memory(p4d_error *err)
{
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a conversation");
}

int p4d_chat__add_name(p4d_chat *chat, const char *text, size_t length, bool begins, p4d_error *err)
{
	char *copy = strndup(text, length);

	if (!copy || !p4d_grow(&chat->name, &chat->names_room, chat->names + 1, sizeof(*chat->name))) {
		free(copy);
		return p4d_chat__no_memory(err);
	}
	chat->name[chat->names++] =
	    (p4d_chat_name){copy, length, p4d_tokenizer_token(chat->tokenizer, copy), begins};
	return 0;
}

const p4d_chat_name *p4d_chat__name_at(const p4d_chat *chat, const char *text, size_t length)
{
	const p4d_chat_name *found = NULL;

	for (size_t i = 0; i < chat->names; i++) {
		const p4d_chat_name *name = &chat->name[i];
		if (name->length <= length && *name->text == *text &&
		    !memcmp(name->text, text, name->length) && (!found || name->length > found->length))
			found = name;
	}
	return found;
}

static int unknown(const char *name, p4d_error *err)
{
	char *names = p4d_chat__fixed_names();

	p4d_fail(err, P4D_E_VALUE,
		 "--chat=%.64s: p4d has no such template; give one of %s, own (the template of the "
		 "tokenizer's model), or a file in Jinja",
		 name, names ? names : "");
	free(names);
	return -1;
}

int p4d_chat__open(p4d_chat *chat, const char *template, const char *date, const p4d_tokenizer *tokenizer,
		   const char *tokenizer_name, p4d_error *err)
{
	*chat = (p4d_chat){.tokenizer = tokenizer, .template = p4d_chat__find_fixed(template)};
	if (chat->template)
		return p4d_chat__open_fixed(chat, err);
	const int found = p4d_chat__open_jinja(chat, template, date, tokenizer_name, err);
	if (found)
		return found < 0 ? -1 : 0;
	if (strcmp(template, "own") != 0)
		return unknown(template, err);
	p4d_fail(err, P4D_E_VALUE, "--chat=own: the tokenizer %.300s has no chat template", tokenizer_name);
	return p4d_fix(err, "--chat FILE.jinja, or --chat chatml");
}

void p4d_chat__close(p4d_chat *chat)
{
	for (size_t i = 0; i < chat->names; i++)
		free(chat->name[i].text);
	p4d_chat__close_jinja(chat->jinja);
	free(chat->name);
	free(chat->text);
	free(chat->tokens);
	free(chat->part);
	free(chat->answer);
	free(chat->cut);
	free(chat->piece);
	free(chat->pieces);
	*chat = (p4d_chat){.template = NULL};
}

const char *p4d_chat__taken(const p4d_chat *chat)
{
	return chat->template ? p4d_chat__fixed_name(chat->template) : p4d_chat__jinja_place(chat->jinja);
}

int p4d_chat__put(p4d_chat *chat, const char *text, size_t length, p4d_error *err)
{
	if (!p4d_grow(&chat->text, &chat->room, chat->length + length + 1, sizeof(*chat->text)))
		return p4d_chat__no_memory(err);
	memcpy(chat->text + chat->length, text, length);
	chat->length += length;
	chat->text[chat->length] = '\0';
	return 0;
}

int p4d_chat__add_cut(p4d_chat *chat, size_t at, p4d_error *err)
{
	if (!p4d_grow(&chat->cut, &chat->cuts_room, chat->cuts + 1, sizeof(*chat->cut)))
		return p4d_chat__no_memory(err);
	chat->cut[chat->cuts++] = (p4d_chat_cut){.at = at};
	return 0;
}

int p4d_chat__add_answer(p4d_chat *chat, size_t from, p4d_error *err)
{
	if (!p4d_grow(&chat->answer, &chat->answers_room, chat->answers + 1, sizeof(*chat->answer)))
		return p4d_chat__no_memory(err);
	chat->answer[chat->answers++] = (p4d_chat_answer){from, from};
	return 0;
}

const char *p4d_chat__role(struct json_object *messages, size_t i)
{
	struct json_object *one = json_object_array_get_idx(messages, i), *role = NULL;

	return json_object_is_type(one, json_type_object) && json_object_object_get_ex(one, "role", &role) &&
		       json_object_is_type(role, json_type_string)
		   ? json_object_get_string(role)
		   : "";
}

bool p4d_chat__is_answer(struct json_object *messages, size_t i)
{
	return !strcmp(p4d_chat__role(messages, i), "assistant");
}

static int write_text(p4d_chat *chat, const p4d_conversation *conversation, p4d_error *err)
{
	chat->length = chat->answers = chat->cuts = 0;
	if (p4d_chat__add_cut(chat, 0, err) < 0)
		return -1;
	const int rc = chat->template ? p4d_chat__write_fixed(chat, conversation->messages, err)
				      : p4d_chat__write_jinja(chat, conversation, err);
	if (rc == 0 && chat->last) {
		chat->answer[0] = chat->answer[chat->answers - 1];
		chat->answers = 1;
	}
	return rc;
}

static int take(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	p4d_chat *chat = context;

	if (!p4d_grow(&chat->part, &chat->part_room, chat->part_count + count, sizeof(*chat->part)))
		return p4d_chat__no_memory(err);
	memcpy(chat->part + chat->part_count, tokens, count * sizeof(*tokens));
	chat->part_count += count;
	return 0;
}

/* Finds the first special token whose name is in a text, at *at; -1: there is none. */
static int32_t find_name(const p4d_chat *chat, const char *text, size_t length, size_t *at, size_t *size)
{
	for (*at = 0; *at < length; ++*at) {
		const p4d_chat_name *name = p4d_chat__name_at(chat, text + *at, length - *at);
		if (!name || name->token < 0)
			continue;
		*size = name->length;
		return name->token;
	}
	return -1;
}

/*
 * Encodes the text from..to into `part`. If the tokenizer does not recognize names of special tokens in
 * texts, it encodes only the text between names.
 */
static int encode(p4d_chat *chat, size_t from, size_t to, p4d_error *err)
{
	const bool itself = !chat->tokenizer->model || p4d_tokenizer_reads_names(chat->tokenizer);
	const char *text = chat->text + from;
	size_t length = to - from;

	chat->part_count = 0;
	while (!itself && length) {
		size_t at, size = 0;
		const int32_t token = find_name(chat, text, length, &at, &size);
		if (at && p4d_tokenizer_encode(chat->tokenizer, text, at, take, chat, err) < 0)
			return -1;
		if (token >= 0 && take(chat, &token, 1, err) < 0)
			return -1;
		text += at + size;
		length -= at + size;
	}
	return itself ? p4d_tokenizer_encode(chat->tokenizer, text, length, take, chat, err) : 0;
}

/* Counts the tokens of `part` that equal those of the whole text from token `first` on. */
static size_t count_same(const p4d_chat *chat, size_t first)
{
	size_t same = 0;

	while (same < chat->part_count && first + same < chat->count &&
	       chat->part[same] == chat->tokens[first + same])
		same++;
	return same;
}

/*
 * Compares the tokens of the first `length` bytes of the text with those of the whole text. *alike: number
 * of equal tokens at the beginning. *cut: the last cut before byte `length`, where the comparison starts;
 * 0 in the first call.
 */
static int count_alike(p4d_chat *chat, size_t length, size_t *cut, size_t *alike, p4d_error *err)
{
	while (*cut + 1 < chat->cuts && chat->cut[*cut + 1].at < length)
		++*cut;
	if (encode(chat, chat->cut[*cut].at, length, err) < 0)
		return -1;
	*alike = chat->cut[*cut].token + count_same(chat, chat->cut[*cut].token);
	return 0;
}

/*
 * Finds the index of the first token after each cut. The parts between cuts may have other tokens than the
 * whole text, which happens with no known tokenizer. Then all cuts except the first are removed, and
 * encoding takes quadratic time.
 */
static int number_cuts(p4d_chat *chat, p4d_error *err)
{
	size_t token = 0;

	for (size_t i = 0; i < chat->cuts; i++) {
		chat->cut[i].token = token;
		if (encode(chat, chat->cut[i].at, i + 1 < chat->cuts ? chat->cut[i + 1].at : chat->length,
			   err) < 0)
			return -1;
		if (count_same(chat, token) < chat->part_count)
			break;
		token += chat->part_count;
	}
	chat->cuts = token == chat->count ? chat->cuts : 1;
	return 0;
}

static int encode_whole(p4d_chat *chat, p4d_error *err)
{
	int32_t *const tokens = chat->tokens;
	const size_t room = chat->tokens_room;

	if (encode(chat, 0, chat->length, err) < 0)
		return -1;
	chat->tokens = chat->part;
	chat->count = chat->part_count;
	chat->tokens_room = chat->part_room;
	chat->part = tokens;
	chat->part_room = room;
	return 0;
}

/* Reads the text of a token. False: there is no memory, or the token has no text. */
static bool read_piece(p4d_chat *chat, int32_t token)
{
	enum { LONGEST = 4096 };
	p4d_chat_piece *piece = &chat->piece[token];

	if (!p4d_grow(&chat->pieces, &chat->pieces_room, chat->pieces_length + LONGEST, 1))
		return false;
	const size_t length =
	    p4d_tokenizer_text(chat->tokenizer, token, chat->pieces + chat->pieces_length, LONGEST);
	if (!length || length >= LONGEST || chat->pieces_length > UINT32_MAX - LONGEST)
		return false;
	*piece = (p4d_chat_piece){(uint32_t)length + 1, (uint32_t)chat->pieces_length};
	chat->pieces_length += length;
	return true;
}

/* Number of bytes of the token's text, if the conversation has this text at the position; otherwise 0. */
static size_t bytes_at(p4d_chat *chat, int32_t token, size_t at)
{
	const p4d_chat_piece *piece = &chat->piece[token];

	if (!piece->length && !read_piece(chat, token))
		return 0;
	const size_t length = piece->length - 1;
	return length <= chat->length - at && !memcmp(chat->pieces + piece->at, chat->text + at, length)
		   ? length
		   : 0;
}

/* Whether the texts of the tokens are the conversation's text, byte by byte, as with tokenizers without a
 * normalizer. The position of each token is then known. */
static bool is_spelled(p4d_chat *chat)
{
	size_t at = 0, bytes = 1;

	if (!chat->piece)
		chat->piece = calloc(chat->tokenizer->vocabulary, sizeof(*chat->piece));
	for (size_t i = 0; chat->piece && bytes && i < chat->count; i++) {
		bytes = bytes_at(chat, chat->tokens[i], at);
		at += bytes;
	}
	return chat->piece && at == chat->length;
}

/* Passes tokens to the sink if is_spelled is true, so that their positions are known. */
static int send_spelled(p4d_chat *chat, p4d_chat_sink sink, void *context, p4d_error *err)
{
	size_t at = 0, sent = 0, answer = 0;
	bool before = false;

	for (size_t i = 0; i < chat->count; i++) {
		const size_t end = at + chat->piece[chat->tokens[i]].length - 1;
		while (answer < chat->answers && chat->answer[answer].to <= at)
			answer++;
		const bool trained = answer < chat->answers && chat->answer[answer].from < end;
		if (trained != before && sink(context, chat->tokens + sent, i - sent, before, err) < 0)
			return -1;
		sent = trained != before ? i : sent;
		before = trained;
		at = end;
	}
	return sink(context, chat->tokens + sent, chat->count - sent, before, err);
}

/* Passes tokens to the sink if their positions are unknown. It encodes the text up to the end of each
 * answer to count the tokens. */
static int send_compared(p4d_chat *chat, p4d_chat_sink sink, void *context, p4d_error *err)
{
	size_t done = 0, cut = 0, from, to;

	if (number_cuts(chat, err) < 0)
		return -1;
	for (size_t i = 0; i < chat->answers; i++) {
		if (count_alike(chat, chat->answer[i].from, &cut, &from, err) < 0 ||
		    count_alike(chat, chat->answer[i].to, &cut, &to, err) < 0)
			return -1;
		from = from < done ? done : from;
		to = to < from ? from : to;
		if (sink(context, chat->tokens + done, from - done, false, err) < 0 ||
		    sink(context, chat->tokens + from, to - from, true, err) < 0)
			return -1;
		done = to;
	}
	return sink(context, chat->tokens + done, chat->count - done, false, err);
}

int p4d_chat__encode(p4d_chat *chat, const p4d_conversation *conversation, p4d_chat_sink sink, void *context,
		     p4d_error *err)
{
	if (write_text(chat, conversation, err) < 0 || encode_whole(chat, err) < 0)
		return -1;
	return is_spelled(chat) ? send_spelled(chat, sink, context, err)
				: send_compared(chat, sink, context, err);
}
