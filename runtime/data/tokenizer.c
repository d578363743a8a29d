/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tokenizer.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/library.h"
#include "data/sentencepiece.h"

enum { BYTES = 256, CHUNK = 4096 };

static int open_sentencepiece(p4d_tokenizer *tokenizer, const char *path, p4d_error *err)
{
	char part[PATH_MAX + 32], why[200] = "";
	int32_t pieces = 0, end = -1;

	if (!p4d_library_find("libp4d-sentencepiece.so", part, sizeof(part))) {
		p4d_fail(err, P4D_E_VALUE, "%.200s: this p4d was built without SentencePiece", path);
		return p4d_fix(
		    err, "apt-get install libsentencepiece-dev, then build p4d again; or --tokenizer bytes");
	}
	void *library = dlopen(part, RTLD_NOW | RTLD_LOCAL); /* stays open */
	const p4d_sentencepiece *calls = library ? dlsym(library, "p4d_sentencepiece__calls") : NULL;
	if (!calls)
		return p4d_fail(err, P4D_E_VALUE, "cannot load SentencePiece: %.400s", dlerror());
	void *model = calls->open(path, &pieces, &end, why, sizeof(why));
	if (!model)
		return p4d_fail(err, P4D_E_VALUE, "%.200s: not a SentencePiece model: %s", path, why);
	*tokenizer = (p4d_tokenizer){(uint64_t)pieces, end, calls, model};
	return 0;
}

int p4d_tokenizer_open(p4d_tokenizer *tokenizer, const char *name, p4d_error *err)
{
	size_t length = strlen(name);

	if (!strcmp(name, "bytes")) {
		*tokenizer = (p4d_tokenizer){.vocabulary = BYTES + 1, .end = BYTES};
		return 0;
	}
	if (length >= 5 && !strcasecmp(name + length - 5, ".json")) {
		p4d_fail(err, P4D_E_VALUE,
			 "%.200s: Hugging Face tokenizers cannot be read, for lack of a C library", name);
		return p4d_fix(err,
			       "encode with Hugging Face into lines {\"input_ids\": [..]}, then: p4d data "
			       "--tokenizer ids --vocab N FILE.jsonl -o PREFIX");
	}
	if (access(name, R_OK) < 0) {
		p4d_fail(err, P4D_E_IO, "tokenizer %.200s: %s", name, strerror(errno));
		return p4d_fix(err, "--tokenizer bytes, ids, or the path of a SentencePiece model");
	}
	return open_sentencepiece(tokenizer, name, err);
}

void p4d_tokenizer_close(p4d_tokenizer *tokenizer)
{
	if (tokenizer->model)
		tokenizer->sentencepiece->close(tokenizer->model);
	*tokenizer = (p4d_tokenizer){0};
}

int32_t p4d_tokenizer_token(const p4d_tokenizer *tokenizer, const char *name)
{
	return tokenizer->model ? tokenizer->sentencepiece->token(tokenizer->model, name) : -1;
}

static int encode_bytes(const char *text, size_t length, p4d_token_sink sink, void *context, p4d_error *err)
{
	int32_t tokens[CHUNK];

	while (length) {
		size_t some = length < CHUNK ? length : CHUNK;
		for (size_t i = 0; i < some; i++)
			tokens[i] = (unsigned char)text[i];
		if (sink(context, tokens, some, err) < 0)
			return -1;
		text += some;
		length -= some;
	}
	return 0;
}

int p4d_tokenizer_encode(const p4d_tokenizer *tokenizer, const char *text, size_t length, p4d_token_sink sink,
			 void *context, p4d_error *err)
{
	if (!tokenizer->model)
		return encode_bytes(text, length, sink, context, err);
	char why[200] = "";
	size_t count = 0;
	const int32_t *ids =
	    tokenizer->sentencepiece->encode(tokenizer->model, text, length, &count, why, sizeof(why));
	if (!ids)
		return p4d_fail(err, P4D_E_VALUE, "SentencePiece cannot encode a text of %zu bytes: %s",
				length, why);
	return sink(context, ids, count, err);
}
