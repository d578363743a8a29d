/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/mapping.h"
#include "data/tokens.h"

/* The members of p4d_tokens, for the readers of its formats. */

/* Types of tokens, by Megatron-LM's numbers. Only llm.c has U32. */
typedef enum p4d_token_type {
	P4D_TOKEN_U8 = 1,
	P4D_TOKEN_I8 = 2,
	P4D_TOKEN_I16 = 3,
	P4D_TOKEN_I32 = 4,
	P4D_TOKEN_I64 = 5,
	P4D_TOKEN_U16 = 8,
	P4D_TOKEN_U32 = 100,
} p4d_token_type;

struct p4d_tokens {
	p4d_tokens_options options;
	char data_name[256], index_name[256]; /* for messages */
	p4d_mapping data, index, mask;        /* the files */
	bool mapped;                          /* the files are mapped and must be unmapped */

	const uint8_t *text; /* the first token */
	uint64_t count;      /* tokens in the file */
	uint64_t header_bytes;
	p4d_token_type type;
	unsigned width; /* bytes per token */

	uint64_t documents, total;
	/* Megatron-LM: arrays in the index, which are not aligned */
	const uint8_t *lengths, *offsets, *bounds;
	bool one_each; /* each document is one sequence, so sequence i is document i */
	/* llm.c: the first token of each document, and the end */
	uint64_t *starts;
};

/* tokens_megatron.c and tokens_llmc.c: fill the members that describe tokens and documents. */
int p4d_tokens__parse_megatron(p4d_tokens *tokens, p4d_error *err);
int p4d_tokens__parse_llmc(p4d_tokens *tokens, p4d_error *err);
bool p4d_tokens__is_llmc(const p4d_mapping *data);

int64_t p4d_tokens__at(const p4d_tokens *tokens, uint64_t number);

/* including the NUL at the end of the string literal */
#define P4D_MEGATRON_MAGIC "MMIDIDX\0"
enum { P4D_MEGATRON_HEADER = sizeof(P4D_MEGATRON_MAGIC) + 8 + 1 + 8 + 8 };

#define P4D_MASK_MAGIC "P4DMASK"
#define P4D_PAIRS_MAGIC "P4DPAIR"
enum { P4D_MASK_HEADER = sizeof(P4D_MASK_MAGIC) + 8 };

static inline uint16_t p4d_le16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static inline uint32_t p4d_le32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static inline uint64_t p4d_le64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}
