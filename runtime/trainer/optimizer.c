/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums gradients over all replicas, computes their norm over all ranks, and runs the optimizer on this rank's
 * shard.
 */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "model/buffers.h"
#include "model/gradient_window.h"
#include "plan/parameters.h"
#include "trainer/trainer_internal.h"

p4d_piece p4d_optimizer__piece(const p4d_trainer *t, uint32_t segment, uint64_t at, uint64_t count)
{
	const p4d_optimizer *optimizer = p4d_optimizer_of(t->net.l);
	/* a state has this rank's shards of all segments, one after another */
	const uint64_t shard = t->net.weights.segment[segment].offset / t->net.shards;
	uint64_t first, length;

	p4d_trainer_shard(t, segment, &first, &length);
	p4d_piece p = {.segment = segment,
		       .first = first + at,
		       .count = count,
		       .device = t->net.d,
		       .parameters = p4d_buffers_parameters(&t->net, segment, first + at),
		       .gradients = p4d_buffers_gradients(&t->net, segment, first + at)};
	for (p4d_state i = 0; i < optimizer->states; i++) {
		char *all = p4d_buffers_state(&t->net, i);
		p.state[i] = all ? all + (shard + at) * p4d_state_bytes(t->net.l, i) : NULL;
	}
	return p;
}

void p4d_trainer_shard(const p4d_trainer *t, uint32_t segment, uint64_t *first, uint64_t *count)
{
	p4d_weights_shard_of(t->net.l, &t->net.weights.segment[segment], t->net.place, first, count);
}

/*
 * Number of segments in a chunk. chunk == vpp stands for the tables, which have one segment or, with a window
 * of parameters, two.
 */
static uint32_t segments_of(const p4d_trainer *t, uint32_t chunk)
{
	const p4d_weights *w = &t->net.weights;

	return chunk < t->net.l->vpp ? w->of_chunk : w->segments - w->in_chunks;
}

uint32_t p4d_optimizer__segment_at(const p4d_trainer *t, uint32_t chunk, uint32_t i)
{
	return chunk * t->net.weights.of_chunk + (i < segments_of(t, chunk) ? i : 0);
}

/* Whether a layer's collectives among replicas can overlap the passes of other layers. */
static bool overlaps(const p4d_trainer *t)
{
	return p4d_comm_runs_async(t->net.dp_cp);
}

int p4d_optimizer__gather_segment(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	uint64_t first, count;

	if (t->net.shards == 1 || t->net.window || !t->net.weights.segment[segment].padded)
		return 0;
	p4d_trainer_shard(t, segment, &first, &count);
	return p4d_comm_all_gather(
	    t->net.dp_cp, p4d_buffers_parameters(&t->net, segment, t->net.weights.segment[segment].offset),
	    p4d_buffers_parameters(&t->net, segment, first), count * t->net.element, err);
}

/* Gathers segments first .. behind-1. Stores for each the call to wait for. */
static int gather_segments(p4d_trainer *t, uint32_t first, uint32_t behind, p4d_error *err)
{
	for (uint32_t i = first; i < behind; i++) {
		if (p4d_optimizer__gather_segment(t, i, err) < 0)
			return -1;
		t->gathers[i] = p4d_comm_called(t->net.dp_cp);
	}
	return 0;
}

/*
 * Starts the gathers that are due before a pass. Tables that are separate segments come first. A stage uses
 * them, if at all, in its first pass or in its last forward pass.
 */
int p4d_optimizer__gather_ahead(p4d_trainer *t, p4d_error *err)
{
	const p4d_weights *w = &t->net.weights;
	const bool tables = p4d_shards_gradients(t->net.l);

	if (tables && gather_segments(t, w->in_chunks, w->segments, err) < 0)
		return -1;
	for (size_t i = 0; i < t->net.list.count; i++) {
		const p4d_instruction *in = &t->net.list.at[i];
		const uint32_t first = p4d_optimizer__segment_at(t, in->chunk, 0);
		if (in->op == P4D_OP_GATHER_PARAMS && !(tables && in->chunk == t->net.l->vpp) &&
		    gather_segments(t, first, first + segments_of(t, in->chunk), err) < 0)
			return -1;
	}
	return 0;
}

int p4d_optimizer__await_segment(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	return p4d_comm_await(t->net.dp_cp, t->gathers[segment], err);
}

static bool is_tied_copy(const p4d_trainer *t, const p4d_weight *w)
{
	return t->net.tied_ends && (w->kind == P4D_W_EMBEDDING || w->kind == P4D_W_HEAD);
}

/*
 * Whether a tp rank's gradient of this weight is only a partial sum. It is if each rank has processed only
 * some tokens, heads or columns.
 */
static bool is_partial_over_tp(const p4d_trainer *t, const p4d_weight *w)
{
	return t->net.l->tp > 1 && w->replicated &&
	       (t->net.l->sequence_parallel || w->kind == P4D_W_QUERY_NORM || w->kind == P4D_W_KEY_NORM ||
		p4d_weights_adapts(w->kind));
}

void p4d_optimizer__part_of(const p4d_trainer *t, uint32_t segment, const p4d_weight *w, uint64_t *from,
			    uint64_t *count)
{
	uint64_t first, length, end = w->offset + w->rows * w->columns;

	p4d_trainer_shard(t, segment, &first, &length);
	*from = w->offset > first ? w->offset : first;
	end = end < first + length ? end : first + length;
	*count = end > *from ? end - *from : 0;
}

static int sum_over(p4d_trainer *t, uint32_t segment, const p4d_weight *w, p4d_group *group, p4d_error *err)
{
	uint64_t from = w->offset, count = w->rows * w->columns;

	if (!group)
		return 0;
	/* with a window of gradients, this rank has only the shard of the reduced gradient */
	if (t->net.gradient_window)
		p4d_optimizer__part_of(t, segment, w, &from, &count);
	if (p4d_comm_all_reduce(group, p4d_buffers_gradients(&t->net, segment, from), count, P4D_DT_FP32,
				P4D_SUM, err) < 0)
		return -1;
	return p4d_comm_settle(group, err);
}

/*
 * Sums a weight's gradient over ranks that are not replicas: over tp ranks if each has a partial sum, over
 * the two stages of a tied table, and over Z of a tp-grid, whose ranks have other sequences.
 */
static int sum_weight(p4d_trainer *t, uint32_t segment, const p4d_weight *w, p4d_error *err)
{
	p4d_group *group = is_tied_copy(t, w)         ? t->net.embedding_group
			   : is_partial_over_tp(t, w) ? t->net.tp
						      : NULL;

	return sum_over(t, segment, w, group, err) < 0 ||
		       sum_over(t, segment, w, w->over_z ? NULL : t->net.tp_z, err) < 0
		   ? -1
		   : 0;
}

static int sum_weights(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	const p4d_segment *s = &t->net.weights.segment[segment];

	for (uint32_t i = s->first_weight; i < s->first_weight + s->weights; i++)
		if (sum_weight(t, segment, &t->net.weights.weight[i], err) < 0)
			return -1;
	return 0;
}

/*
 * Whether a segment is summed only at the end of a step. These are tied tables, because one stage would
 * otherwise wait for the other stage's passes, and tables that no instruction of the list reduces.
 */
static bool waits_for_the_end(const p4d_trainer *t, uint32_t segment)
{
	const p4d_segment *s = &t->net.weights.segment[segment];

	for (uint32_t i = 0; i < s->weights; i++)
		if (is_tied_copy(t, &t->net.weights.weight[s->first_weight + i]))
			return true;
	return segment >= t->net.weights.in_chunks && !t->net.l->vocab_parallel;
}

static int reduce_segment(p4d_trainer *t, uint32_t segment, bool at_end, p4d_error *err)
{
	const p4d_segment *s = &t->net.weights.segment[segment];
	uint64_t first, count;

	p4d_buffers_complete_gradients(&t->net, segment);
	if (waits_for_the_end(t, segment) != at_end)
		return 0;
	if (sum_weights(t, segment, err) < 0)
		return -1;
	if (!s->padded)
		return 0;
	float *all = p4d_buffers_gradients(&t->net, segment, s->offset);
	if (t->net.shards == 1)
		return p4d_comm_all_reduce(t->net.dp_cp, all, s->padded, P4D_DT_FP32, P4D_SUM, err);
	p4d_trainer_shard(t, segment, &first, &count);
	return p4d_comm_reduce_scatter(t->net.dp_cp, p4d_buffers_gradients(&t->net, segment, first), all,
				       count, P4D_DT_FP32, err);
}

int p4d_optimizer__reduce_chunk(p4d_trainer *t, uint32_t chunk, p4d_error *err)
{
	if (t->net.gradient_window) /* with a window, gradients are reduced after every backward pass */
		return 0;
	/* all layers except the first were reduced after their last backward pass */
	for (uint32_t i = overlaps(t) && chunk < t->net.l->vpp ? 1 : segments_of(t, chunk); i-- > 0;)
		if (reduce_segment(t, p4d_optimizer__segment_at(t, chunk, i), false, err) < 0)
			return -1;
	return 0;
}

int p4d_optimizer__reduce_layer(p4d_trainer *t, const p4d_instruction *in, uint32_t layer, p4d_error *err)
{
	if (t->net.gradient_window || layer == 0 || layer >= t->net.weights.of_chunk ||
	    !p4d_schedule_ends_with(&t->net.schedule, in->micro_batch) || !overlaps(t))
		return 0;
	return reduce_segment(t, p4d_optimizer__segment_at(t, in->chunk, layer), false, err);
}

/*
 * Finishes the sums of a segment at the end of a step. For sharded gradients these are the sums over ranks
 * that are not replicas; for others, the segments that wait for the end.
 */
static int finish_segment(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	return t->net.gradient_window ? sum_weights(t, segment, err) : reduce_segment(t, segment, true, err);
}

/* Sums the gradients of this rank's shard over the ranks that have a copy of the shard. */
static int sum_copies(p4d_trainer *t, uint32_t segment, p4d_error *err)
{
	uint64_t first, count;

	p4d_trainer_shard(t, segment, &first, &count);
	return t->net.copies
		   ? p4d_comm_all_reduce(t->net.copies, p4d_buffers_gradients(&t->net, segment, first), count,
					 P4D_DT_FP32, P4D_SUM, err)
		   : 0;
}

static int finish_gradients(p4d_trainer *t, p4d_error *err)
{
	if (p4d_gradient_window_settle(&t->net, err) < 0)
		return -1;
	for (uint32_t i = 0; i < t->net.weights.segments; i++)
		if (finish_segment(t, i, err) < 0)
			return -1;
	if (p4d_comm_settle(t->net.dp_cp, err) < 0)
		return -1;
	for (uint32_t i = 0; i < t->net.weights.segments; i++)
		if (sum_copies(t, i, err) < 0)
			return -1;
	return 0;
}

/*
 * Whether this rank counts a gradient in the norm. If several ranks have the same gradient, only one counts
 * it.
 */
static bool counts(const p4d_trainer *t, const p4d_weight *w)
{
	const p4d_tp_grid at = p4d_place_grid(t->net.l, t->net.place);

	if (p4d_weights_copy_number(t->net.l, t->net.place))
		return false;
	if ((w->replicated && at.x) || (!w->over_y && at.y) || (!w->over_z && at.z))
		return false;
	return !(is_tied_copy(t, w) && w->kind == P4D_W_HEAD);
}

typedef struct sums {
	double squares, nonfinite, loss, trained, margin, preferred;
} sums;

/* A function that adds a quantity of this rank's gradients to the scalars on the device. */
typedef void measurement(p4d_trainer *t, p4d_scalars *scalars, const float *gradients, uint64_t count);

static void squares_of(p4d_trainer *t, p4d_scalars *scalars, const float *gradients, uint64_t count)
{
	t->net.d->sum_squares(t->net.d, &scalars->squares, gradients, count);
}

static void nonfinite_of(p4d_trainer *t, p4d_scalars *scalars, const float *gradients, uint64_t count)
{
	t->net.d->count_nonfinite(t->net.d, &scalars->nonfinite, gradients, count);
}

static int measure(p4d_trainer *t, measurement *add, p4d_scalars *scalars, p4d_error *err)
{
	uint64_t from, count;

	for (uint32_t i = 0; i < t->net.weights.segments; i++) {
		const p4d_segment *s = &t->net.weights.segment[i];
		for (uint32_t k = s->first_weight; k < s->first_weight + s->weights; k++) {
			const p4d_weight *w = &t->net.weights.weight[k];
			p4d_optimizer__part_of(t, i, w, &from, &count);
			if (count && counts(t, w))
				add(t, p4d_buffers_at(&t->net, B_SCALARS),
				    p4d_buffers_gradients(&t->net, i, from), count);
		}
	}
	return p4d_net_read_scalars(&t->net, scalars, err);
}

/* A part of a weight to update: `count` elements, from the offset `from` in the flat buffer. */
typedef struct part {
	const p4d_weight *weight;
	uint64_t from, count;
	p4d_device *device;
	char *parameters;
	const float *gradients;
	void *state[P4D_MOST_STATES];
} part;

/*
 * AdamW with moments in bf16. The rounding of an element depends on its position in the model's tensor, so
 * all ranks with the element round it in the same way. Padding belongs to no slice, and stays 0.
 */
static void adamw_half(p4d_trainer *t, const part *p, const p4d_adam *step)
{
	p4d_weight_slice slices[P4D_SLICES_OF_WEIGHT];
	const unsigned count =
	    p4d_weight_slices_of(t->net.l, t->net.place, t->net.set.vocab, p->weight, slices);

	for (unsigned i = 0; i < count; i++) {
		const p4d_weight_slice *s = &slices[i];
		const uint64_t behind = s->offset + s->rows * s->columns, end = p->from + p->count;
		const uint64_t from = s->offset > p->from ? s->offset : p->from,
			       to = behind < end ? behind : end;
		const uint64_t width = s->tensor_columns ? s->tensor_columns : 1;
		if (from >= to)
			continue;
		const p4d_rounding rounding = {
		    .key = p4d_hash_step(p4d_hash_bytes(s->name, strlen(s->name)), t->net.number),
		    .first = from - s->offset,
		    .columns = s->columns,
		    .stride = width,
		    .origin = s->first_row * width + s->first_column};
		float *const master = p->state[P4D_STATE_MASTER];
		const uint64_t at = from - p->from;
		p->device->adam_half(p->device, t->net.type, p->parameters + at * t->net.element,
				     master ? master + at : NULL, (uint16_t *)p->state[1] + at,
				     (uint16_t *)p->state[2] + at, p->gradients + at, to - from, step,
				     &rounding);
	}
}

/* An optimizer step on a part of a weight. scale: factor of the gradients. */
typedef void update_weight(p4d_trainer *t, const part *p, double scale);

p4d_adam p4d_optimizer__adam(const p4d_trainer *t, const p4d_weight *weight, double scale)
{
	const p4d_optimizer_settings *set = &t->optimizer;

	return (p4d_adam){
	    .learning_rate = t->learning_rate,
	    .beta1 = set->beta1,
	    .beta2 = set->beta2,
	    .epsilon = set->epsilon,
	    .weight_decay = weight->decay ? set->weight_decay : 0,
	    .correction1 = (float)(1 - pow((double)set->beta1, (double)t->net.number)),
	    .correction2 = (float)(1 - pow((double)set->beta2, (double)t->net.number)),
	    .gradient_scale = (float)scale,
	};
}

static void adamw(p4d_trainer *t, const part *p, double scale)
{
	const p4d_adam step = p4d_optimizer__adam(t, p->weight, scale);

	if (t->net.l->half_moments)
		adamw_half(t, p, &step);
	else
		p->device->adam(p->device, t->net.type, p->parameters, p->state[P4D_STATE_MASTER],
				p->state[1], p->state[2], p->gradients, p->count, &step);
}

void p4d_optimizer__update_piece(p4d_trainer *t, const p4d_piece *piece, double scale)
{
	static update_weight *const updates[P4D_OPTIMIZERS] = {[P4D_ADAMW] = adamw};
	const p4d_optimizer *optimizer = p4d_optimizer_of(t->net.l);
	const p4d_segment *s = &t->net.weights.segment[piece->segment];
	const uint64_t behind = piece->first + piece->count;

	for (uint32_t k = s->first_weight; k < s->first_weight + s->weights; k++) {
		const p4d_weight *w = &t->net.weights.weight[k];
		const uint64_t from = w->offset > piece->first ? w->offset : piece->first;
		const uint64_t end = w->offset + w->rows * w->columns, to = end < behind ? end : behind;
		if (from >= to)
			continue;
		const uint64_t at = from - piece->first;
		part p = {.weight = w,
			  .from = from,
			  .count = to - from,
			  .device = piece->device,
			  .parameters = (char *)piece->parameters + at * t->net.element,
			  .gradients = piece->gradients + at};
		for (p4d_state j = 0; j < optimizer->states; j++)
			p.state[j] = piece->state[j]
					 ? (char *)piece->state[j] + at * p4d_state_bytes(t->net.l, j)
					 : NULL;
		updates[optimizer - p4d_optimizers](t, &p, scale);
	}
}

static int update(p4d_trainer *t, double scale, p4d_error *err)
{
	uint64_t first, count;

	if (p4d_optimizer_host__is_used(t))
		return p4d_optimizer_host__update(t, scale, err);
	if (t->bytes.part)
		return p4d_optimizer_bytes__update(t, scale, err);
	if (p4d_optimizer_muon__is_used(t))
		return p4d_optimizer_muon__update(t, scale, err);
	for (uint32_t i = 0; i < t->net.weights.segments; i++) {
		p4d_trainer_shard(t, i, &first, &count);
		const p4d_piece all = p4d_optimizer__piece(t, i, 0, count);
		p4d_optimizer__update_piece(t, &all, scale);
	}
	return 0;
}

int p4d_optimizer__update(p4d_trainer *t, p4d_error *err)
{
	const double tokens = (double)t->net.l->global_batch * (double)t->net.l->seq_len;
	p4d_step_result *r = &t->result;
	p4d_scalars mine;
	double scale;

	if (finish_gradients(t, err) < 0 || measure(t, squares_of, &mine, err) < 0)
		return -1;
	/*
	 * The sum of squares is finite if and only if all gradients are. So non-finite gradients are counted
	 * only if it is not.
	 */
	if (!isfinite(mine.squares) && measure(t, nonfinite_of, &mine, err) < 0)
		return -1;
	sums all = {mine.squares, (double)mine.nonfinite, mine.loss, (double)t->net.trained,
		    mine.margin,  mine.preferred};
	if (p4d_comm_all_reduce(t->net.world, &all, sizeof(all) / sizeof(double), P4D_DT_FP64, P4D_SUM, err) <
	    0)
		return -1;
	scale = all.trained > 0 ? tokens / all.trained : 0;
	*r = (p4d_step_result){
	    .loss = all.trained > 0 ? all.loss / all.trained : 0,
	    .gradient_norm = sqrt(all.squares) * scale,
	    .tokens = (uint64_t)all.trained,
	    .nonfinite = (uint64_t)all.nonfinite,
	    .margin = all.trained > 0 ? all.margin / all.trained : 0,
	    .preferred = all.trained > 0 ? all.preferred / all.trained : 0,
	};
	/* all ranks have the same numbers, so all decide alike */
	r->applied = all.trained > 0 && !r->nonfinite && isfinite(r->gradient_norm) && isfinite(r->loss) &&
		     r->loss <= t->most_loss;
	if (!r->applied)
		return 0;
	if (t->optimizer.clip > 0 && r->gradient_norm > (double)t->optimizer.clip)
		scale *= (double)t->optimizer.clip / r->gradient_norm;
	return update(t, scale, err);
}
