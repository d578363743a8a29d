/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/* read_megatron_hybrid.c: layers of several kinds. Values of the reader's own from the 32nd on are its. */
extern const p4d_read_argument p4d_megatron__hybrid[];
void p4d_megatron__finish_hybrid(p4d_reading *reading);
