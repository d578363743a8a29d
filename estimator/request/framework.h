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

/* Differences between the kernels and transfers of frameworks that affect the step time. */
typedef struct p4d_framework_cost {
	double step_seconds; /* seconds per step outside of the schedule: data, logging,
			      * synchronization with the host */
	const char *error; /* how far p4d's step times are from published ones, for people; NULL: p4d does not
			    * say so. From tests/data/frameworks_throughput.csv */
	bool sdpa; /* fused attention is PyTorch's scaled_dot_product_attention: FlashAttention 2 on Hopper */
	bool unfused_attention; /* supports unfused attention, with separate kernels for scores and softmax */
	/*
	 * host time per layer and micro-batch, for both passes together. If the GPU takes less time, it waits
	 * for the host
	 */
	double host_layer_seconds;
	double host_experts_seconds, host_latent_seconds; /* additional host time, as above: for a layer's
							     experts; for latent attention */
	/* gathers inputs for weight gradients and scatters input gradients concurrently with matmuls */
	bool overlaps_sequence_parallel;
	bool overlaps_pipeline; /* sends to other stages overlap with passes, in any schedule */
	bool overlaps_halves;   /* tp-comm-overlap splits the tokens into two halves; otherwise into many
				 * pieces */
	bool scatters_sends;    /* each tp rank sends its shard of a replicated tensor */
	/* in a split backward pass, all weight gradients belong to the second half */
	bool defers_weight_gradients;
	bool saves_norms_and_products; /* saves outputs of norms and SwiGLU's product for the backward pass */
	bool eager_modules;            /* consists of PyTorch's kernels, unless --compile */
	bool recomputes_attention;     /* recompute=selective recomputes attention; otherwise there is
					* nothing to drop */
	bool recomputes_whole_mlp;     /* recompute=mlp drops the whole feed-forward part; otherwise only
					* gate and up */
	bool chunks_head;              /* head and loss process a chunk of tokens at a time, with logits
					* in fp32 */
	bool sums_keys_in_fp32;        /* sums gradients of other ranks' keys and values in fp32;
					* otherwise in the type of activations */
	bool attends_alone;            /* has kernels of its own for attention that cuDNN does not compute */
	bool orthogonalizes;     /* with Muon, every rank orthogonalizes the matrices of which its shard has a
				    part */
	bool casts_each_product; /* FP8: casts both operands of every matmul, after gathering them */
	bool reorders_gathered_keys; /* gathers all sequences together; otherwise piece by piece, in
				      * place */
	/* FP8: weight gradients take longer if both operands have a scale per row and block (cost_fp8.c) */
	bool slow_row_scales;
	/* gathers keys and values once, and then computes block by block as in a ring */
	bool gathers_for_ring;
	/*
	 * queries and keys are rotated by one kernel each, and another kernel concatenates their gradients
	 * with the gradient of the values; false: one kernel does all in place
	 */
	bool rotates_apart;
	/* FP8 with delayed scales: after each pass of a chunk, all ranks of the stage agree on maxima */
	bool reduces_maxima;
	unsigned collective_blocks; /* multiprocessors of collectives that run concurrently with passes;
				     * 0: as many as NCCL takes */
	/* with adapters, computes no gradients of frozen weights; false: unknown */
	bool freezes_weights;
} p4d_framework_cost;

/* A numeric flag that a job script may contain, and the plan's value for it. */
typedef struct p4d_framework_flag {
	const char *flag;
	uint64_t value;
} p4d_framework_flag;

enum { P4D_FRAMEWORK_FLAGS = 20 };

/* How the layout reaches a program that does not read the plan. */
typedef struct p4d_framework_arguments {
	const char *variable; /* variable in the job's environment with the arguments; see
			       * P4D_FRAMEWORK_LIST */
	const char *program;  /* program that takes the arguments */
	void (*write)(const p4d_request *request, const p4d_layout *layout, char *buf, size_t size);
	size_t (*flags)(const p4d_layout *layout, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS]);
	/* The first feature of a p4d-train layout that the program lacks, for messages ("tp-grid"); NULL:
	 * none. The function pointer itself is NULL if the program never gets a p4d-train layout. */
	const char *(*lacks)(const p4d_request *request, const p4d_layout *layout);
} p4d_framework_arguments;

/* The default of an option with this framework. */
typedef struct p4d_framework_choice {
	p4d_option option;
	int64_t value;
} p4d_framework_choice;

/* What data-parallel ranks shard: given by an option, or fixed. */
typedef enum p4d_framework_sharing {
	P4D_SHARES_BY_OPTION, /* --optimizer-sharding decides */
	P4D_SHARES_UNITS,     /* parameters, gathered one unit at a time: FSDP */
	P4D_SHARES_BY_STAGE,  /* --zero-stage decides */
	P4D_SHARES_NOTHING    /* nothing, replicas of the model: DDP */
} p4d_framework_sharing;

/*
 * Whether the request is preference learning (DPO) and somebody named p4d-train, whose plan covers all of it.
 * p4d then checks the request like a training.
 */
bool p4d_framework_trains_pairs(const p4d_request *request);

struct p4d_rows;
struct p4d_plan;

typedef struct p4d_framework {
	const char *name, *program; /* name in the option, and in messages */
	const char *title; /* all programs that the entry stands for, if these are more than `program`; NULL:
			      `program` */
	const char *also;  /* appended to `name` in the list of frameworks: " (HF)"; NULL: nothing */
	bool fine_tunes;   /* the default framework for models of the hub and for adapters */
	p4d_framework_sharing sharing;

	/* features */
	int (*check_model)(const p4d_request *request, p4d_error *err); /* whether it can train the model */
	/* whether it can run a layout that passed all other checks; NULL: it can run any */
	int (*check_layout)(const p4d_layout *layout, p4d_error *err);
	unsigned schedules; /* supported schedules: mask of 1 << schedule */
	/* The next three texts follow an option and its value in messages, so they begin with a verb:
	 * "needs p4d-train". NULL: the framework supports the value. */
	const char *no_schedule;       /* for schedules outside of the mask */
	const char *no_vocab_parallel; /* for vocab-parallel */
	const char *no_a2a;            /* for cp-comm=a2a */
	/* with modules other than torchtitan's (--model-code), the options of P4D_HEEDS_FSDP apply */
	bool trains_other_modules;
	unsigned recomputes_of_others;        /* `recomputes` for those modules; 0: the same */
	const p4d_framework_choice *defaults; /* defaults of options that may stay unset, and of others; ends
					       * with P4D_OPTIONS; may be NULL */
	unsigned recomputes;                  /* supported recompute values: mask of 1 << recompute */
	const char *no_recompute; /* message for other values, after their name; NULL: it supports all */
	const char *states_only;  /* message if --optimizer-sharding can only be states; NULL: it supports
				   * all */
	bool selects_operations;  /* recompute=selective drops the operations of a list; otherwise only
				   * scores */
	/* shards and offloads as plan/parameters.h and plan/offload.h describe */
	bool plans_transfers;
	bool names_layers;    /* --lora-targets accepts only the model's own names */
	bool copies_kv_heads; /* tp may be larger than the number of key/value heads, as a multiple */
	bool uneven_chunks;   /* chunks of a stage may have different numbers of layers */
	/* Pipelines of PyTorch: groups may have more micro-batches than stages. If layers (counting
	 * embedding and loss) do not divide evenly, the first chunks get the remainder. */
	bool spreads_remainders;
	bool chooses_cp_comm;     /* a search may choose cp-comm; otherwise its default applies */
	bool fuses_cross_entropy; /* by default */
	/* the trainer's default of global-batch, in sequences per rank; 0: p4d derives it from tokens */
	uint32_t rank_batch;
	uint64_t vocab_multiple; /* a rank's rows of the vocabulary are padded to a multiple of this */

	/* memory */
	void (*write_rows)(struct p4d_rows *rows);                          /* writes the rows of a stage;
									     * see plan_rows.h */
	uint64_t (*groups_bytes)(const p4d_layout *layout, uint32_t stage); /* bytes of NCCL */
	unsigned alignment; /* alignment of buffers in bytes; a power of two */
	/* overhead of its allocator with P4D_ALLOCATOR_DEFAULT and _EXPANDABLE, in thousandths of the
	 * allocated memory */
	unsigned fragmentation[2];
	unsigned pipeline_fragmentation[2]; /* like fragmentation, if pp > 1; 0: equal to it */
	bool share_is_mean; /* allocators of some layouts need more than the constant share, so a search
			     * simulates what it finds */
	/* Bytes that its allocator reserves for the plan of a stage, in all streams: on a GPU with enough
	 * memory or, with is_short, on one that is nearly full. 0, NULL: unknown. */
	uint64_t (*reserved)(const p4d_layout *layout, uint32_t stage, const struct p4d_plan *plan,
			     bool is_short);
	/*
	 * Names the part of the layout that was not compared with the allocations of the framework's code;
	 * NULL: all was compared. The function pointer itself is NULL if everything was compared in all
	 * layouts.
	 */
	const char *(*unvalidated)(const p4d_layout *layout);
	bool frees_gradients;          /* frees memory after each step */
	bool allocates_plan;           /* the program allocates exactly these buffers, at these offsets */
	bool plays_layers;             /* write_rows takes time linear in the layers */
	unsigned evaluation;           /* live points of an evaluation: a mask of 1 << p4d_live_point
					* (plan.h) */
	bool checkpoints_are_modelled; /* memory for saving and loading checkpoints, on device and host */
	double limit; /* default of the site's `limit`, as a fraction of the capacity; 0: the general
		       * default */
	const char
	    *no_fit; /* why no number of GPUs may be enough, and what shards more; NULL: there is no reason */
	const char *above_safe_fix; /* fix if the allocator is not expandable; NULL: there is none */

	/* job scripts */
	const char *const *script_words; /* a job script with any of these words starts it; NULL-terminated */
	bool task_per_gpu;   /* Slurm starts one task per GPU; false: a launcher starts the ranks */
	bool takes_job_key;  /* its ranks authenticate each other with P4D_JOB_KEY */
	bool rounds_moments; /* quantizes into bf16 with any precision and sharding; master
			      * weights stay fp32 */
	const p4d_framework_arguments *arguments; /* writes the arguments for a layout; NULL: the program
						   * reads the plan */
	/* another framework for which p4d also writes arguments, if it can run the layout; 0: none */
	int passes_to;
	/* Chooses the program's arguments if several programs run layouts of this framework; NULL:
	 * `arguments`. */
	const p4d_framework_arguments *(*arguments_of)(const p4d_layout *layout);

	p4d_framework_cost cost;
} p4d_framework;

/* Indexed by framework; defined in framework/frameworks.c. */
extern const p4d_framework *const p4d_frameworks[P4D_FRAMEWORKS];

static inline const p4d_framework *p4d_framework_of(int framework)
{
	return p4d_frameworks[framework];
}

/* What the data-parallel ranks of the layout shard. */
static inline bool p4d_framework_shares(const p4d_layout *layout, p4d_framework_sharing how)
{
	return p4d_framework_of(layout->framework)->sharing == how;
}

/* Whether the framework is built on PyTorch's own parallelism. */
static inline bool p4d_framework_is_of_pytorch(const p4d_layout *layout)
{
	return !p4d_framework_shares(layout, P4D_SHARES_BY_OPTION);
}

/* How the layout reaches its program; NULL: the program reads the plan. */
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

/* Whether the request's framework supports this kind of recomputation, with the request's modules. */
static inline bool p4d_framework_recomputes(const p4d_request *request, int recompute)
{
	const p4d_framework *f = p4d_framework_of((int)request->value[P4D_FRAMEWORK]);
	const bool others = f->recomputes_of_others && p4d_framework_has_other_modules(request);

	return (others ? f->recomputes_of_others : f->recomputes) >> recompute & 1;
}

/* Whether the request's framework may evaluate in micro-batches of another size than in training. */
static inline bool p4d_framework_evaluates(const p4d_request *request)
{
	return p4d_heeds(request, (int)request->value[P4D_FRAMEWORK], P4D_EVAL_MICRO_BATCH);
}

/* The only value that an option can have with the request's framework; NULL: several values. */
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
 * Whether the value of an option means the same as its absence: off, none, a degree of 1. Such a value is
 * never an error, even if the program or the model lacks the feature.
 */
bool p4d_framework_states_nothing(const p4d_request *request, p4d_option option);

/* A program that p4d knows only by name, without a model of its memory. */
typedef struct p4d_framework_other {
	const char *name;     /* name in messages */
	bool any;             /* a generic launcher (torchrun, python), whose program may follow the plan */
	const char *words[4]; /* a job script with any of these words starts it; ends with NULL if there
			       * are fewer */
} p4d_framework_other;

/* The first match counts, after all frameworks. The last entry has no name. Defined in framework/others.c. */
extern const p4d_framework_other p4d_framework_others[];

/* Sets unset options to the defaults of the request's framework. */
void p4d_framework_put_defaults(p4d_request *request);

/* The default of the option, for a request whose model is known. */
int p4d_framework_default(const p4d_request *request);
/* Whether a framework can train the model with the options of the request. */
bool p4d_framework_suits(const p4d_request *request, int framework);

/*
 * Whether p4d has formulas for the model in the request's framework or, if none is set, in any framework. If
 * not, *err says what is missing. Models that only p4d-train cannot train are not excluded here.
 */
bool p4d_framework_models(const p4d_request *request, p4d_error *err);

/*
 * The part of a layout's memory that was compared neither with measurements nor with the allocations of the
 * framework's own code, for messages: "compiled modules"; NULL: none. If there is such a part, p4d only
 * warns, unless the site refuses unmodelled jobs.
 */
const char *p4d_framework_unvalidated(const p4d_layout *layout);

/* Whether the request's framework supports the schedule and vocabulary parallelism, and can train the model.
 */
int p4d_framework_check(const p4d_request *request, p4d_error *err);
