/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/p4d_check.h"
#include "plan/parameters.h"
#include "plan/stage_memory.h"

/*
 * NCCL groups in addition to those of all frameworks. Keys are gathered in two rank orders. With cp the dp-cp
 * group differs from the cp group, and replicas that each shard an optimizer have another group. Vocabulary
 * parallelism sums over all stages, and passes data between them. The first and the last stage share a tied
 * table. A tp-grid has groups for Y and Z.
 */
uint64_t p4d_framework__p4d_groups_bytes(const p4d_layout *l, uint32_t stage)
{
	const p4d_schedule s = p4d_schedule_of(l);
	const bool is_end = (stage == 0) != p4d_schedule_is_last(&s, stage);
	uint64_t bytes = p4d_memory_usual_groups_bytes(l, stage) + p4d_memory_communicator_bytes(l->tp_y) +
			 p4d_memory_communicator_bytes(l->tp_z);

	if (l->cp_comm == P4D_CP_ALL_GATHER)
		bytes += p4d_memory_communicator_bytes(l->cp);
	if (l->cp > 1 || l->shard_degree) {
		const uint64_t shards = p4d_optimizer_shards(l), all = l->cp * l->dp;
		bytes += p4d_memory_communicator_bytes(shards > 1 ? shards : all) +
			 p4d_memory_communicator_bytes(shards > 1 ? all / shards : 1) -
			 p4d_memory_communicator_bytes(l->dp);
	}
	if (l->vocab_parallel)
		bytes += p4d_memory_communicator_bytes(l->tp * l->pp) + p4d_memory_communicator_bytes(l->pp);
	else if (l->tied && is_end)
		bytes += p4d_memory_communicator_bytes(2);
	return bytes;
}
