/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/json_file.h"
#include "checkpoint/safetensors_internal.h"

struct p4d_safetensors {
	p4d_safetensors_shard **shard;
	size_t shards;
	p4d_safetensors_tensor
	    *tensor; /* tensors of all files, sorted by name; strings and data belong to the shards */
	size_t count;
	struct json_object *index; /* the parsed index of several files; no tensor points into it */
};

static const char index_name[] = "model.safetensors.index.json";

static void close_shard(p4d_safetensors_shard *shard)
{
	if (!shard)
		return;
	if (shard->mapped)
		p4d_mapping_close(&shard->file);
	json_object_put(shard->header);
	free(shard->tensor);
	free(shard->name);
	free(shard);
}

/* Reads one more file: the file at `path` or, if path is NULL, the bytes of `data`. */
static p4d_safetensors_shard *add_shard(p4d_safetensors *files, const char *name, const char *path,
					p4d_mapping data, p4d_error *err)
{
	p4d_safetensors_shard **more = reallocarray(files->shard, files->shards + 1, sizeof(*more));
	p4d_safetensors_shard *shard = calloc(1, sizeof(*shard));

	if (more)
		files->shard = more;
	if (shard)
		shard->name = strdup(name);
	if (!more || !shard || !shard->name) {
		close_shard(shard);
		p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", name);
		return NULL;
	}
	shard->file = data;
	files->shard[files->shards++] = shard;
	if (path) {
		shard->mapped = true;
		if (p4d_mapping_open(&shard->file, path, P4D_E_CHECKPOINT, err) < 0)
			return NULL;
	}
	return p4d_safetensors__shard_parse(shard, err) < 0 ? NULL : shard;
}

static int open_single(p4d_safetensors *files, const char *name, const char *path, p4d_mapping data,
		       p4d_error *err)
{
	p4d_safetensors_shard *shard = add_shard(files, name, path, data, err);

	if (!shard)
		return -1;
	files->tensor = shard->tensor;
	files->count = shard->count;
	shard->tensor = NULL; /* the tensors now belong to `files`, so the shard must not free them */
	shard->count = 0;
	return 0;
}

static p4d_safetensors_shard *find_shard(p4d_safetensors *files, const char *path)
{
	for (size_t i = 0; i < files->shards; i++)
		if (!strcmp(files->shard[i]->name, path))
			return files->shard[i];
	return NULL;
}

/*
 * Returns the shard for a file in the index's directory. Opens the file when it is named for the first time.
 */
static p4d_safetensors_shard *shard_of(p4d_safetensors *files, const char *index, const char *file,
				       p4d_error *err)
{
	const char *slash = strrchr(index, '/');
	char *path;

	if (!*file || strchr(file, '/')) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "%.200s: \"weight_map\" names \"%.100s\", expected a file in the same directory",
			 index, file);
		return NULL;
	}
	if (asprintf(&path, "%.*s%s", slash ? (int)(slash - index) + 1 : 0, index, file) < 0) {
		p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", index);
		return NULL;
	}
	p4d_safetensors_shard *shard = find_shard(files, path);
	if (!shard)
		shard = add_shard(files, path, path, (p4d_mapping){NULL, 0}, err);
	free(path);
	return shard;
}

static int add_mapped(p4d_safetensors *files, const char *index, const char *name, struct json_object *file,
		      p4d_error *err)
{
	if (!json_object_is_type(file, json_type_string))
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: tensor \"%.100s\" has no file", index, name);
	p4d_safetensors_shard *shard = shard_of(files, index, json_object_get_string(file), err);
	if (!shard)
		return -1;
	const p4d_safetensors_tensor *tensor =
	    p4d_safetensors__tensor_find(shard->tensor, shard->count, name);
	if (!tensor)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: tensor \"%.100s\" not found in %.100s", index,
				name, json_object_get_string(file));
	files->tensor[files->count++] = *tensor;
	return 0;
}

static int open_index(p4d_safetensors *files, const char *path, p4d_error *err)
{
	struct json_object *map = NULL;

	files->index = p4d_json_read(path, P4D_HEADER_LIMIT, err);
	if (!files->index) {
		if (err && err->code != P4D_E_NO_MEMORY)
			err->code = P4D_E_CHECKPOINT;
		return -1;
	}
	if (!json_object_object_get_ex(files->index, "weight_map", &map) ||
	    !json_object_is_type(map, json_type_object))
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: no object \"weight_map\"", path);
	files->tensor = calloc((size_t)json_object_object_length(map) + 1, sizeof(*files->tensor));
	if (!files->tensor)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", path);
	json_object_object_foreach(map, name, file)
	{
		if (add_mapped(files, path, name, file, err) < 0)
			return -1;
	}
	p4d_safetensors__tensor_sort(files->tensor, files->count);
	return 0;
}

static bool is_index(const char *path)
{
	size_t length = strlen(path);

	return length > 5 && !strcmp(path + length - 5, ".json");
}

/* Finds which file to open in a directory: the index or, if there is none, model.safetensors. */
static int inside(const char *directory, char **path, p4d_error *err)
{
	if (asprintf(path, "%s/%s", directory, index_name) < 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", directory);
	if (access(*path, F_OK) == 0)
		return 0;
	free(*path);
	if (asprintf(path, "%s/model.safetensors", directory) < 0)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", directory);
	if (access(*path, F_OK) == 0)
		return 0;
	free(*path);
	return p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: contains neither %s nor model.safetensors", directory,
			index_name);
}

static int open_path(p4d_safetensors *files, const char *path, p4d_error *err)
{
	struct stat status;

	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
		char *file = NULL;
		if (inside(path, &file, err) < 0)
			return -1;
		int rc = open_path(files, file, err);
		free(file);
		return rc;
	}
	return is_index(path) ? open_index(files, path, err)
			      : open_single(files, path, path, (p4d_mapping){NULL, 0}, err);
}

int p4d_safetensors__open(p4d_safetensors **result, const char *path, p4d_error *err)
{
	p4d_safetensors *files = calloc(1, sizeof(*files));

	if (!files)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", path);
	if (open_path(files, path, err) < 0) {
		p4d_safetensors__close(files);
		return -1;
	}
	*result = files;
	return 0;
}

int p4d_safetensors__parse(p4d_safetensors **result, const char *name, const void *data, uint64_t bytes,
			   p4d_error *err)
{
	p4d_safetensors *files = calloc(1, sizeof(*files));

	if (!files)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to open it", name);
	if (open_single(files, name, NULL, (p4d_mapping){data, bytes}, err) < 0) {
		p4d_safetensors__close(files);
		return -1;
	}
	*result = files;
	return 0;
}

void p4d_safetensors__close(p4d_safetensors *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->shards; i++)
		close_shard(files->shard[i]);
	free(files->shard);
	free(files->tensor);
	json_object_put(files->index);
	free(files);
}

size_t p4d_safetensors__count(const p4d_safetensors *files)
{
	return files->count;
}

const p4d_safetensors_tensor *p4d_safetensors__at(const p4d_safetensors *files, size_t i)
{
	return &files->tensor[i];
}

const p4d_safetensors_tensor *p4d_safetensors__find(const p4d_safetensors *files, const char *name)
{
	return p4d_safetensors__tensor_find(files->tensor, files->count, name);
}

uint64_t p4d_safetensors__header_checksum(const p4d_safetensors *files)
{
	return files->shards ? XXH3_64bits(files->shard[0]->file.data, files->shard[0]->header_bytes) : 0;
}

int p4d_safetensors__verify(const p4d_safetensors_tensor *tensor, p4d_error *err)
{
	if (!tensor->has_checksum)
		return 0;
	uint64_t found = XXH3_64bits(tensor->data, tensor->bytes);
	if (found == tensor->checksum)
		return 0;
	return p4d_fail(err, P4D_E_CHECKPOINT,
			"%.200s: tensor \"%.100s\": its checksum is %016" PRIx64 ", expected %016" PRIx64,
			tensor->file, tensor->name, found, tensor->checksum);
}
