/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/companions.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/released.h"
#include "plan/plan_line.h"

static bool is_there(const char *directory, const char *file)
{
	char path[P4D_PATH];

	return p4d_checkpoint__join_path(path, NULL, "%s/%s", directory, file) == 0 &&
	       access(path, F_OK) == 0;
}

/* Finds the newest checkpoint of a run below a step. *step: its number. */
static int find_newest(const char *run, uint64_t below, uint64_t *step, char *path, size_t size,
		       p4d_error *err)
{
	bool found = false;

	if (p4d_checkpoint_latest(run, below, step, &found, err) < 0)
		return -1;
	if (!found)
		return p4d_fail(err, P4D_E_CHECKPOINT, "%.300s: no checkpoint found", run);
	return p4d_checkpoint_path(run, *step, path, size, err);
}

/* Finds the folder of the weights with which adapters were trained. */
static int find_base(const p4d_export *export, const p4d_checkpoint_info *info, char *folder, size_t size,
		     p4d_error *err)
{
	p4d_request request = {.model = ""};

	if (export->base)
		return p4d_released_find(export->base, &request, folder, size, err);
	if (p4d_released_find(info->base, &request, folder, size, err) == 0)
		return 0;
	if (err->code != P4D_E_CHECKPOINT)
		return -1;
	p4d_fail(err, P4D_E_CHECKPOINT,
		 "the adapters were trained with the weights of %.300s, which is neither a directory nor a "
		 "model in the hub's cache on this host",
		 info->base);
	return p4d_fix(err, "--init-from DIR, the directory in which these weights are now");
}

/* Finds the folder of the released model, whose tokenizer belongs in the export. */
static int find_released(p4d_export *export, const p4d_checkpoint_info *info, p4d_error *err)
{
	p4d_request request = {.model = ""};
	const char *const from[] = {info->released, info->base};
	p4d_error gone;

	if (export->base)
		return p4d_released_find(export->base, &request, export->released, sizeof(export->released),
					 err);
	for (int i = 0; i < 2; i++)
		if (from[i][0] && p4d_released_find(from[i], &request, export->released,
						    sizeof(export->released), &gone) == 0)
			return 0;
	/* the folder is gone, so the export has no tokenizer; the weights are still complete */
	export->released[0] = '\0';
	return 0;
}

static int carry(p4d_export *export, p4d_error *err)
{
	if (!export->released[0])
		return 0;
	if (p4d_companions__copy(export->released, export->to, &export->companions, err) < 0)
		return -1;
	return p4d_companions__special_tokens(export->released, export->to, err);
}

/*
 * Writes the weights. Adapters are merged into the weights with which they were trained. If those weights
 * were moved, the user must name their folder.
 */
static int write_weights(p4d_export *export, const char *path, const p4d_checkpoint_info *info,
			 p4d_error *err)
{
	char folder[P4D_PATH];

	if (!info->base[0])
		return p4d_huggingface_export(path, export->to, export->type, export->file_bytes, err);
	if (export->alone)
		return p4d_huggingface_export_adapters(path, export->to, export->type, err);
	if (find_base(export, info, folder, sizeof(folder), err) < 0)
		return -1;
	return p4d_huggingface_export_merged(path, folder, export->to, export->type, export->file_bytes, err);
}

static int write_one(p4d_export *export, const char *path, p4d_error *err)
{
	p4d_checkpoint_info info;

	if (p4d_checkpoint_read_info(path, &info, err) < 0)
		return -1;
	if (!info.base[0] && export->alone) {
		p4d_fail(err, P4D_E_USAGE,
			 "--form=adapter has no effect: %.300s contains a whole model and no adapters", path);
		return p4d_fix(err, "leave out --form=adapter");
	}
	if (find_released(export, &info, err) < 0 || write_weights(export, path, &info, err) < 0)
		return -1;
	return carry(export, err);
}

int p4d_export_write(p4d_export *export, char *taken, size_t size, p4d_error *err)
{
	const bool is_one = is_there(export->from, "manifest.json");
	char before[P4D_PATH];
	uint64_t step = 0, earlier;

	if (is_one)
		snprintf(taken, size, "%s", export->from);
	else if (find_newest(export->from, UINT64_MAX, &step, taken, size, err) < 0)
		return -1;
	if (write_one(export, taken, err) == 0)
		return 0;
	if (!is_one && err->code == P4D_E_CHECKPOINT && !err->fix[0] &&
	    find_newest(export->from, step, &earlier, before, sizeof(before), NULL) == 0)
		p4d_fix(err, "p4d export %.200s, the previous checkpoint, and an empty DIR", before);
	return -1;
}

bool p4d_export_drops_losses(const char *taken)
{
	p4d_checkpoint_info info;
	p4d_request request;
	p4d_error err;

	return p4d_checkpoint_read_info(taken, &info, &err) == 0 &&
	       p4d_plan_read(info.plan, &request, &err) == 0 && p4d_is_set(&request, P4D_LOCAL_LOSS) &&
	       request.value[P4D_LOCAL_LOSS] == P4D_LOCAL_STAGE;
}

bool p4d_export_has_config(const p4d_export *export)
{
	return is_there(export->to, "config.json");
}
