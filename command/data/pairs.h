/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/chat.h"
#include "data/documents.h"

/* Where the answers of a pair go. */
typedef struct p4d_pair_sink {
	const p4d_tokenizer *tokenizer;
	p4d_chat *chat; /* NULL: prompt and answers are texts */
	int32_t end;    /* token after a text; -1: none */
	p4d_chat_sink add;
	int (*finish)(void *context, p4d_error *err); /* after each of both */
	void *context;
} p4d_pair_sink;

/*
 * The line that documents->object has: {"prompt": ..., "chosen": ..., "rejected": ...}. Writes prompt and
 * chosen answer, then prompt and rejected one; of texts the prompt is not trained on. Nothing is written of a
 * line whose members are wrong. Errors: JSON (what is wrong, with the line), those of tokenizer, chat and
 * sink.
 */
int p4d_pairs__encode(const p4d_pair_sink *to, const p4d_documents *documents, p4d_error *err);
