/* SPDX-License-Identifier: Apache-2.0 */
#include "data/tokens_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/grow.h"
#include "data/tokens_internal.h"

enum { LAST_OF_16 = 65536, CHUNK = 4096 };

/* Creates the file PREFIX.END. *name: the file's name, which the caller frees; `name` may be NULL. */
static int open_file(p4d_new_file *file, const char *prefix, const char *end, char **name, p4d_error *err)
{
	char *path = NULL;

	if (asprintf(&path, "%s.%s", prefix, end) < 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to write %.200s", prefix);
	int rc = file ? p4d_new_file_open(file, path, err) : 0;
	if (name)
		*name = path;
	else
		free(path);
	return rc;
}

/* Begins the file of the mask. Its number of tokens is written at the end, when it is known. */
static int begin_mask(p4d_tokens_writer *writer, p4d_error *err)
{
	const uint64_t none = 0;

	if (!writer->masked)
		return 0;
	if (p4d_new_file_write(&writer->mask, writer->pairs ? P4D_PAIRS_MAGIC : P4D_MASK_MAGIC,
			       sizeof(P4D_MASK_MAGIC), err) < 0)
		return -1;
	return p4d_new_file_write(&writer->mask, &none, sizeof(none), err);
}

int p4d_tokens_writer_open(p4d_tokens_writer *writer, const char *prefix, uint64_t vocabulary, bool masked,
			   bool pairs, p4d_error *err)
{
	p4d_tokens_writer made = {.vocabulary = vocabulary, .masked = masked, .pairs = pairs};

	if (vocabulary < 1 || vocabulary > (uint64_t)INT32_MAX + 1)
		return p4d_fail(err, P4D_E_VALUE, "a vocabulary of %" PRIu64 " tokens, expected 1 to 2^31",
				vocabulary);
	if (open_file(&made.data, prefix, "bin", NULL, err) < 0 ||
	    open_file(&made.index, prefix, "idx", &made.index_path, err) < 0 ||
	    open_file(masked ? &made.mask : NULL, prefix, "mask", &made.mask_path, err) < 0 ||
	    begin_mask(&made, err) < 0) {
		p4d_tokens_writer_abandon(&made);
		return -1;
	}
	*writer = made;
	return 0;
}

static int write_numbers(p4d_new_file *file, const int32_t *numbers, uint64_t count, bool narrow,
			 p4d_error *err)
{
	uint8_t bytes[CHUNK * 4];

	while (count) {
		uint64_t some = count < CHUNK ? count : CHUNK;
		for (uint64_t i = 0; i < some; i++) {
			uint16_t number16 = htole16((uint16_t)numbers[i]);
			uint32_t number32 = htole32((uint32_t)numbers[i]);
			if (narrow)
				memcpy(bytes + 2 * i, &number16, 2);
			else
				memcpy(bytes + 4 * i, &number32, 4);
		}
		if (p4d_new_file_write(file, bytes, some * (narrow ? 2 : 4), err) < 0)
			return -1;
		numbers += some;
		count -= some;
	}
	return 0;
}

static int add_bits(p4d_tokens_writer *writer, uint64_t count, p4d_error *err)
{
	writer->trained += writer->trains ? count : 0;
	for (uint64_t at = writer->tokens; at < writer->tokens + count; at++) {
		writer->bits |= (uint8_t)(writer->trains << at % 8);
		if (at % 8 < 7)
			continue;
		if (p4d_new_file_write(&writer->mask, &writer->bits, 1, err) < 0)
			return -1;
		writer->bits = 0;
	}
	return 0;
}

int p4d_tokens_writer_add(p4d_tokens_writer *writer, const int32_t *tokens, uint64_t count, p4d_error *err)
{
	for (uint64_t i = 0; i < count; i++)
		if (tokens[i] < 0 || (uint64_t)tokens[i] >= writer->vocabulary)
			return p4d_fail(err, P4D_E_VALUE,
					"token %" PRId32 " in document %" PRIu64
					" outside the vocabulary, expected 0 to %" PRIu64,
					tokens[i], writer->documents, writer->vocabulary - 1);
	if (count > INT32_MAX - writer->open_tokens)
		return p4d_fail(err, P4D_E_VALUE,
				"document %" PRIu64 " has more than %d tokens, the limit of the format",
				writer->documents, INT32_MAX);
	if (writer->masked && add_bits(writer, count, err) < 0)
		return -1;
	writer->open_tokens += count;
	writer->tokens += count;
	return write_numbers(&writer->data, tokens, count, writer->vocabulary <= LAST_OF_16, err);
}

int p4d_tokens_writer_end(p4d_tokens_writer *writer, p4d_error *err)
{
	if (!writer->open_tokens)
		return 0;
	if (!p4d_grow(&writer->length, &writer->room, writer->documents + 1, sizeof(*writer->length)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %" PRIu64 " documents",
				writer->documents);
	writer->length[writer->documents++] = (int32_t)writer->open_tokens;
	writer->open_tokens = 0;
	return 0;
}

static int write_u64(p4d_new_file *file, uint64_t number, p4d_error *err)
{
	number = htole64(number);
	return p4d_new_file_write(file, &number, sizeof(number), err);
}

static int write_index(p4d_tokens_writer *writer, p4d_error *err)
{
	p4d_new_file *file = &writer->index;
	const bool narrow = writer->vocabulary <= LAST_OF_16;
	const uint8_t type = narrow ? P4D_TOKEN_U16 : P4D_TOKEN_I32;
	uint64_t offset = 0;

	if (p4d_new_file_write(file, P4D_MEGATRON_MAGIC, sizeof(P4D_MEGATRON_MAGIC), err) < 0 ||
	    write_u64(file, 1, err) < 0 || p4d_new_file_write(file, &type, 1, err) < 0 ||
	    write_u64(file, writer->documents, err) < 0 || write_u64(file, writer->documents + 1, err) < 0 ||
	    write_numbers(file, writer->length, writer->documents, false, err) < 0)
		return -1;
	for (uint64_t i = 0; i < writer->documents; i++) {
		if (write_u64(file, offset, err) < 0)
			return -1;
		offset += (uint64_t)writer->length[i] * (narrow ? 2 : 4);
	}
	for (uint64_t i = 0; i <= writer->documents; i++)
		if (write_u64(file, i, err) < 0)
			return -1;
	return 0;
}

static int end_mask(p4d_tokens_writer *writer, p4d_error *err)
{
	const uint64_t tokens = htole64(writer->tokens);

	if (!writer->masked)
		return 0;
	if (writer->tokens % 8 && p4d_new_file_write(&writer->mask, &writer->bits, 1, err) < 0)
		return -1;
	if (p4d_new_file_rewrite(&writer->mask, sizeof(P4D_MASK_MAGIC), &tokens, sizeof(tokens), err) < 0)
		return -1;
	return p4d_new_file_sync(&writer->mask, err);
}

static int remove_old(const char *path, p4d_error *err)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return p4d_fail(err, P4D_E_IO, "%.200s: cannot replace: %m", path);
	return 0;
}

int p4d_tokens_writer_close(p4d_tokens_writer *writer, p4d_error *err)
{
	if (p4d_tokens_writer_end(writer, err) < 0 || write_index(writer, err) < 0 ||
	    p4d_new_file_sync(&writer->data, err) < 0 || p4d_new_file_sync(&writer->index, err) < 0 ||
	    end_mask(writer, err) < 0)
		return -1;
	/*
	 * Remove the old index first. If the process ends between the renames, no index is better than the
	 * index of other data.
	 */
	if (remove_old(writer->index_path, err) < 0 || remove_old(writer->mask_path, err) < 0)
		return -1;
	if (p4d_new_file_publish(&writer->data, err) < 0 ||
	    (writer->masked && p4d_new_file_publish(&writer->mask, err) < 0) ||
	    p4d_new_file_publish(&writer->index, err) < 0)
		return -1;
	p4d_tokens_writer_abandon(writer);
	return 0;
}

void p4d_tokens_writer_abandon(p4d_tokens_writer *writer)
{
	p4d_new_file_abandon(&writer->data);
	p4d_new_file_abandon(&writer->index);
	p4d_new_file_abandon(&writer->mask);
	free(writer->index_path);
	free(writer->mask_path);
	free(writer->length);
	writer->index_path = writer->mask_path = NULL;
	writer->length = NULL;
	writer->documents = writer->room = 0;
}
