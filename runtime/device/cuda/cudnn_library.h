/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cudnn.h>

#include "base/error.h"

/* cuDNN, opened at run time: p4d-train also runs without it. */
#define P4D_CUDNN_CALLS(CALL) \
	CALL(GetVersion) \
	CALL(GetErrorString) \
	CALL(GetLastErrorString) \
	CALL(Create) \
	CALL(Destroy) \
	CALL(SetStream) \
	CALL(BackendCreateDescriptor) \
	CALL(BackendDestroyDescriptor) \
	CALL(BackendSetAttribute) \
	CALL(BackendGetAttribute) \
	CALL(BackendFinalize) \
	CALL(BackendExecute)

typedef struct p4d_cudnn {
#define P4D_CUDNN_MEMBER(name) __typeof__(&cudnn##name) name;
	P4D_CUDNN_CALLS(P4D_CUDNN_MEMBER)
#undef P4D_CUDNN_MEMBER
	char text[32]; /* "cuDNN 9.19.0" */
} p4d_cudnn;

/*
 * The oldest release that p4d uses. In releases up to 9.15.0, gradients may be wrong if the number of keys is
 * not a multiple of 128. NVIDIA's cudnn-frontend says so and works around it.
 */
enum { P4D_CUDNN_OLDEST = 91501, P4D_CUDNN_WHY = 256 };

/*
 * Opens cuDNN, which stays open until the process ends. Errors: DEVICE (not found, not major version 9, too
 * old).
 */
int p4d_cudnn_open(p4d_cudnn *cudnn, p4d_error *err);

/* Writes why cuDNN's last call on this thread failed, in one line. */
void p4d_cudnn_why(const p4d_cudnn *cudnn, cudnnStatus_t status, char *text, size_t size);
