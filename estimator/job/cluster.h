/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"

/*
 * Adds the GPUs of a node, or of several identical ones, to the rows of a partition, one per GPU type. Nodes
 * without GPUs add none. gres: "gpu:h100:8(S:0,1),lustre:1", or NULL; features: "a,b", or NULL. -1 without
 * memory.
 */
int p4d_cluster_add(p4d_cluster *cluster, const char *partition, bool is_default, const char *gres,
		    const char *features, uint64_t mem_bytes);

void p4d_cluster_free(p4d_cluster *cluster); /* accepts a zeroed one */
