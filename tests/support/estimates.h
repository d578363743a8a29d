/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "support/support.h"

#include "plan/stage_memory.h"
#include "request/defaults.h"

/* The memory of a request, completed, on so many GPUs whose capacity is not known; *layout: its layout. */
static inline p4d_estimate estimate(const p4d_request *asked, uint64_t nodes, uint64_t gpus_per_node,
				    int method, p4d_layout *layout)
{
	p4d_request r = *asked;
	p4d_capacity none = {NULL, 0, 0};
	p4d_estimate e;
	p4d_error err;

	p4d_request_complete(&r, 0, nodes * gpus_per_node);
	if (p4d_layout_build(&r, nodes, gpus_per_node, layout, &err) < 0)
		fail_msg("layout: %s", err.text);
	if (p4d_memory_estimate(layout, method, &none, &e, &err) < 0)
		fail_msg("memory: %s", err.text);
	return e;
}
