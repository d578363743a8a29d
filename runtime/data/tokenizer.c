/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tokenizer.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/library.h"
#include "data/piece.h"
#include "data/sentencepiece.h"
#include "model/hub_cache.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifdef HAVE_TOKENIZERS
#include "base/json_file.h"
#include "data/tokenizer_json.h"
#endif

enum { BYTES = 256, CHUNK = 4096 };

typedef struct p4d_tokenizer_kind {
	int (*encode)(void *model, const char *text, size_t length, p4d_token_sink sink, void *context,
		      p4d_error *err);
	int32_t (*token)(void *model, const char *name);
	size_t (*text)(void *model, int32_t token, char *buf, size_t size);
	void (*close)(void *model);
	bool reads_names;
} p4d_tokenizer_kind;

static int encode_bytes(void *model, const char *text, size_t length, p4d_token_sink sink, void *context,
			p4d_error *err)
{
	int32_t tokens[CHUNK];

	(void)model;
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

static size_t byte_text(void *model, int32_t token, char *buf, size_t size)
{
	(void)model;
	if (!size || token < 0 || token >= BYTES)
		return 0;
	buf[0] = (char)token;
	return 1;
}

static const p4d_tokenizer_kind bytes = {encode_bytes, NULL, byte_text, NULL, false};

/* Functions of libp4d-sentencepiece.so; NULL: not loaded yet. The library is never closed. */
static const p4d_sentencepiece *sentencepiece_calls;

static int encode_sentencepiece(void *model, const char *text, size_t length, p4d_token_sink sink,
				void *context, p4d_error *err)
{
	char why[200] = "";
	size_t count = 0;
	const int32_t *ids = sentencepiece_calls->encode(model, text, length, &count, why, sizeof(why));

	if (!ids)
		return p4d_fail(err, P4D_E_VALUE, "SentencePiece cannot encode a text of %zu bytes: %s",
				length, why);
	return sink(context, ids, count, err);
}

static int32_t sentencepiece_token(void *model, const char *name)
{
	return sentencepiece_calls->token(model, name);
}

static size_t sentencepiece_text(void *model, int32_t token, char *buf, size_t size)
{
	return p4d_piece__text(sentencepiece_calls->piece(model, token), buf, size);
}

static void close_sentencepiece(void *model)
{
	sentencepiece_calls->close(model);
}

static const p4d_tokenizer_kind sentencepiece = {encode_sentencepiece, sentencepiece_token,
						 sentencepiece_text, close_sentencepiece, false};

static int open_sentencepiece(p4d_tokenizer *tokenizer, const char *path, p4d_error *err)
{
	char part[PATH_MAX + 32], why[200] = "";
	int32_t pieces = 0, end = -1;

	if (!p4d_library_find("libp4d-sentencepiece.so", part, sizeof(part))) {
		p4d_fail(err, P4D_E_VALUE, "%.200s: this p4d was built without SentencePiece", path);
		return p4d_fix(
		    err, "apt-get install libsentencepiece-dev, then build p4d again; or --tokenizer bytes");
	}
	void *library = dlopen(part, RTLD_NOW | RTLD_LOCAL);
	sentencepiece_calls = library ? dlsym(library, "p4d_sentencepiece__calls") : NULL;
	if (!sentencepiece_calls)
		return p4d_fail(err, P4D_E_VALUE, "cannot load SentencePiece: %.400s", dlerror());
	void *model = sentencepiece_calls->open(path, &pieces, &end, why, sizeof(why));
	if (!model)
		return p4d_fail(err, P4D_E_VALUE, "%.200s: not a SentencePiece model: %s", path, why);
	*tokenizer = (p4d_tokenizer){(uint64_t)pieces, -1, end, &sentencepiece, model};
	return 0;
}

#ifdef HAVE_TOKENIZERS
static int encode_json(void *model, const char *text, size_t length, p4d_token_sink sink, void *context,
		       p4d_error *err)
{
	return p4d_tokenizer__json_encode(model, text, length, sink, context, err);
}

static int32_t json_token(void *model, const char *name)
{
	return p4d_tokenizer__json_token(model, name);
}

static size_t json_text(void *model, int32_t token, char *buf, size_t size)
{
	return p4d_tokenizer__json_text(model, token, buf, size);
}

static void close_json(void *model)
{
	p4d_tokenizer__json_close(model);
}

static const p4d_tokenizer_kind json = {encode_json, json_token, json_text, close_json, true};

/*
 * Reads the eos_token in the tokenizer_config.json next to a tokenizer.json. It is a text or an object. *end
 * -1: there is none.
 */
static int find_end(const p4d_tokenizer *tokenizer, const char *path, int32_t *end, p4d_error *err)
{
	enum { LARGEST = 1 << 24 };
	const char *slash = strrchr(path, '/');
	char beside[PATH_MAX];

	if (snprintf(beside, sizeof(beside), "%.*stokenizer_config.json", slash ? (int)(slash + 1 - path) : 0,
		     path) >= (int)sizeof(beside) ||
	    access(beside, F_OK) < 0)
		return 0;
	struct json_object *config = p4d_json_read(beside, LARGEST, err);
	if (!config)
		return -1;
	struct json_object *name = json_object_object_get(config, "eos_token");
	if (json_object_is_type(name, json_type_object))
		name = json_object_object_get(name, "content");
	if (json_object_is_type(name, json_type_string))
		*end = p4d_tokenizer_token(tokenizer, json_object_get_string(name));
	json_object_put(config);
	return 0;
}

static int open_json(p4d_tokenizer *tokenizer, const char *path, p4d_error *err)
{
	p4d_tokenizer opened = {.kind = &json};
	p4d_tokenizer_json *model = NULL;

	if (p4d_tokenizer__json_open(&model, path, err) < 0)
		return -1;
	opened.model = model;
	opened.vocabulary = (uint64_t)p4d_tokenizer__json_vocabulary(model);
	p4d_tokenizer__json_ends(model, &opened.begin, &opened.end);
	if (opened.end < 0 && find_end(&opened, path, &opened.end, err) < 0) {
		p4d_tokenizer_close(&opened);
		return -1;
	}
	*tokenizer = opened;
	return 0;
}
#else
static int open_json(p4d_tokenizer *tokenizer, const char *path, p4d_error *err)
{
	(void)tokenizer;
	p4d_fail(err, P4D_E_VALUE, "%.200s: this p4d was built without PCRE2 and utf8proc", path);
	return p4d_fix(err,
		       "apt-get install libpcre2-dev libutf8proc-dev, then build p4d again; or --tokenizer "
		       "bytes");
}
#endif

static bool is_json(const char *path)
{
	const size_t length = strlen(path);

	return length >= 5 && !strcasecmp(path + length - 5, ".json");
}

/* Finds the path of a folder's tokenizer. False: it has none. */
static bool find_in(const char *folder, char path[PATH_MAX])
{
	static const char *const files[] = {"tokenizer.json", "tokenizer.model"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, PATH_MAX, "%.4000s/%s", folder, files[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

bool p4d_tokenizer_is_in(const char *folder)
{
	char path[PATH_MAX];

	return find_in(folder, path);
}

int p4d_tokenizer_open(p4d_tokenizer *tokenizer, const char *name, p4d_error *err)
{
	char path[PATH_MAX], folder[PATH_MAX];

	if (!strcmp(name, "bytes")) {
		*tokenizer = (p4d_tokenizer){BYTES + 1, -1, BYTES, &bytes, NULL};
		return 0;
	}
	if (find_in(name, path) ||
	    (access(name, F_OK) < 0 && p4d_hub_cache_find(name, folder, sizeof(folder)) &&
	     find_in(folder, path)))
		name = path;
	if (access(name, R_OK) < 0) {
		p4d_fail(err, P4D_E_IO, "tokenizer %.200s: %s", name, strerror(errno));
		return p4d_fix(err, "--tokenizer bytes, ids, the path of a tokenizer.json or a "
				    "SentencePiece model, or ORG/NAME in the hub's cache");
	}
	return is_json(name) ? open_json(tokenizer, name, err) : open_sentencepiece(tokenizer, name, err);
}

void p4d_tokenizer_close(p4d_tokenizer *tokenizer)
{
	if (tokenizer->model)
		tokenizer->kind->close(tokenizer->model);
	*tokenizer = (p4d_tokenizer){0};
}

int32_t p4d_tokenizer_token(const p4d_tokenizer *tokenizer, const char *name)
{
	return tokenizer->model ? tokenizer->kind->token(tokenizer->model, name) : -1;
}

bool p4d_tokenizer_reads_names(const p4d_tokenizer *tokenizer)
{
	return tokenizer->kind->reads_names;
}

size_t p4d_tokenizer_text(const p4d_tokenizer *tokenizer, int32_t token, char *buf, size_t size)
{
	return tokenizer->kind->text(tokenizer->model, token, buf, size);
}

int p4d_tokenizer_encode(const p4d_tokenizer *tokenizer, const char *text, size_t length, p4d_token_sink sink,
			 void *context, p4d_error *err)
{
	return tokenizer->kind->encode(tokenizer->model, text, length, sink, context, err);
}
