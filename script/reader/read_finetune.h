/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "reader/reader_internal.h"

/*
 * Common to programs for fine-tuning, whatever their arguments are called: Hugging Face's Trainer, programs
 * that use it, and accelerate and DeepSpeed, which it uses. The enumerators number the extra values of a
 * reading.
 */
enum {
	P4D_FINETUNE_ACCUMULATION,   /* micro-batches per step */
	P4D_FINETUNE_PROCESSES,      /* number of processes on all nodes */
	P4D_FINETUNE_MACHINES,       /* number of nodes, which accelerate calls machines */
	P4D_FINETUNE_GPU_IDS,        /* "all", or the indices of the GPUs of a node */
	P4D_FINETUNE_DISTRIBUTED,    /* "fsdp", "deepspeed", "ddp" */
	P4D_FINETUNE_DEEPSPEED_FILE, /* path of the configuration */
	P4D_FINETUNE_MIXED,          /* bf16, fp16, no */
	P4D_FINETUNE_LORA,           /* lora, qlora, full */
	P4D_FINETUNE_RANK,
	P4D_FINETUNE_DROPOUT, /* dropout probability on the adapters' input */
	P4D_FINETUNE_TARGETS,
	P4D_FINETUNE_ALL_LINEAR,    /* targets are all linear layers */
	P4D_FINETUNE_QUANT,         /* nf4, int8, fp8 */
	P4D_FINETUNE_FSDP,          /* "full_shard auto_wrap offload" */
	P4D_FINETUNE_FSDP_STRATEGY, /* full, grad, none, hybrid */
	P4D_FINETUNE_FSDP_OFFLOAD,  /* on */
	P4D_FINETUNE_FSDP_VERSION,  /* 1, 2 */
	P4D_FINETUNE_FSDP_WRAP,     /* layer classes, or another way to form FSDP1's units */
	P4D_FINETUNE_FSDP_PREFETCH, /* on, off */
	P4D_FINETUNE_FSDP_FORWARD,  /* on: FSDP gathers the next unit before the forward pass of the current
				       unit */
	P4D_FINETUNE_FSDP_LIMIT,    /* off: FSDP does not limit how many units it gathers ahead */
	P4D_FINETUNE_FSDP_ORIG_PARAMS,   /* on, off */
	P4D_FINETUNE_FSDP_CHECKPOINTING, /* checkpointing of the modules that accelerate wraps,
					  * independent of the Trainer's own option */
	P4D_FINETUNE_ZERO_STAGE,
	P4D_FINETUNE_ZERO_BUCKET,       /* elements, or "auto" */
	P4D_FINETUNE_ZERO_OVERLAP,      /* on, off */
	P4D_FINETUNE_ZERO_GATHER,       /* on: when saving, ZeRO-3 gathers the model on one host */
	P4D_FINETUNE_OFFLOAD_OPTIMIZER, /* "cpu" */
	P4D_FINETUNE_OFFLOAD_PARAMS,
	P4D_FINETUNE_OFFLOAD_ACTIVATIONS,
	P4D_FINETUNE_DEEPSPEED_BF16, /* true, false, auto */
	P4D_FINETUNE_DEEPSPEED_FP16,
	P4D_FINETUNE_DEEPSPEED_MICRO, /* a number, or auto */
	P4D_FINETUNE_DEEPSPEED_ACCUMULATION,
	P4D_FINETUNE_DEEPSPEED_GLOBAL,
	P4D_FINETUNE_DEEPSPEED_OPTIMIZER,
	P4D_FINETUNE_DEEPSPEED_TORCH,   /* on: DeepSpeed's Adam is replaced by torch's AdamW */
	P4D_FINETUNE_DEEPSPEED_FUSED,   /* on, off: argument `fused` of torch's AdamW */
	P4D_FINETUNE_DEEPSPEED_FOREACH, /* on, off: argument `foreach` of torch's AdamW */
	P4D_FINETUNE_OPTIMIZER,         /* p4d's name of the optimizer */
	P4D_FINETUNE_PARAM_DTYPE,       /* fp32, bf16 */
	P4D_FINETUNE_EVALUATION,        /* on, off: the program evaluates while it trains */
	P4D_FINETUNE_TRAIN,             /* on, off: --do_train */
	P4D_FINETUNE_PREDICT,           /* on: --do_predict */
	P4D_FINETUNE_COMPILE,
	P4D_FINETUNE_PACKING,
	P4D_FINETUNE_CHUNKED_LOSS,
	P4D_FINETUNE_PADDING,   /* max_length: pads every sequence */
	P4D_FINETUNE_FSDP_FILE, /* path of the file that --fsdp names */
	P4D_FINETUNE_OWN,       /* values of a single reader start here */
};

/* Arguments in the configurations of accelerate and DeepSpeed. The prefixes of their names are
 * "--accelerate." and "--deepspeed.". */
extern const p4d_read_argument p4d_finetune__accelerate[], p4d_finetune__deepspeed[];
/* Arguments for FSDP's units and gathers. The prefix of their names is "--fsdp_config.". */
extern const char *const p4d_finetune__wraps[], *const p4d_finetune__prefetches[];
#define P4D_FINETUNE_FSDP_UNITS(prefix) \
	{prefix "version", P4D_READ_EXTRA(P4D_FINETUNE_FSDP_VERSION), NULL, NULL}, \
	    {prefix "auto_wrap_policy", P4D_READ_EXTRA(P4D_FINETUNE_FSDP_WRAP), NULL, p4d_finetune__wraps}, \
	    {prefix "use_orig_params", P4D_READ_EXTRA(P4D_FINETUNE_FSDP_ORIG_PARAMS), "on", \
	     p4d_finetune__off}, \
	    {prefix "forward_prefetch", P4D_READ_EXTRA(P4D_FINETUNE_FSDP_FORWARD), "on", NULL}, \
	    {prefix "limit_all_gathers", P4D_READ_EXTRA(P4D_FINETUNE_FSDP_LIMIT), "on", p4d_finetune__off}, \
	{ \
		prefix "backward_prefetch", P4D_READ_EXTRA(P4D_FINETUNE_FSDP_PREFETCH), NULL, \
		    p4d_finetune__prefetches \
	}
/* Words for FSDP's strategies, Hugging Face's optimizers, types, and attention kernels. */
extern const char *const p4d_finetune__strategies[],
    *const p4d_finetune__optimizers[], *const p4d_finetune__dtypes[],
					   *const p4d_finetune__attention[],
					       *const p4d_finetune__off[], *const p4d_finetune__evaluation[];

/* Sets the options that follow from one of the extra values. */
extern const p4d_read_alias p4d_finetune__aliases[];
/*
 * When sequences have the full length: if they are packed, or if the program pads them to the length in its
 * options.
 */
extern const p4d_read_filling p4d_finetune__filling[];

/*
 * For programs that train only with --do_train: reports a command that does not train. If p4d recognized
 * the program by its arguments alone, or if the user or the site named it, the program may train without
 * --do_train.
 */
static inline void p4d_finetune__find_training(p4d_reading *r)
{
	const p4d_read_value *train = &r->extra[P4D_FINETUNE_TRAIN],
			     *evaluation = &r->extra[P4D_FINETUNE_EVALUATION];
	const bool evaluates = p4d_reader__is(evaluation, "on") && evaluation->argument &&
			       !strcmp(evaluation->argument, "--do_eval");
	const bool predicts = p4d_reader__is(&r->extra[P4D_FINETUNE_PREDICT], "on");
	const bool own = r->named && !r->told;

	if (p4d_reader__is(train, "off") || (!p4d_reader__set(train) && !train->unknown &&
					     !r->more_arguments && (own || evaluates || predicts)))
		p4d_reader__trains_nothing(r, "do_train",
					   evaluates || predicts || p4d_reader__set(train)
					       ? p4d_reader__evaluates
					       : "the program trains only with --do_train");
}

/* Variables that the accelerate library reads itself, whatever starts the program. */
#define P4D_FINETUNE_ACCELERATE_VARIABLES \
	{"ACCELERATE_USE_FSDP", "--accelerate.use_fsdp", P4D_SET_SELDOM}, \
	{ \
		"ACCELERATE_USE_DEEPSPEED", "--accelerate.use_deepspeed", P4D_SET_SELDOM \
	}

/*
 * read_llamafactory.c. The first has the variables with the number of processes, with which swift and
 * LLaMA-Factory start torchrun. The second has swift's word for the task that p4d models. The third has
 * swift's word for a share of 0.
 */
extern const p4d_read_variable p4d_swift__processes[];
extern const char *const p4d_swift__tasks[], *const p4d_swift__none[];

/*
 * Preference training, by the name of its method ("dpo", "ipo", "orpo", "simpo", "kto"): pairs of sequences,
 * with or without a frozen copy of the model; for KTO, single sequences with a copy. Call it after
 * p4d_finetune__finish. False: p4d does not model the method.
 */
bool p4d_finetune__preference(p4d_reading *reading, const char *method);
/* Message about the parts that a reward model has in addition to a language model. */
extern const char p4d_finetune__reward[];
/*
 * Marks reinforcement learning, in which several models share the GPUs, so that the memory of one model is
 * not enough.
 */
void p4d_finetune__reinforcement(p4d_reading *reading);

/* p4d_reader.released of programs that take --fsdp as the Trainer does. */
void p4d_finetune__released(p4d_reading *reading, const p4d_read_release *release);
/* Marks a program whose memory p4d does not model. */
void p4d_finetune__unmodelled(p4d_reading *reading);
/* Defaults of an adapter: rank, targets (NULL: PEFT's for the model), and whether it has dropout on its
 * input. Call it after p4d_finetune__finish. */
void p4d_finetune__adapter(p4d_reading *reading, const char *rank, const char *targets, bool dropout);
/* For programs that train adapters unless an option asks for all parameters. If the script sets a rank or
 * targets, they belong to adapters. Call it before p4d_finetune__finish. */
void p4d_finetune__adapts(p4d_reading *reading);
/* Sets the options that follow from the extra values. */
void p4d_finetune__finish(p4d_reading *reading);
p4d_read_value *p4d_finetune__extra(p4d_reading *reading, int extra);
/* read_finetune_sharding.c: the framework, and how it shards. Part of p4d_finetune__finish. */
void p4d_finetune__distribution(p4d_reading *reading);

/* Whether the value is "auto", which DeepSpeed replaces by the value of the program in which it runs. */
static inline bool p4d_finetune__is_auto(const p4d_read_value *value)
{
	return p4d_reader__is(value, "auto");
}

static inline void p4d_finetune__put_if_set(p4d_reading *reading, p4d_option option,
					    const p4d_read_value *value)
{
	if (p4d_reader__set(value))
		p4d_reader__put(reading, option, value, "%s", value->text);
}
