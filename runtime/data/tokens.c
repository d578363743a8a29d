/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/permutation.h"
#include "data/tokens_internal.h"

enum { PATH_LIMIT = 4096 };

int64_t p4d_tokens__at(const p4d_tokens *tokens, uint64_t number)
{
	const uint8_t *at = tokens->text + number * tokens->width;

	switch (tokens->type) {
	case P4D_TOKEN_U8:
		return at[0];
	case P4D_TOKEN_I8:
		return (int8_t)at[0];
	case P4D_TOKEN_I16:
		return (int16_t)p4d_le16(at);
	case P4D_TOKEN_U16:
		return p4d_le16(at);
	case P4D_TOKEN_I32:
		return (int32_t)p4d_le32(at);
	case P4D_TOKEN_U32:
		return p4d_le32(at);
	case P4D_TOKEN_I64:
		break;
	}
	return (int64_t)p4d_le64(at);
}

/* Copies `path` without its ending .bin or .idx. */
static int prefix_of(const char *path, char *prefix, size_t size, p4d_error *err)
{
	size_t length = strlen(path);

	if (length > 4 && (!strcmp(path + length - 4, ".bin") || !strcmp(path + length - 4, ".idx")))
		length -= 4;
	if (length + sizeof(".bin") > size)
		return p4d_fail(err, P4D_E_DATA, "%.64s...: the path is longer than %zu characters", path,
				size);
	memcpy(prefix, path, length);
	prefix[length] = '\0';
	return 0;
}

static int parse(p4d_tokens *tokens, bool indexed, p4d_error *err)
{
	if (tokens->options.vocabulary < 1 || tokens->options.vocabulary > (uint64_t)INT32_MAX + 1)
		return p4d_fail(err, P4D_E_DATA, "%s: a vocabulary of %" PRIu64 " tokens, expected 1 to 2^31",
				tokens->data_name, tokens->options.vocabulary);
	if ((indexed ? p4d_tokens__parse_megatron : p4d_tokens__parse_llmc)(tokens, err) < 0)
		return -1;
	if (!tokens->total)
		return p4d_fail(err, P4D_E_DATA, "%s: contains no tokens", tokens->data_name);
	return 0;
}

static p4d_tokens *allocate(const char *prefix, const p4d_tokens_options *options, p4d_error *err)
{
	p4d_tokens *tokens = calloc(1, sizeof(*tokens));

	if (!tokens) {
		p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", prefix);
		return NULL;
	}
	tokens->options = *options;
	/*
	 * Messages have room for two names. Of a long path they show the end, which is more informative than
	 * the start.
	 */
	size_t length = strlen(prefix), room = 150;
	const char *end = length > room ? prefix + length - room : prefix, *dots = end > prefix ? "..." : "";
	snprintf(tokens->data_name, sizeof(tokens->data_name), "%s%s.bin", dots, end);
	snprintf(tokens->index_name, sizeof(tokens->index_name), "%s%s.idx", dots, end);
	return tokens;
}

int p4d_tokens__parse(p4d_tokens **result, const char *name, const void *index, uint64_t index_bytes,
		      const void *data, uint64_t data_bytes, const p4d_tokens_options *options,
		      p4d_error *err)
{
	p4d_tokens *tokens = allocate(name, options, err);

	if (!tokens)
		return -1;
	tokens->data = (p4d_mapping){data, data_bytes};
	tokens->index = (p4d_mapping){index, index_bytes};
	if (parse(tokens, index != NULL, err) < 0) {
		p4d_tokens__close(tokens);
		return -1;
	}
	*result = tokens;
	return 0;
}

/*
 * Maps the data and the index. If there is an index, the data are in Megatron-LM's format, whatever their
 * first tokens are. Otherwise they are in llm.c's format.
 */
static int map_files(p4d_tokens *tokens, const char *prefix, bool *indexed, p4d_error *err)
{
	char path[PATH_LIMIT + 8];

	snprintf(path, sizeof(path), "%s.bin", prefix);
	tokens->mapped = true;
	if (p4d_mapping_open(&tokens->data, path, P4D_E_DATA, err) < 0) {
		/* the user may have given the path of a text that is not tokenized yet */
		const char *text = access(prefix, F_OK) == 0 ? prefix : "FILE...";
		return access(path, F_OK) == 0 ? -1 : p4d_fix(err, "p4d data -o %.200s %.200s", prefix, text);
	}
	if (!tokens->data.bytes)
		return p4d_fail(err, P4D_E_DATA, "%s: empty file, expected tokens", tokens->data_name);
	snprintf(path, sizeof(path), "%s.idx", prefix);
	*indexed = access(path, F_OK) == 0 || errno != ENOENT;
	if (*indexed)
		return p4d_mapping_open(&tokens->index, path, P4D_E_DATA, err);
	if (!p4d_tokens__is_llmc(&tokens->data))
		return p4d_fail(err, P4D_E_DATA,
				"%s: byte 0: not the magic of llm.c, and no Megatron-LM index %s",
				tokens->data_name, tokens->index_name);
	return 0;
}

/* Maps the mask. It has a bit for each token in the file, also for tokens outside of documents. */
static int map_mask(p4d_tokens *tokens, const char *prefix, p4d_error *err)
{
	char path[PATH_LIMIT + 8];

	snprintf(path, sizeof(path), "%s.mask", prefix);
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	if (p4d_mapping_open(&tokens->mask, path, P4D_E_DATA, err) < 0)
		return -1;
	const p4d_mapping *mask = &tokens->mask;
	if (mask->bytes < P4D_MASK_HEADER ||
	    (memcmp(mask->data, P4D_MASK_MAGIC, sizeof(P4D_MASK_MAGIC)) != 0 &&
	     !p4d_tokens__has_pairs(tokens)))
		return p4d_fail(err, P4D_E_DATA, "%.200s: byte 0: not P4DMASK, expected a mask of p4d data",
				path);
	const uint64_t count = p4d_le64(mask->data + sizeof(P4D_MASK_MAGIC));
	if (count != tokens->count)
		return p4d_fail(err, P4D_E_DATA,
				"%.200s: it is a mask of %" PRIu64 " tokens, but %s has %" PRIu64 " tokens",
				path, count, tokens->data_name, tokens->count);
	if (mask->bytes - P4D_MASK_HEADER != count / 8 + (count % 8 > 0))
		return p4d_fail(err, P4D_E_DATA,
				"%.200s: %" PRIu64 " bytes, expected %d bytes and a bit for each of %" PRIu64
				" tokens",
				path, mask->bytes, P4D_MASK_HEADER, count);
	if (p4d_tokens__has_pairs(tokens) && tokens->documents % 2)
		return p4d_fail(err, P4D_E_DATA,
				"%.200s: %" PRIu64 " documents, expected an even number, two for each pair",
				path, tokens->documents);
	return 0;
}

bool p4d_tokens__is_masked(const char *path)
{
	char prefix[PATH_LIMIT], mask[PATH_LIMIT + 8];

	if (prefix_of(path, prefix, sizeof(prefix), NULL) < 0)
		return false;
	snprintf(mask, sizeof(mask), "%s.mask", prefix);
	return access(mask, F_OK) == 0;
}

bool p4d_tokens__has_mask(const p4d_tokens *tokens)
{
	return tokens->mask.data;
}

bool p4d_tokens__has_pairs(const p4d_tokens *tokens)
{
	const p4d_mapping *mask = &tokens->mask;

	return mask->data && mask->bytes >= P4D_MASK_HEADER &&
	       !memcmp(mask->data, P4D_PAIRS_MAGIC, sizeof(P4D_PAIRS_MAGIC));
}

bool p4d_tokens__is_trained(const p4d_tokens *tokens, uint64_t token)
{
	return !tokens->mask.data || tokens->mask.data[P4D_MASK_HEADER + token / 8] >> (token % 8) & 1;
}

int p4d_tokens__open(p4d_tokens **result, const char *path, const p4d_tokens_options *options, p4d_error *err)
{
	char prefix[PATH_LIMIT];
	bool indexed = false;

	if (prefix_of(path, prefix, sizeof(prefix), err) < 0)
		return -1;
	p4d_tokens *tokens = allocate(prefix, options, err);
	if (!tokens)
		return -1;
	if (map_files(tokens, prefix, &indexed, err) < 0 || parse(tokens, indexed, err) < 0 ||
	    map_mask(tokens, prefix, err) < 0) {
		p4d_tokens__close(tokens);
		return -1;
	}
	*result = tokens;
	return 0;
}

void p4d_tokens__close(p4d_tokens *tokens)
{
	if (!tokens)
		return;
	if (tokens->mapped) {
		p4d_mapping_close(&tokens->data);
		p4d_mapping_close(&tokens->index);
		p4d_mapping_close(&tokens->mask);
	}
	free(tokens->starts);
	free(tokens);
}

uint64_t p4d_tokens__total(const p4d_tokens *tokens)
{
	return tokens->total;
}

uint64_t p4d_tokens__documents(const p4d_tokens *tokens)
{
	return tokens->documents;
}

bool p4d_tokens__has_index(const p4d_tokens *tokens)
{
	return tokens->index.data;
}

bool p4d_tokens__has_boundaries(const p4d_tokens *tokens)
{
	return tokens->index.data || tokens->options.delimiter != P4D_NO_DELIMITER;
}

p4d_document p4d_tokens__document(const p4d_tokens *tokens, uint64_t number)
{
	if (tokens->starts)
		return (p4d_document){tokens->starts[number],
				      tokens->starts[number + 1] - tokens->starts[number]};
	uint64_t sequence = number, last = number;
	if (!tokens->one_each) {
		sequence = p4d_le64(tokens->bounds + number * 8);
		last = p4d_le64(tokens->bounds + (number + 1) * 8) - 1;
		if (last + 1 == sequence)
			return (p4d_document){0, 0};
	}
	uint64_t first = p4d_le64(tokens->offsets + sequence * 8);
	uint64_t end = (sequence == last ? first : p4d_le64(tokens->offsets + last * 8)) +
		       (uint64_t)p4d_le32(tokens->lengths + last * 4) * tokens->width;
	return (p4d_document){first / tokens->width, (end - first) / tokens->width};
}

uint64_t p4d_tokens__length(const p4d_tokens *tokens, uint64_t number)
{
	return tokens->one_each ? p4d_le32(tokens->lengths + number * 4)
				: p4d_tokens__document(tokens, number).count;
}

int p4d_tokens__read(const p4d_tokens *tokens, uint64_t first, uint64_t count, int32_t *out, p4d_error *err)
{
	const int64_t vocabulary = (int64_t)tokens->options.vocabulary;

	if (first > tokens->count || count > tokens->count - first)
		return p4d_fail(err, P4D_E_DATA,
				"%s: tokens %" PRIu64 " to %" PRIu64 " requested, but it has only %" PRIu64
				" tokens",
				tokens->data_name, first, first + count, tokens->count);
	for (uint64_t i = 0; i < count; i++) {
		int64_t token = p4d_tokens__at(tokens, first + i);
		if (token < 0 || token >= vocabulary)
			return p4d_fail(err, P4D_E_DATA,
					"%s: byte %" PRIu64 ": token %" PRId64
					" outside the vocabulary, expected 0 to %" PRId64,
					tokens->data_name, tokens->header_bytes + (first + i) * tokens->width,
					token, vocabulary - 1);
		out[i] = (int32_t)token;
	}
	return 0;
}

int p4d_tokens__hash(const p4d_tokens *tokens, uint64_t *hash, p4d_error *err)
{
	enum { BLOCKS = 64, BLOCK = 1024 };
	const uint64_t each = tokens->count < BLOCK ? tokens->count : BLOCK, last = tokens->count - each;
	uint64_t h = p4d_mix(tokens->count);
	int32_t block[BLOCK];

	for (uint64_t i = 0; i < tokens->documents; i++)
		h = p4d_mix(h ^ p4d_tokens__length(tokens, i));
	for (uint64_t i = 0; i < BLOCKS; i++) {
		const uint64_t first = last / (BLOCKS - 1) * i + last % (BLOCKS - 1) * i / (BLOCKS - 1);
		if (p4d_tokens__read(tokens, first, each, block, err) < 0)
			return -1;
		for (uint64_t j = 0; j < each; j++)
			h = p4d_mix(h ^ (uint64_t)block[j] ^
				    (uint64_t)!p4d_tokens__is_trained(tokens, first + j) << 32);
	}
	*hash = h;
	return 0;
}
