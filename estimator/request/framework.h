/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * What p4d knows of training frameworks. Whatever depends on one asks this table; nothing asks which it is
 * but the runtime, which is one of them.
 */

/* How its kernels and transfers differ from those of others, for the step time. */
typedef struct p4d_framework_cost {
	double step_seconds;    /* outside of the schedule: data, logging, synchronization with the host */
	bool unfused_attention; /* has it, with kernels for scores and softmax */
	/* gathers parameters and reduces gradients layer by layer, beside a stage's first and last pass */
	bool overlaps_data_parallel;
	/* gathers inputs for weight gradients, and scatters those of inputs, beside matrix products */
	bool overlaps_sequence_parallel;
	bool overlaps_pipeline; /* sends to other stages beside passes */
	bool scatters_sends;    /* sends each tp rank's part of what all have, which the receivers gather */
	/* in split backward passes, all gradients of weights belong to the second half */
	bool defers_weight_gradients;
	bool saves_norms_and_products; /* outputs of norms and SwiGLU's product, for the backward pass */
	bool recomputes_attention; /* with recompute=selective; else nothing is kept that could be dropped */
	bool recomputes_whole_mlp; /* with recompute=mlp; else gate and up alone */
	bool chunks_head;          /* a chunk of tokens at a time, logits in fp32 */
	bool sums_keys_in_fp32;    /* gradients of keys and values of other ranks; else as activations */
	bool reorders_gathered_keys; /* gathers all sequences at once; else piece by piece, in place */
} p4d_framework_cost;

/* A flag with a number that a job script may hold, and what the plan says. */
typedef struct p4d_framework_flag {
	const char *flag;
	uint64_t value;
} p4d_framework_flag;

enum { P4D_FRAMEWORK_FLAGS = 16 };

/* How a program learns its layout that does not read the plan. */
typedef struct p4d_framework_arguments {
	const char *variable; /* of the job's environment, which holds them */
	const char *program;  /* that takes them */
	void (*write)(const p4d_request *request, const p4d_layout *layout, char *buf, size_t size);
	size_t (*flags)(const p4d_layout *layout, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS]);
} p4d_framework_arguments;

struct p4d_rows;

typedef struct p4d_framework {
	const char *name, *program; /* as the option, and as messages have it */

	/* what it can do */
	int (*check_model)(const p4d_request *request, p4d_error *err); /* whether it can train the model */
	unsigned schedules;                                             /* mask of 1 << schedule */
	const char *no_schedule;       /* why not another, after its name; NULL: it has all */
	const char *no_vocab_parallel; /* why not; NULL: it has that */
	bool chooses_cp_comm;          /* a search may; else its default is taken */
	bool fuses_cross_entropy;      /* by default */
	uint64_t vocab_multiple;       /* rows of the vocabulary on a rank are padded to */

	/* memory */
	void (*write_rows)(struct p4d_rows *rows);                          /* of a stage; see plan_rows.h */
	uint64_t (*groups_bytes)(const p4d_layout *layout, uint32_t stage); /* what NCCL holds */
	unsigned alignment;                                                 /* of buffers; a power of two */
	unsigned fragmentation; /* thousandths of what is allocated that the allocator reserves beside */
	bool allocates_plan;    /* exactly these buffers, at these offsets */
	bool checkpoints_are_modelled; /* what saving and loading take, on the device and the host */
	double limit;               /* of the capacity, where the site sets none; 0: that of all frameworks */
	const char *above_safe_fix; /* NULL: nothing helps */

	/* jobs */
	const char *const *script_words;          /* any tells that a job script starts it; NULL ends them */
	bool task_per_gpu;                        /* Slurm starts every rank */
	bool takes_job_key;                       /* its ranks know each other by P4D_JOB_KEY */
	const p4d_framework_arguments *arguments; /* NULL: it reads the plan */

	p4d_framework_cost cost;
} p4d_framework;

/* By number; defined in framework/frameworks.c. */
extern const p4d_framework *const p4d_frameworks[P4D_FRAMEWORKS];

static inline const p4d_framework *p4d_framework_of(int framework)
{
	return p4d_frameworks[framework];
}

/* The default of the option, for a request whose model is known. */
int p4d_framework_default(const p4d_request *request);

/* Whether it has the schedule and the vocabulary parallelism that were asked for, and can train the model. */
int p4d_framework_check(const p4d_request *request, p4d_error *err);
