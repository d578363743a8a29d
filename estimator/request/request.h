/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/option.h"
#include "request/devices.h"
#include "request/schedules.h"

/*
 * A request holds one value per option of options.def, each with its origin. It starts with the options that
 * the user typed. The site, the model file and p4d then fill the unset ones, so a complete request is a
 * complete description of the training job. It owns no memory and may be copied by assignment.
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
enum { P4D_ALL_TO_ALL, P4D_ALL_GATHER, P4D_DEEPEP }; /* how tokens get to experts */
enum { P4D_CP_P2P, P4D_CP_ALL_GATHER, P4D_CP_A2A };
enum { P4D_GRAPHS_NONE, P4D_GRAPHS_ATTENTION, P4D_GRAPHS_MLP, P4D_GRAPHS_LAYERS };
enum {
	P4D_RECOMPUTE_NONE,
	P4D_RECOMPUTE_SELECTIVE,
	P4D_RECOMPUTE_MLP,
	P4D_RECOMPUTE_FULL,
	P4D_RECOMPUTE_MOE,
	P4D_RECOMPUTE_KEEP /* recomputes nothing; NONE still recomputes what is cheap */
};
enum { P4D_RECOMPUTE_UNIFORM, P4D_RECOMPUTE_BLOCK };
enum { P4D_BF16, P4D_FP16, P4D_FP32, P4D_FP8 }; /* the last: products of bf16 training */
enum { P4D_FP8_DELAYED, P4D_FP8_CURRENT, P4D_FP8_BLOCKWISE, P4D_FP8_MXFP8, P4D_FP8_ROWWISE, P4D_FP8_NVFP4 };
enum { P4D_GRAD_BF16, P4D_GRAD_FP16, P4D_GRAD_FP32 };
enum { P4D_STATE_FP32, P4D_STATE_HALF };
enum { P4D_PARAM_FP32, P4D_PARAM_BF16 };
/* A set: its index has a bit for each word. */
enum {
	P4D_OFFLOAD_OPTIMIZER = 1,
	P4D_OFFLOAD_PARAMS = 2,
	P4D_OFFLOAD_ACTIVATIONS = 4,
	P4D_OFFLOAD_WEIGHTS = 8 /* only for inference engines, and not combined with others */
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
/* Values of --optimizer-sharding, each with those before it: the stages of ZeRO (arXiv 1910.02054). */
enum { P4D_PAD_MAX_LENGTH, P4D_PAD_LONGEST };
enum { P4D_SHARD_NOTHING, P4D_SHARD_STATES, P4D_SHARD_GRADIENTS, P4D_SHARD_PARAMETERS };
enum { P4D_TUNE_FULL, P4D_TUNE_LORA, P4D_TUNE_QLORA };
enum { P4D_QUANT_NONE, P4D_QUANT_NF4, P4D_QUANT_INT8, P4D_QUANT_FP8 };
enum { P4D_ALLOCATOR_DEFAULT, P4D_ALLOCATOR_EXPANDABLE };
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
enum { P4D_METHOD_PLAN, P4D_METHOD_PAPER }; /* `closed` and `plan` are two spellings of the first */

/*
 * The frameworks, X(ID, name, variable): the option's value P4D_FRAMEWORK_ID, the name a user types, and the
 * entry in framework/name.c with its properties; the variable of its job that holds its arguments, if it
 * takes its layout from such. The default is the first that can train the model.
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

/* Values of --architecture: the rows of architectures.def, and "|a|b" of their names. */
enum {
#define ARCHITECTURE(id, name, ...) P4D_ARCHITECTURE_##id,
#include "request/architectures.def"
#undef ARCHITECTURE
	P4D_ARCHITECTURES
};

/* Who decided a value; SCRIPT: the job's own script. Later origins never replace earlier ones, except that
 * rewrite = all lets P4D replace USER. */
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

/* Room for --layer-pattern with its NUL. */
enum { P4D_PATTERN_SIZE = 136 };

typedef struct p4d_request {
	/* integers, choice indices, 1 for a switch or a text that was given, the bits of a real number */
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
	/* from the model's file: what p4d-train would compute differently, "query_pre_attn_scalar=144"; only
	 * if the file was read */
	char untrained[160];
	char rope_scaling[96];
	char layer_pattern[P4D_PATTERN_SIZE];
	char arena[24];        /* 16 hexadecimal digits: p4d_plan_hash of the layout; framework p4d */
	char judged_part[128]; /* "the text part of ...": where the model has others, which p4d does not count
				*/
	char unmodelled[160];  /* why the architecture is not modelled; "" when it is */
} p4d_request;

const p4d_option_info *p4d_request_option_info(p4d_option option);

/* The programs in which an option has an effect, as one types them: "megatron, fsdp"; "": all, or it
 * describes the model or the job. Returns buf. */
const char *p4d_request_heeded_by(p4d_option option, char *buf, size_t size);
/* Its help with those in parentheses. Returns buf. */
enum { P4D_HELP_TEXT = 240 };
const char *p4d_request_help(p4d_option option, char buf[P4D_HELP_TEXT]);

/* Finds an option by its name ('_' counts as '-', case is ignored, a prefix "p4d-" is not accepted). -1 when
 * unknown. */
int p4d_request_option_find(const char *name);

/* "SBATCH_P4D_MICRO_BATCH": the variable of an option, in buf. */
const char *p4d_request_variable(const char *prefix, p4d_option option, char *buf, size_t size);

/* Name of a choice value, for printing ("1f1b"); buf holds the result. */
const char *p4d_request_choice_name(p4d_option option, int64_t value, char *buf, size_t size);

/* Prints the value of an option as it would be typed ("8", "1f1b", "20,20"). buf may be truncated; never
 * NULL. */
const char *p4d_request_value_text(const p4d_request *request, p4d_option option, char *buf, size_t size);

/* Like p4d_option_parse, but also takes words of earlier releases: optimizer-sharding=on, which is states. */
int p4d_request_parse(p4d_option option, const char *prefix, const char *text, int64_t *value,
		      p4d_error *err);

/*
 * Parses `text` and stores it. Errors: P4D_E_VALUE with the accepted range or choices. Replaces a value
 * already set, whatever its origin.
 */
int p4d_request_set(p4d_request *request, p4d_option option, const char *text, p4d_origin origin,
		    p4d_error *err);

/* The same for user input of a program without the prefix. USAGE: given before with another value. */
int p4d_request_set_typed(p4d_request *request, p4d_option option, const char *text, p4d_error *err);

/* Stores a number or choice index that is known to be valid. */
void p4d_request_put(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin);

/* The same, only when the option is unset. */
void p4d_request_default(p4d_request *request, p4d_option option, int64_t value, p4d_origin origin);

/* Real numbers. */
void p4d_request_put_real(p4d_request *request, p4d_option option, double value, p4d_origin origin);
double p4d_request_real(const p4d_request *request, p4d_option option);

/* Copies an option from another request, also texts, when it is unset here and set there. */
void p4d_request_inherit(p4d_request *request, const p4d_request *from, p4d_option option, p4d_origin origin);

static inline bool p4d_is_set(const p4d_request *request, p4d_option option)
{
	return request->origin[option] != P4D_UNSET;
}

/* By the user, in whatever words: neither a default nor p4d's choice. */
static inline bool p4d_is_stated(const p4d_request *request, p4d_option option)
{
	return request->origin[option] == P4D_BY_USER || request->origin[option] == P4D_BY_SCRIPT;
}

/* The first option from this one on that the user or the script states; P4D_OPTIONS: none. */
p4d_option p4d_request_next_stated(const p4d_request *request, p4d_option from);

/* "--p4d-tp" -> "--tp" in a message, for programs whose flags have no prefix. */
void p4d_request_without_prefix(char *text);

/* True when any option that travels in a plan is set: the job concerns p4d. */
bool p4d_request_any(const p4d_request *request);

/*
 * Writes the flags for these options, as sbatch would take them (prefix "--p4d-") or as the command does
 * ("--"). only: the origins to include, as a bit mask of (1 << origin). Model numbers are written only where
 * they were set by the user. Returns the length written (truncated to size).
 */
size_t p4d_request_flags(const p4d_request *request, const char *prefix, unsigned only, char *buf,
			 size_t size);
