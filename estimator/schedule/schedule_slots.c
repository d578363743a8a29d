/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wide.h"
#include "schedule/schedule_order.h"

/*
 * Counts slots without compiling. Suppose that each stream of a stage has a single pace, and all have the
 * same step. Then, just before pass j of stream d, the next pass of stream x is number j + c, with a constant
 * c for each pair of streams. The number of live slots is therefore a sum of such numbers, each clamped to
 * 0..m. It is piecewise linear in j, with breaks where clamping begins or ends, so the maximum is at one of
 * the breaks.
 */

static int64_t clamped(int64_t n, int64_t count)
{
	return n < 0 ? 0 : n > count ? count : n;
}

/* Number of passes of `x` before pass 0 of `d`, for endless streams. */
static int64_t lead(const p4d_stream *x, const p4d_stream *d)
{
	int64_t gap = d->pace[0].key - x->pace[0].key;

	/* rounds up, also below zero; the keys of a stage are distinct, so no two passes coincide */
	return gap > 0 ? (gap - 1) / d->step + 1 : -(-gap / d->step);
}

/*
 * Maximum number of slots that are in use. op_taking takes a slot, and op_freeing frees it. Counts all
 * chunks.
 */
static uint32_t most_alive(const p4d_schedule_order *o, p4d_op taking, p4d_op freeing)
{
	int64_t lead_of[P4D_STREAMS], sign[P4D_STREAMS], most = 0;
	const int64_t m = o->count;

	for (unsigned d = 0; d < o->streams; d++) {
		unsigned streams = 0;
		if (o->stream[d].op != freeing)
			continue;
		for (unsigned x = 0; x < o->streams; x++) {
			if (o->stream[x].op != taking && o->stream[x].op != freeing)
				continue;
			sign[streams] = o->stream[x].op == taking ? 1 : -1;
			lead_of[streams++] = lead(&o->stream[x], &o->stream[d]);
		}
		for (unsigned place = 0; place < 2 * streams; place++) {
			int64_t j = clamped((place % 2 ? m : 0) - lead_of[place / 2], m - 1), alive = 0;
			for (unsigned x = 0; x < streams; x++)
				alive += sign[x] * clamped(j + lead_of[x], m);
			most = alive > most ? alive : most;
		}
	}
	return (uint32_t)most;
}

/*
 * Maximum number of micro-batches that have begun and not ended, for a schedule with slices, which has two
 * streams. Before backward pass j there are j + ahead forwards, so the number is ceil((j + ahead) / slices) -
 * floor(j / slices). The maximum is before the last slice of a micro-batch runs backward.
 */
static uint32_t sequences_begun(const p4d_schedule *s, const p4d_schedule_order *o)
{
	const int64_t slices = p4d_schedule_slices(s), ahead = lead(&o->stream[0], &o->stream[1]);
	const int64_t most = s->micro_batches / slices, begun = (ahead + 2 * slices - 2) / slices;

	return (uint32_t)(begun < most ? begun : most);
}

p4d_slots p4d_schedule_slots(const p4d_schedule *s, uint32_t stage)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[s->kind];
	p4d_schedule_order order;
	p4d_slots slots = {0};

	if (kind->slots)
		return kind->slots(s, stage);
	p4d_schedule_order_begin(s, stage, &order);
	slots.activation =
	    most_alive(&order, P4D_OP_FORWARD, kind->split ? P4D_OP_BACKWARD_WEIGHT : P4D_OP_BACKWARD);
	if (s->vocabulary != P4D_VOCAB_OFF)
		slots.vocabulary = most_alive(&order, P4D_OP_VOCAB_FORWARD, P4D_OP_VOCAB_BACKWARD);
	if (p4d_schedule_slices(s) > 1)
		slots.sequences = sequences_begun(s, &order);
	return slots;
}

p4d_v_ends p4d_schedule_v_ends(const p4d_schedule *s, uint32_t stage)
{
	const p4d_v_ends many = p4d_schedule_kinds[s->kind]->ends(s->stages - stage);

	return (p4d_v_ends){.ahead = P4D_LEAST(many.ahead, s->micro_batches),
			    .behind = P4D_LEAST(many.behind, s->micro_batches)};
}

/*
 * In an interleaved schedule, passes run through the chunks in groups of micro-batches, backward in the
 * reverse order. Returns the maximum number of layers that are alive during forward passes of chunk `from`
 * and later ones.
 */
static uint32_t layers_alive(const p4d_schedule *s, uint32_t stage, const uint16_t *chunk_layers,
			     uint64_t from)
{
	const uint64_t group = p4d_schedule_group(s), period = group * s->chunks,
		       all = (uint64_t)s->micro_batches * s->chunks;
	const uint64_t ahead =
	    p4d_schedule_slots(s, stage).activation; /* forward passes before the first backward pass */
	const uint64_t end = ahead + period < all ? ahead + period : all;
	int64_t alive = 0, most = 0;

	/* each round takes the passes that stay in one chunk */
	for (uint64_t i = 0, run; i < end; i += run) {
		const uint64_t chunk = i % period / group;
		const int64_t taken = chunk_layers[chunk * s->stages + stage];
		int64_t freed = 0;
		run = group - i % group;
		if (i + 1 < ahead) {
			run = run < ahead - 1 - i ? run : ahead - 1 - i;
		} else {
			const uint64_t back = i + 1 - ahead;
			freed = chunk_layers[(s->chunks - 1 - back % period / group) * s->stages + stage];
			run = run < group - back % group ? run : group - back % group;
		}
		run = run < end - i ? run : end - i;
		const int64_t first = alive + taken, last = first + (int64_t)(run - 1) * (taken - freed);
		most = chunk >= from && first > most ? first : most;
		most = chunk >= from && last > most ? last : most;
		alive += (int64_t)run * (taken - freed);
	}
	return (uint32_t)most;
}

uint32_t p4d_schedule_layers_alive(const p4d_schedule *s, uint32_t stage, const uint16_t *chunk_layers)
{
	return layers_alive(s, stage, chunk_layers, 0);
}

uint32_t p4d_schedule_layers_alive_at_head(const p4d_schedule *s, const uint16_t *chunk_layers)
{
	return layers_alive(s, s->stages - 1, chunk_layers, s->chunks - 1);
}
