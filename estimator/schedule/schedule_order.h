/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"

/*
 * The order of a stage's passes. Of p stages and m micro-batches, in v chunks, this is stage r. All passes of
 * one kind (the forwards of chunk 0, say) form a stream, in the order of the micro-batches; every pass has a
 * key, its time on an ideal machine, and the order of the stage is the merge of its streams by key. Keys are
 * linear in the micro-batch, or piecewise linear where warm-up and cool-down run at another pace, so a pass's
 * place is arithmetic: the slots are counted and the steady state is found without compiling. Backward
 * streams take the slices of a micro-batch in reverse: the keys are those of places.
 */
typedef struct p4d_pass {
	uint32_t micro_batch;
	uint16_t chunk;
	uint8_t op; /* FORWARD, BACKWARD*, EMBED_*, VOCAB_* */
} p4d_pass;

enum { P4D_STREAMS = 10, P4D_PACES = 4 };

/* Passes [from, from of the next pace) have the keys key + step * (number - from). */
typedef struct p4d_pace {
	uint32_t from;
	int64_t key, step;
} p4d_pace;

typedef struct p4d_stream {
	uint8_t op;
	uint8_t paces;
	uint16_t chunk;
	uint32_t next;    /* number of the next pass */
	uint32_t turn;    /* where the current pace ends */
	uint32_t current; /* pace */
	int64_t step;
	uint32_t group, member, round; /* interleaved: first micro-batch of the group, place in it, chunk */
	p4d_pace pace[P4D_PACES];
} p4d_stream;

typedef struct p4d_schedule_order {
	unsigned streams;
	uint32_t count; /* passes in every stream */
	uint32_t group, chunks, slices;
	bool interleaved;         /* a stream holds all chunks, micro-batches in groups */
	int64_t key[P4D_STREAMS]; /* key of the next pass; INT64_MAX: none */
	p4d_stream stream[P4D_STREAMS];
} p4d_schedule_order;

/* Starts the order of a stage. */
void p4d_schedule_order_begin(const p4d_schedule *s, uint32_t stage, p4d_schedule_order *order);

/* False when there are no more passes. */
bool p4d_schedule_order_next(p4d_schedule_order *order, p4d_pass *pass);

/* Implementation: a new stream; another pace of it. */
void p4d_schedule_order__add(p4d_schedule_order *order, p4d_op op, uint32_t chunk, int64_t key, int64_t step);
void p4d_schedule_order__pace(p4d_schedule_order *order, uint32_t from, int64_t key, int64_t step);

/* The entries of p4d_schedule_kinds. */
#define P4D_SCHEDULE_ENTRY(id, symbol, name) extern const p4d_schedule_kind p4d_schedule__##symbol;
P4D_SCHEDULE_LIST(P4D_SCHEDULE_ENTRY)

/*
 * Vocabulary passes that every stage runs at the same ideal time. Keys of micro-batch 0; the four must differ
 * modulo the period.
 */
typedef struct p4d_vocabulary_keys {
	int64_t period, embed_forward, forward, backward, embed_backward;
} p4d_vocabulary_keys;
void p4d_schedule_order__vocabulary(p4d_schedule_order *order, const p4d_vocabulary_keys *keys);
