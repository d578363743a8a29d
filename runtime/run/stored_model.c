/* SPDX-License-Identifier: Apache-2.0 */
#include "run/stored_model.h"

#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"
#include "plan/plan_line.h"

/* Whether an option describes the model: its sizes, its types, or its adapters. */
static bool is_of_model(int option)
{
	return (p4d_request_option_info((p4d_option)option)->where & P4D_WHERE_MODEL) ||
	       option == P4D_PRECISION || option == P4D_SEQ_LEN || option == P4D_FINETUNE ||
	       option == P4D_LORA_RANK || option == P4D_QUANT || option == P4D_LORA_TARGETS ||
	       option == P4D_ADAPTER_DTYPE;
}

int p4d_stored_model(p4d_settings *settings, bool *found, p4d_error *err)
{
	static p4d_checkpoint_info info;
	char path[4096];
	uint64_t step;
	p4d_request stored;

	if (p4d_checkpoint_latest(settings->checkpoint, UINT64_MAX, &step, found, err) < 0)
		return -1;
	if (!*found)
		return settings->init_from ? 0
					   : p4d_fail(err, P4D_E_CHECKPOINT, "%.300s: no checkpoint found",
						      settings->checkpoint);
	if (p4d_checkpoint_path(settings->checkpoint, step, path, sizeof(path), err) < 0 ||
	    p4d_checkpoint_read_info(path, &info, err) < 0 || p4d_plan_read(info.plan, &stored, err) < 0)
		return -1;
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (is_of_model(i))
			p4d_request_inherit(&settings->request, &stored, (p4d_option)i, P4D_BY_MODEL);
	p4d_request_put(&settings->request, P4D_MODEL, 1, P4D_BY_MODEL);
	snprintf(settings->request.model, sizeof(settings->request.model), "custom");
	if (!settings->tokenizer && settings->sample && info.released[0] &&
	    p4d_tokenizer_is_in(info.released))
		settings->tokenizer = info.released;
	if (info.base[0]) {
		settings->init_from = settings->init_from ? settings->init_from : info.base;
		settings->lora_alpha = info.alpha;
	}
	return 0;
}
