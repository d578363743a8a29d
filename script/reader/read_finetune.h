/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/*
 * What programs for fine-tuning have in common, whatever their arguments are called: Hugging Face's Trainer,
 * programs that use it, and accelerate and DeepSpeed, which it uses. Extra values of their readings.
 */
enum {
	P4D_FINETUNE_ACCUMULATION,   /* micro-batches of a step */
	P4D_FINETUNE_PROCESSES,      /* processes on all nodes */
	P4D_FINETUNE_MACHINES,       /* nodes, as accelerate counts them */
	P4D_FINETUNE_DISTRIBUTED,    /* "fsdp", "deepspeed", "ddp" */
	P4D_FINETUNE_DEEPSPEED_FILE, /* its path */
	P4D_FINETUNE_MIXED,          /* bf16, fp16, no */
	P4D_FINETUNE_LORA,           /* lora, qlora, full */
	P4D_FINETUNE_RANK,
	P4D_FINETUNE_DROPOUT, /* share of the adapters' input that is dropped out */
	P4D_FINETUNE_TARGETS,
	P4D_FINETUNE_ALL_LINEAR,         /* targets are all linear layers */
	P4D_FINETUNE_QUANT,              /* nf4, int8, fp8 */
	P4D_FINETUNE_FSDP,               /* "full_shard auto_wrap offload" */
	P4D_FINETUNE_FSDP_STRATEGY,      /* full, grad, none, hybrid */
	P4D_FINETUNE_FSDP_OFFLOAD,       /* on */
	P4D_FINETUNE_FSDP_VERSION,       /* 1, 2 */
	P4D_FINETUNE_FSDP_WRAP,          /* layers, or how else FSDP1's units are made */
	P4D_FINETUNE_FSDP_PREFETCH,      /* on, off */
	P4D_FINETUNE_FSDP_FORWARD,       /* on: the next unit is gathered before a forward pass */
	P4D_FINETUNE_FSDP_LIMIT,         /* off: gathers run ahead */
	P4D_FINETUNE_FSDP_ORIG_PARAMS,   /* on, off */
	P4D_FINETUNE_FSDP_CHECKPOINTING, /* checkpointing of the modules that accelerate wraps, whatever the
					    Trainer's own option says */
	P4D_FINETUNE_ZERO_STAGE,
	P4D_FINETUNE_ZERO_BUCKET,       /* elements, or "auto" */
	P4D_FINETUNE_ZERO_OVERLAP,      /* on, off */
	P4D_FINETUNE_ZERO_GATHER,       /* on: saving gathers the model on a host */
	P4D_FINETUNE_OFFLOAD_OPTIMIZER, /* "cpu" */
	P4D_FINETUNE_OFFLOAD_PARAMS,
	P4D_FINETUNE_OFFLOAD_ACTIVATIONS,
	P4D_FINETUNE_DEEPSPEED_BF16, /* true, false, auto */
	P4D_FINETUNE_DEEPSPEED_FP16,
	P4D_FINETUNE_DEEPSPEED_MICRO, /* a number, or auto */
	P4D_FINETUNE_DEEPSPEED_ACCUMULATION,
	P4D_FINETUNE_DEEPSPEED_GLOBAL,
	P4D_FINETUNE_DEEPSPEED_OPTIMIZER,
	P4D_FINETUNE_DEEPSPEED_TORCH,   /* on: its Adam is torch's */
	P4D_FINETUNE_DEEPSPEED_FUSED,   /* on, off: as in torch's optimizer option */
	P4D_FINETUNE_DEEPSPEED_FOREACH, /* on, off */
	P4D_FINETUNE_OPTIMIZER,         /* p4d's name */
	P4D_FINETUNE_PARAM_DTYPE,       /* fp32, bf16 */
	P4D_FINETUNE_EVALUATION,        /* on, off: whether it evaluates while it trains */
	P4D_FINETUNE_COMPILE,
	P4D_FINETUNE_PACKING,
	P4D_FINETUNE_CHUNKED_LOSS,
	P4D_FINETUNE_PADDING,   /* max_length: pads every sequence */
	P4D_FINETUNE_FSDP_FILE, /* its path, where --fsdp names one */
	P4D_FINETUNE_OWN,       /* the reader's own from here */
};

/* Names that the configurations of accelerate and DeepSpeed have: "--accelerate.", "--deepspeed.". */
extern const p4d_read_argument p4d_finetune__accelerate[], p4d_finetune__deepspeed[];
/* How FSDP makes and gathers its units; prefix of names: "--fsdp_config.". */
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
/* Words of FSDP's strategies, of Hugging Face's optimizers, of types, and of kernels of attention. */
extern const char *const p4d_finetune__strategies[],
    *const p4d_finetune__optimizers[], *const p4d_finetune__dtypes[],
					   *const p4d_finetune__attention[],
					       *const p4d_finetune__off[], *const p4d_finetune__evaluation[];

/* Options that follow from one of the extra values. */
extern const p4d_read_alias p4d_finetune__aliases[];
/* Packed sequences are full, and so are sequences padded to the length in the program's options. */
extern const p4d_read_filling p4d_finetune__filling[];

/* read_llamafactory.c: how many processes swift and LLaMA-Factory start torchrun with; words of swift's for
 * the task that p4d models, and for a share of nothing. */
extern const p4d_read_variable p4d_swift__processes[];
extern const char *const p4d_swift__tasks[], *const p4d_swift__none[];

/*
 * A training on preferences, by the name of its method ("dpo", "ipo", "orpo", "simpo", "kto"): pairs of
 * sequences, with or without a frozen copy of the model; for KTO, single sequences with a copy. Call it after
 * p4d_finetune__finish. False: p4d models no method of that name.
 */
bool p4d_finetune__preference(p4d_reading *reading, const char *method);
/* What a reward model has in addition to the language model. */
extern const char p4d_finetune__reward[];
/* Reinforcement learning, in which several models share the GPUs: the values that were read do not give the
 * memory of a single model. */
void p4d_finetune__reinforcement(p4d_reading *reading);

/* p4d_reader.released, of programs whose --fsdp is the Trainer's. */
void p4d_finetune__released(p4d_reading *reading, const p4d_read_release *release);
/* A program whose memory p4d does not model. */
void p4d_finetune__unmodelled(p4d_reading *reading);
/* The defaults of an adapter: rank, targets (NULL: PEFT's for the model), and whether its input is dropped
 * out. Call it after p4d_finetune__finish. */
void p4d_finetune__adapter(p4d_reading *reading, const char *rank, const char *targets, bool dropout);
/* For programs that train adapters unless an option asks for all parameters: a rank or targets then belong to
 * the adapters. Call it before p4d_finetune__finish. */
void p4d_finetune__adapts(p4d_reading *reading);
/* Options that follow from the extra values. */
void p4d_finetune__finish(p4d_reading *reading);
p4d_read_value *p4d_finetune__extra(p4d_reading *reading, int extra);
/* read_finetune_sharding.c: the framework, and how it shards. Part of the above. */
void p4d_finetune__distribution(p4d_reading *reading);

/* What DeepSpeed takes from the program that it runs in. */
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
