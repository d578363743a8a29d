/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of cuDNN's backend interface that the stand-in uses. */
enum { DNN_OK = 0, DNN_NO_MEMORY = 1003 };
/* cudnnBackendDescriptorType_t */
enum { DNN_ENGINE = 2, DNN_HEURISTICS = 4, DNN_PLAN = 5, DNN_DEVICE = 38 };
/* cudnnBackendAttributeName_t */
enum {
	DNN_HEURISTICS_RESULTS = 202,
	DNN_HEURISTICS_DEVICE = 204,
	DNN_CONFIGURATION_ENGINE = 300,
	DNN_CONFIGURATION_WORKSPACE = 303,
	DNN_PLAN_CONFIGURATION = 401,
	DNN_PLAN_WORKSPACE = 402,
	DNN_PLAN_JSON = 405,
	DNN_PLAN_DEVICE = 407,
	DNN_GRAPH_ENGINES = 802,
	DNN_ENGINE_INDEX = 1301,
	DNN_ENGINE_NOTES = 1305,
	DNN_ENGINE_DEVICE = 1307,
	DNN_DEVICE_JSON = 2702,
};
/* cudnnBackendAttributeType_t */
enum {
	DNN_TYPE_HANDLE = 0,
	DNN_TYPE_BOOLEAN = 2,
	DNN_TYPE_INT64 = 3,
	DNN_TYPE_DOUBLE = 5,
	DNN_TYPE_POINTER = 6,
	DNN_TYPE_DESCRIPTOR = 15,
	DNN_TYPE_NOTE = 19,
	DNN_TYPE_CHAR = 24,
	DNN_TYPE_FRACTION = 26,
};
/* cudnnBackendBehaviorNote_t */
enum { DNN_NOTE_COMPILES = 0 };

/* NVIDIA's functions, in a release of cuDNN that accepts device descriptors. */
typedef struct p4d_dnn_library {
	int (*create)(int type, void **descriptor);
	int (*set)(void *descriptor, int attribute, int type, int64_t count, const void *values);
	int (*get)(const void *descriptor, int attribute, int type, int64_t room, int64_t *count,
		   void *values);
	int (*finalize)(void *descriptor);
	int (*destroy)(void *descriptor);
	void *device; /* NULL: the release has none */
} p4d_dnn_library;

/*
 * Plans whose engines compile kernels (dnn_plan.c). _configure: call it when the program sets a plan's
 * configuration. _finalize: call it instead of cuDNN's. _workspace: returns false if cuDNN itself knows the
 * plan's workspace. _complete: call it when the program reads another attribute.
 */
void p4d_dnn_plan_configure(const p4d_dnn_library *dnn, const void *descriptor, const void *configuration);
int p4d_dnn_plan_finalize(const p4d_dnn_library *dnn, void *descriptor);
bool p4d_dnn_plan_workspace(const void *descriptor, int64_t *bytes);
int p4d_dnn_plan_complete(const p4d_dnn_library *dnn, const void *descriptor);
void p4d_dnn_plan_forget(const void *descriptor);

/*
 * Descriptors for cuDNN before 9.8. Attributes keep the values that the program sets. A search finds one
 * engine, which needs no workspace. The functions have the arguments of the backend interface.
 */
int p4d_dnn_old_create(int type, void **descriptor);
int p4d_dnn_old_destroy(void *descriptor);
int p4d_dnn_old_set(void *descriptor, int attribute, int type, int64_t count, const void *values);
int p4d_dnn_old_get(const void *descriptor, int attribute, int type, int64_t room, int64_t *count,
		    void *values);
