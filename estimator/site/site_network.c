/* SPDX-License-Identifier: Apache-2.0 */
/* The network between the nodes of a partition, from the keys of its section. */
#include <stdio.h>
#include <string.h>

#include "site/site.h"

/*
 * Number of nodes below a leaf switch, which has `leaf_ports` ports: with rails one port per node, otherwise
 * one per interface.
 */
static uint32_t leaf_nodes(const p4d_site_partition *p)
{
	const uint32_t nics = p->nics_per_node ? p->nics_per_node : p->gpus_per_node;
	const uint32_t each = p->rails || !nics ? 1 : nics;

	return p->leaf_ports && p->leaf_ports < each ? 1 : p->leaf_ports / each;
}

p4d_network p4d_site_network(const p4d_site_partition *partition)
{
	const p4d_site_partition *p = partition;

	if (!p)
		return (p4d_network){0};
	return (p4d_network){.nic_bytes_per_s = p->nic_gb_per_s * 1e9,
			     .step_seconds = p->net_latency_us * 1e-6,
			     .oversubscription = p->oversubscription,
			     .nics = p->nics_per_node,
			     .gpus = p->gpus_per_node,
			     .leaf_nodes = leaf_nodes(p)};
}

static bool may_have(const p4d_site_partition *partition, const p4d_gpu *gpu)
{
	bool found = !partition->gpus;

	for (unsigned i = 0; i < partition->gpus && !found; i++)
		found = gpu && !strcmp(partition->gpu[i]->name, gpu->name);
	return found;
}

void p4d_site_apply_network(const p4d_site *site, const char *list, const p4d_gpu *gpu, p4d_request *request)
{
	char first[64];

	snprintf(first, sizeof(first), "%.*s", list ? (int)strcspn(list, ",") : 0, list ? list : "");
	const p4d_site_partition *partition = p4d_site_partition_of(site, list ? first : NULL);
	if (partition && may_have(partition, gpu))
		request->network = p4d_site_network(partition);
}
