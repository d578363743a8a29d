/* SPDX-License-Identifier: Apache-2.0 */
#include "data/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "data/bpe_internal.h"
#include "data/piece.h"

enum { CHUNK = 1024 };

int32_t p4d_bpe__vocabulary(const p4d_bpe *bpe)
{
	return bpe->vocabulary;
}

int32_t p4d_bpe__token(const p4d_bpe *bpe, const char *name)
{
	return p4d_bpe__find_name(&bpe->tables, name, strlen(name));
}

/*
 * Writes the character that spells a byte in byte-level vocabularies. Printable Latin-1 characters spell
 * themselves; the other 68 bytes are spelled by the characters from U+0100 on. Returns the length in UTF-8.
 */
static size_t byte_character(uint8_t byte, char *out)
{
	unsigned character = byte;

	if (byte <= 0x20)
		character = 0x100u + byte;
	else if (byte >= 0x7f && byte <= 0xa0)
		character = 0x121u + (byte - 0x7fu);
	else if (byte == 0xad)
		character = 0x143;
	if (character < 0x80) {
		out[0] = (char)character;
		return 1;
	}
	out[0] = (char)(0xc0 | character >> 6);
	out[1] = (char)(0x80 | (character & 0x3f));
	return 2;
}

/* Returns the text of a token. The table is not sorted by token, so this visits all entries. */
static const char *name_of(const p4d_bpe *bpe, int32_t token)
{
	for (size_t i = 0; i <= bpe->tables.name_mask; i++)
		if (bpe->tables.names[i].text && bpe->tables.names[i].token == token)
			return bpe->tables.names[i].text;
	return "";
}

size_t p4d_bpe__text(const p4d_bpe *bpe, int32_t token, char *buf, size_t size)
{
	const char *name = name_of(bpe, token);
	char character[2];
	size_t used = 0;

	if (!bpe->byte_level)
		return p4d_piece__text(name, buf, size);
	while (*name && used < size) {
		unsigned byte = 0;
		size_t length = 0;
		while (byte < 256 && ((length = byte_character((uint8_t)byte, character)) == 0 ||
				      strncmp(name, character, length) != 0))
			byte++;
		buf[used++] = byte < 256 ? (char)byte : *name;
		name += byte < 256 ? length : 1;
	}
	return used;
}

/* Replaces *word by its spelling in a byte-level vocabulary. */
static int write_out(p4d_bpe *bpe, const char **word, size_t *length, p4d_error *err)
{
	size_t used = 0;

	if (!p4d_grow(&bpe->written, &bpe->written_room, 2 * *length, sizeof(*bpe->written)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a word of %zu bytes", *length);
	for (size_t i = 0; i < *length; i++)
		used += byte_character((uint8_t)(*word)[i], bpe->written + used);
	*word = bpe->written;
	*length = used;
	return 0;
}

static size_t character_bytes(const char *text, size_t left)
{
	const uint8_t first = (uint8_t)*text;
	const size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

	return bytes < left ? bytes : left;
}

static bool add_as_bytes(p4d_bpe *bpe, const char *character, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!bpe->bytes || bpe->byte[(uint8_t)character[i]] < 0)
			return false;
	for (size_t i = 0; i < bytes; i++)
		p4d_bpe__symbols_add(&bpe->symbols, bpe->byte[(uint8_t)character[i]]);
	return true;
}

/*
 * Adds the word's characters as symbols. An unknown character is added only when the next character comes. If
 * that one is split into bytes, they are added before the unknown character, as in the reference
 * implementation.
 */
static int add_characters(p4d_bpe *bpe, const char *word, size_t length, p4d_error *err)
{
	bool waiting = false;

	bpe->symbols.count = 0;
	if (p4d_bpe__symbols_reserve(&bpe->symbols, length, err) < 0)
		return -1;
	for (size_t i = 0, bytes; i < length; i += bytes) {
		bytes = character_bytes(word + i, length - i);
		const int32_t token = p4d_bpe__find_name(&bpe->tables, word + i, bytes);
		if (token < 0 && add_as_bytes(bpe, word + i, bytes))
			continue;
		if (waiting && (token >= 0 || !bpe->fuse_unknown))
			p4d_bpe__symbols_add(&bpe->symbols, bpe->unknown);
		if (token >= 0)
			p4d_bpe__symbols_add(&bpe->symbols, token);
		waiting = token < 0 && bpe->unknown >= 0;
	}
	if (waiting)
		p4d_bpe__symbols_add(&bpe->symbols, bpe->unknown);
	return 0;
}

/* Passes the symbols' tokens to the sink; stores them in *cached, if there is room. */
static int send(const p4d_bpe *bpe, p4d_bpe_cached *cached, p4d_token_sink sink, void *context,
		p4d_error *err)
{
	int32_t tokens[CHUNK];
	uint64_t count = 0;

	for (size_t i = 0; i < bpe->symbols.count; i++) {
		if (bpe->symbols.symbol[i].token < 0)
			continue;
		if (count == CHUNK) {
			if (sink(context, tokens, count, err) < 0)
				return -1;
			count = 0;
			cached = NULL;
		}
		tokens[count++] = bpe->symbols.symbol[i].token;
	}
	if (cached && count <= P4D_BPE_CACHED_TOKENS) {
		cached->count = (uint8_t)count;
		memcpy(cached->tokens, tokens, count * sizeof(*tokens));
	} else if (cached) {
		cached->length = 0;
	}
	return count ? sink(context, tokens, count, err) : 0;
}

static int encode(p4d_bpe *bpe, const char *word, size_t length, p4d_bpe_cached *cached, p4d_token_sink sink,
		  void *context, p4d_error *err)
{
	if (bpe->byte_level && write_out(bpe, &word, &length, err) < 0)
		return -1;
	const int32_t whole = bpe->ignore_merges ? p4d_bpe__find_name(&bpe->tables, word, length) : -1;
	if (whole >= 0) {
		bpe->symbols.count = 0;
		if (p4d_bpe__symbols_reserve(&bpe->symbols, 1, err) < 0)
			return -1;
		p4d_bpe__symbols_add(&bpe->symbols, whole);
	} else if (add_characters(bpe, word, length, err) < 0 ||
		   p4d_bpe__merge(&bpe->symbols, &bpe->tables, err) < 0) {
		return -1;
	}
	return send(bpe, cached, sink, context, err);
}

static int one_word(p4d_bpe *bpe, const char *word, size_t length, p4d_token_sink sink, void *context,
		    p4d_error *err)
{
	p4d_bpe_cached *cached;

	if (length > P4D_BPE_CACHED_TEXT)
		return encode(bpe, word, length, NULL, sink, context, err);
	cached = &bpe->cache[p4d_hash_bytes(word, length) % P4D_BPE_CACHED_WORDS];
	if (cached->length == length && !memcmp(cached->text, word, length))
		return sink(context, cached->tokens, cached->count, err);
	cached->length = (uint8_t)length;
	memcpy(cached->text, word, length);
	int rc = encode(bpe, word, length, cached, sink, context, err);
	if (rc < 0)
		cached->length = 0;
	return rc;
}

/*
 * Returns the number of bytes up to the next place that no merge can cross: before a blank that follows
 * another character.
 */
static size_t to_next_blank(const char *word, size_t length)
{
	size_t i = 0;

	while (p4d_bpe_is_blank(word + i, length - i))
		i += P4D_BPE_BLANK_BYTES;
	const char *next =
	    i < length ? memmem(word + i, length - i, P4D_BPE_BLANK, P4D_BPE_BLANK_BYTES) : NULL;
	return next ? (size_t)(next - word) : length;
}

int p4d_bpe__word(p4d_bpe *bpe, const char *word, size_t length, p4d_token_sink sink, void *context,
		  p4d_error *err)
{
	if (!bpe->blanks_begin)
		return length ? one_word(bpe, word, length, sink, context, err) : 0;
	while (length) {
		const size_t some = to_next_blank(word, length);
		if (one_word(bpe, word, some, sink, context, err) < 0)
			return -1;
		word += some;
		length -= some;
	}
	return 0;
}
