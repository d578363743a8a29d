/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token files. The input is the length of the index (u16), the index, and the data. Length 0 means a file
 * of llm.c without an index. For any bytes, the result is either an error with a text, or documents that
 * can be read to their ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int right)
{
	if (!right)
		abort();
}

static void read_all(const p4d_tokens *tokens, uint64_t data_bytes)
{
	uint64_t sum = 0;
	p4d_error err = {0};

	for (uint64_t i = 0; i < p4d_tokens__documents(tokens); i++) {
		p4d_document document = p4d_tokens__document(tokens, i);
		check(document.count <= data_bytes);
		int32_t *out = malloc((document.count + 1) * sizeof(*out));
		check(out != NULL);
		int rc = p4d_tokens__read(tokens, document.first, document.count, out, &err);
		/* opening the file has checked where documents are, so only tokens may be wrong */
		check(rc == 0 || strstr(err.text, "the vocabulary"));
		for (uint64_t j = 0; rc == 0 && j < document.count; j++)
			check(out[j] >= 0 && out[j] < 300);
		sum += document.count;
		free(out);
	}
	check(sum == p4d_tokens__total(tokens) && sum > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const p4d_tokens_options options = {300, 50};
	p4d_tokens *tokens = NULL;
	p4d_error err = {0};

	if (size < 2)
		return 0;
	size_t index = data[0] | (size_t)data[1] << 8;
	data += 2;
	size -= 2;
	if (index > size)
		index = size;
	/* blocks of exactly these sizes, so that sanitizers find reads beyond them */
	uint8_t *first = malloc(index + 1), *second = malloc(size - index + 1);
	check(first && second);
	uint8_t *index_end = first + 1, *data_end = second + 1; /* the data begins at an odd address, so
								 * sanitizers find reads that need
								 * alignment */
	memcpy(index_end, data, index);
	memcpy(data_end, data + index, size - index);
	if (p4d_tokens__parse(&tokens, "t", index ? index_end : NULL, index, data_end, size - index, &options,
			      &err) < 0) {
		check(err.code == P4D_E_DATA && !strncmp(err.text, "t.", 2) && !tokens);
	} else {
		check(err.code == P4D_OK);
		read_all(tokens, size - index);
		p4d_tokens__close(tokens);
	}
	free(first);
	free(second);
	return 0;
}
