/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vector.h"
#include "checkpoint/huggingface_config.h"
#include "checkpoint/huggingface_internal.h"
#include "checkpoint/huggingface_names.h"

enum { AT_ONCE = 1 << 18 }; /* number of elements converted at a time */

typedef struct export
{
	p4d_checkpoint_reader *reader;
	/* adapters are merged into these weights; files NULL: there are no adapters, and the checkpoint is
	 * written unchanged */
	p4d_huggingface_weights base;
	p4d_quantized_base quantized;
	p4d_adapter_values adapter;
	double scale;
	p4d_checkpoint_map model; /* map of the merged model */
	const char *directory, *stem;
	p4d_safetensors_type type;
	p4d_safetensors_tensor *tensor; /* (count) the tensors of the whole model */
	p4d_weight_slice *whole; /* (count) each tensor as one slice; for a joined tensor, its first part */
	p4d_file_tensor *file_tensor; /* (count) each tensor in the files */
	const p4d_checkpoint_map *map;
	uint32_t *file; /* (count) index of each tensor's file */
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
	out->file_tensor = calloc(most + 1, sizeof(*out->file_tensor));
	out->file = calloc(most + 1, sizeof(*out->file));
	out->names = calloc(most + 1, sizeof(*out->names));
	out->files = calloc(most + 1, sizeof(*out->files));
	out->file_name = calloc(most + 1, sizeof(*out->file_name));
	out->values = calloc(AT_ONCE, sizeof(*out->values));
	out->rounded = calloc(AT_ONCE, sizeof(*out->rounded));
	if (out->tensor && out->whole && out->file_tensor && out->file && out->names && out->files &&
	    out->file_name && out->values && out->rounded)
		return 0;
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to export weights");
}

static void release(export *out)
{
	p4d_huggingface__close(&out->base);
	p4d_quantized_base__close(&out->quantized);
	p4d_adapter__close(&out->adapter);
	p4d_checkpoint_map__close(&out->model);
	free(out->tensor);
	free(out->whole);
	free(out->file_tensor);
	free(out->file);
	free(out->names);
	free(out->files);
	free(out->file_name);
	free(out->values);
	free(out->rounded);
	p4d_checkpoint_reader__close(out->reader);
}

static bool is_first_of_name(const p4d_checkpoint_map *map, size_t i)
{
	return i == 0 || strcmp(map->slice[i - 1].slice.name, map->slice[i].slice.name) != 0;
}

static p4d_weight_slice whole_of(const p4d_weight_slice *slice)
{
	p4d_weight_slice y = *slice;

	y.first_row = y.first_column = y.offset = 0;
	y.rows = slice->tensor_rows;
	y.columns = slice->tensor_columns ? slice->tensor_columns : slice->columns;
	return y;
}

static p4d_safetensors_tensor tensor_of(const export *out, const p4d_weight_slice *whole,
					const p4d_file_tensor *file)
{
	p4d_safetensors_tensor y = {
	    .name = file->name, .type = out->type, .dims = whole->tensor_columns ? 2 : 1};

	y.shape[0] = file->transposed ? whole->tensor_columns : file->rows;
	y.shape[1] = file->transposed ? file->rows : whole->tensor_columns;
	return y;
}

/*
 * Lists every tensor once, and distributes the tensors over files in the order of the map, which is sorted by
 * name.
 */
static int list_tensors(export *out, uint64_t file_bytes, p4d_error *err)
{
	uint64_t used = 0;
	uint32_t file = 0;

	for (size_t i = 0; i < out->map->count; i++) {
		uint64_t bytes;
		if (!is_first_of_name(out->map, i) || p4d_weights_is_local(out->map->slice[i].slice.name))
			continue;
		p4d_weight_slice *whole = &out->whole[out->count];
		*whole = whole_of(&out->map->slice[i].slice);
		p4d_file_tensor *of_file = &out->file_tensor[out->count];
		*of_file = p4d_huggingface__file_tensor(&out->map->layout, whole);
		/*
		 * Parts of a joined tensor after the first one are not listed, because the first part stands
		 * for all.
		 */
		if (of_file->first)
			continue;
		p4d_safetensors_tensor *tensor = &out->tensor[out->count];
		*tensor = tensor_of(out, whole, of_file);
		if (p4d_safetensors__tensor_bytes(tensor, &bytes, err) < 0)
			return -1;
		if (used && file_bytes && (used > file_bytes || bytes > file_bytes - used)) {
			file++;
			used = 0;
		}
		used += bytes;
		out->bytes += bytes;
		out->names[out->count] = of_file->name;
		out->file[out->count++] = file;
	}
	return 0;
}

static void name_files(export *out)
{
	const uint32_t files = out->count ? out->file[out->count - 1] + 1 : 1;

	for (size_t i = 0; i < out->count; i++) {
		if (files == 1)
			snprintf(out->file_name[i], sizeof(out->file_name[i]), "%s.safetensors", out->stem);
		else
			snprintf(out->file_name[i], sizeof(out->file_name[i]),
				 "%s-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", out->stem, out->file[i] + 1,
				 files);
		out->files[i] = out->file_name[i];
	}
}

static int read_values(export *out, const p4d_weight_slice *whole, uint64_t at, uint64_t count,
		       p4d_error *err)
{
	if (!out->base.files)
		return p4d_checkpoint_reader__slice(out->reader, P4D_STATE_MASTER, whole, at, count,
						    out->values, err);
	if (p4d_quantized_base__fetch(&out->quantized, &out->base, &out->model,
				      &p4d_checkpoint_reader__map(out->reader)->layout, whole, at, count,
				      out->values, err) < 0)
		return -1;
	return p4d_adapter__add(&out->adapter, out->reader, out->scale, whole, at, count, out->values, err);
}

/* Converts numbers to the file's type and writes them. */
static int write_values(export *out, p4d_safetensors_writer *writer, const float *values, uint64_t count,
			p4d_error *err)
{
	while (count) {
		const uint64_t some = count < AT_ONCE ? count : AT_ONCE;
		const void *data = values;
		if (out->type == P4D_ST_BF16) {
			for (uint64_t i = 0; i < some; i++)
				out->rounded[i] = p4d_to_bf16(values[i]);
			data = out->rounded;
		}
		if (p4d_safetensors__write(writer, data, some * p4d_safetensors__type_bytes(out->type), err) <
		    0)
			return -1;
		values += some;
		count -= some;
	}
	return 0;
}

/* Reads a part of a joined tensor to its place in memory. */
static int read_part(export *out, float *to, const p4d_weight_slice *part, const p4d_file_tensor *file,
		     p4d_error *err)
{
	const uint64_t width = part->tensor_columns ? part->columns : 1;

	for (uint64_t at = 0, some; at < part->rows * width; at += some) {
		some = part->rows * width - at < AT_ONCE ? part->rows * width - at : AT_ONCE;
		if (read_values(out, part, at, some, err) < 0)
			return -1;
		for (uint64_t i = 0; i < some; i++) {
			const uint64_t row = file->first + (at + i) / width, column = (at + i) % width;
			to[file->transposed ? column * file->rows + row : row * width + column] =
			    out->values[i];
		}
	}
	return 0;
}

/*
 * Writes a tensor that the files store transposed, and perhaps joined with others. It is assembled in memory,
 * which needs some MiB for models of this kind.
 */
static int write_assembled(export *out, p4d_safetensors_writer *writer, size_t number, p4d_error *err)
{
	const p4d_weight_slice *first = &out->whole[number];
	const uint64_t count =
	    out->file_tensor[number].rows * (first->tensor_columns ? first->tensor_columns : 1);
	float *all = calloc(count, sizeof(*all));
	int rc = all ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory to export %.95s", out->names[number]);

	for (size_t i = 0; rc == 0 && i < out->map->count; i++) {
		const p4d_weight_slice part = whole_of(&out->map->slice[i].slice);
		const p4d_file_tensor file = p4d_huggingface__file_tensor(&out->map->layout, &part);
		if (is_first_of_name(out->map, i) && !strcmp(file.name, out->names[number]))
			rc = read_part(out, all, &part, &file, err);
	}
	if (rc == 0)
		rc = write_values(out, writer, all, count, err);
	free(all);
	return rc;
}

/*
 * Finds a part of a joined tensor. number: the tensor's index in out->names. first: the row of the joined
 * tensor at which the part begins. Returns the index of the part's first slice in out->map->slice; SIZE_MAX:
 * no part begins there.
 */
static size_t part_at(const export *out, size_t number, uint64_t first)
{
	for (size_t i = 0; i < out->map->count; i++) {
		const p4d_file_tensor file =
		    p4d_huggingface__file_tensor(&out->map->layout, &out->map->slice[i].slice);
		if (is_first_of_name(out->map, i) && file.first == first &&
		    !strcmp(file.name, out->names[number]))
			return i;
	}
	return SIZE_MAX;
}

static int write_rows(export *out, p4d_safetensors_writer *writer, const p4d_weight_slice *whole,
		      p4d_error *err)
{
	uint64_t left = whole->rows * (whole->tensor_columns ? whole->columns : 1), at = 0;

	while (left) {
		uint64_t some = left < AT_ONCE ? left : AT_ONCE;
		if (read_values(out, whole, at, some, err) < 0 ||
		    write_values(out, writer, out->values, some, err) < 0)
			return -1;
		at += some;
		left -= some;
	}
	return 0;
}

/* Writes a tensor that joins several by rows: one part after the other. */
static int write_joined(export *out, p4d_safetensors_writer *writer, size_t number, p4d_error *err)
{
	for (uint64_t row = 0; row < out->file_tensor[number].rows;) {
		const size_t part = part_at(out, number, row);
		if (part == SIZE_MAX)
			return p4d_fail(err, P4D_E_CHECKPOINT,
					"%.95s: no part of this tensor begins at row %" PRIu64,
					out->names[number], row);
		const p4d_weight_slice whole = whole_of(&out->map->slice[part].slice);
		if (write_rows(out, writer, &whole, err) < 0)
			return -1;
		row += whole.rows;
	}
	return 0;
}

static int write_tensor(export *out, p4d_safetensors_writer *writer, size_t number, p4d_error *err)
{
	const p4d_weight_slice *whole = &out->whole[number];
	const p4d_file_tensor *file = &out->file_tensor[number];

	if (file->transposed)
		return write_assembled(out, writer, number, err);
	return file->rows != whole->tensor_rows ? write_joined(out, writer, number, err)
						: write_rows(out, writer, whole, err);
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
		if (write_tensor(out, writer, i, err) < 0) {
			p4d_safetensors__abandon(writer);
			return -1;
		}
	return p4d_safetensors__finish(writer, NULL, err);
}

/*
 * Writes all files, the index last. If the export is interrupted, its files have no index and do not look
 * like a model.
 */
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

/*
 * Refuses a directory that has weights of another export. The library might mix them with the new ones, or
 * read them instead.
 */
static int check_directory(const char *directory, p4d_error *err)
{
	static const char *const taken[] = {"model.safetensors", "model.safetensors.index.json",
					    "config.json", "adapter_model.safetensors",
					    "adapter_config.json"};
	char path[P4D_PATH];

	if (p4d_checkpoint__make_directory(directory, err) < 0)
		return -1;
	for (unsigned i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
		if (p4d_checkpoint__join_path(path, err, "%s/%s", directory, taken[i]) < 0)
			return -1;
		if (access(path, F_OK) == 0)
			return p4d_fail(err, P4D_E_IO, "%.255s: already exists; give another directory",
					path);
	}
	return 0;
}

static int open_export(export *out, const char *checkpoint, p4d_checkpoint_info *info, p4d_error *err)
{
	if (out->type != P4D_ST_BF16 && out->type != P4D_ST_F32)
		return p4d_fail(err, P4D_E_VALUE, "weights can be exported only as BF16 or F32");
	return p4d_checkpoint_reader__open(&out->reader, checkpoint, info, err);
}

/* Writes all tensors of a map. */
static int write_weights(export *out, const p4d_checkpoint_map *map, uint64_t file_bytes, p4d_error *err)
{
	out->map = map;
	if (check_directory(out->directory, err) < 0 || allocate(out, map->count, err) < 0 ||
	    list_tensors(out, file_bytes, err) < 0)
		return -1;
	name_files(out);
	return write_all(out, err);
}

static bool of_adapters(const export *out)
{
	return p4d_checkpoint_reader__map(out->reader)->layout.finetune != P4D_TUNE_FULL;
}

static int need_adapters(const export *out, const char *checkpoint, bool adapters, p4d_error *err)
{
	if (of_adapters(out) == adapters)
		return 0;
	return p4d_fail(err, P4D_E_CHECKPOINT, "%.300s: it holds %s", checkpoint,
			adapters ? "a whole model and no adapters" : "adapters alone");
}

static int write_config(const export *out, const p4d_checkpoint_info *info, p4d_error *err)
{
	char path[P4D_PATH];

	if (p4d_checkpoint__join_path(path, err, "%s/config.json", out->directory) < 0)
		return -1;
	return p4d_huggingface__write_config(path, info->plan, out->type, err);
}

int p4d_huggingface_export(const char *checkpoint, const char *directory, p4d_safetensors_type type,
			   uint64_t file_bytes, p4d_error *err)
{
	export out = {.directory = directory, .stem = "model", .type = type};
	p4d_checkpoint_info info;

	int rc = open_export(&out, checkpoint, &info, err);
	if (rc == 0)
		rc = need_adapters(&out, checkpoint, false, err);
	if (rc == 0)
		rc = write_weights(&out, p4d_checkpoint_reader__map(out.reader), file_bytes, err);
	if (rc == 0)
		rc = write_config(&out, &info, err);
	release(&out);
	return rc;
}

static int check_base(const char *base, const p4d_checkpoint_info *info, p4d_error *err)
{
	uint64_t hash;

	if (p4d_huggingface_hash(base, &hash, err) < 0)
		return -1;
	if (hash == info->base_hash)
		return 0;
	if (!strcmp(base, info->base)) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "%.200s: its weights have changed since the adapters were trained with them", base);
		return p4d_fix(err, "--init-from DIR, a directory with the weights of the training");
	}
	p4d_fail(err, P4D_E_CHECKPOINT,
		 "%.200s has other weights than those with which the adapters were trained (%.200s)", base,
		 info->base);
	return p4d_fix(err, "--init-from %.200s", info->base);
}

int p4d_huggingface_export_merged(const char *checkpoint, const char *base, const char *directory,
				  p4d_safetensors_type type, uint64_t file_bytes, p4d_error *err)
{
	export out = {.directory = directory, .stem = "model", .type = type};
	p4d_checkpoint_info info;

	int rc = open_export(&out, checkpoint, &info, err);
	if (rc == 0)
		rc = need_adapters(&out, checkpoint, true, err);
	if (rc == 0)
		rc = check_base(base, &info, err);
	if (rc == 0)
		rc = p4d_checkpoint_map__open(&out.model, info.plan, true, err);
	if (rc == 0)
		rc = p4d_huggingface__open(&out.base, base, &out.model.layout, err);
	if (rc == 0) {
		out.scale = info.alpha / (double)out.model.layout.lora.rank;
		rc = write_weights(&out, &out.model, file_bytes, err);
	}
	if (rc == 0)
		rc = write_config(&out, &info, err);
	release(&out);
	return rc;
}

int p4d_huggingface_export_adapters(const char *checkpoint, const char *directory, p4d_safetensors_type type,
				    p4d_error *err)
{
	export out = {.directory = directory, .stem = "adapter_model", .type = type};
	p4d_checkpoint_info info;
	char path[P4D_PATH];

	int rc = open_export(&out, checkpoint, &info, err);
	if (rc == 0)
		rc = need_adapters(&out, checkpoint, true, err);
	if (rc == 0)
		rc = write_weights(&out, p4d_checkpoint_reader__map(out.reader), 0, err);
	if (rc == 0)
		rc = p4d_checkpoint__join_path(path, err, "%s/adapter_config.json", directory);
	if (rc == 0)
		rc = p4d_huggingface__write_adapter_config(
		    path, &p4d_checkpoint_reader__map(out.reader)->layout, &info, err);
	release(&out);
	return rc;
}
