/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/torch_blocks.h"
#include "framework/transformers.h"

/* A matrix of a layer: its number of elements, and that of the two factors of its adapter together. */
typedef struct p4d_reserved_parameter {
	uint64_t elements, adapter[2];
} p4d_reserved_parameter;

typedef struct p4d_reserved_parameters {
	p4d_reserved_parameter of[P4D_TRANSFORMERS_LINEARS + 3];
	unsigned count;
} p4d_reserved_parameters;

/* Buckets of a unit that is broadcast: one is being filled, the others are being sent. */
typedef struct p4d_reserved_buckets {
	p4d_wide bytes;
	unsigned tensors;
	p4d_allocated sent[2];
} p4d_reserved_buckets;

/* Upper bounds of the layers and units that are simulated. */
enum { P4D_RESERVED_LAYERS = 24, P4D_RESERVED_UNITS = P4D_RESERVED_LAYERS + 2 };
struct p4d_reserved;

/* Functions that sharding adds to a step; NULL: nothing is added there. Unit 0 is the embedding, then
 * follow the layers, and the last unit is the end of the model. */
typedef struct p4d_reserved_engine {
	void (*load)(struct p4d_reserved *r); /* instead of load() of transformers_reserved.c */
	void (*before_forward)(struct p4d_reserved *r, unsigned unit);
	void (*after_forward)(struct p4d_reserved *r, unsigned unit);
	void (*before_backward)(struct p4d_reserved *r, unsigned unit);
	void (*gradient)(void *r, uint64_t bytes);
	void (*after_backward)(struct p4d_reserved *r, unsigned unit);
	void (*update)(struct p4d_reserved *r, bool first); /* instead of p4d_reserved__update */
} p4d_reserved_engine;

/* Gradients with ZeRO 1 and 2, in elements; see transformers_zero.h. */
typedef struct p4d_reserved_zero {
	uint64_t share, from, to; /* a rank's share; bounds of the simulated rank's window */
	uint64_t own; /* elements of all parameters of which the window has at least one element */
	uint64_t all,
	    at; /* elements of all parameters; position at which the next parameter ends or begins */
	uint64_t waiting; /* elements in the bucket */
	bool own_waits, has_own, upwards;
	p4d_allocated bucket[2], kept;
} p4d_reserved_zero;

/*
 * A parameter with ZeRO-3: its block, or the number of the group with which it was gathered ahead; 0:
 * neither.
 */
enum { P4D_RESERVED_GROUPS = 64 };
typedef struct p4d_reserved_gathered {
	p4d_allocated block;
	short group;
} p4d_reserved_gathered;

/* Two steps of a rank while they are simulated. */
typedef struct p4d_reserved {
	const p4d_reserved_engine *engine;
	const p4d_layout *l;
	uint32_t layers;
	unsigned micro_batches, micro_batch; /* simulated micro-batches of a step; the current one */
	bool full, again;                    /* all parameters are trained; layers are recomputed */
	bool all_need;                       /* the first layer's input has a gradient */
	unsigned stored, trained;            /* bytes of a parameter, and of a trained parameter */
	unsigned element;                    /* bytes of a gradient as the backward pass makes it */
	uint64_t places;                     /* elements of the table of learned positions */
	uint64_t quantized_bytes;
	uint64_t shards;
	unsigned visited; /* number of parameters whose states exist */
	unsigned pending; /* index of the next gradient of the first micro-batch that is not yet reduced */
	p4d_allocated gathered, reducing; /* FSDP2: last gathered unit; gradients in reduction */
	p4d_reserved_zero zero;
	p4d_reserved_buckets buckets;
	bool knows;    /* ZeRO-3: after the first step, DeepSpeed knows which parameters come next */
	uint64_t live; /* number of gathered elements */
	p4d_reserved_gathered parameter[P4D_RESERVED_UNITS * (P4D_TRANSFORMERS_LINEARS + 3)];
	p4d_allocated group[P4D_RESERVED_GROUPS];
	p4d_reserved_parameters parameters;
	p4d_tape_writer w;
	p4d_allocated state;                                                   /* block of the last
										* layer's result */
	p4d_allocated unit[P4D_RESERVED_UNITS], unreduced[P4D_RESERVED_UNITS]; /* FSDP1: whole units */
	p4d_caching_allocator main, gathers, reduces, casts;                   /* blocks, by stream */
	p4d_allocator_streams streams; /* the four streams main, gathers, reduces, casts */
	p4d_tape tape;
	p4d_torch_blocks b;
	p4d_torch_held_blocks saves, some, grads, inputs, cached, copies, reduced;
	unsigned of_unit[P4D_RESERVED_UNITS]; /* gradients, or blocks, of a unit */
} p4d_reserved;

/* Allocates a block on the main stream and adds it to `into`. If `into` is NULL, the block is never freed. */
static inline void p4d_reserved__take(p4d_reserved *r, p4d_torch_held_blocks *into, p4d_wide bytes)
{
	p4d_torch_blocks__take(&r->main, into, bytes);
}

/* Frees all blocks of the list except the first `count`. */
static inline void p4d_reserved__give(p4d_reserved *r, p4d_torch_held_blocks *from, unsigned count)
{
	p4d_torch_blocks__release(&r->main, from, count);
}

static inline void p4d_reserved__take_for_a_while(p4d_reserved *r, p4d_wide bytes)
{
	p4d_allocator_touch(&r->main, bytes);
}

static inline bool p4d_reserved__is_last(const p4d_reserved *r)
{
	return r->micro_batch + 1 == r->micro_batches;
}

/* The matrices of a layer of this kind, in the order of the modules. Norms and biases are omitted because
 * they are small. */
void p4d_reserved__list_parameters(const p4d_layout *layout, unsigned kind,
				   p4d_reserved_parameters *parameters);
/* Elements of the embedding, or of the head. */
uint64_t p4d_reserved__table_of(const p4d_layout *layout);

/* Calls visit for each parameter, or each trained parameter, of a unit. */
typedef void p4d_reserved_visit(p4d_reserved *r, uint64_t elements);
/*
 * Two functions of this type. __load: allocates a parameter that stays. __hold: allocates a parameter and
 * adds its block to r->some.
 */
p4d_reserved_visit p4d_reserved__load, p4d_reserved__hold;
/* Adds a gradient to r->grads or, if an earlier micro-batch left a gradient, to that one. */
void p4d_reserved__add_gradient(void *owner, uint64_t bytes);
void p4d_reserved__each_of_unit(p4d_reserved *r, unsigned unit, p4d_reserved_visit *visit);
void p4d_reserved__each_trained(p4d_reserved *r, p4d_reserved_visit *visit);
void p4d_reserved__update(p4d_reserved *r, bool first);
/* Bytes of a gathered unit. */
p4d_wide p4d_reserved__unit_bytes(const p4d_reserved *r, unsigned unit);

extern const p4d_reserved_engine p4d_reserved__units, p4d_reserved__bf16, p4d_reserved__zero,
    p4d_reserved__zero3, p4d_reserved__flat;
