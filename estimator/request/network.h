/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The network between nodes, as p4d.conf describes that of a partition. All members 0: not described; then
 * each GPU has the network rate of gpus.json to every node.
 */
typedef struct p4d_network {
	double nic_bytes_per_s; /* of an interface in one direction; 0: as gpus.json has it */
	double step_seconds;    /* of a step of a collective between nodes; 0: the cost model's */
	double
	    oversubscription; /* of leaf switches: bytes/s to their nodes over those to other leafs; 0: 1 */
	uint32_t nics, gpus;  /* of a node; nics 0: one per GPU; gpus 0: those that the job has there */
	uint32_t leaf_nodes;  /* nodes that share their leaf switches; 0: not known */
} p4d_network;
