/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option.h"
#include "request/devices.h"
#include "request/network.h"
#include "request/schedules.h"

/*
 * A request holds one value per option of options.def, each with its origin. It starts with the options that
 * the user typed. The site, the model file and p4d then fill the unset options, so a complete request fully
 * describes the training job. A request owns no memory and may be copied by assignment.
 */

typedef enum p4d_option {
#define INTEGER(id, ...) P4D_##id,
#define DECIMAL(id, ...) P4D_##id,
#define CHOICE(id, ...) P4D_##id,
#define TEXT(id, ...) P4D_##id,
#define SWITCH(id, ...) P4D_##id,
#include "request/options.def"
#undef INTEGER
#undef DECIMAL
#undef CHOICE
#undef TEXT
#undef SWITCH
	P4D_OPTIONS
} p4d_option;

/* Values of the CHOICE options, in the order of their lists; those of schedules are in schedules.h. */
enum { P4D_VOCAB_OFF, P4D_VOCAB_1, P4D_VOCAB_2 };
enum { P4D_LOCAL_OFF, P4D_LOCAL_STAGE };
enum { P4D_ALL_TO_ALL, P4D_ALL_GATHER, P4D_DEEPEP }; /* how tokens reach experts */
enum { P4D_CP_P2P, P4D_CP_ALL_GATHER, P4D_CP_A2A };
enum { P4D_GRAPHS_NONE, P4D_GRAPHS_ATTENTION, P4D_GRAPHS_MLP, P4D_GRAPHS_LAYERS };
enum {
	P4D_RECOMPUTE_NONE,
	P4D_RECOMPUTE_SELECTIVE,
	P4D_RECOMPUTE_MLP,
	P4D_RECOMPUTE_FULL,
	P4D_RECOMPUTE_MOE,
	P4D_RECOMPUTE_KEEP /* recomputes nothing; NONE still recomputes cheap operations */
};
enum { P4D_RECOMPUTE_UNIFORM, P4D_RECOMPUTE_BLOCK };
enum { P4D_BF16, P4D_FP16, P4D_FP32, P4D_FP8 }; /* P4D_FP8: only the matmuls of bf16 training are in FP8 */
enum { P4D_FP8_DELAYED, P4D_FP8_CURRENT, P4D_FP8_BLOCKWISE, P4D_FP8_MXFP8, P4D_FP8_ROWWISE, P4D_FP8_NVFP4 };
enum { P4D_GRAD_BF16, P4D_GRAD_FP16, P4D_GRAD_FP32 };
enum { P4D_STATE_FP32, P4D_STATE_HALF };
enum { P4D_PARAM_FP32, P4D_PARAM_BF16 };
/* Words of --offload. The value is a set: bit i of the index stands for word i. */
enum {
	P4D_OFFLOAD_OPTIMIZER = 1,
	P4D_OFFLOAD_PARAMS = 2,
	P4D_OFFLOAD_ACTIVATIONS = 4,
	P4D_OFFLOAD_WEIGHTS = 8 /* only for inference engines; cannot be combined with others */
};
#define P4D_OFFLOAD_NAMES \
	"none|optimizer|params|optimizer,params|activations|optimizer,activations|params,activations|" \
	"optimizer,params,activations|weights"
/* Optimizers, in the order of their table (plan/optimizer.h). */
enum {
	P4D_ADAMW,
	P4D_ADAMW_8BIT,
	P4D_PAGED_ADAMW_8BIT,
	P4D_ADAFACTOR,
	P4D_SGD,
	P4D_MUON,
	P4D_PAGED_ADAMW,
	P4D_ADAMW_4BIT,
	P4D_OPTIMIZERS
};
#define P4D_OPTIMIZER_NAMES "adamw|adamw-8bit|paged-adamw-8bit|adafactor|sgd|muon|paged-adamw|adamw-4bit"
/* Values of --optimizer-sharding: the stages of ZeRO (arXiv 1910.02054). Each includes those before it. */
enum { P4D_PAD_MAX_LENGTH, P4D_PAD_LONGEST };
enum { P4D_SHARD_NOTHING, P4D_SHARD_STATES, P4D_SHARD_GRADIENTS, P4D_SHARD_PARAMETERS };
/* alpha: scales of weights in binary codes (AlphaTuning, arXiv 2210.03858) */
enum { P4D_TUNE_FULL, P4D_TUNE_LORA, P4D_TUNE_QLORA, P4D_TUNE_ALPHA };
enum {
	P4D_QUANT_NONE,
	P4D_QUANT_NF4,
	P4D_QUANT_INT8,
	P4D_QUANT_FP8,
	P4D_QUANT_BCQ2, /* 2 to 4 binary codes, each with a scale for every output */
	P4D_QUANT_BCQ3,
	P4D_QUANT_BCQ4
};
enum { P4D_ALLOCATOR_DEFAULT, P4D_ALLOCATOR_EXPANDABLE };
enum { P4D_UNFUSED, P4D_FLASH, P4D_FLASH2, P4D_CUDNN, P4D_FLASH_TRITON }; /* --attention */
enum { P4D_SWIGLU_ACTIVATION, P4D_GEGLU, P4D_GELU, P4D_RELU2, P4D_RELU, P4D_XIELU };
enum { P4D_RMSNORM, P4D_LAYERNORM, P4D_LAYERNORM_SCALE, P4D_LAYERNORM_PLAIN };
enum { P4D_ROPE, P4D_LEARNED, P4D_ALIBI, P4D_RELATIVE, P4D_NO_POSITIONS };
enum { P4D_BIAS_NONE, P4D_BIAS_QKV, P4D_BIAS_ALL, P4D_BIAS_ATTENTION, P4D_BIAS_MLP };
enum { P4D_QK_NORM_OFF, P4D_QK_NORM_HEAD, P4D_QK_NORM_WIDE };
enum { P4D_LOSS_WHOLE, P4D_LOSS_CHUNKED, P4D_LOSS_TRL, P4D_LOSS_TRL_FUSED };
enum { P4D_MODEL_CODE_TORCHTITAN, P4D_MODEL_CODE_TRANSFORMERS, P4D_MODEL_CODE_LITGPT, P4D_MODEL_CODES };
enum { P4D_STORED_FULL, P4D_STORED_FP8, P4D_STORED_INT8, P4D_STORED_INT4, P4D_STORED_NF4, P4D_STORED_FP4 };
enum { P4D_WORKLOAD_TRAIN, P4D_WORKLOAD_SERVE, P4D_WORKLOAD_RL, P4D_WORKLOAD_PREFERENCE };
enum { P4D_REFERENCE_OFF, P4D_REFERENCE_ON, P4D_REFERENCE_HOST };
enum { P4D_ENGINE_VLLM, P4D_ENGINE_SGLANG };
enum { P4D_KV_CACHE_AUTO, P4D_KV_CACHE_FP8 };
enum { P4D_METHOD_PLAN, P4D_METHOD_PAPER }; /* `closed` and `plan` are two names of the first method */

/*
 * The frameworks, X(ID, name, variable). P4D_FRAMEWORK_ID is the option's value; name is what users type, and
 * the entry with its properties is in framework/name.c. variable: the environment variable with the arguments
 * for its program, if the layout is passed that way. The default is the first framework that can train the
 * model.
 */
#define P4D_FRAMEWORK_LIST(X) \
	X(P4D, p4d, NULL) \
	X(MEGATRON, megatron, "P4D_MEGATRON_ARGS") \
	X(FSDP, fsdp, "P4D_TORCHTITAN_ARGS") \
	X(DEEPSPEED, deepspeed, "P4D_HF_ARGS") \
	X(DDP, ddp, "P4D_HF_ARGS")

#define P4D_FRAMEWORK_ID(id, name, variable) P4D_FRAMEWORK_##id,
#define P4D_FRAMEWORK_NAME(id, name, variable) "|" #name
enum { P4D_FRAMEWORK_LIST(P4D_FRAMEWORK_ID) P4D_FRAMEWORKS };
#define P4D_FRAMEWORK_NAMES (&(P4D_FRAMEWORK_LIST(P4D_FRAMEWORK_NAME))[1]) /* "a|b" */

/* Values of --architecture: the rows of architectures.def; and "|a|b", the list of their names. */
enum {
#define ARCHITECTURE(id, name, ...) P4D_ARCHITECTURE_##id,
#include "request/architectures.def"
#undef ARCHITECTURE
	P4D_ARCHITECTURES
};

/*
 * Who decided a value. SCRIPT: the job's script. Later origins in this list never replace earlier ones,
 * except that P4D may replace USER if the site sets rewrite = all.
 */
typedef enum p4d_origin {
	P4D_UNSET,
	P4D_BY_USER,
	P4D_BY_SCRIPT,
	P4D_BY_SITE,
	P4D_BY_MODEL,
	P4D_BY_P4D
} p4d_origin;

enum {
	P4D_WHERE_SLURM = 1,
	P4D_WHERE_COMMAND = 2,
	P4D_WHERE_PLAN = 4,
	P4D_WHERE_MODEL = 8,
	P4D_WHERE_OPTIONAL = 16 /* may stay unset */
};

/* Size of --layer-pattern with its NUL. */
enum { P4D_PATTERN_SIZE = 136 };

typedef struct p4d_request {
	/* integers; indices of choices; 1 for a switch or a text that is set; a real number as its 64 bits */
	int64_t value[P4D_OPTIONS];
	uint8_t origin[P4D_OPTIONS];
	char model[256];
	char tp_grid[24];
	char pipeline_split[1024];
	char slice_lengths[512];
	char lora_targets[256];
	char recompute_modules[96];
	char override_reason[160];
	char gpu[64];
	/* from the model's file, set only if p4d read that file: a feature that p4d-train would compute
	 * differently, "query_pre_attn_scalar=144" */
	char untrained[160];
	char rope_scaling[96];
	char layer_pattern[P4D_PATTERN_SIZE];
	char arena[24];        /* 16 hexadecimal digits: p4d_plan_hash of the layout; framework p4d */
	char judged_part[128]; /* "the text part of ...": set if the model has other parts, which p4d does
				* not count */
	char unmodelled[160];  /* why p4d does not model the architecture; "" if it does */
	p4d_network network;   /* the partition's network; not an option */
} p4d_request;

const p4d_option_info *p4d_request_option_info(p4d_option option);

/* The programs in which an option has an effect, as users type them: "megatron, fsdp"; "": all programs,
 * or the option describes the model or the job. Returns buf. */
const char *p4d_request_heeded_by(p4d_option option, char *buf, size_t size);
/* The option's help with these programs in parentheses. Returns buf. */
enum { P4D_HELP_TEXT = 240 };
const char *p4d_request_help(p4d_option option, char buf[P4D_HELP_TEXT]);

/* Finds an option by its name. '_' counts as '-', case is ignored, and a prefix "p4d-" is not accepted.
 * -1: unknown. */
int p4d_request_option_find(const char *name);

/* "SBATCH_P4D_MICRO_BATCH": the variable of an option, in buf. */
const char *p4d_request_variable(const char *prefix, p4d_option option, char *buf, size_t size);

/* Name of a choice value, for printing ("1f1b"); buf holds the result. */
const char *p4d_request_choice_name(p4d_option option, int64_t value, char *buf, size_t size);

/* Prints the value of an option as it would be typed ("8", "1f1b", "20,20"). buf may be truncated; never
 * NULL. */
const char *p4d_request_value_text(const p4d_request *request, p4d_option option, char *buf, size_t size);

/* Like p4d_option_parse, but also accepts values of earlier releases: optimizer-sharding=on means states. */
int p4d_request_parse(p4d_option option, const char *prefix, const char *text, int64_t *value,
		      p4d_error *err);

/*
 * Parses `text` and stores the value. Errors: P4D_E_VALUE with the accepted range or choices. Replaces an
 * earlier value, whatever its origin.
 */
int p4d_request_set(p4d_request *request, p4d_option option, const char *text, p4d_origin origin,
		    p4d_error *err);

/*
 * Like p4d_request_set, for options that users type in a program without the prefix. Errors: also USAGE, if
 * the option was given before with another value.
 */
int p4d_request_set_typed(p4d_request *request, p4d_option option, const char *text, p4d_error *err);

/* Stores a number or the index of a choice. It must be valid. */
void p4d_request_put(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin);

/* Like p4d_request_put, but only if the option is unset. */
void p4d_request_default(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin);

/* Like p4d_request_put, for a real number. */
void p4d_request_put_real(p4d_request *request, p4d_option option, double value, p4d_origin origin);
/* The value of an option that is a real number. */
double p4d_request_real(const p4d_request *request, p4d_option option);

/* Copies an option (also a text) from another request, if it is unset here and set there. */
void p4d_request_inherit(p4d_request *request, const p4d_request *from, p4d_option option, p4d_origin origin);

static inline bool p4d_is_set(const p4d_request *request, p4d_option option)
{
	return request->origin[option] != P4D_UNSET;
}

/*
 * Whether the user decided the value, in options or in the script: it is neither a default nor p4d's choice.
 */
static inline bool p4d_is_stated(const p4d_request *request, p4d_option option)
{
	return request->origin[option] == P4D_BY_USER || request->origin[option] == P4D_BY_SCRIPT;
}

/* The first option from this one on that the user or the script states; P4D_OPTIONS: none. */
p4d_option p4d_request_next_stated(const p4d_request *request, p4d_option from);

/*
 * Removes the prefix of flags in a message: "--p4d-tp" becomes "--tp", for programs whose flags have no
 * prefix.
 */
void p4d_request_without_prefix(char *text);

/* True if any plan option is set: p4d checks such a job. */
bool p4d_request_any(const p4d_request *request);

/*
 * Writes the flags for these options, with the prefix "--p4d-" (sbatch) or "--" (the command). only: the
 * origins to include, as a mask of (1 << origin). Model numbers are written only if the user set them.
 * Returns the length written (truncated to size).
 */
size_t p4d_request_flags(const p4d_request *request, const char *prefix, unsigned only, char *buf,
			 size_t size);
