/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Gradients of which a rank keeps only its shards (gradients in the plan). A pass adds to the gradients of
 * one layer at a time, or of a table. These have a place in the rows window.layer_gradients and
 * window.table_gradient. When the pass has finished the layer, they are reduced over dp_cp during the
 * following passes, and this rank's part is added to its shard. If gradients are not sharded, these functions
 * do nothing.
 */

/* Where the plan has the rows. Errors: NO_MEMORY. */
int p4d_gradient_window_open(p4d_net *m, p4d_error *err);
void p4d_gradient_window_close(p4d_net *m);

/* From here on the segment's gradients have a place, and none has a part yet (see buffers.h). */
int p4d_gradient_window_begin(p4d_net *m, uint32_t segment, p4d_error *err);
/* Nothing more is added: begins to reduce them. */
int p4d_gradient_window_end(p4d_net *m, uint32_t segment, p4d_error *err);
/* All that was reduced is in the shards. */
int p4d_gradient_window_settle(p4d_net *m, p4d_error *err);

/* Where the gradients of a segment are, or were last: before the first at the start of the window. */
float *p4d_gradient_window__at(const p4d_net *m, uint32_t segment);
