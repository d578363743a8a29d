/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/cudnn_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char LIBRARY[] = "libcudnn.so.9";

int p4d_cudnn_open(p4d_cudnn *cudnn, p4d_error *err)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL;

	if (!library)
		return p4d_fail(err, P4D_E_DEVICE, "%.300s", dlerror());
		/* The POSIX way to convert the result of dlsym to a function pointer. */
#define FIND(name) \
	*(void **)&cudnn->name = dlsym(library, "cudnn" #name); \
	if (!cudnn->name) \
		missing = "cudnn" #name;
	P4D_CUDNN_CALLS(FIND)
#undef FIND
	if (missing)
		return p4d_fail(err, P4D_E_DEVICE, "%s has no %s", LIBRARY, missing);
	const unsigned version = (unsigned)cudnn->GetVersion();
	snprintf(cudnn->text, sizeof(cudnn->text), "cuDNN %u.%u.%u", version / 10000, version / 100 % 100,
		 version % 100);
	if (version < P4D_CUDNN_OLDEST)
		return p4d_fail(err, P4D_E_DEVICE, "%s is too old; %d.%d.%d or later is needed", cudnn->text,
				P4D_CUDNN_OLDEST / 10000, P4D_CUDNN_OLDEST / 100 % 100,
				P4D_CUDNN_OLDEST % 100);
	return 0;
}

void p4d_cudnn_why(const p4d_cudnn *cudnn, cudnnStatus_t status, char *text, size_t size)
{
	char last[256] = "";

	cudnn->GetLastErrorString(last, sizeof(last));
	last[strcspn(last, "\n")] = '\0';
	snprintf(text, size, "%s: %s%s%s", cudnn->text, cudnn->GetErrorString(status), last[0] ? ": " : "",
		 last);
}
