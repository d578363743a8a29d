/* SPDX-License-Identifier: Apache-2.0 */
#include "run/train_agree.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "plan/plan_line.h"

/*
 * Compares a hash on all ranks. what: text of the error about a rank whose hash differs from that of rank 0.
 */
static int agree(p4d_group *all, const p4d_world *world, uint64_t own, const char *what, p4d_code code,
		 p4d_error *err)
{
	const uint32_t size = p4d_world_size(world);
	uint64_t *each = calloc(size, sizeof(*each));
	uint32_t other = 0;

	if (!each)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a number of %u ranks", size);
	int rc = p4d_comm_all_gather(all, each, &own, sizeof(own), err);
	while (other < size && each[other] == each[0])
		other++;
	free(each);
	if (rc < 0 || other == size)
		return rc;
	return p4d_fail(err, code, "rank %u (%.60s) %s than rank 0 (%.60s)", other,
			p4d_world_host(world, other), what, p4d_world_host(world, 0));
}

int p4d_agree_on_options(p4d_group *all, const p4d_world *world, const p4d_settings *settings,
			 const p4d_job_plan *plan, p4d_error *err)
{
	char line[P4D_PLAN_MAX];

	if (p4d_plan_write(&plan->request, line, sizeof(line), err) < 0)
		return -1;
	if (agree(all, world, p4d_settings_hash(settings), "was started with other options", P4D_E_USAGE,
		  err) < 0)
		return -1;
	return agree(all, world, p4d_hash_bytes(line, strlen(line)), "has another model or layout",
		     P4D_E_PLAN_CHANGED, err);
}

int p4d_agree_on_weights(p4d_group *all, const p4d_world *world, uint64_t hash, p4d_error *err)
{
	return agree(all, world, hash, "has other weights under --init-from", P4D_E_CHECKPOINT, err);
}

int p4d_agree_on_data(p4d_group *all, const p4d_world *world, const p4d_train_data *data, p4d_error *err)
{
	if (agree(all, world, data->samples, "has other training data", P4D_E_DATA, err) < 0)
		return -1;
	return agree(all, world, data->valid_samples, "has other validation data", P4D_E_DATA, err);
}
