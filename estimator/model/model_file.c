/* SPDX-License-Identifier: Apache-2.0 */
/* Model files as they are, in each form. */
#include <stdlib.h>

#include "base/json_file.h"
#include "model/model_json.h"
#include "model/presets.h"

enum { MAX_FILE = 1024 * 1024 };

int p4d_model__read_adapter(struct json_object *adapter, p4d_request *model, p4d_error *err)
{
	return p4d_json_string(adapter, "base_model_name_or_path", model->model, sizeof(model->model), err);
}

static int read_model(struct json_object *object, p4d_presets_row *row, p4d_error *err)
{
	if (json_object_object_get(object, "architectures") || json_object_object_get(object, "model_type"))
		return p4d_model__read_hf(object, &row->model, err);
	if (json_object_object_get(object, "base_model_name_or_path"))
		return p4d_model__read_adapter(object, &row->model, err);
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
