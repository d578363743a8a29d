/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "data/tokens_internal.h"

enum { HEADER = 256 * 4 };

static const struct {
	uint32_t magic, version;
	p4d_token_type type;
	unsigned width;
} kinds[] = {
    {20240520, 1, P4D_TOKEN_U16, 2},
    {20240801, 7, P4D_TOKEN_U32, 4},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

bool p4d_tokens__is_llmc(const p4d_mapping *data)
{
	for (int i = 0; i < KINDS; i++)
		if (data->bytes >= 4 && p4d_le32(data->data) == kinds[i].magic)
			return true;
	return false;
}

static int read_header(p4d_tokens *tokens, p4d_error *err)
{
	const uint8_t *at = tokens->data.data;
	uint64_t bytes = tokens->data.bytes;
	int kind = 0;

	if (bytes < HEADER)
		return p4d_fail(err, P4D_E_DATA, "%s: %" PRIu64 " bytes, expected a header of %d",
				tokens->data_name, bytes, HEADER);
	while (kind < KINDS && kinds[kind].magic != p4d_le32(at))
		kind++;
	if (kind == KINDS)
		return p4d_fail(err, P4D_E_DATA,
				"%s: byte 0: magic is %" PRIu32 ", expected %" PRIu32 " or %" PRIu32
				" (llm.c)",
				tokens->data_name, p4d_le32(at), kinds[0].magic, kinds[1].magic);
	if (p4d_le32(at + 4) != kinds[kind].version)
		return p4d_fail(err, P4D_E_DATA, "%s: byte 4: version is %" PRIu32 ", expected %" PRIu32,
				tokens->data_name, p4d_le32(at + 4), kinds[kind].version);
	tokens->type = kinds[kind].type;
	tokens->width = kinds[kind].width;
	tokens->header_bytes = HEADER;
	tokens->text = at + HEADER;
	tokens->count = p4d_le32(at + 8);
	if (tokens->count > INT32_MAX || bytes - HEADER != tokens->count * tokens->width)
		return p4d_fail(err, P4D_E_DATA,
				"%s: byte 8: %" PRId32 " tokens of %u bytes, expected as many as fit in the "
				"%" PRIu64 " bytes after the header",
				tokens->data_name, (int32_t)tokens->count, tokens->width, bytes - HEADER);
	return 0;
}

/*
 * Counts the documents and, unless starts is NULL, stores where they begin. Tokens before the first delimiter
 * are also a document.
 */
static uint64_t find_starts(const p4d_tokens *tokens, uint64_t *starts)
{
	uint64_t documents = 0;

	for (uint64_t i = 0; i < tokens->count; i++) {
		if (i > 0 && p4d_tokens__at(tokens, i) != tokens->options.delimiter)
			continue;
		if (starts)
			starts[documents] = i;
		documents++;
	}
	if (starts)
		starts[documents] = tokens->count;
	return documents;
}

int p4d_tokens__parse_llmc(p4d_tokens *tokens, p4d_error *err)
{
	if (read_header(tokens, err) < 0)
		return -1;
	bool one = tokens->options.delimiter == P4D_NO_DELIMITER;
	tokens->total = tokens->count;
	tokens->documents = one ? tokens->count > 0 : find_starts(tokens, NULL);
	tokens->starts = calloc(tokens->documents + 1, sizeof(*tokens->starts));
	if (!tokens->starts)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%s: no memory for %" PRIu64 " documents",
				tokens->data_name, tokens->documents);
	if (one)
		tokens->starts[tokens->documents] = tokens->count;
	else
		find_starts(tokens, tokens->starts);
	return 0;
}
