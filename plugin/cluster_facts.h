/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "job/cluster.h"
#include "slurm_compat.h"

/* Slurm's configuration in this process, from which p4d takes the default memory of jobs. */
typedef struct p4d_cluster_conf {
	const slurm_conf_t *conf; /* NULL: unknown */
	bool stays; /* nobody frees the configuration's memory; false in slurmctld, which may read it again */
} p4d_cluster_conf;

/*
 * Asks slurmctld for the GPUs of each partition (two RPCs). Never call it under slurmctld's locks. Release
 * with p4d_cluster_free, which accepts a zeroed struct. -1: errno has Slurm's reason; 0: no memory.
 */
int p4d_cluster_load(p4d_cluster *cluster, const p4d_cluster_conf *conf);
