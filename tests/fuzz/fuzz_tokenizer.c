/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer.json, a NUL byte, and a text. For any input, the result is either an error with a text, or
 * tokens of the vocabulary. Encoding the text again gives the same tokens. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_file.h"
#include "data/tokenizer_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

typedef struct seen {
	int32_t vocabulary;
	uint64_t count, hash;
} seen;

static int take(void *context, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	seen *s = context;

	(void)err;
	for (uint64_t i = 0; i < count; i++) {
		check(tokens[i] >= 0 && tokens[i] < s->vocabulary);
		s->hash = p4d_hash_step(s->hash, (uint64_t)tokens[i]);
	}
	s->count += count;
	return 0;
}

static void encode(p4d_tokenizer_json *json, const char *text, size_t length)
{
	seen first = {p4d_tokenizer__json_vocabulary(json), 0, P4D_HASH_BEGIN}, second = first;
	p4d_error err = {.code = P4D_OK};
	int32_t begin, end;

	p4d_tokenizer__json_ends(json, &begin, &end);
	check(begin < first.vocabulary && end < first.vocabulary);
	int rc = p4d_tokenizer__json_encode(json, text, length, take, &first, &err);
	check(rc == 0 || (err.code == P4D_E_VALUE && err.text[0]));
	check(p4d_tokenizer__json_encode(json, text, length, take, &second, &err) == rc);
	check(first.count == second.count && first.hash == second.hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
	const size_t length = zero ? (size_t)(zero - data) : size, left = zero ? size - length - 1 : 0;
	p4d_tokenizer_json *json = NULL;
	p4d_error err = {.code = P4D_OK};
	/* blocks of exactly these sizes, so that sanitizers find reads beyond them */
	char *file = malloc(length + 1), *text = malloc(left + 1);

	check(file && text);
	memcpy(file, data, length);
	file[length] = '\0';
	if (left)
		memcpy(text + 1, zero + 1, left);
	struct json_object *root = p4d_json_parse(file, length, "t", &err);
	if (root && p4d_tokenizer__json_parse(&json, root, &err) == 0) {
		/* the tokenizer has copied everything that it needs from the file */
		json_object_put(root);
		root = NULL;
		check(p4d_tokenizer__json_token(json, "a") < p4d_tokenizer__json_vocabulary(json));
		encode(json, text + 1, left);
	} else {
		check(err.code != P4D_OK && err.text[0] && !json);
	}
	p4d_tokenizer__json_close(json);
	json_object_put(root);
	free(file);
	free(text);
	return 0;
}
