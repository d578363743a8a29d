/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Gradients of which a rank keeps only its shards (--optimizer-sharding gradients). A pass adds to the
 * gradients of one segment (a layer or a table) at a time. They are in a place in the plan's rows
 * window.layer_gradients and window.table_gradient. When the pass has finished the segment, they are reduced
 * over dp_cp during the following passes, and this rank's part is added to its shard. If gradients are not
 * sharded, these functions do nothing.
 */

/* Opens the window if the plan has these rows. Errors: NO_MEMORY. */
int p4d_gradient_window_open(p4d_net *m, p4d_error *err);
void p4d_gradient_window_close(p4d_net *m);

/* Reserves a place for the segment's gradients, and marks them as having no part yet (see buffers.h). */
int p4d_gradient_window_begin(p4d_net *m, uint32_t segment, p4d_error *err);
/* Call it when a pass adds nothing more to the segment's gradients. Starts to reduce them. */
int p4d_gradient_window_end(p4d_net *m, uint32_t segment, p4d_error *err);
/* Waits until all reduced gradients are in the shards. */
int p4d_gradient_window_settle(p4d_net *m, p4d_error *err);

/*
 * The address of a place that is large enough for all gradients of a segment. Call it only if no gradients
 * are being reduced.
 */
float *p4d_gradient_window_room(const p4d_net *m, uint32_t segment);

/*
 * The place of a segment's gradients, or their last place. Before the segment's first use it is the start of
 * the window.
 */
float *p4d_gradient_window__at(const p4d_net *m, uint32_t segment);
