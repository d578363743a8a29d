/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/huggingface.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vector.h"
#include "checkpoint/huggingface_internal.h"
#include "checkpoint/huggingface_names.h"

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

static int check_shape(const p4d_huggingface_weights *in, const p4d_safetensors_tensor *from,
		       const p4d_weight_slice *slice, const p4d_file_tensor *file, p4d_error *err)
{
	const bool vector = !slice->tensor_columns;
	const uint64_t rows = file->transposed ? slice->tensor_columns : file->rows,
		       columns = vector             ? 1
				 : file->transposed ? file->rows
						    : slice->tensor_columns;

	if (from->dims != (vector ? 1 : 2) || from->shape[0] != rows ||
	    (!vector && from->shape[1] != columns))
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"%.200s: shape of %.95s differs from the model's (%" PRIu64 ", %" PRIu64 ")",
				from->file, from->name, rows, columns);
	if (from->type != P4D_ST_F32 && from->type != P4D_ST_BF16 && from->type != P4D_ST_F16)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: %.95s is %s, expected F32, BF16 or F16",
				from->file, from->name, p4d_safetensors__type_name(from->type));
	size_t number = (size_t)(from - p4d_safetensors__at(in->files, 0));
	if (!in->verified[number] && p4d_safetensors__verify(from, err) < 0)
		return -1;
	in->verified[number] = true;
	return 0;
}

/*
 * Finds a tensor. If the files have only the base model (without a head), their names lack the prefix
 * "transformer.".
 */
const p4d_safetensors_tensor *p4d_huggingface__tensor(const p4d_huggingface_weights *in, const char *name)
{
	static const char prefix[] = "transformer.";
	const p4d_safetensors_tensor *from = p4d_safetensors__find(in->files, name);

	return from || strncmp(name, prefix, sizeof(prefix) - 1) != 0
		   ? from
		   : p4d_safetensors__find(in->files, name + sizeof(prefix) - 1);
}

/* Copies elements at .. at+count-1 of a slice out of the file's tensor. */
static void take(float *to, const p4d_safetensors_tensor *from, const p4d_file_tensor *file,
		 const p4d_weight_slice *slice, uint64_t at, uint64_t count)
{
	const uint64_t width = slice->tensor_columns ? slice->columns : 1;
	const uint64_t row_width = slice->tensor_columns ? slice->tensor_columns : 1;

	while (count) {
		const uint64_t column = at % width, left = width - column;
		const uint64_t row = file->first + slice->first_row + at / width;
		const uint64_t inside = (slice->tensor_columns ? slice->first_column : 0) + column;
		const uint64_t some = file->transposed                     ? 1
				      : width == row_width || count < left ? count
									   : left;
		convert(to, from, file->transposed ? inside * file->rows + row : row * row_width + inside,
			some);
		to += some;
		at += some;
		count -= some;
	}
}

int p4d_huggingface__fetch(void *context, p4d_state state, const p4d_weight_slice *slice, uint64_t at,
			   uint64_t count, float *to, p4d_error *err)
{
	const p4d_huggingface_weights *in = context;
	p4d_weight_slice stored = *slice;

	if (state != P4D_STATE_MASTER)
		return 0;
	snprintf(stored.name, sizeof(stored.name), "%s",
		 p4d_checkpoint__tensor_name(in->layout, slice->name));
	const p4d_file_tensor file = p4d_huggingface__file_tensor(in->layout, &stored);
	const p4d_safetensors_tensor *from = p4d_huggingface__tensor(in, file.name);
	if (!from)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: no tensor %.95s", in->path, file.name);
	if (check_shape(in, from, slice, &file, err) < 0)
		return -1;
	take(to, from, &file, slice, at, count);
	return 0;
}

int p4d_huggingface__open(p4d_huggingface_weights *in, const char *path, const p4d_layout *layout,
			  p4d_error *err)
{
	*in = (p4d_huggingface_weights){.layout = layout, .path = path};
	if (p4d_safetensors__open(&in->files, path, err) < 0)
		return -1;
	in->verified = calloc(p4d_safetensors__count(in->files) + 1, sizeof(*in->verified));
	if (in->verified)
		return 0;
	p4d_huggingface__close(in);
	return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to read it", path);
}

void p4d_huggingface__close(p4d_huggingface_weights *in)
{
	free(in->verified);
	p4d_safetensors__close(in->files);
	*in = (p4d_huggingface_weights){.files = NULL};
}

/* A folder of weights, and the storage that they go into. */
typedef struct importing {
	p4d_huggingface_weights in;
	const p4d_checkpoint_storage *to;
} importing;

static int fetch_or_begin(void *context, p4d_state state, const p4d_weight_slice *slice, uint64_t at,
			  uint64_t count, float *to, p4d_error *err)
{
	importing *x = context;

	if (!p4d_weights_is_local(slice->name))
		return p4d_huggingface__fetch(&x->in, state, slice, at, count, to, err);
	if (state == P4D_STATE_MASTER)
		x->to->initial(x->to->context, slice, at, count, to);
	return 0;
}

int p4d_huggingface_import(const char *path, const p4d_checkpoint_storage *storage, p4d_error *err)
{
	importing x = {.to = storage};

	if (p4d_huggingface__open(&x.in, path, storage->layout, err) < 0)
		return -1;
	int rc = storage->weights->frozen
		     ? p4d_checkpoint__fill_frozen(storage, p4d_huggingface__fetch, &x.in, err)
		     : p4d_checkpoint__fill_storage(storage, fetch_or_begin, &x, err);
	p4d_huggingface__close(&x.in);
	return rc;
}

static uint64_t bytes_hash(const void *bytes, uint64_t count)
{
	return p4d_hash_bytes(bytes, count);
}

/* Hashes a tensor's name, type and shape, and the beginning and end of its data. */
static uint64_t tensor_hash(const p4d_safetensors_tensor *tensor)
{
	enum { BYTES = 4096 };
	const uint64_t some = tensor->bytes < BYTES ? tensor->bytes : BYTES;
	const uint64_t parts[] = {p4d_hash_bytes(tensor->name, strlen(tensor->name)), (uint64_t)tensor->type,
				  bytes_hash(tensor->shape, tensor->dims * sizeof(tensor->shape[0])),
				  bytes_hash(tensor->data, some),
				  bytes_hash((const char *)tensor->data + tensor->bytes - some, some)};

	return bytes_hash(parts, sizeof(parts));
}

int p4d_huggingface_hash(const char *path, uint64_t *hash, p4d_error *err)
{
	p4d_safetensors *files;

	if (p4d_safetensors__open(&files, path, err) < 0)
		return -1;
	*hash = 0;
	for (size_t i = 0; i < p4d_safetensors__count(files); i++)
		*hash += tensor_hash(p4d_safetensors__at(files, i));
	p4d_safetensors__close(files);
	return 0;
}
