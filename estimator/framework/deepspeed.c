/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed's ZeRO, as the HF Trainer and accelerate run it: the table entry. */
#include "framework/torch.h"

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
    .sharing = P4D_SHARES_BY_STAGE,
    P4D_TORCH_TRAINER,
    .defaults = defaults,
    .script_words = script_words,
};
