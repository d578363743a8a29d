/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA runtime: graphs, which are empty here, and user objects of graphs. The memory that the driver
 * needs for a graph is not counted.
 */
#include <stdlib.h>

#include "abi.h"
#include "report.h"
#include "result.h"
#include "settings.h"

static int new_handle(void **handle)
{
	*handle = calloc(1, sizeof(long));
	return p4d_result(*handle ? CUDA_OK : CUDA_OUT_OF_MEMORY);
}

ENTRY int cudaGraphCreate(void **graph)
{
	return new_handle(graph);
}

ENTRY int cudaGraphInstantiate(void **runnable)
{
	return new_handle(runnable);
}

ENTRY int cudaGraphInstantiateWithFlags(void **runnable)
{
	return new_handle(runnable);
}

/* Says that a graph has one node, because PyTorch warns about a graph without nodes. */
ENTRY int cudaGraphGetNodes(void *graph, void **nodes, size_t *count)
{
	*count = 1;
	if (nodes)
		nodes[0] = graph;
	return CUDA_OK;
}

/* enum cudaGraphNodeType: an empty node, which has no parameters */
ENTRY int cudaGraphNodeGetType(const void *node, int *type)
{
	(void)node;
	*type = 5;
	return CUDA_OK;
}

/* Arguments differ: CUDA 12 has the count as third. CUDA 13 has edges as third, and the count as fourth. */
ENTRY int cudaGraphNodeGetDependencies(const void *node, void **nodes, void *third, size_t *fourth)
{
	size_t *count = p4d_settings_cuda() < 13 ? third : fourth;

	(void)node, (void)nodes;
	*count = 0;
	return CUDA_OK;
}

ENTRY int cudaGraphLaunch(void)
{
	p4d_report_add(P4D_REPORT_LAUNCHES, 1);
	return CUDA_OK;
}

ENTRY int cudaGraphExecDestroy(void *runnable)
{
	free(runnable);
	return CUDA_OK;
}

/* Frees the graph. It is its own only node. */
ENTRY int cudaGraphDestroy(void *graph)
{
	free(graph);
	return CUDA_OK;
}

ENTRY int cudaGraphDebugDotPrint(void)
{
	return CUDA_OK;
}

typedef struct user_object {
	void (*end)(void *);
	void *data;
	unsigned references;
} user_object;

ENTRY int cudaUserObjectCreate(user_object **object, void *data, void (*end)(void *), unsigned references)
{
	user_object *o = malloc(sizeof(*o));

	if (!o)
		return p4d_result(CUDA_OUT_OF_MEMORY);
	*o = (user_object){end, data, references};
	*object = o;
	return CUDA_OK;
}

ENTRY int cudaUserObjectRelease(user_object *object, unsigned count)
{
	if (count < object->references) {
		object->references -= count;
		return CUDA_OK;
	}
	object->end(object->data);
	free(object);
	return CUDA_OK;
}

/* Objects of a graph live until the process ends, because graphs do not record which objects they have. */
ENTRY int cudaGraphRetainUserObject(void *graph, user_object *object, unsigned count)
{
	(void)graph;
	object->references += count;
	return CUDA_OK;
}
