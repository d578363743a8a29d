/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "checkpoint/checkpoint_internal.h"

/* A rank's file, which is opened when it is first needed. */
typedef struct rank_tensors {
	p4d_safetensors *file; /* NULL: not opened yet */
	const p4d_safetensors_tensor *state[P4D_MOST_STORED];
	const uint8_t *checksums; /* checksums of blocks, not aligned in memory */
	uint64_t elements, blocks;
	uint8_t *checked; /* (states, blocks) */
} rank_tensors;

struct p4d_checkpoint_reader {
	char path[P4D_PATH];
	p4d_checkpoint_map map;
	p4d_checkpoint_rank_file *file; /* (files) sorted by rank */
	uint32_t files;
	rank_tensors *tensors; /* (files) */
};

static int by_rank(const void *a, const void *b)
{
	const p4d_checkpoint_rank_file *left = a, *right = b;

	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Compares the sizes of the files, to detect truncated ones without reading them. */
static int check_files(const p4d_checkpoint_reader *reader, p4d_error *err)
{
	char file[P4D_PATH];
	struct stat status;

	for (uint32_t i = 0; i < reader->files; i++) {
		if (p4d_checkpoint__rank_path(reader->path, reader->file[i].rank, file, err) < 0)
			return -1;
		if (stat(file, &status) < 0 || !S_ISREG(status.st_mode))
			return p4d_fail(err, P4D_E_CHECKPOINT, "%.255s: not found", file);
		if ((uint64_t)status.st_size != reader->file[i].bytes)
			return p4d_fail(err, P4D_E_CHECKPOINT,
					"%.255s: has %" PRIu64 " bytes, expected %" PRIu64, file,
					(uint64_t)status.st_size, reader->file[i].bytes);
	}
	return 0;
}

static int open_reader(p4d_checkpoint_reader *reader, const char *path, p4d_checkpoint_info *info,
		       p4d_error *err)
{
	p4d_error why = {.code = P4D_OK};

	if (p4d_checkpoint__join_path(reader->path, err, "%s", path) < 0 ||
	    p4d_checkpoint_manifest__read(path, info, &reader->file, &reader->files, err) < 0)
		return -1;
	qsort(reader->file, reader->files, sizeof(*reader->file), by_rank);
	if (p4d_checkpoint_map__open(&reader->map, info->plan, false, &why) < 0)
		return p4d_fail(err, why.code == P4D_E_NO_MEMORY ? why.code : P4D_E_CHECKPOINT,
				"%.200s: %.250s", path, why.text);
	reader->tensors = calloc(reader->files, sizeof(*reader->tensors));
	if (!reader->tensors)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to read it", path);
	return check_files(reader, err);
}

int p4d_checkpoint_reader__open(p4d_checkpoint_reader **result, const char *path, p4d_checkpoint_info *info,
				p4d_error *err)
{
	p4d_checkpoint_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return p4d_fail(err, P4D_E_NO_MEMORY, "%.200s: no memory to read it", path);
	if (open_reader(reader, path, info, err) < 0) {
		p4d_checkpoint_reader__close(reader);
		return -1;
	}
	*result = reader;
	return 0;
}

void p4d_checkpoint_reader__close(p4d_checkpoint_reader *reader)
{
	if (!reader)
		return;
	for (uint32_t i = 0; reader->tensors && i < reader->files; i++) {
		p4d_safetensors__close(reader->tensors[i].file);
		free(reader->tensors[i].checked);
	}
	free(reader->tensors);
	free(reader->file);
	p4d_checkpoint_map__close(&reader->map);
	free(reader);
}

const p4d_checkpoint_map *p4d_checkpoint_reader__map(const p4d_checkpoint_reader *reader)
{
	return &reader->map;
}

/* Checks that a file has exactly the tensors that p4d_checkpoint__write_rank_file writes. */
static int check_tensors(rank_tensors *tensors, const p4d_optimizer *optimizer, const p4d_safetensors *file,
			 const char *name, uint64_t elements, p4d_error *err)
{
	const uint64_t bytes = elements * sizeof(float);
	const p4d_safetensors_tensor *checksums = p4d_safetensors__find(file, "checksums");

	tensors->elements = elements;
	tensors->blocks = (bytes + P4D_CHECKPOINT_BLOCK - 1) / P4D_CHECKPOINT_BLOCK;
	const unsigned states = p4d_optimizer_stored(optimizer);
	for (p4d_state state = 0; state < states; state++) {
		const char *tensor = optimizer->stored[state];
		const p4d_safetensors_tensor *stored = p4d_safetensors__find(file, tensor);
		if (!stored || stored->type != P4D_ST_F32 || stored->bytes != bytes)
			return p4d_fail(err, P4D_E_CHECKPOINT,
					"%.255s: \"%s\" is not %" PRIu64 " fp32 numbers", name, tensor,
					elements);
		tensors->state[state] = stored;
	}
	if (!checksums || checksums->type != P4D_ST_U64 || !checksums->has_checksum ||
	    checksums->bytes != states * tensors->blocks * sizeof(uint64_t))
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.255s: \"checksums\" does not match the tensors",
				name);
	tensors->checksums = checksums->data;
	return p4d_safetensors__verify(checksums, err);
}

static uint64_t expected_elements(const p4d_checkpoint_map *map, uint32_t rank)
{
	p4d_place place = p4d_place_of(&map->layout, rank);

	return p4d_checkpoint__shard_elements(&map->layout, &map->stage[place.pp], place);
}

static int open_tensors(p4d_checkpoint_reader *reader, uint32_t index, p4d_error *err)
{
	rank_tensors *tensors = &reader->tensors[index];
	const p4d_checkpoint_rank_file *expected = &reader->file[index];
	const p4d_optimizer *optimizer = p4d_optimizer_of(&reader->map.layout);
	p4d_safetensors *file;
	char name[P4D_PATH];

	if (expected->rank >= reader->map.layout.world)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.255s: stray file of rank %" PRIu32, reader->path,
				expected->rank);
	if (p4d_checkpoint__rank_path(reader->path, expected->rank, name, err) < 0 ||
	    p4d_safetensors__open(&file, name, err) < 0)
		return -1;
	uint64_t found = p4d_safetensors__header_checksum(file);
	int rc = 0;
	if (found != expected->checksum)
		rc = p4d_fail(err, P4D_E_CHECKPOINT,
			      "%.255s: its header has checksum %016" PRIx64 ", expected %016" PRIx64, name,
			      found, expected->checksum);
	if (rc == 0)
		rc = check_tensors(tensors, optimizer, file, name,
				   expected_elements(&reader->map, expected->rank), err);
	if (rc == 0) {
		tensors->checked = calloc(p4d_optimizer_stored(optimizer) * tensors->blocks + 1, 1);
		if (!tensors->checked)
			rc = p4d_fail(err, P4D_E_NO_MEMORY, "%.255s: no memory to read it", name);
	}
	if (rc < 0) {
		p4d_safetensors__close(file);
		return -1;
	}
	tensors->file = file;
	return 0;
}

static int find_tensors(p4d_checkpoint_reader *reader, uint32_t rank, rank_tensors **out, p4d_error *err)
{
	const p4d_checkpoint_rank_file key = {.rank = rank};
	const p4d_checkpoint_rank_file *file =
	    bsearch(&key, reader->file, reader->files, sizeof(*reader->file), by_rank);

	if (!file)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.255s: no file for rank %" PRIu32, reader->path,
				rank);
	uint32_t index = (uint32_t)(file - reader->file);
	if (!reader->tensors[index].file && open_tensors(reader, index, err) < 0)
		return -1;
	*out = &reader->tensors[index];
	return 0;
}

static int check_block(rank_tensors *tensors, p4d_state state, uint64_t block, p4d_error *err)
{
	const p4d_safetensors_tensor *stored = tensors->state[state];
	const uint64_t at = block * P4D_CHECKPOINT_BLOCK, number = (uint64_t)state * tensors->blocks + block;
	uint64_t expected, left = stored->bytes - at;

	if (tensors->checked[number])
		return 0;
	memcpy(&expected, tensors->checksums + number * sizeof(expected), sizeof(expected));
	uint64_t found = XXH3_64bits((const uint8_t *)stored->data + at,
				     left < P4D_CHECKPOINT_BLOCK ? left : P4D_CHECKPOINT_BLOCK);
	if (found != expected)
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"%.255s: \"%s\": the checksum of the bytes from %" PRIu64 " on is %016" PRIx64
				", expected %016" PRIx64,
				stored->file, stored->name, at, found, expected);
	tensors->checked[number] = 1;
	return 0;
}

int p4d_checkpoint_reader__read(p4d_checkpoint_reader *reader, p4d_state state, const p4d_extent *from,
				float *to, p4d_error *err)
{
	rank_tensors *tensors = NULL;

	if (find_tensors(reader, from->rank, &tensors, err) < 0)
		return -1;
	if (from->first > tensors->elements || from->count > tensors->elements - from->first)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.255s: the file of rank %" PRIu32 " is too short",
				reader->path, from->rank);
	if (!from->count)
		return 0;
	const uint64_t begin = from->first * sizeof(float), bytes = from->count * sizeof(float);
	const uint64_t last = (begin + bytes - 1) / P4D_CHECKPOINT_BLOCK;
	for (uint64_t block = begin / P4D_CHECKPOINT_BLOCK; block <= last; block++)
		if (check_block(tensors, state, block, err) < 0)
			return -1;
	memcpy(to, (const uint8_t *)tensors->state[state]->data + begin, bytes);
	return 0;
}

int p4d_checkpoint_reader__slice(p4d_checkpoint_reader *r, p4d_state state, const p4d_weight_slice *slice,
				 uint64_t at, uint64_t count, float *to, p4d_error *err)
{
	p4d_error why = {.code = P4D_OK};
	size_t hint = 0;

	while (count) {
		p4d_extent extent;
		if (p4d_checkpoint_map__find(&r->map, slice, at, count, &hint, &extent, &why) < 0)
			return p4d_fail(err, why.code, "%.200s: %.250s", r->path, why.text);
		if (p4d_checkpoint_reader__read(r, state, &extent, to, err) < 0)
			return -1;
		to += extent.count;
		at += extent.count;
		count -= extent.count;
	}
	return 0;
}
