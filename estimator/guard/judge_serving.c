/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "guard/verdict.h"
#include "serve/serving.h"

int p4d_guard__judge_serving(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			     void *context, const p4d_request *request, p4d_verdict *v, p4d_error *err)
{
	const p4d_gpu *gpu = v->geometry.gpu;
	p4d_request complete = *request;
	uint64_t host_bytes;

	if (!gpu) {
		p4d_verdict__say(v, P4D_E_ASSUMED, "p4d does not know the GPU, so p4d did not check serving");
		return 0;
	}
	p4d_serving_complete(&complete, gpu);
	if (p4d_serving_estimate(&complete, gpu, (uint64_t)v->geometry.nodes * v->geometry.gpus_per_node,
				 &v->serving, err) == 0 &&
	    p4d_serving_check(request->model, gpu, &v->serving, err) == 0 &&
	    p4d_serving_check_host(&v->serving, v->geometry.gpus_per_node, v->geometry.host_bytes, err) ==
		0) {
		v->starts = true;
		p4d_error why;
		if (p4d_serving_check_start(&complete, gpu, &v->serving, &why) < 0) {
			v->action = P4D_WARN;
			snprintf(p4d_verdict__say(v, why.code, "%.400s", why.text)->fix,
				 sizeof(v->message[0].fix), "%s", why.fix);
		}
		return 0;
	}
	p4d_serving_fix_tp(&complete, gpu, (uint64_t)v->geometry.nodes * v->geometry.gpus_per_node,
			   v->geometry.gpus_per_node, err);
	if (!__builtin_mul_overflow(v->serving.host_bytes, v->geometry.gpus_per_node, &host_bytes))
		p4d_guard__fix_memory(site, job, source, context, v, host_bytes, err);
	if (v->policy.unmodelled == P4D_UNMODELLED_REJECT)
		return -1;
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(v, P4D_E_UNVALIDATED, "unvalidated: %.400s", err->text);
	snprintf(message->fix, sizeof(message->fix), "%s", err->fix);
	*err = (p4d_error){.code = P4D_OK};
	return 0;
}
