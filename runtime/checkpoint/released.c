/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/released.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "model/model.h"

void p4d_released_model(const char *from, p4d_request *request)
{
	/* other options take a word without a slash for a preset's name, so a folder gets "./" */
	snprintf(request->model, sizeof(request->model), "%s%s",
		 p4d_file_is_folder(from) && !strchr(from, '/') ? "./" : "", from);
	request->origin[P4D_MODEL] = P4D_BY_USER;
}

int p4d_released_unknown(const char *from, p4d_error *err)
{
	p4d_fail(err, P4D_E_CHECKPOINT,
		 "--init-from %.200s: neither a directory nor a model in the hub's cache", from);
	return p4d_fix(err, "hf download %.200s", from);
}

int p4d_released_find(const char *from, p4d_request *request, char *folder, size_t size, p4d_error *err)
{
	p4d_preset preset = {.file = ""};

	p4d_released_model(from, request);
	if (p4d_model_resolve(request, NULL, &preset, err) < 0)
		return err->code == P4D_E_UNKNOWN_MODEL ? p4d_released_unknown(from, err) : -1;
	if (request->untrained[0])
		return p4d_fail(err, P4D_E_UNMODELLED,
				"--init-from %.200s: p4d-train does not compute %.150s", from,
				request->untrained);
	if (p4d_is_set(request, P4D_STORED)) {
		char stored[40];
		p4d_request_value_text(request, P4D_STORED, stored, sizeof(stored));
		return p4d_fail(err, P4D_E_UNMODELLED,
				"--init-from %.200s: its weights are stored as %s (quantization_config), but "
				"p4d-train can only start from fp32, bf16 or fp16",
				from, stored);
	}
	snprintf(folder, size, "%s", p4d_file_is_folder(from) ? from : preset.file);
	if (p4d_file_is_folder(folder))
		return 0;
	if (strrchr(folder, '/')) {
		*strrchr(folder, '/') = '\0';
		return 0;
	}
	return p4d_released_unknown(from, err);
}
