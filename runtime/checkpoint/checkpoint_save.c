/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "checkpoint/checkpoint_internal.h"

bool p4d_checkpoint__owns_shards(const p4d_layout *layout, p4d_place place)
{
	return p4d_weights_copy_number(layout, place) == 0;
}

uint64_t p4d_checkpoint__shard_elements(const p4d_layout *layout, const p4d_weights *weights, p4d_place place)
{
	uint64_t first, count, sum = 0;

	for (uint32_t i = 0; i < weights->segments; i++) {
		p4d_weights_shard_of(layout, &weights->segment[i], place, &first, &count);
		sum += count;
	}
	return sum;
}

uint64_t p4d_checkpoint_staging_bytes(const p4d_layout *layout, const p4d_weights *weights, p4d_place place)
{
	if (!p4d_checkpoint__owns_shards(layout, place))
		return 0;
	return p4d_checkpoint__shard_elements(layout, weights, place) *
	       p4d_optimizer_stored(p4d_optimizer_of(layout)) * sizeof(float);
}

int p4d_checkpoint__stage_shards(const p4d_checkpoint_storage *storage, float *staged, p4d_error *err)
{
	for (p4d_state state = 0; state < p4d_optimizer_stored(p4d_optimizer_of(storage->layout)); state++)
		for (uint32_t i = 0; i < storage->weights->segments; i++) {
			uint64_t first, count;
			p4d_weights_shard_of(storage->layout, &storage->weights->segment[i], storage->place,
					     &first, &count);
			if (storage->read(storage->context, i, state, staged, err) < 0)
				return -1;
			staged += count;
		}
	return 0;
}

static uint64_t blocks_of(uint64_t bytes)
{
	return (bytes + P4D_CHECKPOINT_BLOCK - 1) / P4D_CHECKPOINT_BLOCK;
}

static int write_blocks(p4d_safetensors_writer *writer, const float *data, uint64_t bytes, uint64_t *checksum,
			const atomic_bool *stop, p4d_error *err)
{
	const uint8_t *from = (const uint8_t *)data;

	for (uint64_t i = 0; i < blocks_of(bytes); i++) {
		uint64_t at = i * P4D_CHECKPOINT_BLOCK, left = bytes - at;
		uint64_t some = left < P4D_CHECKPOINT_BLOCK ? left : P4D_CHECKPOINT_BLOCK;
		if (stop && *stop)
			return p4d_fail(err, P4D_E_IO, "saving was aborted");
		checksum[i] = XXH3_64bits(from + at, some);
		if (p4d_safetensors__write(writer, from + at, some, err) < 0)
			return -1;
	}
	return 0;
}

static int write_tensors(p4d_safetensors_writer *writer, unsigned states, const float *staged,
			 uint64_t elements, uint64_t *checksums, const atomic_bool *stop, p4d_error *err)
{
	const uint64_t blocks = blocks_of(elements * sizeof(float));

	for (p4d_state state = 0; state < states; state++)
		if (write_blocks(writer, staged + state * elements, elements * sizeof(float),
				 checksums + state * blocks, stop, err) < 0)
			return -1;
	return p4d_safetensors__write(writer, checksums, states * blocks * sizeof(*checksums), err);
}

int p4d_checkpoint__write_rank_file(const char *path, uint32_t rank, const p4d_checkpoint_info *info,
				    const p4d_optimizer *optimizer, const float *staged, uint64_t elements,
				    const atomic_bool *stop, p4d_checkpoint_rank_file *out, p4d_error *err)
{
	const unsigned states = p4d_optimizer_stored(optimizer);
	const uint64_t blocks = states * blocks_of(elements * sizeof(float));
	p4d_safetensors_tensor tensors[P4D_MOST_STORED + 1];
	char file[P4D_PATH], step[24], number[16];
	const char *metadata[] = {"format", "p4d", "step", step, "rank", number, "plan", info->plan, NULL};
	p4d_safetensors_writer *writer = NULL;
	struct stat status;

	for (p4d_state state = 0; state < states; state++)
		tensors[state] = (p4d_safetensors_tensor){
		    .name = optimizer->stored[state], .type = P4D_ST_F32, .dims = 1, .shape = {elements}};
	tensors[states] =
	    (p4d_safetensors_tensor){.name = "checksums", .type = P4D_ST_U64, .dims = 1, .shape = {blocks}};
	snprintf(step, sizeof(step), "%" PRIu64, info->step);
	snprintf(number, sizeof(number), "%" PRIu32, rank);
	if (p4d_checkpoint__rank_path(path, rank, file, err) < 0)
		return -1;
	uint64_t *checksums = calloc(blocks + 1, sizeof(*checksums));
	if (!checksums)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to write %.200s", file);
	int rc = p4d_safetensors__create(&writer, file, tensors, states + 1, metadata, err);
	if (rc == 0)
		rc = write_tensors(writer, states, staged, elements, checksums, stop, err);
	free(checksums);
	if (rc < 0) {
		p4d_safetensors__abandon(writer);
		return -1;
	}
	*out = (p4d_checkpoint_rank_file){.rank = rank};
	if (p4d_safetensors__finish(writer, &out->checksum, err) < 0)
		return -1;
	if (stat(file, &status) < 0)
		return p4d_fail(err, P4D_E_IO, "%.255s: disappeared after it was written: %m", file);
	out->bytes = (uint64_t)status.st_size;
	return 0;
}
