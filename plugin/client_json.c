/* SPDX-License-Identifier: Apache-2.0 */
/* Gives libp4d-client.so access to JSON, in a separate library that is opened for the first file. */
#include "json.h"

static const p4d_json_calls *open_json(p4d_error *err)
{
	static const p4d_json_calls *json;
	char path[4096];
	const char *why;

	if (!json)
		json = p4d_module_open("libp4d-json.so", "p4d_json", path, sizeof(path), &why);
	if (!json)
		p4d_fail(err, P4D_E_INSTALLATION, "cannot use %.200s, so p4d cannot read model files: %.200s",
			 path, why);
	return json;
}

int p4d_model_file_read(const char *path, p4d_presets_row *row, p4d_error *err)
{
	const p4d_json_calls *json = open_json(err);

	return json ? json->read_model(path, row, err) : -1;
}

int p4d_gpus_read(p4d_gpus *gpus, const char *path, p4d_error *err)
{
	const p4d_json_calls *json = open_json(err);

	return json ? json->read_gpus(gpus, path, err) : -1;
}
