/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_internal.h"

/* A range of the flat buffer, and its values. */
typedef struct window {
	uint64_t first, count;
	float *data;
} window;

static uint64_t elements_of(const p4d_weight_slice *slice)
{
	return slice->rows * (slice->tensor_columns ? slice->columns : 1);
}

static int fill_slice(const p4d_weight_slice *slice, const window *to, p4d_state state, p4d_fetch fetch,
		      void *context, p4d_error *err)
{
	const uint64_t end = slice->offset + elements_of(slice), stop = to->first + to->count;
	const uint64_t from = slice->offset > to->first ? slice->offset : to->first;
	const uint64_t until = end < stop ? end : stop;

	if (from >= until)
		return 0;
	return fetch(context, state, slice, from - slice->offset, until - from, to->data + (from - to->first),
		     err);
}

static int fill_segment(const p4d_checkpoint_storage *storage, const p4d_segment *segment, const window *to,
			p4d_state state, p4d_fetch fetch, void *context, p4d_error *err)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];

	memset(to->data, 0, to->count * sizeof(float));
	for (uint32_t i = 0; i < segment->weights; i++) {
		const p4d_weight *w = &storage->weights->weight[segment->first_weight + i];
		unsigned n = p4d_weight_slices_of(storage->layout, storage->place, storage->vocab, w, slices);
		for (unsigned j = 0; j < n; j++)
			if (fill_slice(&slices[j], to, state, fetch, context, err) < 0)
				return -1;
	}
	return 0;
}

/* Allocates a buffer for the largest shard. The caller frees it. */
static float *shard_buffer(const p4d_checkpoint_storage *storage, p4d_error *err)
{
	uint64_t first, count, most = 1;

	for (uint32_t i = 0; i < storage->weights->segments; i++) {
		p4d_weights_shard_of(storage->layout, &storage->weights->segment[i], storage->place, &first,
				     &count);
		most = count > most ? count : most;
	}
	float *buffer = calloc(most, sizeof(*buffer));
	if (!buffer)
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a shard of %" PRIu64 " elements", most);
	return buffer;
}

/* How many states to load: all that the optimizer stores, or only the master copy if nothing is trained. */
static unsigned states_of(const p4d_layout *layout)
{
	return layout->evaluates ? P4D_STATE_MASTER + 1 : p4d_optimizer_stored(p4d_optimizer_of(layout));
}

int p4d_checkpoint__fill_storage(const p4d_checkpoint_storage *storage, p4d_fetch fetch, void *context,
				 p4d_error *err)
{
	const unsigned states = states_of(storage->layout);
	window to = {.data = shard_buffer(storage, err)};
	int rc = to.data ? 0 : -1;

	for (uint32_t i = 0; rc == 0 && i < storage->weights->segments; i++) {
		const p4d_segment *segment = &storage->weights->segment[i];
		p4d_weights_shard_of(storage->layout, segment, storage->place, &to.first, &to.count);
		for (p4d_state state = 0; rc == 0 && state < states; state++) {
			rc = fill_segment(storage, segment, &to, state, fetch, context, err);
			if (rc == 0)
				rc = storage->write(storage->context, i, state, to.data, err);
		}
	}
	free(to.data);
	return rc;
}

enum { AT_ONCE = 1 << 18 };
_Static_assert(AT_ONCE % P4D_NF4_BLOCK == 0, "quantized weights come in whole blocks");

static uint64_t at_once(uint64_t all, uint64_t at)
{
	return all - at < AT_ONCE ? all - at : AT_ONCE;
}

static int fill_quantized(const p4d_checkpoint_storage *storage, const p4d_weight *w, p4d_fetch fetch,
			  void *context, float *numbers, p4d_error *err)
{
	p4d_quantized_part parts[P4D_SLICES_OF_WEIGHT];
	const unsigned n =
	    p4d_weights_quantized_parts(storage->layout, storage->place, storage->vocab, w, parts);

	for (unsigned j = 0; j < n; j++)
		for (uint64_t at = 0, all = elements_of(&parts[j].slice), some; at < all; at += some) {
			some = at_once(all, at);
			if (fetch(context, P4D_STATE_MASTER, &parts[j].slice, at, some, numbers, err) < 0 ||
			    storage->write_quantized(storage->context, w, &parts[j], at, numbers, some, err) <
				0)
				return -1;
		}
	return 0;
}

static int fill_as_it_is(const p4d_checkpoint_storage *storage, const p4d_weight *w, p4d_fetch fetch,
			 void *context, float *numbers, p4d_error *err)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	const unsigned n = p4d_weight_slices_of(storage->layout, storage->place, storage->vocab, w, slices);

	for (unsigned j = 0; j < n; j++)
		for (uint64_t at = 0, all = elements_of(&slices[j]), some; at < all; at += some) {
			some = at_once(all, at);
			if (fetch(context, P4D_STATE_MASTER, &slices[j], at, some, numbers, err) < 0)
				return -1;
			storage->write_frozen(storage->context, slices[j].offset + at, numbers, some);
		}
	return 0;
}

int p4d_checkpoint__fill_frozen(const p4d_checkpoint_storage *storage, p4d_fetch fetch, void *context,
				p4d_error *err)
{
	float *numbers = calloc(AT_ONCE, sizeof(*numbers));
	int rc = numbers ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for frozen weights");

	for (uint32_t i = storage->weights->trained; rc == 0 && i < storage->weights->count; i++) {
		const p4d_weight *w = &storage->weights->weight[i];
		rc = w->quantized ? fill_quantized(storage, w, fetch, context, numbers, err)
				  : fill_as_it_is(storage, w, fetch, context, numbers, err);
	}
	free(numbers);
	return rc;
}

static int fetch_stored(void *context, p4d_state state, const p4d_weight_slice *slice, uint64_t at,
			uint64_t count, float *to, p4d_error *err)
{
	return p4d_checkpoint_reader__slice(context, state, slice, at, count, to, err);
}

/* If the checkpoint has the same layout as the storage: copies its shards unchanged, including padding. */
static int copy_shards(p4d_checkpoint_reader *reader, const p4d_checkpoint_storage *storage, p4d_error *err)
{
	const p4d_checkpoint_map *map = p4d_checkpoint_reader__map(reader);
	const unsigned states = states_of(storage->layout);
	float *buffer = shard_buffer(storage, err);
	int rc = buffer ? 0 : -1;

	for (uint32_t i = 0; rc == 0 && i < storage->weights->segments; i++) {
		uint64_t first, count;
		p4d_weights_shard_of(storage->layout, &storage->weights->segment[i], storage->place, &first,
				     &count);
		for (p4d_state state = 0; rc == 0 && count && state < states; state++) {
			p4d_extent extent;
			p4d_checkpoint_map__flat(map, storage->place.pp, storage->place.tp, i, first, count,
						 &extent);
			rc = p4d_checkpoint_reader__read(reader, state, &extent, buffer, err);
			if (rc == 0)
				rc = storage->write(storage->context, i, state, buffer, err);
		}
	}
	free(buffer);
	return rc;
}

int p4d_checkpoint_load(const char *path, const p4d_checkpoint_storage *storage, p4d_checkpoint_info *info,
			p4d_error *err)
{
	p4d_checkpoint_info read;
	p4d_error why = {.code = P4D_OK};
	p4d_checkpoint_reader *reader;
	int rc;

	if (p4d_checkpoint_reader__open(&reader, path, &read, err) < 0)
		return -1;
	if (!p4d_checkpoint_map__same_model(p4d_checkpoint_reader__map(reader), storage, &why))
		rc = p4d_fail(err, P4D_E_CHECKPOINT, "%.200s: %.250s", path, why.text);
	else if (p4d_checkpoint_map__same_storage(p4d_checkpoint_reader__map(reader), storage->layout))
		rc = copy_shards(reader, storage, err);
	else
		rc = p4d_checkpoint__fill_storage(storage, fetch_stored, reader, err);
	p4d_checkpoint_reader__close(reader);
	if (rc == 0)
		*info = read;
	return rc;
}

/* The result of an attempt to load on one rank, as ranks exchange it. */
typedef struct attempt {
	uint64_t step;
	uint32_t found;
	uint32_t code; /* p4d_code of this rank's error */
	char text[480];
} attempt;

static int exchange(const p4d_checkpoint_peers *peers, attempt *all, const attempt *mine, p4d_error *err)
{
	if (peers->world > 1)
		return peers->gather(peers->context, all, mine, sizeof(*mine), err);
	all[0] = *mine;
	return 0;
}

static void set_failed(attempt *mine, const p4d_error *why)
{
	mine->code = (uint32_t)why->code;
	snprintf(mine->text, sizeof(mine->text), "%s", why->text);
}

static const attempt *failed(const attempt *all, uint32_t world)
{
	for (uint32_t i = 0; i < world; i++)
		if (all[i].code != P4D_OK)
			return &all[i];
	return NULL;
}

/*
 * Tries the newest checkpoint below a step on all ranks. Rank 0 chooses it, because on a network file system
 * other ranks may see a checkpoint later.
 */
static int try_below(const char *dir, uint64_t below, const p4d_checkpoint_storage *storage,
		     const p4d_checkpoint_peers *peers, attempt *all, p4d_checkpoint_info *info,
		     attempt *result, p4d_error *err)
{
	attempt mine = {.code = P4D_OK};
	p4d_error why = {.code = P4D_OK};
	char path[P4D_PATH];
	bool found = false;

	if (p4d_checkpoint_latest(dir, below, &mine.step, &found, &why) < 0)
		set_failed(&mine, &why);
	mine.found = found;
	if (exchange(peers, all, &mine, err) < 0)
		return -1;
	const attempt first = all[0];
	if (first.code != P4D_OK)
		return p4d_fail(err, (p4d_code)first.code, "%s", first.text);
	*result = first;
	if (!first.found)
		return 0;
	mine = (attempt){.step = first.step, .found = 1};
	if (p4d_checkpoint_path(dir, first.step, path, sizeof(path), &why) < 0 ||
	    p4d_checkpoint_load(path, storage, info, &why) < 0)
		set_failed(&mine, &why);
	if (exchange(peers, all, &mine, err) < 0)
		return -1;
	const attempt *bad = failed(all, peers->world);
	if (bad)
		*result = *bad;
	return 0;
}

int p4d_checkpoint_resume(const char *dir, const p4d_checkpoint_storage *storage,
			  const p4d_checkpoint_peers *peers, void (*warn)(void *context, const char *text),
			  void *context, p4d_checkpoint_info *info, bool *found, p4d_error *err)
{
	attempt *all = calloc(peers->world, sizeof(*all)), result = {.code = P4D_OK};
	uint64_t below = UINT64_MAX;
	uint32_t passed = 0;
	char first[400] = "";
	int rc = all ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory to resume");

	while (rc == 0) {
		rc = try_below(dir, below, storage, peers, all, info, &result, err);
		if (rc < 0 || !result.found || result.code == P4D_OK)
			break;
		/* an error of memory or of the device does not mean that the checkpoint is damaged */
		if (result.code != P4D_E_CHECKPOINT) {
			rc = p4d_fail(err, (p4d_code)result.code, "%s", result.text);
			break;
		}
		if (!passed++)
			snprintf(first, sizeof(first), "%.399s", result.text);
		if (warn && peers->rank == 0)
			warn(context, result.text);
		below = result.step;
	}
	free(all);
	if (rc == 0 && !result.found && passed)
		rc = p4d_fail(err, P4D_E_CHECKPOINT,
			      "none of the %" PRIu32 " checkpoints in %.40s is usable; the latest: %.380s",
			      passed, dir, first);
	if (rc == 0)
		*found = result.found;
	return rc;
}
