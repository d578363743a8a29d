/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"

/*
 * The order of the passes of stage r, of p stages, with m micro-batches and v chunks. All passes of one kind
 * (such as the forward passes of chunk 0) form a stream, in the order of the micro-batches. Every pass has a
 * key: its time on an ideal machine. The stage runs the passes of all its streams in the order of their keys.
 * Keys are linear in the micro-batch, or piecewise linear if warm-up and cool-down have another pace. So a
 * formula gives the place of a pass, and p4d counts slots and finds the steady state without compiling the
 * lists. Backward streams reverse the slices of a micro-batch. Their keys belong to places in the order, not
 * to slices.
 */
typedef struct p4d_pass {
	uint32_t micro_batch;
	uint16_t chunk;
	uint8_t op; /* FORWARD, BACKWARD*, EMBED_*, VOCAB_* */
} p4d_pass;

enum { P4D_STREAMS = 10, P4D_PACES = 4 };

/* Passes from `from` to the next pace's `from` (exclusive) have the keys key + step * (number - from). */
typedef struct p4d_pace {
	uint32_t from;
	int64_t key, step;
} p4d_pace;

typedef struct p4d_stream {
	uint8_t op;
	uint8_t paces;
	uint16_t chunk;
	uint32_t next;    /* number of the next pass */
	uint32_t turn;    /* number of the pass at which the current pace ends */
	uint32_t current; /* index of the current pace */
	int64_t step;
	uint32_t group, member, round; /* interleaved: first micro-batch of the group, index in the group,
					* chunk */
	p4d_pace pace[P4D_PACES];
} p4d_stream;

typedef struct p4d_schedule_order {
	unsigned streams;
	uint32_t count; /* number of passes in every stream */
	uint32_t group, chunks, slices;
	bool interleaved;         /* one stream holds all chunks, with micro-batches in groups */
	int64_t key[P4D_STREAMS]; /* key of the next pass; INT64_MAX: no more passes */
	p4d_stream stream[P4D_STREAMS];
} p4d_schedule_order;

/* Starts the order of a stage. */
void p4d_schedule_order_begin(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *order);

/* False when there are no more passes. */
bool p4d_schedule_order_next(p4d_schedule_order *order, p4d_pass *pass);

/* Adds a stream. */
void p4d_schedule_order__add(p4d_schedule_order *order, p4d_op op, uint32_t chunk, int64_t key, int64_t step);
/* Adds a pace to the stream that was added last. */
void p4d_schedule_order__pace(p4d_schedule_order *order, uint32_t from, int64_t key, int64_t step);

/* The entries of p4d_schedule_kinds. */
#define P4D_SCHEDULE_ENTRY(id, symbol, name) extern const p4d_schedule_kind p4d_schedule__##symbol;
P4D_SCHEDULE_LIST(P4D_SCHEDULE_ENTRY)

/*
 * Adds the vocabulary passes, which every stage runs at the same ideal time. The arguments are the keys of
 * micro-batch 0; the four must differ modulo the period.
 */
typedef struct p4d_vocabulary_keys {
	int64_t period, embed_forward, forward, backward, embed_backward;
} p4d_vocabulary_keys;
void p4d_schedule_order__vocabulary(p4d_schedule_order *order, const p4d_vocabulary_keys *keys);
