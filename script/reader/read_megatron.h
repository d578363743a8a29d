/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader_internal.h"

/*
 * Extra values of Megatron-LM's reader that other files use, because other programs on Megatron-Core have
 * other defaults.
 */
enum {
	P4D_MEGATRON_LAYERS_PER_CHUNK = P4D_READ_EXTRA(0),
	P4D_MEGATRON_FIRST_STAGE = P4D_READ_EXTRA(27), /* numbers of layers of the first and the last stage,
							* if these differ from the other stages */
	P4D_MEGATRON_LAST_STAGE = P4D_READ_EXTRA(28),
	P4D_MEGATRON_GRANULARITY = P4D_READ_EXTRA(3), /* granularity of recomputation */
	P4D_MEGATRON_MODULES = P4D_READ_EXTRA(4),     /* modules that are recomputed */
	P4D_MEGATRON_PICTURE = P4D_READ_EXTRA(46),    /* --pipeline-model-parallel-layout */
	P4D_MEGATRON_DISPATCHER = P4D_READ_EXTRA(11), /* how tokens reach their experts */
};

/* Megatron-LM's arguments. p4d_megatron__finish_training sets options that follow from several arguments
 * about the training together (not about the model). */
extern const p4d_read_argument p4d_reader__megatron_arguments[];
void p4d_megatron__finish_training(p4d_reading *reading);
void p4d_megatron__finish_dispatcher(p4d_reading *reading);

/* read_megatron_hybrid.c: arguments about layers of several kinds. Its extra values are P4D_READ_EXTRA(32) to
 * P4D_READ_EXTRA(45). */
extern const p4d_read_argument p4d_megatron__hybrid[];
void p4d_megatron__finish_hybrid(p4d_reading *reading);

/* read_megatron_split.c: sets the number of layers of each stage, or of each chunk. */
void p4d_megatron__finish_split(p4d_reading *reading);
