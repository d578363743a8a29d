/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pinned host memory, and managed memory, which moves between host and device. Any thread may call these
 * functions.
 */

typedef enum p4d_pinned_kind { P4D_PINNED_OWN, P4D_PINNED_REGISTERED, P4D_PINNED_MANAGED } p4d_pinned_kind;

/* Allocates BYTES of host memory; NULL if the process gets no more. */
void *p4d_pinned_take(size_t bytes, p4d_pinned_kind kind);

/* Registers memory of the program as pinned. False: there is no memory to record it. */
bool p4d_pinned_register(void *start, size_t bytes);

/* Removes the block that begins at START; memory of P4D_PINNED_OWN and P4D_PINNED_MANAGED is unmapped.
 * False: no block begins there. */
bool p4d_pinned_end(void *start);

/* Whether ADDRESS is in pinned or managed memory. *kind: which kind. */
bool p4d_pinned_find(const void *address, p4d_pinned_kind *kind);

/* Peak of pinned memory, and peak of managed memory. */
uint64_t p4d_pinned_peak(void);
uint64_t p4d_pinned_managed_peak(void);
