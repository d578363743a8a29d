/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Gradients of which a rank keeps only its shards (--optimizer-sharding gradients). A pass adds to the
 * gradients of one layer, or of a table, at a time. These have a place in the rows window.layer_gradients and
 * window.table_gradient. When the pass has finished the layer, they are reduced over dp_cp during the
 * following passes, and this rank's part is added to its shard. If gradients are not sharded, these functions
 * do nothing.
 */

/* Opens it if the plan has these rows. Errors: NO_MEMORY. */
int p4d_gradient_window_open(p4d_net *m, p4d_error *err);
void p4d_gradient_window_close(p4d_net *m);

/* From here on the segment's gradients have a place, and no part of them exists yet (see buffers.h). */
int p4d_gradient_window_begin(p4d_net *m, uint32_t segment, p4d_error *err);
/* Nothing more will be added: starts to reduce them. */
int p4d_gradient_window_end(p4d_net *m, uint32_t segment, p4d_error *err);
/* Waits until all reduced gradients are in the shards. */
int p4d_gradient_window_settle(p4d_net *m, p4d_error *err);

/* A place for all gradients of a segment, when no gradients are in transit. */
float *p4d_gradient_window_room(const p4d_net *m, uint32_t segment);

/* The place of a segment's gradients, or their last place; before the first use, the start of the window. */
float *p4d_gradient_window__at(const p4d_net *m, uint32_t segment);
