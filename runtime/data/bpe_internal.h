/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "data/bpe.h"
#include "data/bpe_merge.h"
#include "data/bpe_tables.h"

enum {
	P4D_BPE_CACHED_TEXT = 30,
	P4D_BPE_CACHED_TOKENS = 8,
	P4D_BPE_CACHED_WORDS = 1 << 15, /* number of words in the cache, because words repeat; the cache has 2
					   MiB, which fit a second level cache */
};

typedef struct p4d_bpe_cached {
	uint8_t length, count; /* length 0: the entry is free */
	char text[P4D_BPE_CACHED_TEXT];
	int32_t tokens[P4D_BPE_CACHED_TOKENS];
} p4d_bpe_cached;

struct p4d_bpe {
	bool byte_level;
	bool ignore_merges; /* a word that is itself a token is encoded as that token */
	bool fuse_unknown;  /* several adjacent unknown characters become one token */
	bool blanks_begin;  /* no merge puts a blank after another character, so words can be cut there */
	bool bytes;         /* unknown characters become the tokens of their bytes */
	int32_t byte[256];  /* the token of each byte; -1: none */
	int32_t unknown;    /* -1: unknown characters are left out */
	int32_t vocabulary;
	p4d_bpe_tables tables;
	p4d_bpe_symbols symbols;
	p4d_bpe_cached *cache;
	char *written; /* scratch: a word in which bytes are spelled as characters */
	size_t written_room;
};

#define P4D_BPE_BLANK "\xe2\x96\x81" /* U+2581, which represents a blank */
enum { P4D_BPE_BLANK_BYTES = sizeof(P4D_BPE_BLANK) - 1 };

static inline bool p4d_bpe_is_blank(const char *text, size_t left)
{
	return left >= P4D_BPE_BLANK_BYTES && !memcmp(text, P4D_BPE_BLANK, P4D_BPE_BLANK_BYTES);
}
