/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/json_text.h"
#include "base/new_file.h"
#include "checkpoint/safetensors_internal.h"

/* A tensor being written. */
typedef struct file_part {
	uint64_t bytes;
	char *digits; /* where the header has room for the digits of the tensor's checksum */
} file_part;

struct p4d_safetensors_writer {
	p4d_new_file file;
	uint8_t *header; /* length and text of the header, with blanks at its end */
	uint64_t header_bytes;
	file_part *part;
	size_t parts, at;
	uint64_t left; /* number of bytes of part[at] that are not yet written */
	XXH3_state_t *state;
};

enum { DIGITS = 16, ALIGNMENT = 8 };

static int no_memory(p4d_error *err)
{
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to write tensors");
}

/*
 * Writes the metadata with room for the digits of checksums, because a checksum is known only after the
 * tensor's data.
 */
static void put_metadata(p4d_text *out, const p4d_safetensors_tensor *tensors, size_t count,
			 const char *const *metadata, size_t *place)
{
	char *key;

	p4d_json_text_open(out, NULL, '{');
	p4d_json_text_open(out, "__metadata__", '{');
	for (; metadata && metadata[0]; metadata += 2)
		p4d_json_text_string(out, metadata[0], metadata[1]);
	for (size_t i = 0; i < count && !out->truncated; i++) {
		if (asprintf(&key, P4D_CHECKSUM_KEY "%s", tensors[i].name) < 0) {
			out->truncated = true;
			return;
		}
		p4d_json_text_string(out, key, "0000000000000000");
		place[i] = out->length - DIGITS - 1;
		free(key);
	}
	p4d_json_text_close(out, '}');
}

static int put_tensors(p4d_text *out, const p4d_safetensors_tensor *tensors, file_part *parts, size_t count,
		       p4d_error *err)
{
	uint64_t begin = 0;

	for (size_t i = 0; i < count; i++) {
		const p4d_safetensors_tensor *tensor = &tensors[i];
		uint64_t end;
		if (p4d_safetensors__tensor_bytes(tensor, &parts[i].bytes, err) < 0)
			return -1;
		if (__builtin_add_overflow(begin, parts[i].bytes, &end) || end > INT64_MAX)
			return p4d_fail(err, P4D_E_VALUE, "more than 2^63 bytes of tensors in one file");
		p4d_json_text_open(out, tensor->name, '{');
		p4d_json_text_string(out, "dtype", p4d_safetensors__type_name(tensor->type));
		p4d_json_text_open(out, "shape", '[');
		for (unsigned d = 0; d < tensor->dims; d++)
			p4d_json_text_whole(out, NULL, tensor->shape[d]);
		p4d_json_text_close(out, ']');
		p4d_json_text_open(out, "data_offsets", '[');
		p4d_json_text_whole(out, NULL, begin);
		p4d_json_text_whole(out, NULL, end);
		p4d_text_add(out, "]}");
		begin = end;
	}
	p4d_json_text_close(out, '}');
	return 0;
}

static int make_header(p4d_safetensors_writer *writer, const p4d_safetensors_tensor *tensors,
		       const char *const *metadata, p4d_error *err)
{
	uint64_t length = 0;
	size_t *place = calloc(writer->parts + 1, sizeof(*place));
	p4d_text out = {.grows = true, .truncated = !place};

	p4d_text_add_bytes(&out, (const char *)&length, sizeof(length));
	put_metadata(&out, tensors, writer->parts, metadata, place);
	int rc = put_tensors(&out, tensors, writer->part, writer->parts, err);
	while (!out.truncated && out.length % ALIGNMENT)
		p4d_text_add(&out, " ");
	if (rc == 0 && out.truncated)
		rc = no_memory(err);
	writer->header = (uint8_t *)out.at;
	writer->header_bytes = out.length;
	for (size_t i = 0; rc == 0 && i < writer->parts; i++)
		writer->part[i].digits = out.at + place[i];
	free(place);
	if (rc < 0)
		return -1;
	length = out.length - sizeof(length);
	if (length > P4D_HEADER_LIMIT)
		return p4d_fail(err, P4D_E_VALUE, "%zu tensors need a header of %zu bytes, the limit is %d",
				writer->parts, (size_t)length, P4D_HEADER_LIMIT);
	length = htole64(length);
	memcpy(out.at, &length, sizeof(length));
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const p4d_safetensors_tensor *tensors, size_t count, p4d_error *err)
{
	const char **names = calloc(count + 1, sizeof(*names));
	int rc = 0;

	if (!names)
		return no_memory(err);
	for (size_t i = 0; i < count; i++)
		names[i] = tensors[i].name;
	qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		if (!strcmp(names[i], "__metadata__"))
			rc = p4d_fail(err, P4D_E_VALUE, "no tensor may be named __metadata__");
		else if (i > 0 && !strcmp(names[i - 1], names[i]))
			rc = p4d_fail(err, P4D_E_VALUE, "two tensors are named \"%.200s\"", names[i]);
	}
	free(names);
	return rc;
}

/* Finishes the checksums of all complete tensors, including empty ones. */
static void complete_parts(p4d_safetensors_writer *writer)
{
	while (writer->at < writer->parts && !writer->left) {
		char digits[DIGITS + 1];
		snprintf(digits, sizeof(digits), "%016" PRIx64, (uint64_t)XXH3_64bits_digest(writer->state));
		memcpy(writer->part[writer->at].digits, digits, DIGITS);
		XXH3_64bits_reset(writer->state);
		if (++writer->at < writer->parts)
			writer->left = writer->part[writer->at].bytes;
	}
}

int p4d_safetensors__create(p4d_safetensors_writer **result, const char *path,
			    const p4d_safetensors_tensor *tensors, size_t count, const char *const *metadata,
			    p4d_error *err)
{
	if (check_names(tensors, count, err) < 0)
		return -1;
	p4d_safetensors_writer *writer = calloc(1, sizeof(*writer));
	if (!writer)
		return no_memory(err);
	writer->parts = count;
	writer->part = calloc(count + 1, sizeof(*writer->part));
	writer->state = XXH3_createState();
	int rc = writer->part && writer->state ? make_header(writer, tensors, metadata, err) : no_memory(err);
	if (rc == 0)
		rc = p4d_new_file_open(&writer->file, path, err);
	if (rc == 0)
		rc = p4d_new_file_write(&writer->file, writer->header, writer->header_bytes, err);
	if (rc < 0) {
		p4d_safetensors__abandon(writer);
		return -1;
	}
	XXH3_64bits_reset(writer->state);
	writer->left = writer->part[0].bytes;
	complete_parts(writer);
	*result = writer;
	return 0;
}

int p4d_safetensors__write(p4d_safetensors_writer *writer, const void *data, uint64_t bytes, p4d_error *err)
{
	const uint8_t *from = data;

	while (bytes) {
		if (writer->at == writer->parts)
			return p4d_fail(err, P4D_E_VALUE,
					"%.255s: %" PRIu64 " bytes more than its tensors hold",
					writer->file.path, bytes);
		uint64_t some = bytes < writer->left ? bytes : writer->left;
		if (p4d_new_file_write(&writer->file, from, some, err) < 0)
			return -1;
		XXH3_64bits_update(writer->state, from, some);
		from += some;
		bytes -= some;
		writer->left -= some;
		complete_parts(writer);
	}
	return 0;
}

int p4d_safetensors__finish(p4d_safetensors_writer *writer, uint64_t *header_checksum, p4d_error *err)
{
	uint64_t checksum = XXH3_64bits(writer->header, writer->header_bytes);
	int rc = 0;

	if (writer->at < writer->parts)
		rc = p4d_fail(err, P4D_E_VALUE, "%.255s: data of %zu tensors is missing", writer->file.path,
			      writer->parts - writer->at);
	if (rc == 0)
		rc = p4d_new_file_rewrite(&writer->file, 0, writer->header, writer->header_bytes, err);
	if (rc == 0)
		rc = p4d_new_file_sync(&writer->file, err);
	if (rc == 0)
		rc = p4d_new_file_publish(&writer->file, err);
	p4d_safetensors__abandon(writer);
	if (rc == 0 && header_checksum)
		*header_checksum = checksum;
	return rc;
}

void p4d_safetensors__abandon(p4d_safetensors_writer *writer)
{
	if (!writer)
		return;
	p4d_new_file_abandon(&writer->file);
	XXH3_freeState(writer->state);
	free(writer->header);
	free(writer->part);
	free(writer);
}

int p4d_safetensors__write_index(const char *path, const char *const *names, const char *const *files,
				 size_t count, uint64_t bytes, p4d_error *err)
{
	p4d_text out = {.grows = true};

	p4d_text_print(
	    &out, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {", bytes);
	for (size_t i = 0; i < count; i++) {
		p4d_text_add(&out, i ? ",\n    " : "\n    ");
		p4d_json_text_quote(&out, names[i]);
		p4d_text_add(&out, ": ");
		p4d_json_text_quote(&out, files[i]);
	}
	p4d_text_add(&out, "\n  }\n}\n");
	int rc = out.truncated ? no_memory(err) : p4d_new_file_put(path, out.at, out.length, err);
	free(out.at);
	return rc;
}
