/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The network between nodes, as p4d.conf describes it for a partition. If all members are 0, p4d.conf
 * describes none; each GPU then reaches every node with the network rate of gpus.json.
 */
typedef struct p4d_network {
	double nic_bytes_per_s;  /* bandwidth of one network interface in one direction; 0: the value in
				    gpus.json */
	double step_seconds;     /* seconds for one step of a collective between nodes; 0: the constant of the
				    cost model */
	double oversubscription; /* oversubscription of leaf switches: bytes/s to their nodes, divided by
				    bytes/s to other leaf switches; 0: 1 */
	uint32_t nics, gpus; /* per node: network interfaces (0: one per GPU) and GPUs (0: as many as the job
				has there) */
	uint32_t leaf_nodes; /* number of nodes that share leaf switches; 0: unknown */
} p4d_network;
