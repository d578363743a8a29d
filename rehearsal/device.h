/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Properties of a GPU that follow from its compute capability. gpus.json does not have them. Sizes are in
 * bytes.
 */
typedef struct p4d_device_kind {
	int sm;
	size_t shared_bytes;       /* shared memory per multiprocessor */
	size_t block_shared_bytes; /* maximum shared memory for a block */
	int threads;               /* maximum threads per multiprocessor */
	int blocks;                /* maximum blocks per multiprocessor */
	int l2_bytes;
	int bus_bits;
} p4d_device_kind;

const p4d_device_kind *p4d_device_get(void);

/* The value of enum cudaDevAttr and CUdevice_attribute, whose numbers are the same. */
int p4d_device_attribute(int attribute);

/* Writes a PCI bus id such as "0000:01:00.0". */
void p4d_device_bus_id(char *text, size_t room, int device);
