/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/shared_sizes.h"
#include "schedule/schedule.h"

/*
 * AdamW's moments in 8 bits, as p4d-train stores them: the format of bitsandbytes (arXiv 2110.02861). The
 * elements of a tensor of the model, row by row, form blocks of P4D_BYTE_BLOCK. For each of the two moments,
 * an element has an 8-bit code, and a block has an fp32 scale. Tensors of fewer than P4D_BYTE_LEAST elements
 * have moments in fp32, except tables (embedding, positions, head), which always have codes. Query, key and
 * value are tensors of their own, and so are gate and up.
 *
 * p4d-train forms the blocks of the whole tensor, not of a rank's part, so all layouts compute the same
 * numbers. A block may be in the shards of two ranks, which then agree on its scale
 * (runtime/trainer/optimizer_bytes.c). With tensor parallelism each rank needs whole blocks.
 */
enum { P4D_BYTE_BLOCK = 256, P4D_BYTE_LEAST = 4096 };

/* Buffers of a rank in addition to a code per moment and element of its shard. */
typedef struct p4d_byte_room {
	uint64_t blocks; /* number of scales of each moment: one for each block of which the shard may have a
			    part */
	uint64_t small;  /* number of fp32 elements of each moment, for small tensors */
} p4d_byte_room;

/* shard: elements of the optimizer shard of a stage. */
p4d_byte_room p4d_byte_room_of(const p4d_layout *layout, const p4d_schedule *schedule, uint32_t stage,
			       uint64_t shard);

/*
 * Number of borders between optimizer shards, over all segments of a stage. At each border, two ranks may
 * share a block and agree on its two scales.
 */
uint64_t p4d_byte_borders(const p4d_layout *layout, uint32_t stage);

/* Whether each tensor-parallel rank has whole blocks of every tensor that it has a part of. */
bool p4d_byte_blocks_are_whole(const p4d_layout *layout);
