/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_weights.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/huggingface.h"
#include "checkpoint/released.h"
#include "model/rope.h"
#include "plan/plan_line.h"
#include "run/rank_error.h"

/*
 * Compares the model of the weights with the plan's model. With another model the run would start, and only
 * its high loss would show the mistake.
 */
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
		   uint64_t *hash, char *released, size_t size, p4d_error *err)
{
	p4d_request theirs = {.model = ""};
	char folder[4096], whole[PATH_MAX];

	released[0] = '\0';
	if (p4d_released_find(from, &theirs, folder, sizeof(folder), err) < 0)
		return -1;
	/*
	 * if the path is too long, the checkpoint stores none, and an export then needs an option that names
	 * the folder
	 */
	const char *path = realpath(folder, whole);
	if (path && strlen(path) < size)
		snprintf(released, size, "%s", path);
	p4d_rope_default(&theirs);
	if (compare(from, &theirs, &plan->request, err) < 0)
		return -1;
	return p4d_huggingface_hash(folder, hash, err) < 0 ? -1
							   : p4d_huggingface_import(folder, storage, err);
}

void p4d_train_weights_unused(const char *folder, const p4d_job_plan *plan)
{
	char line[P4D_PLAN_MAX], names[200];
	uint64_t count = 0;
	p4d_error err;

	if (p4d_plan_write(&plan->request, line, sizeof(line), &err) < 0 ||
	    p4d_huggingface_unused(folder, line, names, sizeof(names), &count, &err) < 0 || !count)
		return;
	p4d_fail(&err, P4D_E_CHECKPOINT,
		 "--init-from %.200s: its files have %" PRIu64
		 " tensor%s that the model of its config.json does not have (%s%s)",
		 folder, count, count == 1 ? "" : "s", names, count > 2 ? " ..." : "");
	p4d_rank_report(&err, NULL, 0);
}
