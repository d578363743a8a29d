/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json_file.h"
#include "data/added_tokens.h"
#include "data/bpe.h"
#include "data/normalizer.h"
#include "data/splitter.h"

enum { CHUNK = 4096 };
static const size_t LARGEST = 256 << 20; /* maximum file size in bytes; Gemma 3's file has 33 MB */

struct p4d_tokenizer_json {
	p4d_added_tokens added;            /* searched in the original text */
	p4d_added_tokens added_normalized; /* searched in the normalized text */
	p4d_added_tokens names;            /* all added tokens, as the file writes them */
	p4d_normalizer normalizer;
	p4d_splitter splitter;
	p4d_bpe *bpe;
	int32_t begin, end; /* tokens around a text; -1: none */
	int32_t vocabulary;
};

/* Collects the tokens of one call, before they go to the sink. */
typedef struct output {
	p4d_tokenizer_json *json;
	p4d_token_sink sink;
	void *context;
	p4d_error *err;
	uint64_t count;
	int32_t tokens[CHUNK];
} output;

static bool flag(struct json_object *object, const char *name)
{
	return json_object_get_boolean(json_object_object_get(object, name));
}

static int add_token(p4d_tokenizer_json *json, struct json_object *entry, p4d_error *err)
{
	struct json_object *content = json_object_object_get(entry, "content");
	const int64_t id = json_object_get_int64(json_object_object_get(entry, "id"));
	const p4d_added_token token = {(int32_t)id, flag(entry, "lstrip"), flag(entry, "rstrip")};
	const bool normalized = flag(entry, "normalized");
	const char *text = json_object_get_string(content);
	size_t length = content ? (size_t)json_object_get_string_len(content) : 0;

	if (!length || id < 0 || id >= INT32_MAX)
		return p4d_fail(err, P4D_E_VALUE, "added_tokens: %.100s is not a token",
				json_object_to_json_string(entry));
	if (flag(entry, "single_word"))
		return p4d_fail(err, P4D_E_VALUE,
				"added_tokens: %.60s has single_word, which is not supported", text);
	if (p4d_added_tokens__add(&json->names, text, length, token, err) < 0 ||
	    (normalized && p4d_normalizer__apply(&json->normalizer, &text, &length, err) < 0))
		return -1;
	if (id >= json->vocabulary)
		json->vocabulary = (int32_t)id + 1;
	return p4d_added_tokens__add(normalized ? &json->added_normalized : &json->added, text, length, token,
				     err);
}

static int add_tokens(p4d_tokenizer_json *json, struct json_object *list, p4d_error *err)
{
	const size_t count = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; i < count; i++)
		if (add_token(json, json_object_array_get_idx(list, i), err) < 0)
			return -1;
	return 0;
}

/* Reads one part of a template: the place of the text, or a special token before or after it. */
static int read_part(p4d_tokenizer_json *json, struct json_object *specials, struct json_object *part,
		     bool *text_seen, p4d_error *err)
{
	struct json_object *special = json_object_object_get(part, "SpecialToken");
	const char *name = json_object_get_string(json_object_object_get(special, "id"));
	int32_t *place = *text_seen ? &json->end : &json->begin;

	if (json_object_object_get(part, "Sequence")) {
		*text_seen = true;
		return 0;
	}
	struct json_object *ids =
	    name ? json_object_object_get(json_object_object_get(specials, name), "ids") : NULL;
	if (!json_object_is_type(ids, json_type_array) || json_object_array_length(ids) != 1 || *place >= 0)
		return p4d_fail(err, P4D_E_VALUE,
				"the tokenizer's template has %.100s: p4d supports only one token before and "
				"one after a text",
				json_object_to_json_string(part));
	const int64_t id = json_object_get_int64(json_object_array_get_idx(ids, 0));
	if (id < 0 || id >= json->vocabulary)
		return p4d_fail(err, P4D_E_VALUE, "the tokenizer's template has %.40s, which is not a token",
				name);
	*place = (int32_t)id;
	return 0;
}

static int read_ends(p4d_tokenizer_json *json, struct json_object *processor, p4d_error *err)
{
	const char *type = json_object_get_string(json_object_object_get(processor, "type"));
	struct json_object *parts = json_object_object_get(processor, "processors");
	struct json_object *single = json_object_object_get(processor, "single");
	bool text_seen = false;
	int rc = 0;

	/* the step ByteLevel only affects the offsets of tokens, which p4d does not use */
	if (!processor || (type && !strcmp(type, "ByteLevel")))
		return 0;
	if (type && !strcmp(type, "Sequence") && json_object_is_type(parts, json_type_array)) {
		for (size_t i = 0; rc == 0 && i < json_object_array_length(parts); i++)
			rc = read_ends(json, json_object_array_get_idx(parts, i), err);
		return rc;
	}
	if (!type || strcmp(type, "TemplateProcessing") != 0 || !json_object_is_type(single, json_type_array))
		return p4d_fail(err, P4D_E_VALUE, "the tokenizer's post-processor %.100s is not supported",
				json_object_to_json_string(processor));
	for (size_t i = 0; rc == 0 && i < json_object_array_length(single); i++)
		rc = read_part(json, json_object_object_get(processor, "special_tokens"),
			       json_object_array_get_idx(single, i), &text_seen, err);
	return rc;
}

static int fill(p4d_tokenizer_json *json, struct json_object *root, p4d_error *err)
{
	struct json_object *added = json_object_object_get(root, "added_tokens");
	struct json_object *model = json_object_object_get(root, "model");

	if (!json_object_is_type(model, json_type_object) ||
	    (added && !json_object_is_type(added, json_type_array)))
		return p4d_fail(err, P4D_E_VALUE, "not a tokenizer.json: it lacks a model");
	if (p4d_normalizer__open(&json->normalizer, json_object_object_get(root, "normalizer"), err) < 0 ||
	    p4d_splitter__open(&json->splitter, json_object_object_get(root, "pre_tokenizer"), err) < 0 ||
	    p4d_bpe__open(&json->bpe, model, json->splitter.byte_level, err) < 0)
		return -1;
	json->vocabulary = p4d_bpe__vocabulary(json->bpe);
	if (add_tokens(json, added, err) < 0)
		return -1;
	return read_ends(json, json_object_object_get(root, "post_processor"), err);
}

int p4d_tokenizer__json_parse(p4d_tokenizer_json **opened, struct json_object *root, p4d_error *err)
{
	p4d_tokenizer_json *json = calloc(1, sizeof(*json));

	if (!json)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a tokenizer");
	json->begin = json->end = -1;
	if (fill(json, root, err) < 0) {
		p4d_tokenizer__json_close(json);
		return -1;
	}
	*opened = json;
	return 0;
}

int p4d_tokenizer__json_open(p4d_tokenizer_json **opened, const char *path, p4d_error *err)
{
	struct json_object *root = p4d_json_read(path, LARGEST, err);

	if (!root)
		return -1;
	int rc = p4d_tokenizer__json_parse(opened, root, err);
	json_object_put(root);
	return rc < 0 ? p4d_error_in(err, path) : 0;
}

void p4d_tokenizer__json_close(p4d_tokenizer_json *json)
{
	if (!json)
		return;
	p4d_added_tokens__close(&json->added);
	p4d_added_tokens__close(&json->added_normalized);
	p4d_added_tokens__close(&json->names);
	p4d_normalizer__close(&json->normalizer);
	p4d_splitter__close(&json->splitter);
	p4d_bpe__close(json->bpe);
	free(json);
}

void p4d_tokenizer__json_ends(const p4d_tokenizer_json *json, int32_t *begin, int32_t *end)
{
	*begin = json->begin;
	*end = json->end;
}

int32_t p4d_tokenizer__json_vocabulary(const p4d_tokenizer_json *json)
{
	return json->vocabulary;
}

int32_t p4d_tokenizer__json_token(const p4d_tokenizer_json *json, const char *name)
{
	const p4d_added_token *added = p4d_added_tokens__find(&json->names, name, strlen(name));

	return added ? added->token : p4d_bpe__token(json->bpe, name);
}

size_t p4d_tokenizer__json_text(const p4d_tokenizer_json *json, int32_t token, char *buf, size_t size)
{
	const size_t length = p4d_added_tokens__text(&json->names, token, buf, size);

	return length ? length : p4d_bpe__text(json->bpe, token, buf, size);
}

static int flush(output *out)
{
	const uint64_t count = out->count;

	out->count = 0;
	return count ? out->sink(out->context, out->tokens, count, out->err) : 0;
}

static int put(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	output *out = context;

	(void)err; /* errors are stored in out->err */
	if (count > CHUNK - out->count && flush(out) < 0)
		return -1;
	memcpy(out->tokens + out->count, tokens, count * sizeof(*tokens));
	out->count += count;
	return 0;
}

static int put_word(void *context, const char *word, size_t length, p4d_error *err)
{
	output *out = context;

	return p4d_bpe__word(out->json->bpe, word, length, put, out, err);
}

/* Encodes the text between two added tokens. first: the text is at the beginning of the document. */
typedef int (*part_sink)(output *out, const char *text, size_t length, bool first);

static int split_at(output *out, const p4d_added_tokens *added, const char *text, size_t length, bool first,
		    part_sink between)
{
	size_t from = 0, begin, end;
	const p4d_added_token *found;

	while ((found = p4d_added_tokens__next(added, text, length, from, &begin, &end)) != NULL) {
		if ((begin > from && between(out, text + from, begin - from, first && from == 0) < 0) ||
		    put(out, &found->token, 1, out->err) < 0)
			return -1;
		from = end;
	}
	return from < length ? between(out, text + from, length - from, first && from == 0) : 0;
}

static int encode_normalized(output *out, const char *text, size_t length, bool first)
{
	return p4d_splitter__apply(&out->json->splitter, text, length, first, put_word, out, out->err);
}

static int encode_part(output *out, const char *text, size_t length, bool first)
{
	if (p4d_normalizer__apply(&out->json->normalizer, &text, &length, out->err) < 0)
		return -1;
	return split_at(out, &out->json->added_normalized, text, length, first, encode_normalized);
}

/* Returns the index of the first byte that is not valid UTF-8; `length`: all bytes are valid. */
static size_t valid_bytes(const char *text, size_t length)
{
	size_t i = 0;

	while (i < length) {
		utf8proc_int32_t c;
		const utf8proc_ssize_t bytes = (unsigned char)text[i] < 0x80
						   ? 1
						   : utf8proc_iterate((const utf8proc_uint8_t *)text + i,
								      (utf8proc_ssize_t)(length - i), &c);
		if (bytes <= 0)
			break;
		i += (size_t)bytes;
	}
	return i;
}

int p4d_tokenizer__json_encode(p4d_tokenizer_json *json, const char *text, size_t length, p4d_token_sink sink,
			       void *context, p4d_error *err)
{
	output out = {.json = json, .sink = sink, .context = context, .err = err};
	const size_t valid = valid_bytes(text, length);

	if (valid < length) {
		p4d_fail(err, P4D_E_VALUE, "byte %zu of a document is not UTF-8", valid);
		return p4d_fix(err, "iconv -c -f utf-8 -t utf-8 FILE");
	}
	return split_at(&out, &json->added, text, length, true, encode_part) < 0 ? -1 : flush(&out);
}
