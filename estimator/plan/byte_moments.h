/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/shared_sizes.h"
#include "schedule/schedule.h"

/*
 * AdamW's moments in 8 bits, as p4d-train stores them: the format of bitsandbytes (arXiv 2110.02861). The
 * numbers of a tensor of the model, row by row, are in blocks of P4D_BYTE_BLOCK. Each number has a code of 8
 * bits, and each block a scale in fp32, once for either moment. Tensors of fewer than P4D_BYTE_LEAST elements
 * have moments in fp32, except tables (embedding, positions, head), which always have codes. Query, key and
 * value are tensors of their own, and so are gate and up.
 *
 * Blocks are those of the whole tensor, so all layouts compute the same numbers. A block may lie in the
 * shards of two ranks: these agree on its scale (runtime/trainer/optimizer_bytes.c). With tensor parallelism
 * each rank needs whole blocks.
 */
enum { P4D_BYTE_BLOCK = 256, P4D_BYTE_LEAST = 4096 };

/* Buffers of a rank in addition to a code per moment and element of its shard. */
typedef struct p4d_byte_room {
	uint64_t blocks; /* scales of each moment: as many as blocks that the shard may have a part of */
	uint64_t small;  /* numbers of each moment of small tensors */
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
