/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cost/counted.h"
#include "rehearse/player.h"
#include "rehearse/rehearsed_serving.h"

enum { P4D_REHEARSED_PHASES = 64, P4D_REHEARSED_NAMES = 64 };

/* The peaks of one phase of a step, in bytes. */
typedef struct p4d_rehearsed_phase {
	char name[32]; /* load, forward, backward, update, between, evaluation, save */
	uint64_t step; /* number of the step, from 1 */
	uint64_t allocated, reserved;
	uint64_t parameters, gradients, optimizer; /* bytes at the end of the phase */
	uint64_t flops, collective_bytes;          /* FLOPs of matmuls, and bytes passed to NCCL */
} p4d_rehearsed_phase;

/*
 * Memory at the peak of PyTorch's allocated memory: blocks of one kind that belong to one module, or to
 * several equal modules.
 */
typedef struct p4d_rehearsed_largest {
	const char
	    *kind; /* parameters, gradients, optimizer, buffers, activations, logits, communication, other */
	const char *module; /* "layers.*.mlp"; NULL: the memory belongs to the whole model, or the module is
			       unknown */
	uint64_t bytes, blocks;
} p4d_rehearsed_largest;

/* A place at which the program reads a value that only a real GPU could compute. */
typedef struct p4d_rehearsed_read {
	const char *name, *place; /* the operator, and its place: "train.py:17" */
	uint64_t count;
} p4d_rehearsed_read;

/* Memory and work of a rank that ran. `text` and `rows` own the strings. */
typedef struct p4d_rehearsed {
	p4d_played played;
	unsigned phases;
	p4d_rehearsed_phase phase[P4D_REHEARSED_PHASES];
	uint64_t allocated, reserved; /* peaks over all phases; 0 if the program does not use PyTorch */
	uint64_t device;              /* peak on the fullest device, including the context; 0: no device
				       * was used */
	uint64_t refused, held;       /* refused: bytes of the request that did not fit. held: bytes in use on
				       * the device at that time. 0: all requests fitted. */
	uint64_t allowed;             /* limit for PyTorch's memory that the program has set itself, if it ran
				       * out of memory there; 0: none */
	uint64_t passes;              /* backward passes without an optimizer, at least; 0: an optimizer ran,
				       * or there was no pass */
	uint64_t pinned, managed;
	uint64_t products, flops, collectives, collective_bytes, unknown_reads, even_routes;
	bool python;     /* Python ran */
	bool followed;   /* p4d's Python module recorded reads of values that only a GPU computes */
	bool updated;    /* an optimizer has run at least one step */
	bool raised;     /* an exception ended the program that is not an out-of-memory error */
	uint64_t caught; /* out-of-memory errors of PyTorch that the program caught; it continued, unless it
			  * failed later */
	uint64_t copied; /* peak of the host memory that copies from the device would have filled */
	unsigned largest_count;
	p4d_rehearsed_largest largest[P4D_REHEARSED_NAMES]; /* the largest first */
	p4d_rehearsed_serving serving;
	p4d_counted work;             /* work of the last step whose optimizer ran */
	p4d_counted begun;            /* work of the last step that began, */
	uint64_t begun_step;          /* and its number */
	struct json_object *timeline; /* as account.py writes it; NULL: none */
	unsigned read_count;
	p4d_rehearsed_read read[P4D_REHEARSED_NAMES]; /* the first of the unknown_reads */
	unsigned unseen_count;
	const char *unseen[P4D_REHEARSED_NAMES]; /* requested phases that the program did not reach */
	unsigned missing_count, doubts_count;
	const char *missing[P4D_REHEARSED_NAMES], *doubts[P4D_REHEARSED_NAMES];
	const char *missing_place; /* place of the first call of `missing`: "train.py:17"; NULL: unknown */
	const char *unvalidated;   /* the first reason for a doubt; NULL: none */
	struct json_object *text, *rows;
} p4d_rehearsed;

/* p4d_rehearsed__play runs a rank and then calls p4d_rehearsed__read. It may run the same rank again. */
/* Reads a rank's files. If a file does not exist, its members stay 0. Errors: JSON, IO. The caller ends
 * with p4d_rehearsed__free. */
int p4d_rehearsed__play(p4d_rehearsed *r, const p4d_player *player, uint64_t rank, p4d_error *err);
int p4d_rehearsed__read(p4d_rehearsed *r, const p4d_player *player, const p4d_played *played, p4d_error *err);
void p4d_rehearsed__free(p4d_rehearsed *r);

/* Draws the rank's memory over time. Errors: UNMODELLED if PyTorch's allocator kept no history, IO,
 * NO_MEMORY. */
int p4d_rehearsed__draw(const p4d_rehearsed *r, const p4d_player *player, const char *path, p4d_error *err);

/* Work of the last step whose optimizer ran: FLOPs, and bytes of collectives; false: there is none. */
bool p4d_rehearsed__last_step(const p4d_rehearsed *r, uint64_t *flops, uint64_t *collective_bytes);

/* Whether the program ended because memory ran out. If it continued after a request that did not fit, its
 * end may have another reason. */
bool p4d_rehearsed__ran_out(const p4d_rehearsed *r);

/* Whether it did so at a limit that the program has set itself (torch.cuda.set_per_process_memory_fraction):
 * the GPU had memory left. */
bool p4d_rehearsed__limits_itself(const p4d_rehearsed *r);

/* Whether the program caught an out-of-memory error and continued, perhaps with smaller sizes. Its memory
 * may then differ on another GPU. */
bool p4d_rehearsed__adapts(const p4d_rehearsed *r);

/* The phase with the most reserved memory; NULL: none is known. */
const p4d_rehearsed_phase *p4d_rehearsed__peak(const p4d_rehearsed *r);

typedef enum p4d_rehearsed_verdict {
	P4D_REHEARSED_PASS,
	P4D_REHEARSED_WARN,       /* above 95 % of the GPU, or something makes the answer less certain */
	P4D_REHEARSED_INCOMPLETE, /* p4d cannot tell; the reason says why */
	P4D_REHEARSED_REJECT,     /* it ran out of the GPU's memory */
} p4d_rehearsed_verdict;

/* The verdict on the rank. reason: empty for a pass. */
p4d_rehearsed_verdict p4d_rehearsed__judge(const p4d_rehearsed *r, const p4d_gpu *gpu, char *reason,
					   size_t size);
const char *p4d_rehearsed__verdict_name(p4d_rehearsed_verdict verdict);
