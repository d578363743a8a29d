/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "guard/verdict.h"
#include "serve/colocated.h"
#include "request/defaults.h"

/* Adds a warning. p4d refuses no such job, because nobody compared the sum of these parts with a
 * measurement. */
static void say(p4d_verdict *v, const p4d_error *why)
{
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(v, P4D_E_UNVALIDATED, "unvalidated: %.400s", why->text);

	snprintf(message->fix, sizeof(message->fix), "%s", why->fix);
}

void p4d_guard__judge_colocated(const p4d_request *request, uint32_t published_batch, p4d_verdict *v)
{
	const p4d_geometry *g = &v->geometry;
	p4d_request complete = *request;
	p4d_error err = {.code = P4D_OK};
	p4d_colocated *c = &v->colocated;
	p4d_layout l;
	const uint64_t world = (uint64_t)g->nodes * g->gpus_per_node;

	if (!g->gpu) {
		p4d_verdict__say(v, P4D_E_ASSUMED, "p4d does not know the GPU, so p4d did not check %s",
				 request->value[P4D_WORKLOAD] == P4D_WORKLOAD_RL ? "reinforcement learning"
										 : "preference training");
		return;
	}
	p4d_colocated_complete(&complete, world);
	p4d_request_complete(&complete, published_batch, world);
	if (p4d_layout_build(&complete, g->nodes, g->gpus_per_node, &l, &err) < 0 ||
	    p4d_colocated_estimate(&complete, &l, g->gpu, c, &err) < 0 ||
	    p4d_colocated_check(&complete, &l, g->gpu, c, p4d_site_policy_limit(&v->policy, l.framework),
				&err) < 0)
		say(v, &err);
}
