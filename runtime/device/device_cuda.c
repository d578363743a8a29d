/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the shared object with the cuda backend. */
#include "device/device_cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/library.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "unknown"
#endif

typedef int cuda_open(p4d_device *device, const p4d_cuda_request *request, p4d_error *err);

static const char LIBRARY[] = "libp4d-cuda.so";

/* dlsym returns void *; ISO C has no conversion from that to a function pointer */
static cuda_open *function_of(void *library)
{
	void *symbol = dlsym(library, "p4d_device_cuda_open");
	cuda_open *function;

	memcpy(&function, &symbol, sizeof(function));
	return function;
}

static int fix(p4d_error *err)
{
	return p4d_fix(err, "--device cpu, for p4d-train and for sbatch (--p4d-device=cpu)");
}

/*
 * Sets variables that CUDA reads at startup. If CUDA loads code eagerly, the libraries' code takes hundreds
 * of MiB of the GPU, and nearly all of it never runs. But lazily loaded code may need an idle GPU. The GPU
 * never becomes idle if communication on it waits for a rank that itself waits for this load. So p4d's own
 * kernels are loaded when the device is opened, and the libraries' kernels by the warm-up of p4d_net_open,
 * both before any operation waits for other ranks. The second variable exists because streams that share a
 * connection to the GPU block each other.
 */
static void set_environment(void)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 0);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int p4d_device_cuda_load(p4d_device *device, uint32_t local_rank, p4d_error *err)
{
	const p4d_cuda_request request = {
	    .version = PACKAGE_VERSION, .table_bytes = sizeof(*device), .local_rank = local_rank};
	char path[PATH_MAX + 32];

	if (!p4d_library_find(LIBRARY, path, sizeof(path)))
		return p4d_fail(err, P4D_E_DEVICE, "this p4d-train was built without CUDA: %.300s not found",
				path),
		       fix(err);
	set_environment();
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	cuda_open *open = library ? function_of(library) : NULL;
	if (!open)
		return p4d_fail(err, P4D_E_DEVICE, "cannot load CUDA: %.400s", dlerror()), fix(err);
	if (open(device, &request, err) == 0)
		return 0;
	if (err && !err->fix[0])
		fix(err);
	return -1;
}

/*
 * Checks for a GPU. Most hosts without a GPU have no driver either, so this first looks for the driver
 * without loading CUDA.
 */
static int try_device(p4d_device *device, p4d_error *err)
{
	char path[PATH_MAX + 32];

	set_environment(); /* must be set before the driver is loaded */
	if (p4d_library_find(LIBRARY, path, sizeof(path)) && !dlopen("libcuda.so.1", RTLD_LAZY))
		return p4d_fail(err, P4D_E_DEVICE, "this host has no NVIDIA driver (libcuda.so.1)");
	return p4d_device_cuda_load(device, 0, err);
}

bool p4d_device_cuda_there(p4d_error *err)
{
	p4d_error why = {.code = P4D_OK};
	int ends[2], status;

	if (pipe(ends) < 0)
		return p4d_fail(err, P4D_E_DEVICE, "pipe: %s", strerror(errno)) == 0;
	const pid_t child = fork();
	if (child == 0) {
		p4d_device device;
		if (try_device(&device, &why) < 0 && write(ends[1], &why, sizeof(why)) < 0)
			_exit(2);
		_exit(why.code != P4D_OK);
	}
	close(ends[1]);
	const ssize_t got = child < 0 ? -1 : read(ends[0], &why, sizeof(why));
	close(ends[0]);
	if (child > 0)
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	if (child > 0 && got == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (got == (ssize_t)sizeof(why) && err)
		*err = why;
	else
		p4d_fail(err, P4D_E_DEVICE, "the process opening the GPU died without an error message");
	return false;
}
