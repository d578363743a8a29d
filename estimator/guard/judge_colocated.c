/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "guard/verdict.h"
#include "serve/colocated.h"
#include "request/defaults.h"

/* Estimates the parts, and checks that they fit. */
static int check(const p4d_request *r, const p4d_verdict *v, p4d_colocated *c, p4d_error *err)
{
	const p4d_geometry *g = &v->geometry;
	p4d_layout l;

	if (p4d_layout_build(r, g->nodes, g->gpus_per_node, &l, err) < 0 ||
	    p4d_colocated_estimate(r, &l, g->gpu, c, err) < 0)
		return -1;
	return p4d_colocated_check(r, &l, g->gpu, c, p4d_site_policy_limit(&v->policy, l.framework), err);
}

/*
 * Whether the job needs this memory only if its sequences are as long as the script allows. It pads sequences
 * to the longest one, or packs the answers of the policy. False if even short sequences do not fit.
 */
static bool depends_on_length(const p4d_request *r, const p4d_verdict *v)
{
	const bool answers = r->value[P4D_WORKLOAD] == P4D_WORKLOAD_RL && p4d_is_set(r, P4D_PACKING) &&
			     r->value[P4D_PACKING] && r->origin[P4D_SEQ_LEN] != P4D_BY_USER;
	p4d_request with = *r;
	p4d_colocated unused;
	p4d_error err;

	with.value[P4D_SEQ_LEN] = 2 * r->value[P4D_TP] * r->value[P4D_CP];
	return (answers || p4d_guard__is_bound(r)) &&
	       v->colocated.training.sum > v->colocated.generating.sum && check(&with, v, &unused, &err) == 0;
}

/* Adds a warning. p4d refuses no such job, because nobody compared the sum of these parts with a
 * measurement. */
static void say(p4d_verdict *v, const p4d_request *request, const p4d_error *why)
{
	const bool longest = why->code == P4D_E_DOES_NOT_FIT && depends_on_length(request, v);

	v->action = P4D_WARN;
	p4d_message *message =
	    p4d_verdict__say(v, P4D_E_UNVALIDATED, "unvalidated: %.400s%s", why->text,
			     longest ? ", if the sequences of a micro-batch have the longest length" : "");

	snprintf(message->fix, sizeof(message->fix), "%s", why->fix);
}

void p4d_guard__judge_colocated(const p4d_request *request, uint32_t published_batch, p4d_verdict *v)
{
	const p4d_geometry *g = &v->geometry;
	p4d_request complete = *request;
	p4d_error err = {.code = P4D_OK};
	const uint64_t world = (uint64_t)g->nodes * g->gpus_per_node;

	if (!g->gpu) {
		p4d_verdict__say(v, P4D_E_ASSUMED, "p4d does not know the GPU, so p4d did not check %s",
				 request->value[P4D_WORKLOAD] == P4D_WORKLOAD_RL ? "reinforcement learning"
										 : "preference training");
		return;
	}
	p4d_colocated_complete(&complete, world);
	p4d_request_complete(&complete, published_batch, world);
	if (check(&complete, v, &v->colocated, &err) < 0)
		say(v, &complete, &err);
}
