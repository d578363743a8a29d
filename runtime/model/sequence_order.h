/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* The position in its sequence of token i of a context-parallel rank. */
uint64_t p4d_sequence__place(const p4d_layout *l, uint64_t rank, uint64_t i);
/*
 * Numbers of blocks. If keys are gathered, block 0 has this rank's tokens and P4D_GATHERED_BLOCK has all
 * ranks' tokens. Otherwise block i has the tokens of rank i of cp.
 */
enum { P4D_GATHERED_BLOCK = 1 };
uint32_t p4d_sequence__own_block(const p4d_net *m);
/*
 * Fills shape->blocks and shape->block: which keys of the block this rank's queries see. It reads
 * shape->window.
 */
void p4d_sequence__find_blocks(const p4d_net *m, uint32_t block, p4d_attention_shape *shape);
/* Fills the plan's row of positions. scratch: as many numbers as that row has. */
void p4d_sequence__fill_positions(p4d_net *m, int32_t *scratch);
/*
 * Reorders the tokens of a micro-batch (micro_batch, seq_len) so that each slice's tokens are together:
 * (micro_batch, tokens of the slice) for the first slice, then for the next.
 */
void p4d_sequence__by_slices(const p4d_net *m, int32_t *to, const int32_t *from);
/*
 * The position of each token of this pass within its document, in the order of rows. NULL: documents are not
 * masked. Only for learned positions.
 */
const int32_t *p4d_sequence__places(const p4d_net *m);
/*
 * Sets m->documents for a micro-batch. With slices, it has two copies: in the order of slices, then in the
 * order of sequences. Asks the source if the device does not have the documents.
 */
int p4d_sequence_find_documents(p4d_net *m, uint32_t micro_batch, p4d_error *err);
