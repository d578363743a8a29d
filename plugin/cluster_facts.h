/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "job/cluster.h"

/*
 * Asks slurmctld for the GPUs of each partition (two RPCs). Never call it under slurmctld's locks. Release
 * with p4d_cluster_free, which accepts a zeroed struct. Errors: IO (errno: Slurm's reason), NO_MEMORY.
 */
int p4d_cluster_load(p4d_cluster *cluster, p4d_error *err);
