/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of Hugging Face's example programs, TRL and others built on its Trainer (transformers 5, trl
 * 0.25). */
#include <ctype.h>
#include <string.h>

#include "reader/reader_internal.h"

static const p4d_read_argument arguments[] = {
    {"--model_name_or_path", P4D_MODEL, NULL, NULL},
    {"--model_name", P4D_MODEL, NULL, NULL},
    {"--per_device_train_batch_size", P4D_MICRO_BATCH, NULL, NULL},
    {"--per_device_eval_batch_size", P4D_EVAL_MICRO_BATCH, NULL, NULL},
    {"--max_seq_length", P4D_SEQ_LEN, NULL, NULL},
    {"--max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--model_max_length", P4D_SEQ_LEN, NULL, NULL},
    {"--block_size", P4D_SEQ_LEN, NULL, NULL},
    {"--bf16", P4D_PRECISION, "bf16", NULL},
    {"--fp16", P4D_PRECISION, "fp16", NULL},
    {"--gradient_checkpointing", P4D_RECOMPUTE, "full", NULL},
    {"--deepspeed", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--fsdp", P4D_READ_NOT_MODELLED, NULL, NULL},
    {"--use_peft", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--load_in_4bit", P4D_READ_NOT_MODELLED, "on", NULL},
    {"--load_in_8bit", P4D_READ_NOT_MODELLED, "on", NULL},
    {NULL, 0, NULL, NULL},
};

/* The hub's names have an organisation and capitals, p4d's have neither: "meta-llama/Llama-3.1-8B". A path
 * stays. */
static void finish(p4d_reading *r)
{
	char *model = r->value[P4D_MODEL].text;
	const char *slash = strchr(model, '/');

	if (!p4d_reader__set(&r->value[P4D_MODEL]) || strchr("./~", model[0]) ||
	    (slash && strchr(slash + 1, '/')))
		return;
	if (slash)
		memmove(model, slash + 1, strlen(slash + 1) + 1);
	for (; *model; model++)
		*model = (char)tolower((unsigned char)*model);
}

const p4d_reader p4d_reader__trainer = {
    .framework = "trainer",
    .programs = {"run_clm.py", "run_sft.py", "sft.py", "dpo.py", "run_dpo.py", "finetune_lora.py"},
    .arguments_alone = {"--per_device_train_batch_size"},
    .arguments = {arguments},
    .finish = finish,
};
