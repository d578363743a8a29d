/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file of a named model. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/hub_cache.h"
#include "model/hub_name.h"
#include "model/model_internal.h"
#include "model/presets.h"

enum { MAX_PATH = 1024 };

static bool ends_in_json(const char *name)
{
	size_t length = strlen(name);

	return length > 5 && !strcmp(name + length - 5, ".json");
}

/* Whether a name can only be a file. */
static bool is_path(const char *name)
{
	return ends_in_json(name) || (strchr(name, '/') && (name[0] == '/' || name[0] == '.'));
}

static bool is_there(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Whether a folder here may contain a model. */
static bool has_config(const char *folder)
{
	char path[MAX_PATH];

	return p4d_file_is_folder(folder) &&
	       snprintf(path, sizeof(path), "%s/config.json", folder) < (int)sizeof(path) && is_there(path);
}

/* A search for a name. An adapter's base cannot be an adapter. */
typedef struct search {
	const char *datadir;
	bool of_adapter;
} search;

static int resolve(const search *in, const char *name, p4d_request *request, p4d_preset *preset,
		   p4d_error *err);

/* Reads the base model of an adapter, and adds the values of the adapter's file. */
static int take_base(const search *in, const p4d_request *adapter, const char *path, p4d_request *request,
		     p4d_preset *preset, p4d_error *err)
{
	const search base = {.datadir = in->datadir, .of_adapter = true};
	p4d_preset found = {.name = ""};

	if (in->of_adapter)
		return p4d_fail(err, P4D_E_VALUE, "%.255s: its base model is also an adapter", path);
	if (resolve(&base, adapter->model, request, &found, err) < 0)
		return p4d_error_in(err, path);
	static const p4d_option added[] = {P4D_FINETUNE, P4D_LORA_RANK, P4D_LORA_TARGETS};
	for (size_t i = 0; i < sizeof(added) / sizeof(*added); i++)
		p4d_request_inherit(request, adapter, added[i], P4D_BY_MODEL);
	if (!*found.file)
		snprintf(found.file, sizeof(found.file), "%.180s, base of the adapter", adapter->model);
	if (preset)
		*preset = found;
	return 0;
}

static int read_file(const search *in, const char *path, p4d_request *request, p4d_preset *preset,
		     p4d_error *err)
{
	p4d_presets_row row = {.preset = {.name = ""}};

	if (p4d_model_file_read(path, &row, err) < 0)
		return -1;
	return *row.model.model ? take_base(in, &row.model, path, request, preset, err)
				: p4d_model__take(&row, path, request, preset, err);
}

/* The model file of a folder; if there is none, the adapter's file. */
static int read_folder(const search *in, const char *folder, p4d_request *request, p4d_preset *preset,
		       p4d_error *err)
{
	char path[MAX_PATH], adapter[MAX_PATH];

	if (snprintf(path, sizeof(path), "%s/config.json", folder) >= (int)sizeof(path) ||
	    snprintf(adapter, sizeof(adapter), "%s/adapter_config.json", folder) >= (int)sizeof(adapter))
		return p4d_fail(err, P4D_E_IO, "%.255s: the path is too long", folder);
	return read_file(in, !is_there(path) && is_there(adapter) ? adapter : path, request, preset, err);
}

static int read_place(const search *in, const char *path, p4d_request *request, p4d_preset *preset,
		      p4d_error *err)
{
	return p4d_file_is_folder(path) ? read_folder(in, path, request, preset, err)
					: read_file(in, path, request, preset, err);
}

/* Finds a preset; otherwise, a file of the user. */
static int resolve_name(const search *in, const char *name, p4d_request *request, p4d_preset *preset,
			p4d_error *err)
{
	const bool slash = strchr(name, '/');
	p4d_error why = {.code = P4D_OK};
	char path[MAX_PATH];
	bool unknown;

	int rc = p4d_model__preset_load(name, in->datadir, slash ? P4D_HUB_NAME_WHOLE : P4D_HUB_NAME_PLAIN,
					request, preset, &why, &unknown);
	if (unknown && (slash ? is_there(name) : has_config(name)))
		return read_place(in, name, request, preset, err);
	if (unknown && p4d_hub_cache_find(name, path, sizeof(path))) {
		rc = read_folder(in, path, request, preset, err);
		if (rc == 0 && preset && !*preset->file)
			snprintf(preset->file, sizeof(preset->file), "%.255s", path);
		return rc;
	}
	if (unknown && slash)
		rc = p4d_model__preset_load(name, in->datadir, P4D_HUB_NAME_PLAIN, request, preset, &why,
					    &unknown);
	if (err && rc < 0)
		*err = why;
	return rc;
}

static int resolve(const search *in, const char *name, p4d_request *request, p4d_preset *preset,
		   p4d_error *err)
{
	return is_path(name) ? read_place(in, name, request, preset, err)
			     : resolve_name(in, name, request, preset, err);
}

static int take_custom(p4d_request *request, p4d_preset *preset, p4d_error *err)
{
	if (p4d_model__custom(request, err) < 0)
		return p4d_error_in(err, "custom");
	if (preset)
		memset(preset, 0, sizeof(*preset));
	return 0;
}

static int no_model(p4d_error *err)
{
	p4d_fail(err, P4D_E_INCOMPLETE_MODEL, "no model given");
	return p4d_fix(err, "--p4d-model=NAME");
}

int p4d_model_resolve(p4d_request *request, const char *datadir, p4d_preset *preset, p4d_error *err)
{
	const search in = {.datadir = datadir};
	const char *name = request->model;

	if (!*name)
		return no_model(err);
	return strcasecmp(name, "custom") == 0 ? take_custom(request, preset, err)
					       : resolve(&in, name, request, preset, err);
}

int p4d_model_resolve_built_in(p4d_request *request, p4d_preset *preset, p4d_error *err)
{
	const char *name = request->model;
	bool unknown;

	if (!*name)
		return no_model(err);
	if (is_path(name)) {
		p4d_fail(err, P4D_E_UNKNOWN_MODEL, "%.255s: a quick query reads no model files", name);
		return p4d_fix(err, "a name that p4d models lists, or --p4d-model=custom and its sizes");
	}
	if (strcasecmp(name, "custom") == 0)
		return take_custom(request, preset, err);
	return p4d_model__preset_load(name, NULL, P4D_HUB_NAME_PLAIN, request, preset, err, &unknown);
}
