/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/huggingface.h"
#include "model/model.h"

static const uint64_t FILE_BYTES = UINT64_C(5000000000); /* as the transformers library */

static bool is_there(const char *directory, const char *file)
{
	char path[4096];

	return snprintf(path, sizeof(path), "%s/%s", directory, file) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

static bool is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

void p4d_train_init_model(const char *from, p4d_request *request)
{
	/* elsewhere a word without a slash is a preset's name */
	snprintf(request->model, sizeof(request->model), "%s%s",
		 is_folder(from) && !strchr(from, '/') ? "./" : "", from);
	request->origin[P4D_MODEL] = P4D_BY_USER;
}

/* The model, and where its weights are: in the folder that the user named, or in one of the hub's cache. */
static int find(const char *from, p4d_request *request, char *folder, size_t size, p4d_error *err)
{
	p4d_preset preset = {.file = ""};

	p4d_train_init_model(from, request);
	if (p4d_model_resolve(request, NULL, &preset, err) < 0)
		return -1;
	if (p4d_is_set(request, P4D_STORED)) {
		char stored[40];
		p4d_request_value_text(request, P4D_STORED, stored, sizeof(stored));
		return p4d_fail(
		    err, P4D_E_UNMODELLED,
		    "--init-from %.200s: its weights are stored as %s (quantization_config); p4d-train "
		    "begins with fp32, bf16 or fp16",
		    from, stored);
	}
	snprintf(folder, size, "%s", is_folder(from) ? from : preset.file);
	if (is_folder(folder))
		return 0;
	if (strrchr(folder, '/')) {
		*strrchr(folder, '/') = '\0';
		return 0;
	}
	p4d_fail(err, P4D_E_CHECKPOINT, "--init-from %.200s: neither a folder nor a model in the hub's cache",
		 from);
	return p4d_fix(err, "hf download %.200s", from);
}

/* Of weights that were trained as another model the loss would be high, and nothing else would tell. */
static int compare(const char *from, const p4d_request *theirs, const p4d_request *plan, p4d_error *err)
{
	char left[256], right[256];

	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (!(info->where & P4D_WHERE_MODEL) || i == P4D_MAX_SEQ_LEN ||
		    !p4d_is_set(theirs, (p4d_option)i) || !p4d_is_set(plan, (p4d_option)i))
			continue;
		const bool meant = plan->origin[i] == P4D_BY_USER &&
				   (i == P4D_ROPE_THETA || i == P4D_ROPE_SCALING || i == P4D_NORM_EPSILON);
		p4d_request_value_text(theirs, (p4d_option)i, left, sizeof(left));
		p4d_request_value_text(plan, (p4d_option)i, right, sizeof(right));
		if (!meant && strcmp(left, right) != 0)
			return p4d_fail(
			    err, P4D_E_PLAN_CHANGED,
			    "--init-from %.200s has %s=%.60s, but this run trains a model with %.60s", from,
			    info->name, left, right);
	}
	return 0;
}

int p4d_train_init(const char *from, const p4d_job_plan *plan, const p4d_checkpoint_storage *storage,
		   uint64_t *hash, p4d_error *err)
{
	p4d_request theirs = {.model = ""};
	char folder[4096];

	if (find(from, &theirs, folder, sizeof(folder), err) < 0)
		return -1;
	p4d_rope_default(&theirs);
	if (compare(from, &theirs, &plan->request, err) < 0)
		return -1;
	return p4d_huggingface_hash(folder, hash, err) < 0 ? -1
							   : p4d_huggingface_import(folder, storage, err);
}

/* Adapters are merged into the weights that they were trained beside, or those are elsewhere now. */
static int export_weights(const p4d_settings *s, const char *path, p4d_safetensors_type type, p4d_error *err)
{
	p4d_request request = {.model = ""};
	p4d_checkpoint_info info;
	char folder[4096];

	if (p4d_checkpoint_read_info(path, &info, err) < 0)
		return -1;
	if (!info.base[0] && (s->export_form >= 0 || s->init_from)) {
		p4d_fail(err, P4D_E_USAGE, "--%s has no effect: %.300s holds a whole model, no adapters",
			 s->init_from ? "init-from" : "export-form", path);
		return p4d_fix(err, "leave out --%s", s->init_from ? "init-from" : "export-form");
	}
	if (!info.base[0])
		return p4d_huggingface_export(path, s->export_to, type, FILE_BYTES, err);
	if (s->export_form == P4D_EXPORT_ADAPTER)
		return p4d_huggingface_export_adapters(path, s->export_to, type, err);
	if (find(s->init_from ? s->init_from : info.base, &request, folder, sizeof(folder), err) < 0)
		return -1;
	return p4d_huggingface_export_merged(path, folder, s->export_to, type, FILE_BYTES, err);
}

int p4d_train_export(const p4d_settings *settings, p4d_error *err)
{
	const p4d_safetensors_type type = settings->export_type ? P4D_ST_F32 : P4D_ST_BF16;
	char path[4096];
	uint64_t step = 0;
	bool found = true;

	snprintf(path, sizeof(path), "%s", settings->checkpoint);
	if (!is_there(path, "manifest.json") &&
	    (p4d_checkpoint_latest(settings->checkpoint, UINT64_MAX, &step, &found, err) < 0 ||
	     (found && p4d_checkpoint_path(settings->checkpoint, step, path, sizeof(path), err) < 0)))
		return -1;
	if (!found)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.300s: no checkpoint found", settings->checkpoint);
	if (export_weights(settings, path, type, err) < 0)
		return -1;
	const bool alone = settings->export_form == P4D_EXPORT_ADAPTER;
	printf("%s: %s of %s in %s%s\n", settings->export_to, alone ? "adapters" : "weights", path,
	       settings->export_type ? "fp32" : "bf16",
	       alone || is_there(settings->export_to, "config.json")
		   ? ""
		   : "; without config.json: the transformers library has no such model");
	return 0;
}
