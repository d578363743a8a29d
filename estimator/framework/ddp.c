/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's DDP with a copy of the model on every GPU, or one GPU without parallelism: the table entry. */
#include "framework/torch.h"

static const p4d_framework_choice defaults[] = {{P4D_PARAM_DTYPE, P4D_PARAM_BF16},
						{P4D_GRAD_DTYPE, P4D_GRAD_BF16},
						{P4D_MODEL_CODE, P4D_MODEL_CODE_TRANSFORMERS},
						{P4D_OPTIMIZER, P4D_ADAMW},
						{P4D_FINETUNE, P4D_TUNE_FULL},
						{P4D_PACKING, 0},
						{P4D_AUTOCAST, 1},
						{P4D_OPTIONS, 0}};

static const char *const script_words[] = {"DistributedDataParallel", NULL};

const p4d_framework p4d_framework__ddp = {
    .name = "ddp",
    .program = "DDP",
    .title = "the Hugging Face Trainer",
    .also = " (HF)",
    .fine_tunes = true,
    .sharing = P4D_SHARES_NOTHING,
    P4D_TORCH_TRAINER,
    .no_fit = "DDP copies the model to every GPU; --framework=fsdp and --framework=deepspeed shard the model",
    .defaults = defaults,
    .script_words = script_words,
};
