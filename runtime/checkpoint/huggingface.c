/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/huggingface.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vector.h"
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/huggingface_config.h"

enum { AT_ONCE = 1 << 18 }; /* elements converted at a time */

/* import */

typedef struct import {
	const p4d_safetensors *files;
	bool *verified; /* (count of tensors) */
	const p4d_layout *layout;
	const char *path;
} import;

static void convert(float *to, const p4d_safetensors_tensor *from, uint64_t at, uint64_t count)
{
	const uint8_t *data = (const uint8_t *)from->data + at * p4d_safetensors__type_bytes(from->type);

	if (from->type == P4D_ST_F32) {
		memcpy(to, data, count * sizeof(*to));
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint16_t half;
		memcpy(&half, data + 2 * i, sizeof(half));
		to[i] = from->type == P4D_ST_BF16 ? p4d_from_bf16(half) : p4d_from_fp16(half);
	}
}

static int check_shape(const import *in, const p4d_safetensors_tensor *from, const p4d_weight_slice *slice,
		       p4d_error *err)
{
	const bool vector = !slice->tensor_columns;

	if (from->dims != (vector ? 1 : 2) || from->shape[0] != slice->tensor_rows ||
	    (!vector && from->shape[1] != slice->tensor_columns))
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"%.200s: shape of %.95s differs from the model's (%" PRIu64 ", %" PRIu64 ")",
				from->file, slice->name, slice->tensor_rows,
				vector ? 1 : slice->tensor_columns);
	if (from->type != P4D_ST_F32 && from->type != P4D_ST_BF16 && from->type != P4D_ST_F16)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: %.95s is %s, expected F32, BF16 or F16",
				from->file, slice->name, p4d_safetensors__type_name(from->type));
	size_t number = (size_t)(from - p4d_safetensors__at(in->files, 0));
	if (!in->verified[number] && p4d_safetensors__verify(from, err) < 0)
		return -1;
	in->verified[number] = true;
	return 0;
}

static int fetch_tensor(void *context, p4d_state state, const p4d_weight_slice *slice, uint64_t at,
			uint64_t count, float *to, p4d_error *err)
{
	const import *in = context;
	const uint64_t width = slice->tensor_columns ? slice->columns : 1;
	const uint64_t row_width = slice->tensor_columns ? slice->tensor_columns : 1;

	if (state != P4D_STATE_MASTER)
		return 0;
	const p4d_safetensors_tensor *from =
	    p4d_safetensors__find(in->files, p4d_checkpoint__tensor_name(in->layout, slice->name));
	if (!from)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: no tensor %.95s", in->path, slice->name);
	if (check_shape(in, from, slice, err) < 0)
		return -1;
	while (count) {
		uint64_t column = at % width, left = width - column;
		uint64_t place = (slice->first_row + at / width) * row_width +
				 (slice->tensor_columns ? slice->first_column : 0) + column;
		uint64_t some = width == row_width || count < left ? count : left;
		convert(to, from, place, some);
		to += some;
		at += some;
		count -= some;
	}
	return 0;
}

int p4d_huggingface_import(const char *path, const p4d_checkpoint_storage *storage, p4d_error *err)
{
	p4d_safetensors *files;

	if (p4d_safetensors__open(&files, path, err) < 0)
		return -1;
import in = {.files = files, .layout = storage->layout, .path = path };
	in.verified = calloc(p4d_safetensors__count(files) + 1, sizeof(*in.verified));
	int rc = in.verified ? p4d_checkpoint__fill_storage(storage, fetch_tensor, &in, err)
			     : p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to read it", path);
	free(in.verified);
	p4d_safetensors__close(files);
	return rc;
}

/* export */

typedef struct export
{
	p4d_checkpoint_reader *reader;
	const char *directory;
	p4d_safetensors_type type;
	p4d_safetensors_tensor *tensor; /* (count) of the whole model */
	p4d_weight_slice *whole;        /* (count) each as one slice */
	uint32_t *file;                 /* (count) number of its file */
	const char **names, **files;
	char(*file_name)[48]; /* (count) */
	size_t count;
	uint64_t bytes;
	float *values;
	uint16_t *rounded;
}
export;

static int allocate(export *out, size_t most, p4d_error *err)
{
	out->tensor = calloc(most + 1, sizeof(*out->tensor));
	out->whole = calloc(most + 1, sizeof(*out->whole));
	out->file = calloc(most + 1, sizeof(*out->file));
	out->names = calloc(most + 1, sizeof(*out->names));
	out->files = calloc(most + 1, sizeof(*out->files));
	out->file_name = calloc(most + 1, sizeof(*out->file_name));
	out->values = calloc(AT_ONCE, sizeof(*out->values));
	out->rounded = calloc(AT_ONCE, sizeof(*out->rounded));
	if (out->tensor && out->whole && out->file && out->names && out->files && out->file_name &&
	    out->values && out->rounded)
		return 0;
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to export weights");
}

static void release(export *out)
{
	free(out->tensor);
	free(out->whole);
	free(out->file);
	free(out->names);
	free(out->files);
	free(out->file_name);
	free(out->values);
	free(out->rounded);
	p4d_checkpoint_reader__close(out->reader);
}

/* Every tensor once, split into files in order. The map is sorted by name. */
static int list_tensors(export *out, uint64_t file_bytes, p4d_error *err)
{
	const p4d_checkpoint_map *map = p4d_checkpoint_reader__map(out->reader);
	uint64_t used = 0;
	uint32_t file = 0;

	for (size_t i = 0; i < map->count; i++) {
		const p4d_weight_slice *slice = &map->slice[i].slice;
		const bool vector = !slice->tensor_columns;
		uint64_t bytes;
		if (i && !strcmp(map->slice[i - 1].slice.name, slice->name))
			continue;
		p4d_weight_slice *whole = &out->whole[out->count];
		*whole = *slice;
		whole->first_row = whole->first_column = whole->offset = 0;
		whole->rows = slice->tensor_rows;
		whole->columns = vector ? slice->columns : slice->tensor_columns;
		p4d_safetensors_tensor *tensor = &out->tensor[out->count];
		*tensor =
		    (p4d_safetensors_tensor){.name = whole->name, .type = out->type, .dims = vector ? 1 : 2};
		tensor->shape[0] = slice->tensor_rows;
		tensor->shape[1] = slice->tensor_columns;
		if (p4d_safetensors__tensor_bytes(tensor, &bytes, err) < 0)
			return -1;
		if (used && file_bytes && (used > file_bytes || bytes > file_bytes - used)) {
			file++;
			used = 0;
		}
		used += bytes;
		out->bytes += bytes;
		out->names[out->count] = whole->name;
		out->file[out->count++] = file;
	}
	return 0;
}

static void name_files(export *out)
{
	const uint32_t files = out->count ? out->file[out->count - 1] + 1 : 1;

	for (size_t i = 0; i < out->count; i++) {
		if (files == 1)
			snprintf(out->file_name[i], sizeof(out->file_name[i]), "model.safetensors");
		else
			snprintf(out->file_name[i], sizeof(out->file_name[i]),
				 "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", out->file[i] + 1, files);
		out->files[i] = out->file_name[i];
	}
}

static int write_tensor(export *out, p4d_safetensors_writer *writer, const p4d_weight_slice *whole,
			p4d_error *err)
{
	uint64_t left = whole->rows * (whole->tensor_columns ? whole->columns : 1), at = 0;

	while (left) {
		uint64_t some = left < AT_ONCE ? left : AT_ONCE;
		const void *data = out->values;
		if (p4d_checkpoint_reader__slice(out->reader, P4D_STATE_MASTER, whole, at, some, out->values,
						 err) < 0)
			return -1;
		if (out->type == P4D_ST_BF16) {
			for (uint64_t i = 0; i < some; i++)
				out->rounded[i] = p4d_to_bf16(out->values[i]);
			data = out->rounded;
		}
		if (p4d_safetensors__write(writer, data, some * p4d_safetensors__type_bytes(out->type), err) <
		    0)
			return -1;
		at += some;
		left -= some;
	}
	return 0;
}

static int write_file(export *out, size_t first, size_t count, p4d_error *err)
{
	const char *metadata[] = {"format", "pt", NULL};
	p4d_safetensors_writer *writer;
	char path[P4D_PATH];

	if (p4d_checkpoint__join_path(path, err, "%s/%s", out->directory, out->file_name[first]) < 0 ||
	    p4d_safetensors__create(&writer, path, out->tensor + first, count, metadata, err) < 0)
		return -1;
	for (size_t i = first; i < first + count; i++)
		if (write_tensor(out, writer, &out->whole[i], err) < 0) {
			p4d_safetensors__abandon(writer);
			return -1;
		}
	return p4d_safetensors__finish(writer, NULL, err);
}

/* The index comes last: without it the files of a torn export are not taken for a model. */
static int write_all(export *out, p4d_error *err)
{
	char index[P4D_PATH];

	for (size_t first = 0, next; first < out->count; first = next) {
		for (next = first + 1; next < out->count && out->file[next] == out->file[first];)
			next++;
		if (write_file(out, first, next - first, err) < 0)
			return -1;
	}
	if (!out->count || !out->file[out->count - 1])
		return 0;
	if (p4d_checkpoint__join_path(index, err, "%s/model.safetensors.index.json", out->directory) < 0)
		return -1;
	return p4d_safetensors__write_index(index, out->names, out->files, out->count, out->bytes, err);
}

static int write_config(const export *out, const char *plan, p4d_error *err)
{
	char path[P4D_PATH];

	if (p4d_checkpoint__join_path(path, err, "%s/config.json", out->directory) < 0)
		return -1;
	return p4d_huggingface__write_config(path, plan, out->type, err);
}

/* Weights of another export would be mixed with, or hide, the new ones. */
static int check_directory(const char *directory, p4d_error *err)
{
	static const char *const taken[] = {"model.safetensors", "model.safetensors.index.json",
					    "config.json"};
	char path[P4D_PATH];

	if (p4d_checkpoint__make_directory(directory, err) < 0)
		return -1;
	for (unsigned i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		if (p4d_checkpoint__join_path(path, err, "%s/%s", directory, taken[i]) < 0)
			return -1;
		if (access(path, F_OK) == 0)
			return p4d_fail(err, P4D_E_IO, "%.255s: already exists; export elsewhere", path);
	}
	return 0;
}

int p4d_huggingface_export(const char *checkpoint, const char *directory, p4d_safetensors_type type,
			   uint64_t file_bytes, p4d_error *err)
{
	export out = {.directory = directory, .type = type};
	p4d_checkpoint_info info;

	if (type != P4D_ST_BF16 && type != P4D_ST_F32)
		return p4d_fail(err, P4D_E_VALUE, "weights can be exported only as BF16 or F32");
	if (p4d_checkpoint_reader__open(&out.reader, checkpoint, &info, err) < 0)
		return -1;
	int rc = check_directory(directory, err);
	if (rc == 0)
		rc = allocate(&out, p4d_checkpoint_reader__map(out.reader)->count, err);
	if (rc == 0)
		rc = list_tensors(&out, file_bytes, err);
	if (rc == 0) {
		name_files(&out);
		rc = write_all(&out, err);
	}
	if (rc == 0)
		rc = write_config(&out, info.plan, err);
	release(&out);
	return rc;
}
