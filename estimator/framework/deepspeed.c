/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed's ZeRO, as the HF Trainer and accelerate run it: the table entry. */
#include "framework/torch.h"

static const p4d_framework_fixed fixed[] = {
    P4D_FIXED_WITHOUT_FSDP("DeepSpeed"),
    {P4D_SHARD_DEGREE, P4D_NO_MEANING, "p4d models ZeRO over all data-parallel ranks"},
    {P4D_TP, 1, "with DeepSpeed p4d models data parallelism alone"},
    {P4D_PP, 1, "with DeepSpeed p4d models data parallelism alone"},
    {P4D_CP, 1, "with DeepSpeed p4d models data parallelism alone"},
    P4D_FIXED_OF_PYTORCH("DeepSpeed"),
    P4D_FIXED_OF_TRANSFORMERS,
    {.why = NULL}};

static const p4d_framework_choice defaults[] = {{P4D_ZERO_STAGE, 3},
						{P4D_OVERLAP_DP, 1},
						{P4D_PARAM_DTYPE, P4D_PARAM_BF16},
						{P4D_GRAD_DTYPE, P4D_GRAD_BF16},
						{P4D_MODEL_CODE, P4D_MODEL_CODE_TRANSFORMERS},
						{P4D_OPTIMIZER, P4D_ADAMW},
						{P4D_FINETUNE, P4D_TUNE_FULL},
						{P4D_PACKING, 0},
						{P4D_OPTIONS, 0}};

static const char *const script_words[] = {"P4D_HF_ARGS", NULL};

const p4d_framework p4d_framework__deepspeed = {
    .name = "deepspeed",
    .program = "DeepSpeed",
    P4D_TORCH_TRAINER,
    .fixed = fixed,
    .defaults = defaults,
    .script_words = script_words,
};
