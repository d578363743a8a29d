/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN compiles the kernel of an attention plan when the plan is finalized, which takes about half a second
 * per shape. But the engine's configuration already has the workspace. So p4d really finalizes only the first
 * plan of each such engine, to verify that the engine can compile on this machine. It finalizes a later plan
 * only if the program asks for more than the plan's workspace.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "dnn.h"

enum { BUCKETS = 256, ENGINES = 64, NOTES = 8 };

typedef struct plan {
	const void *descriptor;
	int64_t engine, workspace;
	bool waits; /* the program has finalized this plan, but cuDNN has not yet */
	struct plan *next;
} plan;

static plan *buckets[BUCKETS];
static int64_t
    compiled[ENGINES]; /* engines that have finalized a plan whose workspace was that of its configuration */
static int compiled_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static plan **find(const void *descriptor)
{
	plan **at = &buckets[((uintptr_t)descriptor >> 4) % BUCKETS];

	while (*at && (*at)->descriptor != descriptor)
		at = &(*at)->next;
	return at;
}

static bool has_compiled(int64_t engine)
{
	for (int i = 0; i < compiled_count; i++)
		if (compiled[i] == engine)
			return true;
	return false;
}

/* Whether the engine of a configuration compiles its kernels. *number: the engine's number. */
static bool compiles(const p4d_dnn_library *dnn, const void *configuration, int64_t *number)
{
	int notes[NOTES] = {0};
	int64_t count = 0;
	void *engine, *own;
	bool is_compiled = false;

	if (dnn->create(DNN_ENGINE, &own))
		return false;
	engine = own;
	if (!dnn->get(configuration, DNN_CONFIGURATION_ENGINE, DNN_TYPE_DESCRIPTOR, 1, &count, &engine) &&
	    !dnn->get(engine, DNN_ENGINE_INDEX, DNN_TYPE_INT64, 1, &count, number) &&
	    !dnn->get(engine, DNN_ENGINE_NOTES, DNN_TYPE_NOTE, NOTES, &count, notes))
		for (int64_t i = 0; i < count && i < NOTES; i++)
			is_compiled = is_compiled || notes[i] == DNN_NOTE_COMPILES;
	dnn->destroy(own);
	return is_compiled;
}

void p4d_dnn_plan_configure(const p4d_dnn_library *dnn, const void *descriptor, const void *configuration)
{
	int64_t engine, workspace, count = 0;

	if (!compiles(dnn, configuration, &engine) ||
	    dnn->get(configuration, DNN_CONFIGURATION_WORKSPACE, DNN_TYPE_INT64, 1, &count, &workspace))
		return;
	pthread_mutex_lock(&lock);
	plan **at = find(descriptor);
	if (!*at && (*at = calloc(1, sizeof(**at))))
		(*at)->descriptor = descriptor;
	if (*at) {
		(*at)->engine = engine;
		(*at)->workspace = workspace;
	}
	pthread_mutex_unlock(&lock);
}

/* Records the engine of a finalized plan if the plan's workspace is that of its configuration. */
static void note_compiled(const p4d_dnn_library *dnn, const plan *p)
{
	int64_t workspace = -1, count = 0;

	if (has_compiled(p->engine) || compiled_count == ENGINES ||
	    dnn->get(p->descriptor, DNN_PLAN_WORKSPACE, DNN_TYPE_INT64, 1, &count, &workspace) ||
	    workspace != p->workspace)
		return;
	compiled[compiled_count++] = p->engine;
}

int p4d_dnn_plan_finalize(const p4d_dnn_library *dnn, void *descriptor)
{
	pthread_mutex_lock(&lock);
	plan *p = *find(descriptor);
	if (p && has_compiled(p->engine)) {
		p->waits = true;
		pthread_mutex_unlock(&lock);
		return DNN_OK;
	}
	pthread_mutex_unlock(&lock);
	const int result = dnn->finalize(descriptor);
	pthread_mutex_lock(&lock);
	p = *find(descriptor);
	if (p && !result)
		note_compiled(dnn, p);
	pthread_mutex_unlock(&lock);
	return result;
}

bool p4d_dnn_plan_workspace(const void *descriptor, int64_t *bytes)
{
	pthread_mutex_lock(&lock);
	const plan *p = *find(descriptor);
	const bool waits = p && p->waits;
	if (waits)
		*bytes = p->workspace;
	pthread_mutex_unlock(&lock);
	return waits;
}

int p4d_dnn_plan_complete(const p4d_dnn_library *dnn, const void *descriptor)
{
	pthread_mutex_lock(&lock);
	plan *p = *find(descriptor);
	const bool waited = p && p->waits;
	if (waited)
		p->waits = false;
	pthread_mutex_unlock(&lock);
	return waited ? dnn->finalize((void *)(uintptr_t)descriptor) : DNN_OK;
}

void p4d_dnn_plan_forget(const void *descriptor)
{
	pthread_mutex_lock(&lock);
	plan **at = find(descriptor), *gone = *at;
	if (gone)
		*at = gone->next;
	pthread_mutex_unlock(&lock);
	free(gone);
}
