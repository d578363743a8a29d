/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Host memory that is pinned for a GPU, and memory that moves between both (managed). Any thread may call. */

typedef enum p4d_pinned_kind { P4D_PINNED_OWN, P4D_PINNED_REGISTERED, P4D_PINNED_MANAGED } p4d_pinned_kind;

/* BYTES of host memory; NULL where the process gets no more. */
void *p4d_pinned_take(size_t bytes, p4d_pinned_kind kind);

/* Counts memory of the program itself as pinned. False: no memory to note it. */
bool p4d_pinned_register(void *start, size_t bytes);

/* Ends what began at START; memory of P4D_PINNED_OWN and P4D_PINNED_MANAGED is unmapped. False: nothing
 * begins there. */
bool p4d_pinned_end(void *start);

/* Whether ADDRESS lies in such memory, and in which kind. */
bool p4d_pinned_find(const void *address, p4d_pinned_kind *kind);

/* The most that was pinned at one time, and the most that was managed. */
uint64_t p4d_pinned_peak(void);
uint64_t p4d_pinned_managed_peak(void);
