/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/chat.h"
#include "data/documents.h"

/* Receives the answers of pairs. */
typedef struct p4d_pair_sink {
	const p4d_tokenizer *tokenizer;
	p4d_chat *chat; /* NULL: prompt and answers are texts */
	int32_t end;    /* token added after a text; -1: none */
	p4d_chat_sink add;
	int (*finish)(void *context, p4d_error *err); /* called after each of the two answers */
	void *context;
} p4d_pair_sink;

/*
 * Encodes the pair in documents->object: {"prompt": ..., "chosen": ..., "rejected": ...}. Passes the
 * prompt with the chosen answer to `add`, and then the prompt with the rejected answer. If the members are
 * texts, the prompt is not trained on. If a member is wrong, it passes nothing. Errors: JSON with the line
 * and the reason, those of tokenizer, chat and sink.
 */
int p4d_pairs__encode(const p4d_pair_sink *to, const p4d_documents *documents, p4d_error *err);
