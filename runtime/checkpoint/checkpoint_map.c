/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "checkpoint/checkpoint_internal.h"
#include "plan/parameters.h"
#include "plan/plan_line.h"

const char *p4d_checkpoint__tensor_name(const p4d_layout *layout, const char *name)
{
	return layout->tied && !strcmp(name, "lm_head.weight") ? "model.embed_tokens.weight" : name;
}

static uint64_t columns_of(const p4d_weight_slice *slice)
{
	return slice->tensor_columns ? slice->columns : 1;
}

static int by_name(const void *a, const void *b)
{
	const p4d_checkpoint_map_slice *left = a, *right = b;
	int order = strcmp(left->slice.name, right->slice.name);

	if (order)
		return order;
	if (left->stage != right->stage)
		return left->stage < right->stage ? -1 : 1;
	return left->tp < right->tp ? -1 : left->tp > right->tp;
}

static uint32_t segment_of(const p4d_weights *weights, uint32_t weight)
{
	for (uint32_t i = 0; i < weights->segments; i++)
		if (weight >= weights->segment[i].first_weight &&
		    weight - weights->segment[i].first_weight < weights->segment[i].weights)
			return i;
	return weights->segments;
}

static int add_slice(p4d_checkpoint_map *map, const p4d_weight_slice *slice, uint32_t stage, uint32_t tp,
		     uint32_t segment, p4d_error *err)
{
	if (!p4d_grow(&map->slice, &map->room, map->count + 1, sizeof(*map->slice)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the checkpoint map");
	p4d_checkpoint_map_slice *to = &map->slice[map->count++];
	*to = (p4d_checkpoint_map_slice){.slice = *slice, .stage = stage, .tp = tp, .segment = segment};
	if (!strcmp(p4d_checkpoint__tensor_name(&map->layout, slice->name), slice->name))
		return 0;
	memset(to->slice.name, 0, sizeof(to->slice.name));
	memcpy(to->slice.name, "model.embed_tokens.weight", sizeof("model.embed_tokens.weight"));
	return 0;
}

static int add_stage(p4d_checkpoint_map *map, uint32_t stage, p4d_error *err)
{
	const p4d_weights *weights = &map->stage[stage];
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];

	for (uint32_t tp = 0; tp < p4d_tp_ranks(&map->layout); tp++)
		for (uint32_t i = 0; i < weights->trained; i++) {
			p4d_place place = {.tp = tp, .pp = stage};
			unsigned n = p4d_weight_slices_of(&map->layout, place, map->vocab,
							  &weights->weight[i], slices);
			for (unsigned j = 0; j < n; j++)
				if (add_slice(map, &slices[j], stage, tp, segment_of(weights, i), err) < 0)
					return -1;
		}
	return 0;
}

static int lay_out(p4d_checkpoint_map *map, const char *plan, p4d_error *err)
{
	p4d_request request;

	if (p4d_plan_read(plan, &request, err) < 0)
		return -1;
	/* plan lines from before the option was added have no value for it */
	p4d_request_default(&request, P4D_CP_COMM, P4D_CP_P2P, P4D_BY_P4D);
	map->vocab = (uint64_t)request.value[P4D_VOCAB];
	return p4d_layout_build(&request, (uint64_t)request.value[P4D_NODES],
				(uint64_t)request.value[P4D_GPUS_PER_NODE], &map->layout, err);
}

static int build(p4d_checkpoint_map *map, const char *plan, bool model, p4d_error *err)
{
	p4d_error why;

	if (lay_out(map, plan, &why) < 0)
		return p4d_fail(err, P4D_E_CHECKPOINT, "invalid plan line: %.300s", why.text);
	if (model)
		map->layout.finetune = P4D_TUNE_FULL;
	map->stage = calloc(map->layout.pp, sizeof(*map->stage));
	if (!map->stage)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the checkpoint map");
	for (uint32_t stage = 0; stage < map->layout.pp; stage++)
		if (p4d_weights_open(&map->stage[stage], &map->layout, stage, err) < 0 ||
		    add_stage(map, stage, err) < 0)
			return -1;
	qsort(map->slice, map->count, sizeof(*map->slice), by_name);
	return 0;
}

int p4d_checkpoint_map__open(p4d_checkpoint_map *map, const char *plan, bool model, p4d_error *err)
{
	memset(map, 0, sizeof(*map));
	if (build(map, plan, model, err) == 0)
		return 0;
	p4d_checkpoint_map__close(map);
	return -1;
}

/* Closes the map. Stages that were never opened are zero, and are skipped. */
void p4d_checkpoint_map__close(p4d_checkpoint_map *map)
{
	for (uint32_t stage = 0; map->stage && stage < map->layout.pp; stage++)
		if (map->stage[stage].segment)
			p4d_weights_close(&map->stage[stage]);
	free(map->stage);
	free(map->slice);
	memset(map, 0, sizeof(*map));
}

/* Returns a number for properties in which models of the same sizes may still differ. */
static uint64_t norms_of(const p4d_layout *l)
{
	return 2 * (uint64_t)l->architecture->place + l->architecture->unit_norms;
}

static bool same_factors(const p4d_layout *a, const p4d_layout *b, p4d_error *err)
{
	const struct {
		const char *what;
		double stored, wanted;
	} factors[] = {
	    {"embedding-scale", a->factor.embedding, b->factor.embedding},
	    {"residual-scale", a->factor.residual, b->factor.residual},
	    {"attention-scale", a->factor.attention, b->factor.attention},
	    {"logit-scale", a->factor.logit, b->factor.logit},
	};

	for (size_t i = 0; i < sizeof(factors) / sizeof(*factors); i++)
		if (factors[i].stored < factors[i].wanted || factors[i].stored > factors[i].wanted) {
			p4d_fail(err, P4D_E_CHECKPOINT,
				 "the checkpoint is of another model: %s is %g, expected %g", factors[i].what,
				 factors[i].stored, factors[i].wanted);
			return false;
		}
	return true;
}

static bool same_stages(const p4d_layout *a, const p4d_layout *b)
{
	return a->local_loss == b->local_loss && a->pp == b->pp &&
	       memcmp(a->stage_layers, b->stage_layers, a->pp * sizeof(a->stage_layers[0])) == 0;
}

bool p4d_checkpoint_map__same_model(const p4d_checkpoint_map *map, const p4d_checkpoint_storage *storage,
				    p4d_error *err)
{
	static const char *const names[] = {
	    [P4D_TUNE_FULL] = "full", [P4D_TUNE_LORA] = "lora", [P4D_TUNE_QLORA] = "qlora"};
	const p4d_layout *a = &map->layout, *b = storage->layout;
	const struct {
		const char *what;
		uint64_t stored, wanted;
	} numbers[] = {
	    {"layers", a->layers, b->layers},
	    {"hidden", a->hidden, b->hidden},
	    {"ffn", a->ffn, b->ffn},
	    {"heads", a->heads, b->heads},
	    {"kv-heads", a->kv_heads, b->kv_heads},
	    {"head-dim", a->head_dim, b->head_dim},
	    {"vocab", map->vocab, storage->vocab},
	    {"tied", a->tied, b->tied},
	    {"qk-norm", a->qk_norm, b->qk_norm},
	    {"bias", (uint64_t)a->bias, (uint64_t)b->bias},
	    {"glu", a->glu, b->glu},
	    {"activation", (uint64_t)a->activation, (uint64_t)b->activation},
	    {"norm", a->norm_tensors, b->norm_tensors},
	    {"architecture (norms)", norms_of(a), norms_of(b)},
	    {"architecture (layers without positions)", a->architecture->unrotated_every,
	     b->architecture->unrotated_every},
	    {"max-seq-len", a->positions, b->positions},
	    {"lora-rank", a->lora.rank, b->lora.rank},
	    {"lora-targets", a->lora.targets, b->lora.targets},
	};

	if (a->finetune != b->finetune) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "the checkpoint is of a run with --finetune=%s, but this run has --finetune=%s",
			 names[a->finetune], names[b->finetune]);
		return false;
	}
	if (a->optimizer != b->optimizer && !b->evaluates) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "the checkpoint is of a run with --optimizer=%s, but this run has --optimizer=%s",
			 p4d_optimizer_of(a)->name, p4d_optimizer_of(b)->name);
		return false;
	}
	if (b->local_loss && !same_stages(a, b)) {
		p4d_fail(err, P4D_E_CHECKPOINT,
			 "the checkpoint is of a run with %s, whose stages have other losses than this run "
			 "with --local-loss=stage and pp=%" PRIu64,
			 a->local_loss ? "other stages" : "--local-loss=off", b->pp);
		return false;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].stored != numbers[i].wanted) {
			p4d_fail(err, P4D_E_CHECKPOINT,
				 "the checkpoint is of another model: %s is %" PRIu64 ", expected %" PRIu64,
				 numbers[i].what, numbers[i].stored, numbers[i].wanted);
			return false;
		}
	return same_factors(a, b, err);
}

/*
 * Whether two layouts divide stages with the same number of layers into the same segments. On a GPU each
 * layer is a segment, and tables may be segments of their own.
 */
static bool same_segments(const p4d_layout *a, const p4d_layout *b)
{
	for (uint32_t stage = 0; stage < a->pp; stage++)
		if (p4d_chunk_segments(a, stage) != p4d_chunk_segments(b, stage))
			return false;
	return p4d_cuts_segments(a) == p4d_cuts_segments(b);
}

bool p4d_checkpoint_map__same_storage(const p4d_checkpoint_map *map, const p4d_layout *layout)
{
	const p4d_layout *a = &map->layout, *b = layout;

	if (a->tp != b->tp || a->tp_y != b->tp_y || a->tp_z != b->tp_z || a->cp != b->cp || a->pp != b->pp ||
	    a->vpp != b->vpp || a->dp != b->dp || a->vocab != b->vocab ||
	    !a->vocab_parallel != !b->vocab_parallel ||
	    p4d_is_v_shaped(a->schedule) != p4d_is_v_shaped(b->schedule) ||
	    p4d_optimizer_shards(a) != p4d_optimizer_shards(b) || a->local_loss != b->local_loss)
		return false;
	return memcmp(a->stage_layers, b->stage_layers, a->pp * sizeof(a->stage_layers[0])) == 0 &&
	       same_segments(a, b);
}

void p4d_checkpoint_map__flat(const p4d_checkpoint_map *map, uint32_t stage, uint32_t tp, uint32_t segment,
			      uint64_t at, uint64_t count, p4d_extent *out)
{
	const p4d_layout *l = &map->layout;
	const p4d_weights *weights = &map->stage[stage];
	const uint64_t shards = p4d_optimizer_shards(l), before = weights->segment[segment].offset;
	const uint64_t shard = weights->segment[segment].padded / shards, number = (at - before) / shard;
	const uint64_t inside = (at - before) % shard;
	const p4d_place place = {
	    .tp = tp, .cp = (uint32_t)(number % l->cp), .dp = (uint32_t)(number / l->cp), .pp = stage};

	*out = (p4d_extent){.rank = p4d_place_rank(l, place), .first = inside};
	for (uint32_t i = 0; i < segment; i++)
		out->first += weights->segment[i].padded / shards;
	out->count = count < shard - inside ? count : shard - inside;
}

const p4d_checkpoint_map_slice *p4d_checkpoint_map__named(const p4d_checkpoint_map *map, const char *name)
{
	size_t low = 0, high = map->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(map->slice[middle].slice.name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < map->count && !strcmp(map->slice[low].slice.name, name) ? &map->slice[low] : NULL;
}

static bool holds(const p4d_weight_slice *slice, uint64_t row, uint64_t column)
{
	return row >= slice->first_row && row - slice->first_row < slice->rows &&
	       (!slice->tensor_columns ||
		(column >= slice->first_column && column - slice->first_column < slice->columns));
}

/*
 * Finds the slice that has an element. The search begins at *hint, an index of the table, because most calls
 * continue where the last one ended. Any hint is valid.
 */
static const p4d_checkpoint_map_slice *find_holder(const p4d_checkpoint_map *map, const char *name,
						   uint64_t row, uint64_t column, size_t *hint)
{
	const p4d_checkpoint_map_slice *at = map->count > *hint ? &map->slice[*hint] : NULL;

	if (at && holds(&at->slice, row, column) && !strcmp(at->slice.name, name))
		return at;
	at = p4d_checkpoint_map__named(map, name);
	for (; at && at < map->slice + map->count && !strcmp(at->slice.name, name); at++)
		if (holds(&at->slice, row, column)) {
			*hint = (size_t)(at - map->slice);
			return at;
		}
	return NULL;
}

int p4d_checkpoint_map__find(const p4d_checkpoint_map *map, const p4d_weight_slice *slice, uint64_t at,
			     uint64_t count, size_t *hint, p4d_extent *out, p4d_error *err)
{
	const char *name = p4d_checkpoint__tensor_name(&map->layout, slice->name);
	const uint64_t width = columns_of(slice), vector = !slice->tensor_columns;
	const uint64_t row = slice->first_row + at / width;
	const uint64_t column = vector ? 0 : slice->first_column + at % width;
	const p4d_checkpoint_map_slice *from = find_holder(map, name, row, column, hint);

	if (!from || from->segment >= map->stage[from->stage].segments ||
	    from->slice.tensor_rows != slice->tensor_rows ||
	    from->slice.tensor_columns != slice->tensor_columns)
		return p4d_fail(err, P4D_E_CHECKPOINT,
				"the checkpoint does not contain %.95s, row %" PRIu64 ", column %" PRIu64
				", which this model has",
				slice->name, row, column);
	const uint64_t stored = columns_of(&from->slice);
	const uint64_t left = vector ? 0 : column - from->slice.first_column;
	const uint64_t inside = (row - from->slice.first_row) * stored + left;
	uint64_t some;
	if (vector || (stored == width && from->slice.first_column == slice->first_column))
		some = from->slice.rows * stored - inside; /* all rows that both slices have are contiguous */
	else
		some = width - at % width < stored - left ? width - at % width : stored - left;
	p4d_checkpoint_map__flat(map, from->stage, from->tp, from->segment, from->slice.offset + inside,
				 count < some ? count : some, out);
	return 0;
}
