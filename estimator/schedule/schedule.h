/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/layout.h"

/*
 * A pipeline schedule is data: one list of instructions per stage. The simulator times it, the planner sizes
 * it and the runtime executes it. Only the compilers decide the order of the passes and the slot that each
 * one uses.
 *
 * A micro-batch runs through stages * chunks positions, from 0 (the embedding) to stages*chunks - 1 (the
 * loss). Chunk c of stage r is at position c*stages + r. In the V-shaped schedules (two chunks) chunk 1 runs
 * back, at position 2*stages - 1 - r: stage 0 has both ends of the model, and the last stage passes its
 * result to itself at the turn.
 *
 * With token slices (TeraPipe, arXiv 2102.07988; Seq1F1B, arXiv 2406.03488), each pass processes a slice of
 * each sequence of a micro-batch. `micro_batch` then counts slices: slice i of the layout's micro-batch b has
 * the number b * slices + i. The slices of a micro-batch run forward in their order, since each attends to
 * those before it, and backward in the reverse order: the gradient of a slice's keys and values is complete
 * only after all later slices. Only kinds whose entry allows it have slices.
 */
typedef struct p4d_schedule {
	int kind;       /* index in p4d_schedule_kinds */
	int vocabulary; /* P4D_VOCAB_OFF, P4D_VOCAB_1, P4D_VOCAB_2 */
	uint32_t stages, chunks;
	uint32_t micro_batches;
	uint32_t slices; /* slices of a micro-batch; 0 means 1. Divides micro_batches, which counts slices */
	bool local;      /* for P4D_1F1B: each stage has its own loss, and no gradient crosses stages */
} p4d_schedule;

typedef enum p4d_op {
	P4D_OP_GATHER_PARAMS, /* all-gathers the parameters of a chunk over dp*cp, before their first use */
	P4D_OP_RECV_FORWARD,  /* receives the chunk's input into its slot */
	P4D_OP_FORWARD,
	P4D_OP_SEND_FORWARD, /* asynchronous, from one of P4D_SEND_BUFFERS buffers */
	P4D_OP_RECV_BACKWARD,
	P4D_OP_BACKWARD,        /* both halves of the backward pass; frees the slot */
	P4D_OP_BACKWARD_INPUT,  /* gradient of the input; keeps the slot */
	P4D_OP_BACKWARD_WEIGHT, /* gradients of weights, deferred by BACKWARD_INPUT; frees the slot */
	P4D_OP_SEND_BACKWARD,
	P4D_OP_EMBED_FORWARD,  /* vocabulary parallelism: each stage's share of the embedding, reduced to
				* stage 0 */
	P4D_OP_EMBED_BACKWARD, /* broadcasts the embedding's gradient; each stage adds its part to its
				* shard */
	P4D_OP_VOCAB_FORWARD,  /* S: broadcasts the last hidden state; local logits, maximum and sum */
	P4D_OP_VOCAB_BACKWARD, /* T: gradient of the head; in vocab-1 also the gradient of the hidden state */
	P4D_OP_REDUCE_GRADS,   /* reduce-scatters the gradients of a chunk over dp*cp, after its last
				* backward pass */
	P4D_OP_OPTIMIZER,
	P4D_OPS
} p4d_op;

enum { P4D_SEND_BUFFERS = 2 }; /* number of sends of one stage that may be in flight, per direction */

/*
 * chunk == chunks in GATHER_PARAMS, REDUCE_GRADS and the EMBED and VOCAB passes stands for the vocabulary
 * tables that vocabulary parallelism shards over the stages.
 *
 * slot: an activation slot in RECV_FORWARD, FORWARD and the backward passes; a vocabulary slot in
 * VOCAB_FORWARD and VOCAB_BACKWARD. An instruction without a slot has 0 here, like in every field that it
 * does not use. A chunk's slot is taken at RECV_FORWARD (at FORWARD if nothing is received) and freed by
 * BACKWARD or BACKWARD_WEIGHT. A vocabulary slot lives from VOCAB_FORWARD to VOCAB_BACKWARD. The lowest free
 * slot is taken.
 *
 * Neighbours: a RECV comes right before its pass and a SEND right after it. GATHER_PARAMS of a chunk comes
 * right before its first use. REDUCE_GRADS comes after the last pass that adds to the chunk's gradients (and
 * after that pass's SEND). OPTIMIZER is at the end.
 *
 * With vocabulary parallelism, results that are passed between the EMBED and VOCAB passes and the two ends of
 * the model wait in separate buffers, P4D_SEND_BUFFERS of each kind: from EMBED_FORWARD to FORWARD and from
 * BACKWARD to EMBED_BACKWARD at position 0; from FORWARD to VOCAB_FORWARD and from VOCAB_BACKWARD (vocab-1;
 * VOCAB_FORWARD in vocab-2) to BACKWARD at the last position.
 */
typedef struct p4d_instruction {
	uint32_t micro_batch;
	uint32_t slot;
	uint16_t chunk;
	uint16_t peer; /* stage at the other end of SEND and RECV; may be this stage */
	uint8_t op;    /* p4d_op */
	uint8_t reserved[3];
} p4d_instruction;

/*
 * Number of slots of each kind in a stage's list. sequences: with slices, the largest number of the layout's
 * micro-batches between the first forward and the last backward pass of one of their slices; else 0.
 * Micro-batches begin and end in order, and only one at a time runs backward. The keys and values of
 * micro-batch b are at b % sequences.
 */
typedef struct p4d_slots {
	uint32_t activation, vocabulary, sequences;
} p4d_slots;

typedef struct p4d_instruction_list {
	size_t count;
	p4d_instruction *at; /* owned */
	p4d_slots slots;
} p4d_instruction_list;

/* The schedule of a checked layout. */
p4d_schedule p4d_schedule_of(const p4d_layout *layout);

/*
 * For the interleaved schedule: the number of micro-batches that pass a chunk before the next chunk runs. It
 * is the number of stages; if that does not divide the micro-batches, the remainder is spread over the groups
 * (PyTorch's ScheduleInterleaved1F1B).
 */
static inline uint32_t p4d_schedule_group(const p4d_schedule *s)
{
	return s->micro_batches < s->stages ? s->micro_batches
					    : s->micro_batches / (s->micro_batches / s->stages);
}

static inline uint32_t p4d_schedule_positions(const p4d_schedule *s)
{
	return s->stages * s->chunks;
}

/* Number of slices of a micro-batch; 1: it is whole. */
static inline uint32_t p4d_schedule_slices(const p4d_schedule *s)
{
	return s->slices > 1 ? s->slices : 1;
}

/* Index of a slice in its micro-batch. */
static inline uint32_t p4d_schedule_slice_of(const p4d_schedule *s, uint32_t micro_batch)
{
	return micro_batch % p4d_schedule_slices(s);
}

/* Whether this micro-batch is the last to run backward. */
static inline bool p4d_schedule_ends_with(const p4d_schedule *s, uint32_t micro_batch)
{
	return micro_batch == s->micro_batches - p4d_schedule_slices(s);
}

/* Position of a stage's chunk in the model. */
static inline uint32_t p4d_schedule_position_of(const p4d_schedule *s, uint32_t stage, uint32_t chunk)
{
	return chunk == 1 && p4d_is_v_shaped(s->kind) ? 2 * s->stages - 1 - stage : chunk * s->stages + stage;
}

/* The stage (and chunk, may be NULL) at a position. */
uint32_t p4d_schedule_stage_at(const p4d_schedule *s, uint32_t position, uint32_t *chunk);

/* Whether a head and a loss follow a position: the model's or, with local losses, a stage's. */
static inline bool p4d_schedule_has_loss(const p4d_schedule *s, uint32_t position)
{
	return s->local || position == p4d_schedule_positions(s) - 1;
}

/* Whether a position receives a gradient from the next position. */
static inline bool p4d_schedule_is_told(const p4d_schedule *s, uint32_t position)
{
	return !p4d_schedule_has_loss(s, position);
}

/* Whether a position sends a gradient to the previous position. */
static inline bool p4d_schedule_tells(const p4d_schedule *s, uint32_t position)
{
	return position > 0 && !s->local;
}

/* The stage with the model's loss; the embedding is on stage 0. */
static inline bool p4d_schedule_is_last(const p4d_schedule *s, uint32_t stage)
{
	return stage == (p4d_is_v_shaped(s->kind) ? 0 : s->stages - 1);
}

/*
 * Compiles the lists of all stages into lists[stages]. The caller zeroes them before, and frees them with
 * p4d_schedule_lists_free. Errors: NO_MEMORY; OVERFLOW if a list would have more than 2^28 instructions.
 * Valid shapes are those that p4d_layout_build accepts.
 */
int p4d_schedule_compile(const p4d_schedule *s, p4d_instruction_list *lists, p4d_error *err);
void p4d_schedule_lists_free(p4d_instruction_list *lists, uint32_t stages);

/*
 * Number of slots, of one chunk each, that p4d_schedule_compile gives a stage. For slurmctld: it does not
 * compile or allocate, and its time depends only on the kind of schedule.
 */
p4d_slots p4d_schedule_slots(const p4d_schedule *s, uint32_t stage);

/*
 * For an interleaved stage whose chunks have different numbers of layers (in the order of the model): the
 * maximum number of layers that are between their forward and backward passes. Takes time linear in the
 * chunks.
 */
uint32_t p4d_schedule_layers_alive(const p4d_schedule *s, uint32_t stage, const uint16_t *chunk_layers);

/*
 * The number of layers for the last stage at the end of the last chunk's forward passes, when it holds
 * logits.
 */
uint32_t p4d_schedule_layers_alive_at_head(const p4d_schedule *s, const uint16_t *chunk_layers);

/*
 * For a stage of a V-shaped schedule. ahead: forward passes of chunk 0 before the first one of chunk 1.
 * behind: backward (input) passes of chunk 0 after the last one of chunk 1. With the chunks swapped, both
 * numbers are 0.
 */
typedef struct p4d_v_ends {
	uint32_t ahead, behind;
} p4d_v_ends;
p4d_v_ends p4d_schedule_v_ends(const p4d_schedule *s, uint32_t stage);

const char *p4d_schedule_op_name(p4d_op op); /* "forward" */
