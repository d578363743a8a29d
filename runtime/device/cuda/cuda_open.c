/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a GPU; if that fails, says in one line why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/cuda/cuda_internal.h"
#include "device/cuda/kernels.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#else
#define PACKAGE_VERSION "unknown"
#endif

/* The architectures for which p4d was compiled, for messages: "80 90a 100 120". */
#ifndef P4D_CUDA_ARCHITECTURES
#define P4D_CUDA_ARCHITECTURES "unknown"
#endif

static int same_program(const p4d_cuda_request *request, p4d_error *err)
{
	if (!strcmp(request->version, PACKAGE_VERSION) && request->table_bytes == sizeof(p4d_device))
		return 0;
	p4d_fail(err, P4D_E_DEVICE,
		 "libp4d-cuda.so is from p4d %s (table of %zu bytes), p4d-train from %.60s (%zu)",
		 PACKAGE_VERSION, sizeof(p4d_device), request->version, (size_t)request->table_bytes);
	return p4d_fix(err, "make install, so that both come from the same build");
}

/* Converts CUDA's version number, 1000 * major + 10 * minor, to the number "major.minor". */
static double version_of(int number)
{
	return (double)(number / 1000) + (double)(number % 1000 / 10) / 10;
}

static int no_devices(cudaError_t status, p4d_error *err)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	int driver = 0, runtime = 0;

	(void)cudaDriverGetVersion(&driver);
	(void)cudaRuntimeGetVersion(&runtime);
	if (driver == 0)
		return p4d_fail(err, P4D_E_DEVICE, "this host has no NVIDIA driver (libcuda.so.1)");
	if (status == cudaErrorInsufficientDriver)
		return p4d_fail(err, P4D_E_DEVICE,
				"the NVIDIA driver supports CUDA up to %.1f; this build needs CUDA %.1f: "
				"update the driver",
				version_of(driver), version_of(runtime));
	if (status != cudaSuccess && status != cudaErrorNoDevice)
		return p4d_fail(err, P4D_E_DEVICE, "cannot initialize CUDA: %s", cudaGetErrorString(status));
	if (visible)
		return p4d_fail(err, P4D_E_DEVICE, "no GPU is visible: CUDA_VISIBLE_DEVICES=\"%.100s\"",
				visible);
	return p4d_fail(err, P4D_E_DEVICE, "this host has no GPU that CUDA can use");
}

static int find_device(uint32_t local_rank, int *device, p4d_error *err)
{
	int count = 0;
	const cudaError_t status = cudaGetDeviceCount(&count);

	if (status != cudaSuccess || count == 0)
		return no_devices(status, err);
	*device = (int)(local_rank % (uint32_t)count);
	return 0;
}

/* Writes an identifier of the GPU (or MIG slice) that is the same in all processes and containers. */
static void name_processor(p4d_device *device, const struct cudaDeviceProp *properties)
{
	p4d_text text = p4d_text_in(device->identity, sizeof(device->identity));

	for (size_t i = 0; i < sizeof(properties->uuid.bytes); i++)
		p4d_text_print(&text, "%02x", (unsigned char)properties->uuid.bytes[i]);
}

/* Creates the context and loads all kernels. Both fail if this build has no code for this GPU. */
static int start_device(const p4d_device *device, int number, p4d_error *err)
{
	cudaError_t status = cudaSetDevice(number);

	if (status == cudaSuccess)
		status = p4d_kernel_load();
	if (status == cudaSuccess)
		return 0;
	if (status != cudaErrorNoKernelImageForDevice)
		return p4d_fail(err, P4D_E_DEVICE, "%s is unusable: %s", device->text,
				cudaGetErrorString(status));
	p4d_fail(err, P4D_E_DEVICE, "%s: this build only has code for sm %s", device->text,
		 P4D_CUDA_ARCHITECTURES);
	return p4d_fix(err, "./configure --with-cuda-architectures=%d", device->sm);
}

/* Opens the GPU, and fills the description of the device. */
static int take_device(p4d_device *device, int number, p4d_error *err)
{
	struct cudaDeviceProp properties;
	int major = 0, minor = 0;
	cudaError_t status = cudaGetDeviceProperties(&properties, number);

	if (status == cudaSuccess)
		status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
	if (status == cudaSuccess)
		status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
	if (status != cudaSuccess)
		return p4d_fail(err, P4D_E_DEVICE, "cannot open GPU %d: %s", number,
				cudaGetErrorString(status));
	snprintf(device->text, sizeof(device->text), "%.48s (sm_%d%d, %.1f GiB)", properties.name, major,
		 minor, (double)properties.totalGlobalMem / (1 << 30));
	name_processor(device, &properties);
	device->sm = 10 * major + minor;
	return start_device(device, number, err);
}

static void close_device(p4d_device *device)
{
	p4d_cuda *c = p4d_cuda_of(device);

	p4d_gemm_close(c->products);
	p4d_sdpa_close(c->fused);
	p4d_cuda_close_staging(c);
	p4d_cuda_close_streams(c);
	free(c);
	memset(device, 0, sizeof(*device));
}

static int count_multiprocessors(p4d_cuda *c, p4d_error *err)
{
	const cudaError_t status =
	    cudaDeviceGetAttribute(&c->multiprocessors, cudaDevAttrMultiProcessorCount, c->number);

	if (status == cudaSuccess)
		return 0;
	return p4d_fail(err, P4D_E_DEVICE, "cannot open GPU %d: %s", c->number, cudaGetErrorString(status));
}

static int open_parts(p4d_cuda *c, p4d_error *err)
{
	if (p4d_cuda_open_streams(c, err) < 0 || p4d_cuda_open_staging(c, err) < 0)
		return -1;
	return p4d_gemm_open(&c->products, err);
}

/* Opens fused attention. If that fails, p4d's own kernels are used. */
static void open_fused(p4d_device *device)
{
	const char *wanted = getenv("P4D_CUDNN");
	const bool unwanted = wanted && !strcmp(wanted, "0");
	p4d_cuda *c = p4d_cuda_of(device);
	p4d_error why = {.code = P4D_OK};

	if (unwanted)
		p4d_fail(&why, P4D_E_DEVICE, "P4D_CUDNN=0");
	else if (p4d_sdpa_open(&c->fused, device->sm, c->stream, &why) < 0)
		device->lacks_cudnn = true;
	else
		snprintf(device->attention_text, sizeof(device->attention_text), "%s",
			 p4d_sdpa_name(c->fused));
	if (why.code != P4D_OK)
		p4d_cuda_own_attention(device, why.text);
	device->attention_slow = device->attention_slow && !unwanted;
}

__attribute__((visibility("default"))) int
p4d_device_cuda_open(p4d_device *device, const p4d_cuda_request *request, p4d_error *err)
{
	const char *careful = getenv("P4D_CUDA_SYNC");
	p4d_device made = {.name = "cuda", .close = close_device};
	int number = 0;

	if (same_program(request, err) < 0 || find_device(request->local_rank, &number, err) < 0 ||
	    take_device(&made, number, err) < 0)
		return -1;
	p4d_cuda *c = calloc(1, sizeof(*c));
	if (!c)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the cuda device");
	c->careful = careful && !strcmp(careful, "1");
	c->number = number;
	c->sm = made.sm;
	made.state = c;
	if (count_multiprocessors(c, err) < 0 || open_parts(c, err) < 0) {
		close_device(&made);
		return -1;
	}
	open_fused(&made);
	p4d_cuda_memory_table(&made);
	p4d_cuda_streams_table(&made);
	p4d_cuda_operations_table(&made);
	p4d_cuda_attention_table(&made);
	*device = made;
	return 0;
}
