/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "base/number.h"
#include "checkpoint/safetensors_internal.h"

static const struct {
	const char *name;
	unsigned bytes;
} types[P4D_ST_TYPES] = {
    [P4D_ST_BOOL] = {"BOOL", 1},       [P4D_ST_U8] = {"U8", 1},           [P4D_ST_I8] = {"I8", 1},
    [P4D_ST_F8_E5M2] = {"F8_E5M2", 1}, [P4D_ST_F8_E4M3] = {"F8_E4M3", 1}, [P4D_ST_I16] = {"I16", 2},
    [P4D_ST_U16] = {"U16", 2},         [P4D_ST_F16] = {"F16", 2},         [P4D_ST_BF16] = {"BF16", 2},
    [P4D_ST_I32] = {"I32", 4},         [P4D_ST_U32] = {"U32", 4},         [P4D_ST_F32] = {"F32", 4},
    [P4D_ST_F64] = {"F64", 8},         [P4D_ST_I64] = {"I64", 8},         [P4D_ST_U64] = {"U64", 8},
};

const char *p4d_safetensors__type_name(p4d_safetensors_type type)
{
	return types[type].name;
}

unsigned p4d_safetensors__type_bytes(p4d_safetensors_type type)
{
	return types[type].bytes;
}

int p4d_safetensors__tensor_bytes(const p4d_safetensors_tensor *tensor, uint64_t *bytes, p4d_error *err)
{
	uint64_t product = types[tensor->type].bytes;

	for (unsigned i = 0; i < tensor->dims; i++)
		if (__builtin_mul_overflow(product, tensor->shape[i], &product))
			return p4d_fail(err, P4D_E_VALUE, "tensor \"%.100s\": its size overflows 64 bits",
					tensor->name);
	*bytes = product;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const p4d_safetensors_tensor *)a)->name, ((const p4d_safetensors_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
	const p4d_safetensors_tensor *left = a, *right = b;

	if (left->data != right->data)
		return (const uint8_t *)left->data < (const uint8_t *)right->data ? -1 : 1;
	/* an empty tensor may have the same offset as another tensor, and then comes first */
	return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

void p4d_safetensors__tensor_sort(p4d_safetensors_tensor *tensors, size_t count)
{
	if (count)
		qsort(tensors, count, sizeof(*tensors), by_name);
}

const p4d_safetensors_tensor *p4d_safetensors__tensor_find(const p4d_safetensors_tensor *sorted, size_t count,
							   const char *name)
{
	p4d_safetensors_tensor wanted = {.name = name};

	return count ? bsearch(&wanted, sorted, count, sizeof(*sorted), by_name) : NULL;
}

static int fail(const p4d_safetensors_shard *shard, const char *tensor, const char *what, p4d_error *err)
{
	return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: tensor \"%.100s\": %s", shard->name, tensor, what);
}

static struct json_object *member_of(struct json_object *object, const char *key, json_type type)
{
	struct json_object *member = NULL;

	if (!json_object_object_get_ex(object, key, &member) || !json_object_is_type(member, type))
		return NULL;
	return member;
}

/* Reads a size. Refuses the values to which json-c clamps numbers that are too large or negative. */
static bool size_at(struct json_object *array, size_t i, uint64_t *size)
{
	struct json_object *number = json_object_array_get_idx(array, i);

	if (!json_object_is_type(number, json_type_int) || json_object_get_int64(number) < 0 ||
	    json_object_get_int64(number) == INT64_MAX)
		return false;
	*size = (uint64_t)json_object_get_int64(number);
	return true;
}

static int read_type(const p4d_safetensors_shard *shard, struct json_object *object,
		     p4d_safetensors_tensor *tensor, p4d_error *err)
{
	struct json_object *dtype = member_of(object, "dtype", json_type_string);
	int type = 0;

	if (!dtype)
		return fail(shard, tensor->name, "no string \"dtype\"", err);
	while (type < P4D_ST_TYPES && strcmp(types[type].name, json_object_get_string(dtype)) != 0)
		type++;
	if (type == P4D_ST_TYPES)
		return fail(shard, tensor->name, "unknown \"dtype\", expected BF16, F16, F32 ...", err);
	tensor->type = (p4d_safetensors_type)type;
	return 0;
}

static int read_shape(const p4d_safetensors_shard *shard, struct json_object *object,
		      p4d_safetensors_tensor *tensor, p4d_error *err)
{
	struct json_object *shape = member_of(object, "shape", json_type_array);
	size_t dims = shape ? json_object_array_length(shape) : P4D_STORED_DIMS + 1;

	if (dims > P4D_STORED_DIMS)
		return fail(shard, tensor->name, "no array \"shape\" of at most 8 sizes", err);
	tensor->dims = (unsigned)dims;
	for (size_t i = 0; i < dims; i++)
		if (!size_at(shape, i, &tensor->shape[i]))
			return fail(shard, tensor->name, "\"shape\" contains an invalid size", err);
	return 0;
}

static int read_place(const p4d_safetensors_shard *shard, struct json_object *object,
		      p4d_safetensors_tensor *tensor, p4d_error *err)
{
	struct json_object *offsets = member_of(object, "data_offsets", json_type_array);
	const uint64_t room = shard->file.bytes - shard->header_bytes;
	uint64_t begin, end, wanted = 0;

	if (!offsets || json_object_array_length(offsets) != 2 || !size_at(offsets, 0, &begin) ||
	    !size_at(offsets, 1, &end))
		return fail(shard, tensor->name, "no \"data_offsets\" [begin, end]", err);
	if (begin > end || end > room)
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"%.200s: tensor \"%.100s\": bytes %" PRIu64 " to %" PRIu64
				", expected within the %" PRIu64 " bytes after the header",
				shard->name, tensor->name, begin, end, room);
	if (p4d_safetensors__tensor_bytes(tensor, &wanted, NULL) < 0 || wanted != end - begin)
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"%.200s: tensor \"%.100s\": has %" PRIu64
				" bytes, which does not match its shape and dtype",
				shard->name, tensor->name, end - begin);
	tensor->bytes = end - begin;
	tensor->data = shard->file.data + shard->header_bytes + begin;
	return 0;
}

/* The value of a key in the metadata; NULL: the key is missing. */
static const char *metadata_of(const p4d_safetensors_shard *shard, const char *key)
{
	struct json_object *metadata = member_of(shard->header, "__metadata__", json_type_object);
	struct json_object *value = metadata ? member_of(metadata, key, json_type_string) : NULL;

	return value ? json_object_get_string(value) : NULL;
}

static int read_checksum(const p4d_safetensors_shard *shard, p4d_safetensors_tensor *tensor, p4d_error *err)
{
	char *key;

	if (asprintf(&key, P4D_CHECKSUM_KEY "%s", tensor->name) < 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to read it", shard->name);
	const char *text = metadata_of(shard, key);
	free(key);
	if (!text)
		return 0;
	if (!p4d_number_hex(text, &tensor->checksum))
		return fail(shard, tensor->name, "its checksum is not 16 hexadecimal digits", err);
	tensor->has_checksum = true;
	return 0;
}

static int read_tensor(p4d_safetensors_shard *shard, const char *name, struct json_object *object,
		       p4d_error *err)
{
	p4d_safetensors_tensor *tensor = &shard->tensor[shard->count];

	*tensor = (p4d_safetensors_tensor){.name = name, .file = shard->name};
	if (!json_object_is_type(object, json_type_object))
		return fail(shard, name, "its description is not an object", err);
	if (read_type(shard, object, tensor, err) < 0 || read_shape(shard, object, tensor, err) < 0 ||
	    read_place(shard, object, tensor, err) < 0 || read_checksum(shard, tensor, err) < 0)
		return -1;
	shard->count++;
	return 0;
}

/* Checks that the tensors, in the order of their data, cover all data without gaps and overlaps. */
static int check_cover(p4d_safetensors_shard *shard, p4d_error *err)
{
	const uint8_t *at = shard->file.data + shard->header_bytes,
		      *end = shard->file.data + shard->file.bytes;

	if (shard->count)
		qsort(shard->tensor, shard->count, sizeof(*shard->tensor), by_place);
	for (size_t i = 0; i < shard->count; i++) {
		if (shard->tensor[i].data != at)
			return fail(shard, shard->tensor[i].name,
				    "does not begin where the previous tensor ends", err);
		at += shard->tensor[i].bytes;
	}
	if (at != end)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: %" PRIu64 " bytes after the last tensor",
				shard->name, (uint64_t)(end - at));
	p4d_safetensors__tensor_sort(shard->tensor, shard->count);
	return 0;
}

static int read_json(p4d_safetensors_shard *shard, p4d_error *err)
{
	const char *text = (const char *)shard->file.data + sizeof(uint64_t);
	size_t length = (size_t)(shard->header_bytes - sizeof(uint64_t));

	if (text[0] != '{')
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: byte 8: is 0x%02x, expected {, a JSON header",
				shard->name, (unsigned char)text[0]);
	shard->header = p4d_json_parse(text, length, shard->name, err);
	if (shard->header)
		return 0;
	if (err && err->code != P4D_E_NO_MEMORY)
		err->code = P4D_E_CHECKPOINT;
	return -1;
}

int p4d_safetensors__shard_parse(p4d_safetensors_shard *shard, p4d_error *err)
{
	uint64_t length = 0;

	if (shard->file.bytes >= sizeof(length)) {
		memcpy(&length, shard->file.data, sizeof(length));
		length = le64toh(length);
	}
	if (length < 2 || length > P4D_HEADER_LIMIT || length > shard->file.bytes - sizeof(length))
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"%.200s: byte 0: a header of %" PRIu64 " bytes in a file of %" PRIu64
				", expected 2 to %d and no more than the file holds",
				shard->name, length, shard->file.bytes, P4D_HEADER_LIMIT);
	shard->header_bytes = sizeof(length) + length;
	if (read_json(shard, err) < 0)
		return -1;
	size_t members = (size_t)json_object_object_length(shard->header);
	shard->tensor = calloc(members + 1, sizeof(*shard->tensor));
	if (!shard->tensor)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory for %zu tensors", shard->name,
				members);
	json_object_object_foreach(shard->header, name, object)
	{
		if (strcmp(name, "__metadata__") != 0 && read_tensor(shard, name, object, err) < 0)
			return -1;
	}
	return check_cover(shard, err);
}
