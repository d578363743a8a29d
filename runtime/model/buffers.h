/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Finds the rows of the plan in the arena, and sets m->row. */

void p4d_buffers__find(p4d_net *m);
void *p4d_buffers_at(const p4d_net *m, p4d_buffer which);
/* Address of an optimizer state. NULL: the state is an fp32 master copy that the plan does not store. */
void *p4d_buffers_state(const p4d_net *m, p4d_state which);
/*
 * Whether the plan has this buffer on the host. p4d_buffers_states_away: whether it has the optimizer states
 * there.
 */
bool p4d_buffers_is_away(const p4d_net *m, p4d_buffer which);
bool p4d_buffers_states_away(const p4d_net *m);
/* Whether layers keep this activation for their backward pass. If not, the backward pass recomputes it. */
bool p4d_buffers__keeps(const p4d_net *m, p4d_activation which);
void *p4d_buffers_at_slot(const p4d_net *m, p4d_buffer which, uint32_t slot, uint32_t layer);
/* The address of buffer `number` among the P4D_SEND_BUFFERS of a row. */
void *p4d_buffers_boundary(const p4d_net *m, p4d_buffer which, uint64_t number);
p4d_layer p4d_buffers_layer(const p4d_net *m, uint32_t chunk, uint32_t slot, uint32_t layer);
/* The parameters and gradients of a weight; NULL if the model has none, or it is frozen. */
void *p4d_buffers__weight(const p4d_net *m, p4d_weight_kind kind, uint32_t layer);
float *p4d_buffers__gradient(const p4d_net *m, p4d_weight_kind kind, uint32_t layer);
/*
 * The address of a parameter, or of a gradient. offset: its place in the flat buffer, which must be in this
 * rank's shard of the segment. The buffers themselves may have only this rank's shards.
 */
void *p4d_buffers_parameters(const p4d_net *m, uint32_t segment, uint64_t offset);
float *p4d_buffers_gradients(const p4d_net *m, uint32_t segment, uint64_t offset);
/*
 * Gradients of a step. The first matmul for a matrix's gradient overwrites it, so a step zeroes only the
 * other gradients: clear_gradients does this. Call has_part before anything is added to a weight's gradient.
 * It returns whether the gradient already has a part. If not, the caller must set the gradient's first `rows`
 * rows, and has_part zeroes the rows after them. At the end complete_gradients zeroes the gradients in the
 * segment that got no part. With sharded gradients, a segment is cleared when a pass begins with it
 * (gradient_window.h), and the shards are cleared before the step.
 */
void p4d_buffers_clear_gradients(p4d_net *m);
void p4d_buffers_clear_segment(p4d_net *m, uint32_t segment);
bool p4d_buffers__has_part(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t rows);
void p4d_buffers_complete_gradients(p4d_net *m, uint32_t segment);
/*
 * Stores frozen parameters at an offset of the flat buffer, rounded to its type. Stores only those that this
 * rank has. It may change `numbers`.
 */
void p4d_buffers_put_frozen(p4d_net *m, uint64_t offset, float *numbers, uint64_t count);
/*
 * Tokens and labels of a micro-batch, or of the pass's slice of it. If the device does not have them, these
 * functions ask the source. NULL: an error.
 */
const int32_t *p4d_buffers__tokens(p4d_net *m, uint32_t micro_batch, p4d_error *err);
const int32_t *p4d_buffers__labels(p4d_net *m, uint32_t micro_batch, p4d_error *err);

/*
 * Number of labels that are trained on in a micro-batch that is already loaded. With slices, the first slice
 * counts all labels of the micro-batch, and the others count none.
 */
uint64_t p4d_buffers__trained(const p4d_net *m, uint32_t micro_batch);
