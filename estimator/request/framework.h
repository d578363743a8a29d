/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "request/heeds.h"
#include "request/layout.h"
#include "request/request.h"

/*
 * Properties of training frameworks. Code that depends on the framework reads this table. Only the runtime,
 * which is one of the frameworks, tests which framework it is.
 */

/* How kernels and transfers of a framework differ from those of others, for the step time. */
typedef struct p4d_framework_cost {
	double step_seconds;    /* outside of the schedule: data, logging, synchronization with the host */
	bool unfused_attention; /* it has unfused attention, with kernels for scores and softmax */
	/* host time per layer and micro-batch, both passes; a GPU that is faster waits for the host */
	double host_layer_seconds;
	double host_experts_seconds,
	    host_latent_seconds; /* in addition, for a layer's experts; for latent attention */
	/* gathers inputs for weight gradients, and scatters input gradients, overlapping matrix products */
	bool overlaps_sequence_parallel;
	bool overlaps_pipeline; /* overlaps sends to other stages with passes, in any schedule */
	bool overlaps_halves;   /* tp-comm-overlap: in two halves of the tokens; else in many pieces */
	bool scatters_sends;    /* sends each tp rank's shard of a replicated tensor */
	/* in split backward passes, all gradients of weights belong to the second half */
	bool defers_weight_gradients;
	bool saves_norms_and_products; /* outputs of norms and SwiGLU's product, for the backward pass */
	bool eager_modules;            /* made of kernels of PyTorch, unless --compile */
	bool recomputes_attention;     /* with recompute=selective; else there is nothing to drop */
	bool recomputes_whole_mlp;     /* with recompute=mlp; else gate and up alone */
	bool chunks_head;              /* a chunk of tokens at a time, logits in fp32 */
	bool sums_keys_in_fp32;        /* gradients of keys and values of other ranks; else as activations */
	bool casts_each_product;       /* in FP8: both operands of every product, after they were gathered */
	bool reorders_gathered_keys;   /* gathers all sequences at once; else piece by piece, in place */
	/* queries and keys are rotated by a kernel each, and their gradients are put together with that of
	 * the values; else one kernel does it in place */
	bool rotates_apart;
	/* FP8 with delayed scales: after each pass of a chunk all ranks of the stage agree on maxima */
	bool reduces_maxima;
	unsigned collective_blocks; /* of collectives that run next to passes; 0: as many as NCCL takes */
	/* with adapters, it computes no gradients of frozen weights; false: not known */
	bool freezes_weights;
} p4d_framework_cost;

/* A flag with a number that a job script may contain, and the plan's value. */
typedef struct p4d_framework_flag {
	const char *flag;
	uint64_t value;
} p4d_framework_flag;

enum { P4D_FRAMEWORK_FLAGS = 20 };

/* How a program that does not read the plan gets its layout. */
typedef struct p4d_framework_arguments {
	const char *variable; /* in the job's environment, with the arguments; see P4D_FRAMEWORK_LIST */
	const char *program;  /* takes the arguments */
	void (*write)(const p4d_request *request, const p4d_layout *layout, char *buf, size_t size);
	size_t (*flags)(const p4d_layout *layout, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS]);
	/* the feature of a layout of p4d-train that the program lacks, for messages: "tp-grid"; NULL: none.
	 * The member is NULL if the program never gets such a layout */
	const char *(*lacks)(const p4d_request *request, const p4d_layout *layout);
} p4d_framework_arguments;

/* A default value of an option with this framework. */
typedef struct p4d_framework_choice {
	p4d_option option;
	int64_t value;
} p4d_framework_choice;

/* What data-parallel ranks shard: according to an option, or always the same. */
typedef enum p4d_framework_sharing {
	P4D_SHARES_BY_OPTION, /* --optimizer-sharding */
	P4D_SHARES_UNITS,     /* parameters, gathered a unit at a time: FSDP */
	P4D_SHARES_BY_STAGE,  /* --zero-stage */
	P4D_SHARES_NOTHING    /* copies of the model: DDP */
} p4d_framework_sharing;

struct p4d_rows;
struct p4d_plan;

typedef struct p4d_framework {
	const char *name, *program; /* in the option, and in messages */
	const char *title;          /* programs for which these are not enough; NULL: `program` */
	const char *also;           /* another name of the option's, " (HF)"; NULL: none */
	bool fine_tunes;            /* the default for models of the hub and for adapters */
	p4d_framework_sharing sharing;

	/* what it can do */
	int (*check_model)(const p4d_request *request, p4d_error *err); /* whether it can train the model */
	/* whether it runs a layout that passed all other checks; NULL: any */
	int (*check_layout)(const p4d_layout *layout, p4d_error *err);
	unsigned schedules;            /* mask of 1 << schedule */
	const char *no_schedule;       /* message for the others, after their name; NULL: has all */
	const char *no_vocab_parallel; /* message if it is not supported; NULL: it is */
	const char *no_a2a;            /* message if cp-comm=a2a is not supported; NULL: it is */
	/* with other modules than torchtitan's (--model-code) other options apply: P4D_HEEDS_FSDP */
	bool trains_other_modules;
	unsigned recomputes_of_others; /* `recomputes` with those modules; 0: the same */
	const p4d_framework_choice
	    *defaults;       /* options that may stay unset, and others; ends with P4D_OPTIONS; may be NULL */
	unsigned recomputes; /* mask of 1 << recompute */
	const char *no_recompute; /* message for the others, after their name; NULL: has all */
	const char *states_only;  /* message if --optimizer-sharding can only be states; NULL: has all */
	bool selects_operations;  /* recompute=selective drops the operations of a list, not only scores */
	/* shards and offloads as plan/parameters.h and plan/offload.h describe */
	bool plans_transfers;
	bool names_layers;    /* --lora-targets: by the model's own names only */
	bool copies_kv_heads; /* tp may be a multiple of the key/value heads */
	bool uneven_chunks;   /* the chunks of a stage may differ */
	/* pipelines of PyTorch: groups may have more micro-batches than stages. If layers (with embedding and
	 * loss counted) do not divide evenly, the first chunks get the remainder */
	bool spreads_remainders;
	bool chooses_cp_comm;     /* a search may choose; otherwise the default applies */
	bool fuses_cross_entropy; /* by default */
	/* the trainer's default of global-batch, in sequences per rank; 0: p4d chooses by tokens */
	uint32_t rank_batch;
	uint64_t vocab_multiple; /* rows of the vocabulary on a rank are padded to a multiple of this */

	/* memory */
	void (*write_rows)(struct p4d_rows *rows);                          /* for a stage; see plan_rows.h */
	uint64_t (*groups_bytes)(const p4d_layout *layout, uint32_t stage); /* what NCCL holds */
	unsigned alignment; /* alignment of buffers; a power of two */
	/* overhead of its allocator with P4D_ALLOCATOR_DEFAULT and _EXPANDABLE, in thousandths of the
	 * allocated memory */
	unsigned fragmentation[2];
	/* bytes that its allocator reserves for a plan, in all streams: on a GPU with enough room, or
	 * (is_short) on one that is nearly full; 0, NULL: not known */
	uint64_t (*reserved)(const p4d_layout *layout, const struct p4d_plan *plan, bool is_short);
	/* the part of a layout that was not compared with the allocations of its code; NULL: all was
	 * compared. The member is NULL if that is true of all layouts */
	const char *(*unvalidated)(const p4d_layout *layout);
	bool frees_gradients;          /* after each step */
	bool allocates_plan;           /* exactly these buffers, at these offsets */
	bool plays_layers;             /* write_rows goes through the layers one by one */
	unsigned evaluation;           /* when it evaluates: a mask of 1 << p4d_live_point (plan.h) */
	bool checkpoints_are_modelled; /* memory of saving and loading, device and host */
	double limit; /* fraction of the capacity, if the site sets none; 0: the default of all frameworks */
	const char
	    *no_fit; /* why no number of GPUs may be enough, and what shards more; NULL: no such reason */
	const char *above_safe_fix; /* if the allocator is not expandable; NULL: nothing helps */

	/* jobs */
	const char *const *script_words; /* any of these means that a job script starts it; NULL-terminated */
	bool task_per_gpu;               /* Slurm starts every rank */
	bool takes_job_key;              /* its ranks authenticate each other with P4D_JOB_KEY */
	bool rounds_moments;             /* into bf16 with any precision and sharding; masters stay fp32 */
	const p4d_framework_arguments *arguments; /* NULL: it reads the plan */
	/* another framework, whose arguments p4d also writes for layouts that it can run; 0: none */
	int passes_to;
	/* the arguments for a layout, if several programs run layouts of this framework; NULL: `arguments` */
	const p4d_framework_arguments *(*arguments_of)(const p4d_layout *layout);

	p4d_framework_cost cost;
} p4d_framework;

/* By number; defined in framework/frameworks.c. */
extern const p4d_framework *const p4d_frameworks[P4D_FRAMEWORKS];

static inline const p4d_framework *p4d_framework_of(int framework)
{
	return p4d_frameworks[framework];
}

/* What the layout's data-parallel ranks share. */
static inline bool p4d_framework_shares(const p4d_layout *layout, p4d_framework_sharing how)
{
	return p4d_framework_of(layout->framework)->sharing == how;
}

/* Whether it is made of PyTorch's own parallelism. */
static inline bool p4d_framework_is_of_pytorch(const p4d_layout *layout)
{
	return !p4d_framework_shares(layout, P4D_SHARES_BY_OPTION);
}

/* How the program that runs the layout gets it; NULL: it reads the plan. */
static inline const p4d_framework_arguments *p4d_framework_arguments_of(const p4d_layout *layout)
{
	const p4d_framework *f = p4d_framework_of(layout->framework);

	return f->arguments_of ? f->arguments_of(layout) : f->arguments;
}

static inline bool p4d_framework_has_other_modules(const p4d_request *request)
{
	return p4d_is_set(request, P4D_MODEL_CODE) &&
	       request->value[P4D_MODEL_CODE] != P4D_MODEL_CODE_TORCHTITAN;
}

/* Whether the model has experts or latent attention. */
static inline bool p4d_is_sparse(const p4d_request *request)
{
	return p4d_is_set(request, P4D_EXPERTS) || p4d_is_set(request, P4D_KV_LORA_RANK);
}

/* Whether the request's framework has a kind of recomputation, with the request's modules. */
static inline bool p4d_framework_recomputes(const p4d_request *request, int recompute)
{
	const p4d_framework *f = p4d_framework_of((int)request->value[P4D_FRAMEWORK]);
	const bool others = f->recomputes_of_others && p4d_framework_has_other_modules(request);

	return (others ? f->recomputes_of_others : f->recomputes) >> recompute & 1;
}

/* Whether the request's framework may evaluate in other micro-batches than those of training. */
static inline bool p4d_framework_evaluates(const p4d_request *request)
{
	return p4d_heeds(request, (int)request->value[P4D_FRAMEWORK], P4D_EVAL_MICRO_BATCH);
}

/* The only value that an option can have with the request's framework; NULL: it can have any. */
static inline const p4d_heeds_reason *p4d_framework_fixed_of(const p4d_request *request, p4d_option option)
{
	const p4d_heeds_reason *f = p4d_heeds_instead(request, (int)request->value[P4D_FRAMEWORK], option);

	return f && !f->of_user ? f : NULL;
}

/* Whether an option has a meaning for the request's framework. */
static inline bool p4d_framework_has(const p4d_request *request, p4d_option option)
{
	const p4d_heeds_reason *f = p4d_framework_fixed_of(request, option);

	return f ? f->value != P4D_NO_MEANING
		 : p4d_heeds(request, (int)request->value[P4D_FRAMEWORK], option);
}

/* The value of an option with the request's framework; 0 if it has no meaning there, or is unset. */
int64_t p4d_framework_value(const p4d_request *request, p4d_option option);

/*
 * Whether the value of an option means the same as the absence of the option: off, none, a degree of one.
 * Such a value is never an error, even if the program or the model does not have the feature.
 */
bool p4d_framework_states_nothing(const p4d_request *request, p4d_option option);

/* A program that p4d knows only by name. It does not model the program's memory. */
typedef struct p4d_framework_other {
	const char *name;     /* in messages */
	bool any;             /* stands for many programs, some of which follow the plan */
	const char *words[4]; /* any of these means that a job script starts it; NULL-terminated if fewer */
} p4d_framework_other;

/* The first match counts, and a framework precedes all of these. The last entry has no name. Defined in
 * framework/others.c. */
extern const p4d_framework_other p4d_framework_others[];

/* Sets unset options to the defaults of the request's framework. */
void p4d_framework_put_defaults(p4d_request *request);

/* The default of the option, for a request whose model is known. */
int p4d_framework_default(const p4d_request *request);
/* Whether a framework can train the model with the options of the request. */
bool p4d_framework_suits(const p4d_request *request, int framework);

/*
 * Whether p4d has formulas for the model in the request's framework, or in any framework if none is set; else
 * *err says what is missing. This does not include models that p4d-train cannot train.
 */
bool p4d_framework_models(const p4d_request *request, p4d_error *err);

/*
 * The part of a layout's memory that was compared neither with measurements nor with the allocations of the
 * framework's own code, for messages: "compiled modules"; NULL: none. Because of such a prediction p4d only
 * warns, unless the site refuses what is not modelled.
 */
const char *p4d_framework_unvalidated(const p4d_layout *layout);

/* Whether the request's framework supports the schedule and vocabulary parallelism, and can train the model.
 */
int p4d_framework_check(const p4d_request *request, p4d_error *err);
