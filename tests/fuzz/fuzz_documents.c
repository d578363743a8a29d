/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of `p4d data`. The first byte chooses lines, or JSON lines with texts, tokens or conversations. An
 * error has the number of the line. From a conversation, all tokens are read, some of which are trained
 * on.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/chat.h"
#include "data/documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

typedef struct turns {
	size_t tokens, trained;
} turns;

static int count(void *context, const int32_t *tokens, size_t some, bool trained, p4d_error *err)
{
	turns *sum = context;

	(void)err;
	for (size_t i = 0; i < some; i++)
		check(tokens[i] >= 0 && tokens[i] < 256);
	sum->tokens += some;
	sum->trained += trained ? some : 0;
	return 0;
}

static void look_at(struct json_object *messages, unsigned which)
{
	static const char *const names[] = {"chatml", "qwen2.5", "llama-2", "gemma"};
	p4d_tokenizer bytes;
	p4d_chat chat;
	p4d_error err = {.code = P4D_OK};
	turns sum = {0, 0};

	check(p4d_tokenizer_open(&bytes, "bytes", &err) == 0);
	check(p4d_chat__open(&chat, names[which % 4], NULL, &bytes, "bytes", &err) == 0);
	const p4d_conversation line = {messages, NULL};
	if (p4d_chat__encode(&chat, &line, count, &sum, &err) == 0)
		check(sum.tokens == chat.length && sum.trained > 0 && sum.trained < sum.tokens);
	else
		check(err.code == P4D_E_VALUE && sum.tokens == 0);
	p4d_chat__close(&chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	p4d_documents documents = {.field = "text"};
	p4d_document_text document;
	p4d_error err = {.code = P4D_OK};
	char path[32];
	uint64_t sum = 0;
	int rc, fd = memfd_create("documents", MFD_CLOEXEC);

	if (!size) {
		close(fd);
		return 0;
	}
	documents.form = (p4d_document_form)(data[0] % 4);
	if (documents.form == P4D_CONVERSATIONS)
		documents.field = data[0] & 64 ? NULL : "text";
	documents.tokens = data[0] & 4 && documents.form != P4D_CONVERSATIONS;
	check(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* the beginning of a compressed file (such as zstd), which may not be readable */
	const bool packed = size > 2 && (data[1] == 0x1f || data[1] == 0x28);
	if (p4d_documents__open(&documents, path, &err) < 0) {
		check(packed && err.code == P4D_E_IO);
		close(fd);
		return 0;
	}
	while ((rc = p4d_documents__next(&documents, &document, &err)) > 0) {
		check((document.text != NULL) + (document.ids != NULL) + (document.messages != NULL) == 1);
		if (document.messages)
			look_at(document.messages, data[0] / 8);
		for (size_t i = 0; document.ids && i < document.length; i++)
			check(document.ids[i] >= 0);
		/* reads all of it, so that sanitizers find missing bytes */
		for (size_t i = 0; document.text && i < document.length; i++)
			sum += (uint8_t)document.text[i];
	}
	check(rc == 0 || (packed && err.code == P4D_E_IO) ||
	      (err.code == P4D_E_JSON && !strncmp(err.text, path, strlen(path))));
	check(packed || (documents.read_bytes <= size && sum <= 255 * (uint64_t)size));
	p4d_documents__free(&documents);
	close(fd);
	return 0;
}
