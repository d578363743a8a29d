/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/sdpa_engine.h"

#include <inttypes.h>

typedef cudnnBackendDescriptor_t engine_descriptor;

enum { PROPOSALS = 8 };

static engine_descriptor ask(p4d_sdpa_graph *g, engine_descriptor device)
{
	const engine_descriptor heuristics = p4d_sdpa_graph_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;

	p4d_sdpa_graph_refer(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->whole);
	p4d_sdpa_graph_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (device)
		p4d_sdpa_graph_refer(g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
	p4d_sdpa_graph_finish(g, heuristics);
	return heuristics;
}

engine_descriptor p4d_engine_choose(p4d_sdpa_graph *g, engine_descriptor device, uint64_t most,
				    uint64_t *bytes, p4d_error *err)
{
	const p4d_cudnn *cudnn = g->cudnn;
	const engine_descriptor heuristics = ask(g, device);
	engine_descriptor proposals[PROPOSALS];
	int64_t found = 0, count, least = INT64_MAX;

	for (int i = 0; i < PROPOSALS; i++)
		proposals[i] = p4d_sdpa_graph_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	if (p4d_sdpa_graph_failed(g, err) < 0)
		return NULL;
	if (cudnn->BackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
				       CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &found,
				       proposals) != CUDNN_STATUS_SUCCESS)
		found = 0;
	for (int64_t i = 0; i < found && i < PROPOSALS; i++) {
		int64_t need = 0;
		if (cudnn->BackendGetAttribute(proposals[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
					       CUDNN_TYPE_INT64, 1, &count, &need) != CUDNN_STATUS_SUCCESS)
			continue;
		if ((uint64_t)need <= most) {
			*bytes = (uint64_t)need;
			return proposals[i];
		}
		least = need < least ? need : least;
	}
	if (least == INT64_MAX)
		p4d_fail(err, P4D_E_DEVICE, "%s rejects it", cudnn->text);
	else
		p4d_fail(err, P4D_E_DEVICE, "%s needs %" PRId64 " bytes of workspace, the plan has %" PRIu64,
			 cudnn->text, least, most);
	return NULL;
}

engine_descriptor p4d_engine_build(p4d_sdpa_graph *g, engine_descriptor device, cudnnHandle_t handle,
				   engine_descriptor choice, p4d_error *err)
{
	const engine_descriptor plan = p4d_sdpa_graph_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);

	p4d_sdpa_graph_refer(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice);
	if (device)
		p4d_sdpa_graph_refer(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
	if (handle)
		p4d_sdpa_graph_set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
	p4d_sdpa_graph_finish(g, plan);
	return p4d_sdpa_graph_failed(g, err) < 0 ? NULL : plan;
}
