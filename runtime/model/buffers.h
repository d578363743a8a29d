/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* Finds the addresses of the plan's rows in the arena. */

void p4d_buffers__find(p4d_net *m);
void *p4d_buffers_at(const p4d_net *m, p4d_buffer which);
/* An optimizer state; NULL: an fp32 master copy, which is not stored. */
void *p4d_buffers_state(const p4d_net *m, p4d_state which);
/* Whether the plan has this buffer on the host; and, for the second function, the optimizer states. */
bool p4d_buffers_is_away(const p4d_net *m, p4d_buffer which);
bool p4d_buffers_states_away(const p4d_net *m);
/* Whether layers keep this activation for their backward pass; otherwise the backward pass recomputes it. */
bool p4d_buffers__keeps(const p4d_net *m, p4d_activation which);
void *p4d_buffers_at_slot(const p4d_net *m, p4d_buffer which, uint32_t slot, uint32_t layer);
/* The address of buffer `number` among the P4D_SEND_BUFFERS of a row. */
void *p4d_buffers_boundary(const p4d_net *m, p4d_buffer which, uint64_t number);
p4d_layer p4d_buffers_layer(const p4d_net *m, uint32_t chunk, uint32_t slot, uint32_t layer);
/* The parameters and gradients of a weight; NULL if the model has none, or it is frozen. */
void *p4d_buffers__weight(const p4d_net *m, p4d_weight_kind kind, uint32_t layer);
float *p4d_buffers__gradient(const p4d_net *m, p4d_weight_kind kind, uint32_t layer);
/*
 * The addresses of a parameter, and of a gradient. offset: its place in the flat buffer; it must be in this
 * rank's shard of the segment. The buffers may contain only shards.
 */
void *p4d_buffers_parameters(const p4d_net *m, uint32_t segment, uint64_t offset);
float *p4d_buffers_gradients(const p4d_net *m, uint32_t segment, uint64_t offset);
/*
 * Gradients of a step. The first matmul for a matrix's gradient sets it, so the matrix need not be zeroed
 * before; clear_gradients zeroes all other gradients. Call the third function before anything is added to a
 * weight's gradient. It returns whether the gradient already has a part. If not, the caller must set all
 * `rows` rows, and the function zeroes the rows after them. complete_gradients zeroes gradients that got no
 * part (segment: the segment of the weights). With sharded gradients, a segment is cleared when a pass begins
 * with it (gradient_window.h), and the shards are cleared before the step.
 */
void p4d_buffers_clear_gradients(p4d_net *m);
void p4d_buffers_clear_segment(p4d_net *m, uint32_t segment);
bool p4d_buffers__has_part(p4d_net *m, p4d_weight_kind kind, uint32_t layer, uint64_t rows);
void p4d_buffers_complete_gradients(p4d_net *m, uint32_t segment);
/*
 * Stores untrained parameters at an offset of the flat buffer, rounded to its type, as far as this rank has
 * them. It may change `numbers`.
 */
void p4d_buffers_put_frozen(p4d_net *m, uint64_t offset, float *numbers, uint64_t count);
/*
 * Tokens and labels of a micro-batch (with slices, those of the pass); asks the source if the device does not
 * have them. NULL: an error.
 */
const int32_t *p4d_buffers__tokens(p4d_net *m, uint32_t micro_batch, p4d_error *err);
const int32_t *p4d_buffers__labels(p4d_net *m, uint32_t micro_batch, p4d_error *err);

/*
 * Number of trained labels of a micro-batch that is already loaded; with slices, those of the whole
 * micro-batch, which are counted with the first slice.
 */
uint64_t p4d_buffers__trained(const p4d_net *m, uint32_t micro_batch);
