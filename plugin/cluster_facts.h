/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/error.h"
#include "job/cluster.h"
#include "slurm_compat.h"

/*
 * Asks slurmctld for the GPUs of each partition (two RPCs). Never call it under slurmctld's locks. Release
 * with p4d_cluster_free, which accepts a zeroed struct. conf: of this process, for the memory that jobs get
 * by default; NULL: unknown. Of it only numbers are read: slurmctld may read its file again meanwhile.
 * Errors: IO (errno: Slurm's reason), NO_MEMORY.
 */
int p4d_cluster_load(p4d_cluster *cluster, const slurm_conf_t *conf, p4d_error *err);
