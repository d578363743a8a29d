/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Nodes of a hostfile of deepspeed ("worker-0 slots=8" a line) and the slots of the first; both 0: it cannot
 * be read. path: taken from `directory` if it is relative; directory may be NULL.
 */
void p4d_deepspeed__hostfile(const char *directory, const char *path, uint64_t *nodes, uint64_t *slots);

/* --include=worker-0:0,1@worker-1:0,1: nodes, and the GPUs of the first; 0: all. */
void p4d_deepspeed__included(const char *text, uint64_t *nodes, uint64_t *each);
