/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

enum { P4D_REHEARSAL_DEVICES = 64 };

/*
 * The GPUs that the process sees, from environment variables that `p4d rehearse` sets. If a variable is
 * missing or is not a number, its value is that of an H100 with 80 GB.
 */
typedef struct p4d_rehearsal_settings {
	uint64_t
	    bytes; /* P4D_REHEARSAL_BYTES: memory of a GPU that a process can use, including the context */
	/* P4D_REHEARSAL_CONTEXT_BYTES: memory of the context, which counts as soon as a device is used */
	uint64_t context_bytes;
	int devices;         /* P4D_REHEARSAL_GPUS: 1 to P4D_REHEARSAL_DEVICES */
	int sm;              /* P4D_REHEARSAL_SM: compute capability, 90 for 9.0 */
	int multiprocessors; /* P4D_REHEARSAL_SMS */
	int cuda; /* P4D_REHEARSAL_CUDA: major release of the runtime; 0: that of the loaded libcudart */
	const char *name;   /* P4D_REHEARSAL_NAME: as nvidia-smi prints it */
	const char *report; /* P4D_REHEARSAL_REPORT: file for the report; NULL: none */
} p4d_rehearsal_settings;

const p4d_rehearsal_settings *p4d_settings(void);

/* The major release of the CUDA runtime whose interface the program uses: 12 or 13. */
int p4d_settings_cuda(void);
