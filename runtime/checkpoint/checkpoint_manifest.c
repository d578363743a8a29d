/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/json_file.h"
#include "base/json_text.h"
#include "base/new_file.h"
#include "base/number.h"
#include "checkpoint/checkpoint_internal.h"

enum { MANIFEST_MAX = 64 << 20 };

/* The text after the part that the manifest's own checksum covers. */
static const char ending[] = ",\n\"checksum\": \"";

/*
 * Writes the manifest. 64-bit numbers are hexadecimal text, because many JSON readers handle integers only up
 * to 2^53.
 */
static void make_text(p4d_text *out, const p4d_checkpoint_info *info, const p4d_checkpoint_rank_file *files,
		      uint32_t count)
{
	p4d_text_print(out, "{\n\"version\": %d,\n\"plan\": ", P4D_CHECKPOINT_VERSION);
	p4d_json_text_quote(out, info->plan);
	p4d_text_print(out,
		       ",\n\"step\": %" PRIu64 ",\n\"consumed\": %" PRIu64 ",\n\"seed\": \"%016" PRIx64 "\"",
		       info->step, info->consumed, info->seed);
	p4d_text_print(out, ",\n\"document_mask\": \"%s\",\n\"data\": ", info->document_mask ? "on" : "off");
	p4d_json_text_quote(out, info->data);
	p4d_text_print(out, ",\n\"samples\": \"%016" PRIx64 "\"", info->samples);
	if (info->update[0]) {
		p4d_text_add(out, ",\n\"update\": ");
		p4d_json_text_quote(out, info->update);
	}
	if (info->best_step)
		p4d_text_print(out,
			       ",\n\"best_step\": %" PRIu64 ",\n\"best_loss\": %.17g,\n\"worse\": %" PRIu64,
			       info->best_step, info->best_loss, info->worse);
	if (info->best_step)
		p4d_text_print(out, ",\n\"best_samples\": \"%016" PRIx64 "\"", info->best_samples);
	if (info->released[0]) {
		p4d_text_add(out, ",\n\"released\": ");
		p4d_json_text_quote(out, info->released);
	}
	if (info->base[0]) {
		p4d_text_print(out, ",\n\"alpha\": %.17g,\n\"base\": ", info->alpha);
		p4d_json_text_quote(out, info->base);
		p4d_text_print(out, ",\n\"base_hash\": \"%016" PRIx64 "\"", info->base_hash);
	}
	p4d_text_add(out, ",\n\"files\": [");
	for (uint32_t i = 0; i < count; i++)
		p4d_text_print(out,
			       "%s\n{\"rank\": %" PRIu32 ", \"name\": \"rank-%05" PRIu32
			       ".safetensors\", \"bytes\": %" PRIu64 ", \"checksum\": \"%016" PRIx64 "\"}",
			       i ? "," : "", files[i].rank, files[i].rank, files[i].bytes, files[i].checksum);
	p4d_text_add(out, "\n]");
	if (!out->truncated)
		p4d_text_print(out, "%s%016" PRIx64 "\"\n}\n", ending,
			       (uint64_t)XXH3_64bits(out->at, out->length));
}

int p4d_checkpoint_manifest__write(const char *path, const p4d_checkpoint_info *info,
				   const p4d_checkpoint_rank_file *files, uint32_t count, p4d_error *err)
{
	char name[P4D_PATH];
	p4d_text out = {.grows = true};

	if (info->step > INT64_MAX || info->consumed > INT64_MAX)
		return p4d_fail(err, P4D_E_VALUE, "step or sample count too large for a manifest");
	int rc = p4d_checkpoint__join_path(name, err, "%s/manifest.json", path);
	if (rc < 0)
		return -1;
	make_text(&out, info, files, count);
	rc = out.truncated ? p4d_fail(err, P4D_E_NO_MEMORY, "no memory to write a manifest")
			   : p4d_new_file_put(name, out.at, out.length, err);
	free(out.at);
	return rc;
}

static int read_hex(struct json_object *object, const char *key, uint64_t *value, p4d_error *err)
{
	char text[20] = "";

	if (p4d_json_string(object, key, text, sizeof(text), err) < 0)
		return -1;
	return p4d_number_hex(text, value)
		   ? 0
		   : p4d_fail(err, P4D_E_CHECKPOINT, "\"%s\" is not 16 hexadecimal digits", key);
}

static int read_whole(struct json_object *object, const char *key, int64_t max, uint64_t *value,
		      p4d_error *err)
{
	int64_t number = -1;

	if (p4d_json_integer(object, key, 0, max, &number, err) < 0)
		return -1;
	if (number < 0)
		return p4d_fail(err, P4D_E_CHECKPOINT, "\"%s\" is missing", key);
	*value = (uint64_t)number;
	return 0;
}

/*
 * Verifies the checksum, before anything else in the text is used. The text after the checksum is fixed, so
 * nothing can be added there.
 */
static int check_text(const char *text, size_t size, p4d_error *err)
{
	const size_t tail = sizeof(ending) - 1 + 16 + strlen("\"\n}\n");
	char digits[17] = "";
	uint64_t expected;

	if (size < tail || memcmp(text + size - tail, ending, sizeof(ending) - 1) != 0 ||
	    memcmp(text + size - 4, "\"\n}\n", 4) != 0)
		return p4d_fail(err, P4D_E_CHECKPOINT, "truncated, or not a p4d manifest");
	memcpy(digits, text + size - 20, 16);
	uint64_t found = XXH3_64bits(text, size - tail);
	if (!p4d_number_hex(digits, &expected) || found != expected)
		return p4d_fail(err, P4D_E_CHECKPOINT, "its checksum is %016" PRIx64 ", expected %s", found,
				digits);
	return 0;
}

static int read_files(struct json_object *object, p4d_checkpoint_rank_file **files, uint32_t *count,
		      p4d_error *err)
{
	struct json_object *list = json_object_object_get(object, "files");

	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list))
		return p4d_fail(err, P4D_E_CHECKPOINT, "\"files\" is missing");
	size_t length = json_object_array_length(list);
	*files = calloc(length, sizeof(**files));
	if (!*files)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a manifest");
	for (size_t i = 0; i < length; i++) {
		struct json_object *file = json_object_array_get_idx(list, i);
		uint64_t rank = 0;
		if (!json_object_is_type(file, json_type_object))
			return p4d_fail(err, P4D_E_CHECKPOINT, "\"files\" is malformed");
		if (read_whole(file, "rank", UINT32_MAX, &rank, err) < 0 ||
		    read_whole(file, "bytes", INT64_MAX, &(*files)[i].bytes, err) < 0 ||
		    read_hex(file, "checksum", &(*files)[i].checksum, err) < 0)
			return -1;
		(*files)[i].rank = (uint32_t)rank;
	}
	*count = (uint32_t)length;
	return 0;
}

/* Reads a bool. Checkpoints from before the option --document-mask lack the key, which then means off. */
static int read_switch(struct json_object *object, const char *key, bool *on, p4d_error *err)
{
	char text[8] = "off";

	if (p4d_json_string(object, key, text, sizeof(text), err) < 0)
		return -1;
	*on = strcmp(text, "on") == 0;
	return *on || strcmp(text, "off") == 0
		   ? 0
		   : p4d_fail(err, P4D_E_CHECKPOINT, "\"%s\" is neither \"on\" nor \"off\"", key);
}

/* Reads which weights adapters were trained with. Only checkpoints of adapters have these members. */
static int read_base(struct json_object *object, p4d_checkpoint_info *info, p4d_error *err)
{
	if (!json_object_object_get(object, "base"))
		return 0;
	info->alpha = json_object_get_double(json_object_object_get(object, "alpha"));
	if (!(info->alpha > 0) || info->alpha > 1e6)
		return p4d_fail(err, P4D_E_CHECKPOINT, "\"alpha\" is %g, expected a number up to 1e6",
				info->alpha);
	if (p4d_json_string(object, "base", info->base, sizeof(info->base), err) < 0)
		return -1;
	return read_hex(object, "base_hash", &info->base_hash, err);
}

/* Reads the members that only runs with validation write. */
static int read_best(struct json_object *object, p4d_checkpoint_info *info, p4d_error *err)
{
	if (!json_object_object_get(object, "best_step"))
		return 0;
	if (p4d_json_number(object, "best_loss", -1e300, 1e300, &info->best_loss, err) < 0 ||
	    read_whole(object, "worse", INT64_MAX, &info->worse, err) < 0)
		return -1;
	if (json_object_object_get(object, "best_samples") &&
	    read_hex(object, "best_samples", &info->best_samples, err) < 0)
		return -1;
	return read_whole(object, "best_step", INT64_MAX, &info->best_step, err);
}

static int read_object(struct json_object *object, p4d_checkpoint_info *info,
		       p4d_checkpoint_rank_file **files, uint32_t *count, p4d_error *err)
{
	uint64_t version = 0;

	if (read_whole(object, "version", INT32_MAX, &version, err) < 0)
		return -1;
	if (version != P4D_CHECKPOINT_VERSION)
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"the manifest has version %" PRIu64 ", but this p4d reads only version %d",
				version, P4D_CHECKPOINT_VERSION);
	if (p4d_json_string(object, "plan", info->plan, sizeof(info->plan), err) < 0 ||
	    p4d_json_string(object, "data", info->data, sizeof(info->data), err) < 0 ||
	    read_whole(object, "step", INT64_MAX, &info->step, err) < 0 ||
	    read_whole(object, "consumed", INT64_MAX, &info->consumed, err) < 0 ||
	    read_hex(object, "seed", &info->seed, err) < 0 ||
	    read_switch(object, "document_mask", &info->document_mask, err) < 0)
		return -1;
	/* older checkpoints do not have this */
	if (json_object_object_get(object, "samples") && read_hex(object, "samples", &info->samples, err) < 0)
		return -1;
	if (p4d_json_string(object, "update", info->update, sizeof(info->update), err) < 0 ||
	    p4d_json_string(object, "released", info->released, sizeof(info->released), err) < 0 ||
	    read_base(object, info, err) < 0 || read_best(object, info, err) < 0)
		return -1;
	return read_files(object, files, count, err);
}

static int name_error(const char *name, const p4d_error *why, p4d_error *err)
{
	return p4d_fail(err, why->code == P4D_E_NO_MEMORY ? why->code : P4D_E_CHECKPOINT, "%.200s: %.250s",
			name, why->text);
}

int p4d_checkpoint_manifest__parse(const char *name, const char *text, size_t size, p4d_checkpoint_info *info,
				   p4d_checkpoint_rank_file **files, uint32_t *count, p4d_error *err)
{
	p4d_checkpoint_info read = {.step = 0};
	p4d_error why = {.code = P4D_OK};
	struct json_object *object = NULL;

	*files = NULL;
	int rc = check_text(text, size, &why);
	if (rc == 0) {
		object = p4d_json_parse(text, size, name, &why);
		rc = object ? read_object(object, &read, files, count, &why) : -1;
	}
	json_object_put(object);
	if (rc == 0) {
		*info = read;
		return 0;
	}
	free(*files);
	*files = NULL;
	return name_error(name, &why, err);
}

int p4d_checkpoint_read_info(const char *path, p4d_checkpoint_info *info, p4d_error *err)
{
	p4d_checkpoint_rank_file *files;
	uint32_t count;

	if (p4d_checkpoint_manifest__read(path, info, &files, &count, err) < 0)
		return -1;
	free(files);
	return 0;
}

int p4d_checkpoint_manifest__read(const char *path, p4d_checkpoint_info *info,
				  p4d_checkpoint_rank_file **files, uint32_t *count, p4d_error *err)
{
	p4d_error why = {.code = P4D_OK};
	char name[P4D_PATH];
	size_t size = 0;

	*files = NULL;
	if (p4d_checkpoint__join_path(name, err, "%s/manifest.json", path) < 0)
		return -1;
	char *text = p4d_text_read(name, MANIFEST_MAX, &size, &why);
	if (!text)
		return name_error(name, &why, err);
	int rc = p4d_checkpoint_manifest__parse(name, text, size, info, files, count, err);
	free(text);
	return rc;
}
