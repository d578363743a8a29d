/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "plan/plan_memo.h"
#include "request/layout.h"

/* Bytes of GPU memory of a rank outside the allocator: the CUDA context. */
uint64_t p4d_memory_context_bytes(void);

/* Memory classes of a stage, in the order they are printed. PART(ID, json name) */
#define P4D_PARTS(PART) \
	PART(PARAMS, params) \
	PART(GRADS, grads) \
	PART(OPTIMIZER, optimizer) \
	PART(ACTIVATIONS, activations) \
	PART(LOGITS, logits) \
	PART(WORKING_SET, working_set) \
	PART(GRAPHS, graphs) \
	PART(WEIGHT_GRAD, weight_grad_buffers) \
	PART(ATTENTION, attention) \
	PART(STAGING, staging) \
	PART(LIBRARIES, libraries) \
	PART(FRAGMENTATION, fragmentation) \
	PART(CONTEXT, context) \
	PART(COMM, comm)

typedef enum p4d_memory_class {
#define PART(id, name) P4D_PART_##id,
	P4D_PARTS(PART)
#undef PART
	    P4D_PART_COUNT
} p4d_memory_class;

#define P4D_NOT_MODELLED UINT64_MAX

/* The phases of a job, in their order. PHASE(ID, name). "Resuming" loads a checkpoint. */
#define P4D_PHASE_LIST(PHASE) \
	PHASE(INIT, init) \
	PHASE(TRAIN, train) \
	PHASE(STEP, step) \
	PHASE(EVALUATION, evaluation) \
	PHASE(SAVE, save) \
	PHASE(RESUME, resume)

#define PHASE(id, name) P4D_##id,
typedef enum p4d_phase { P4D_PHASE_LIST(PHASE) P4D_PHASES } p4d_phase;
#undef PHASE

/* Host memory in addition to host_bytes, for one rank or one node. Bytes; 0: none, or unknown. */
typedef struct p4d_host_beside {
	uint64_t pinned;   /* bytes that PyTorch allocates for pinned tensors, if the program asks for them */
	uint64_t rounding; /* part of pinned beyond the tensors: PyTorch rounds each allocation up to a
			    * power of two */
	uint64_t loading;  /* weights that each rank reads from disk into its own memory */
	uint64_t saving;   /* peak of the rank that saves a checkpoint */
} p4d_host_beside;

/* Memory of one rank of one pipeline stage. The classes before FRAGMENTATION are inside the allocator. */
typedef struct p4d_stage {
	uint64_t part[P4D_PART_COUNT];    /* at the peak phase */
	p4d_phase phase;                  /* phase of the peak */
	uint64_t phase_bytes[P4D_PHASES]; /* allocated; P4D_NOT_MODELLED when unknown */
	uint64_t allocated_bytes;
	uint64_t device_bytes; /* allocated + fragmentation + context + communicators */
	uint64_t host_bytes;   /* memory of one rank that is on the host instead of the GPU */
	p4d_host_beside host;
	bool plays_allocator; /* fragmentation is from a simulated allocator, not a constant share */
} p4d_stage;

/* The allocator of a stage, as p4d_memory_play simulated it. */
enum { P4D_PLAYED_STAGES = 4 }; /* the most stages that are simulated for a verdict */

typedef struct p4d_played_stage {
	uint32_t stage;
	uint64_t bytes; /* see p4d_memory_reserved */
} p4d_played_stage;

typedef struct p4d_estimate {
	int method;
	const p4d_gpu *gpu;      /* NULL when unknown */
	uint64_t capacity_bytes; /* denominator of the fraction: usable GPU bytes (nominal for `paper`);
				  * with cpu, host bytes per rank */
	uint32_t stage;          /* the stage with the most memory */
	p4d_stage peak;          /* peak of that stage */
	double fraction;
	bool is_played; /* p4d_memory_play was called, so that other stages are also simulated */
	p4d_played_stage played[P4D_PLAYED_STAGES];
	uint32_t stages_played;
	uint64_t host_bytes; /* per node, at most; P4D_NOT_MODELLED if unknown */
	/*
	 * Part of host_bytes: tensors that are offloaded and stay on the host, without an allowance for
	 * processes. 0 if activations are also offloaded, because they are on the host only for a part of the
	 * step.
	 */
	uint64_t offloaded_bytes;
	/* Per node, in addition to host_bytes; verdicts use only host_bytes. saving: on the node that
	 * saves. */
	p4d_host_beside host;
} p4d_estimate;

/* Number of stages that a method distinguishes: pp; 1 for `paper`, which describes only the first stage. */
uint32_t p4d_memory_stage_count(const p4d_layout *layout, int method);

/* NCCL's memory for a communicator of this many ranks. */
uint64_t p4d_memory_communicator_bytes(uint64_t ranks);
/* NCCL's memory for the communicators that every framework has (tp, cp, dp, pp). */
uint64_t p4d_memory_usual_groups_bytes(const p4d_layout *layout, uint32_t stage);

/* Memory of one pipeline stage; gpu (may be NULL) decides attention workspaces. Errors: P4D_E_OVERFLOW. */
int p4d_memory_of_stage(const p4d_layout *layout, int method, const p4d_gpu *gpu, uint32_t stage,
			p4d_stage *out, p4d_error *err);

/*
 * Host memory of one rank of a stage, for frameworks whose checkpoints p4d models. A rank saves from a copy
 * of its optimizer shards (all states), and loads through a buffer as large as the largest shard. Bytes;
 * P4D_NOT_MODELLED - 1 on overflow.
 */
typedef struct p4d_host_class {
	uint64_t process;   /* an allowance for the program, its libraries and the ranks' shared memory */
	uint64_t arena;     /* memory of the ranks with --device cpu */
	uint64_t offloaded; /* the part of the plan's arena that is on the host */
	uint64_t saving, loading;
	uint64_t sum;
} p4d_host_class;
/* arena_bytes, offloaded_bytes: from the stage's plan. */
p4d_host_class p4d_memory_host_of_rank(const p4d_layout *layout, uint32_t stage, uint64_t arena_bytes,
				       uint64_t offloaded_bytes);

/* The memory of the machine on which the job runs. */
typedef struct p4d_capacity {
	const p4d_gpu *gpu;           /* NULL: unknown; the fraction is then 0 */
	uint64_t host_bytes;          /* host memory per node; the capacity of --device cpu; 0 unknown */
	uint64_t host_bytes_per_rank; /* host memory of a rank according to the site, for frameworks whose
					 host memory p4d does not model; 0: unknown */
} p4d_capacity;

/* Denominator of a fraction, for one rank; 0 unknown. */
uint64_t p4d_memory_capacity_bytes(const p4d_layout *layout, int method, const p4d_capacity *capacity);

/* Estimates all stages and phases, and returns the maximum in *out. */
int p4d_memory_estimate(const p4d_layout *layout, int method, const p4d_capacity *capacity, p4d_estimate *out,
			p4d_error *err);

/*
 * Iterates over the stages that may need the most memory. Embedding and head add memory at the ends of the
 * pipeline, and slots grow towards one end, in all schedules (test_plan checks it). So a stage between the
 * ends needs no more memory than a stage with at least as many layers, layers with experts, and slots. The
 * iterator therefore skips a stage that has neither more layers nor more layers with experts than all stages
 * before it. With a layer pattern, it compares only stages that begin at the same letter, because these have
 * layers of the same kinds.
 */
typedef struct p4d_memory_stages {
	uint32_t count, next;
	uint32_t layers, experts; /* among the stages between the ends that were examined so far: the largest
				     number of layers, and of layers with experts */
	uint32_t from[P4D_PATTERN_SIZE]; /* maximum number of layers of stages that begin at this letter
					  * of the pattern */
	bool all, backwards;
} p4d_memory_stages;

p4d_memory_stages p4d_memory__stages(const p4d_layout *layout, int method);
/*
 * Returns the ends of the pipeline first, which often need the most; then the stages between, in the
 * direction in which slots become fewer. False: there are no more stages.
 */
bool p4d_memory__next_stage(const p4d_layout *layout, p4d_memory_stages *stages, uint32_t *stage);

/* The margins that the site measured for such jobs; NULL: none. */
const p4d_gpu_margin *p4d_memory__margin(const p4d_layout *layout, const p4d_gpu *gpu);

/*
 * Whether a layout stays at or below a fraction of the capacity; true if the capacity is unknown. Stops at
 * the first stage that exceeds it. *device_bytes gets the maximum over the stages examined so far. memo: may
 * be NULL.
 */
bool p4d_memory_fits_below(const p4d_layout *layout, int method, const p4d_capacity *capacity,
			   double fraction, const p4d_plan_memo *memo, uint64_t *device_bytes);

/*
 * The largest imbalance of experts with which a layout stays below the fraction, exact to a hundredth. 0: it
 * exceeds the fraction even with imbalance 1. P4D_MOST_IMBALANCE: it stays below with any. For layouts with
 * ep > 1 and a known capacity.
 */
#define P4D_MOST_IMBALANCE 1024.0
double p4d_memory_most_imbalance(const p4d_layout *layout, int method, const p4d_capacity *capacity,
				 double fraction);

/*
 * For a layout above the fraction: a reason, for messages, why fragmentation may be smaller and the layout
 * then stay below. A constant share is such a reason with PyTorch's frameworks and with Megatron-Core's
 * experts, because fragmentation differs from job to job. If the allocator was simulated with the sizes that
 * tensors have in every step, the only reason is the simulation's error. NULL: no reason.
 */
const char *p4d_memory_unsure(const p4d_layout *layout, const p4d_estimate *estimate, double fraction);

/*
 * A lower bound of any stage's parameters, gradients and optimizer state, for all layouts with these degrees
 * and any schedule, micro-batch and recompute. It serves to discard layouts early. P4D_NOT_MODELLED:
 * overflow.
 */
uint64_t p4d_memory_least_states(const p4d_layout *layout);

/* Names the place of the peak: "stage 1 of 4", and its phase if that is not training. */
enum { P4D_WHERE_TEXT = 96 };
const char *p4d_memory_where(const p4d_layout *layout, const p4d_estimate *estimate,
			     char buf[P4D_WHERE_TEXT]);

/* A clause for messages if the layout keeps gradients of all parameters between micro-batches; otherwise "".
 */
const char *p4d_memory_accumulated(const p4d_layout *layout);

const char *p4d_memory_class_name(p4d_memory_class part);
const char *p4d_memory_phase_name(p4d_phase phase);
/* Name of the method for reports: the same table is called the plan if the framework allocates it,
 * otherwise a closed formula. */
const char *p4d_memory_method_name(int method, int framework);
