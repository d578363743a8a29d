/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "data/tokens_internal.h"

enum { LENGTH = 4, OFFSET = 8, BOUND = 8 };

static int wrong(const p4d_tokens *tokens, uint64_t at, p4d_error *err, const char *what, uint64_t found,
		 const char *wanted)
{
	return p4d_fail(err, P4D_E_DATA, "%s: byte %" PRIu64 ": %s is %" PRIu64 ", expected %s",
			tokens->index_name, at, what, found, wanted);
}

static unsigned width_of(unsigned type)
{
	switch (type) {
	case P4D_TOKEN_U8:
	case P4D_TOKEN_I8:
		return 1;
	case P4D_TOKEN_I16:
	case P4D_TOKEN_U16:
		return 2;
	case P4D_TOKEN_I32:
		return 4;
	case P4D_TOKEN_I64:
		return 8;
	default:
		return 0;
	}
}

static int read_header(p4d_tokens *tokens, uint64_t *sequences, uint64_t *bounds, p4d_error *err)
{
	const uint8_t *at = tokens->index.data;

	if (tokens->index.bytes < P4D_MEGATRON_HEADER)
		return p4d_fail(err, P4D_E_DATA, "%s: %" PRIu64 " bytes, expected a header of %d",
				tokens->index_name, tokens->index.bytes, P4D_MEGATRON_HEADER);
	if (memcmp(at, P4D_MEGATRON_MAGIC, sizeof(P4D_MEGATRON_MAGIC)) != 0)
		return p4d_fail(err, P4D_E_DATA, "%s: byte 0: not MMIDIDX, expected a Megatron-LM index",
				tokens->index_name);
	if (p4d_le64(at + 9) != 1)
		return wrong(tokens, 9, err, "version", p4d_le64(at + 9), "1");
	tokens->width = width_of(at[17]);
	if (!tokens->width)
		return wrong(tokens, 17, err, "type", at[17], "an integer type: 1, 2, 3, 4, 5 or 8");
	tokens->type = (p4d_token_type)at[17];
	*sequences = p4d_le64(at + 18);
	*bounds = p4d_le64(at + 26);
	if (*bounds < 2)
		return wrong(tokens, 26, err, "number of document bounds", *bounds,
			     "the number of documents + 1");
	return 0;
}

/*
 * Finds the arrays in the index. Checks that they fit in it, and that nothing follows them except perhaps a
 * byte for each sequence.
 */
static int place_arrays(p4d_tokens *tokens, uint64_t sequences, uint64_t bounds, p4d_error *err)
{
	uint64_t room = tokens->index.bytes - P4D_MEGATRON_HEADER;

	/* without this check, the products below could overflow */
	if (sequences > room / LENGTH || bounds > room / BOUND ||
	    sequences * (LENGTH + OFFSET) + bounds * BOUND > room)
		return p4d_fail(err, P4D_E_DATA,
				"%s: truncated at byte %" PRIu64 ": %" PRIu64 " sequences and %" PRIu64
				" document bounds do not fit",
				tokens->index_name, tokens->index.bytes, sequences, bounds);
	uint64_t used = sequences * (LENGTH + OFFSET) + bounds * BOUND;
	if (used != room && room - used != sequences)
		return p4d_fail(err, P4D_E_DATA,
				"%s: %" PRIu64 " bytes after the document bounds at byte %" PRIu64
				", expected none or one for each of %" PRIu64 " sequences",
				tokens->index_name, room - used, P4D_MEGATRON_HEADER + used, sequences);
	tokens->lengths = tokens->index.data + P4D_MEGATRON_HEADER;
	tokens->offsets = tokens->lengths + sequences * LENGTH;
	tokens->bounds = tokens->offsets + sequences * OFFSET;
	tokens->documents = bounds - 1;
	return 0;
}

static int check_sequence(const p4d_tokens *tokens, uint64_t number, p4d_error *err)
{
	uint32_t length = p4d_le32(tokens->lengths + number * LENGTH);
	uint64_t offset = p4d_le64(tokens->offsets + number * OFFSET);

	if (length > INT32_MAX)
		return p4d_fail(
		    err, P4D_E_DATA,
		    "%s: byte %" PRIu64 ": length of sequence %" PRIu64 " is %" PRId32 ", expected 0 or more",
		    tokens->index_name, (uint64_t)(tokens->lengths - tokens->index.data) + number * LENGTH,
		    number, (int32_t)length);
	if (offset % tokens->width || offset > tokens->data.bytes ||
	    length > (tokens->data.bytes - offset) / tokens->width)
		return p4d_fail(
		    err, P4D_E_DATA,
		    "%s: byte %" PRIu64 ": sequence %" PRIu64 " of %" PRIu32 " tokens is at byte %" PRId64
		    " of %s, expected multiples of %u within its %" PRIu64 " bytes",
		    tokens->index_name, (uint64_t)(tokens->offsets - tokens->index.data) + number * OFFSET,
		    number, length, (int64_t)offset, tokens->data_name, tokens->width, tokens->data.bytes);
	return 0;
}

static uint64_t end_of(const p4d_tokens *tokens, uint64_t sequence)
{
	return p4d_le64(tokens->offsets + sequence * OFFSET) +
	       (uint64_t)p4d_le32(tokens->lengths + sequence * LENGTH) * tokens->width;
}

/* Checks that the sequences of a document are contiguous, so that it is one range of the data. */
static int check_document(p4d_tokens *tokens, uint64_t number, uint64_t sequences, p4d_error *err)
{
	uint64_t at = (uint64_t)(tokens->bounds - tokens->index.data) + number * BOUND;
	uint64_t first = p4d_le64(tokens->bounds + number * BOUND);
	uint64_t end = p4d_le64(tokens->bounds + (number + 1) * BOUND);

	if (number == 0 && first != 0)
		return wrong(tokens, at, err, "first document bound", first, "0");
	if (end < first || end > sequences)
		return p4d_fail(err, P4D_E_DATA,
				"%s: byte %" PRIu64 ": document %" PRIu64 " ends before sequence %" PRId64
				", expected %" PRIu64 " to %" PRIu64,
				tokens->index_name, at + BOUND, number, (int64_t)end, first, sequences);
	if (end != first + 1)
		tokens->one_each = false;
	for (uint64_t i = first; i < end; i++) {
		if (i > first && p4d_le64(tokens->offsets + i * OFFSET) != end_of(tokens, i - 1))
			return p4d_fail(
			    err, P4D_E_DATA,
			    "%s: byte %" PRIu64 ": sequence %" PRIu64
			    " does not follow the previous one of its document, expected offset %" PRIu64,
			    tokens->index_name, (uint64_t)(tokens->offsets - tokens->index.data) + i * OFFSET,
			    i, end_of(tokens, i - 1));
		/*
		 * the sum cannot overflow: each length is below 2^31, and each takes at least a byte of the
		 * index
		 */
		tokens->total += p4d_le32(tokens->lengths + i * LENGTH);
	}
	return 0;
}

int p4d_tokens__parse_megatron(p4d_tokens *tokens, p4d_error *err)
{
	uint64_t sequences = 0, bounds = 0;

	if (read_header(tokens, &sequences, &bounds, err) < 0 ||
	    place_arrays(tokens, sequences, bounds, err) < 0)
		return -1;
	for (uint64_t i = 0; i < sequences; i++)
		if (check_sequence(tokens, i, err) < 0)
			return -1;
	tokens->one_each = true;
	for (uint64_t i = 0; i < tokens->documents; i++)
		if (check_document(tokens, i, sequences, err) < 0)
			return -1;
	uint64_t last = p4d_le64(tokens->bounds + tokens->documents * BOUND);
	if (last != sequences)
		return wrong(tokens,
			     (uint64_t)(tokens->bounds - tokens->index.data) + tokens->documents * BOUND, err,
			     "last document bound", last, "the number of sequences");
	tokens->text = tokens->data.data;
	tokens->count = tokens->data.bytes / tokens->width;
	return 0;
}
