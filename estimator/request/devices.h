/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Kinds of devices, in the order of the option: DEVICE(ID, name, on_gpu, precision). on_gpu: tensors are in
 * the memory of a GPU of gpus.json, and collectives overlap with passes; otherwise tensors are in host
 * memory. precision: the default.
 */
#define P4D_DEVICE_KINDS(DEVICE) \
	DEVICE(CUDA, "cuda", true, P4D_BF16) \
	DEVICE(CPU, "cpu", false, P4D_FP32)

enum {
#define DEVICE(id, name, on_gpu, precision) P4D_##id,
	P4D_DEVICE_KINDS(DEVICE)
#undef DEVICE
	    P4D_DEVICES
};

static inline bool p4d_on_gpu(int64_t device)
{
#define DEVICE(id, name, on_gpu, precision) on_gpu,
	static const bool of[] = {P4D_DEVICE_KINDS(DEVICE)};
#undef DEVICE
	return of[device];
}

#define P4D_DEVICE_NAME(id, name, on_gpu, precision) "|" name
