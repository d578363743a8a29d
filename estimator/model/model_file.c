/* SPDX-License-Identifier: Apache-2.0 */
/* Reads model files in each form. */
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "model/model_json.h"
#include "model/presets.h"

enum { MAX_FILE = 1024 * 1024 };

/*
 * LoRA's rank and layers. If the file has a pattern of names instead of a list, the user must give the
 * layers.
 */
static int read_lora(struct json_object *adapter, p4d_request *model, p4d_error *err)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_LORA_RANK);
	char targets[sizeof(model->lora_targets)] = "";
	int64_t rank = 0;

	if (p4d_json_integer(adapter, "r", info->min, info->max, &rank, err) < 0)
		return -1;
	if (json_object_is_type(json_object_object_get(adapter, "target_modules"), json_type_array) &&
	    p4d_json_list(adapter, "target_modules", targets, sizeof(targets), err) < 0)
		return -1;
	p4d_request_put(model, P4D_FINETUNE, P4D_TUNE_LORA, P4D_BY_MODEL);
	if (rank)
		p4d_request_put(model, P4D_LORA_RANK, rank, P4D_BY_MODEL);
	return *targets ? p4d_request_set(model, P4D_LORA_TARGETS, targets, P4D_BY_MODEL, err) : 0;
}

/*
 * PEFT's adapter_config.json: model->model is the adapter's base. Adds the file's values about fine-tuning.
 */
static int read_adapter(struct json_object *adapter, p4d_request *model, p4d_error *err)
{
	char kind[32] = "";

	if (p4d_json_string(adapter, "base_model_name_or_path", model->model, sizeof(model->model), err) <
		0 ||
	    p4d_json_string(adapter, "peft_type", kind, sizeof(kind), err) < 0)
		return -1;
	return !strcmp(kind, "LORA") ? read_lora(adapter, model, err) : 0;
}

static int read_model(struct json_object *object, p4d_presets_row *row, p4d_error *err)
{
	if (json_object_object_get(object, "architectures") || json_object_object_get(object, "model_type"))
		return p4d_model__read_hf(object, &row->model, err);
	if (json_object_object_get(object, "base_model_name_or_path"))
		return read_adapter(object, &row->model, err);
	if (json_object_object_get(object, "name"))
		return p4d_model__read_preset(object, &row->model, &row->preset, err);
	return p4d_fail(err, P4D_E_JSON,
			"neither a Hugging Face config.json (no \"architectures\" or \"model_type\") nor a "
			"preset (no \"name\")");
}

int p4d_model_file_parse(const char *text, size_t length, const char *what, p4d_presets_row *row,
			 p4d_error *err)
{
	struct json_object *object = p4d_json_parse(text, length, what, err);

	if (!object)
		return -1;
	int rc = read_model(object, row, err);
	json_object_put(object);
	return rc < 0 ? p4d_error_in(err, what) : 0;
}

int p4d_model_file_read(const char *path, p4d_presets_row *row, p4d_error *err)
{
	size_t length;
	char *text = p4d_text_read(path, MAX_FILE, &length, err);
	const int rc = text ? p4d_model_file_parse(text, length, path, row, err) : -1;

	free(text);
	return rc;
}
