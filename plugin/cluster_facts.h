/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_CLUSTER_FACTS_H
#define P4D_CLUSTER_FACTS_H

#include "base/error.h"
#include "job/cluster.h"

/*
 * Asks slurmctld which GPUs each partition has (two RPCs). Never call it under slurmctld's locks. The caller
 * frees with p4d_cluster_free. Errors: IO, NO_MEMORY.
 */
int p4d_cluster_load(p4d_cluster *cluster, p4d_error *err);

#endif
