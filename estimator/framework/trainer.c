/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments for a layout of programs that use the HF Trainer, TRL and similar libraries. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "framework/torch.h"

/* Appends an argument. An argument that does not fit into the buffer is left out as a whole. */
#define add(a, ...) p4d_text_entry(a, " ", __VA_ARGS__)

static void write_arguments(const p4d_request *request, const p4d_layout *l, char *buf, size_t size)
{
	static const char *const optimizer[P4D_OPTIMIZERS] = {[P4D_ADAMW] = "adamw_torch_fused",
							      [P4D_ADAMW_8BIT] = "adamw_8bit",
							      [P4D_PAGED_ADAMW_8BIT] = "paged_adamw_8bit",
							      [P4D_ADAFACTOR] = "adafactor",
							      [P4D_SGD] = "sgd",
							      [P4D_PAGED_ADAMW] = "paged_adamw_32bit",
							      [P4D_ADAMW_4BIT] = "adamw_torch_4bit"};
	p4d_text a = p4d_text_in(buf, size);

	(void)request;
	add(&a, "--per_device_train_batch_size %" PRIu64, l->micro_batch);
	add(&a, "--gradient_accumulation_steps %" PRIu64, l->micro_batches);
	add(&a, "--gradient_checkpointing %s", l->recompute == P4D_RECOMPUTE_FULL ? "True" : "False");
	if (l->precision != P4D_FP32)
		add(&a, l->precision == P4D_FP16 ? "--fp16 True" : "--bf16 True");
	if (optimizer[l->optimizer])
		add(&a, "--optim %s", optimizer[l->optimizer]);
}

static size_t flags_of(const p4d_layout *l, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS])
{
	const p4d_framework_flag all[] = {
	    {"--per_device_train_batch_size", l->micro_batch},
	    {"--gradient_accumulation_steps", l->micro_batches},
	};

	memcpy(flags, all, sizeof(all));
	return sizeof(all) / sizeof(*all);
}

const p4d_framework_arguments p4d_torch__trainer_arguments = {
    .variable = "P4D_HF_ARGS",
    .program = "the HF Trainer",
    .write = write_arguments,
    .flags = flags_of,
};
