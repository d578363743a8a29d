/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/plan_rows.h"

/* Sizes of buffers of p4d-train. */

/* Elements of the largest matrix of a layer. */
uint64_t p4d_framework__largest_matrix(p4d_rows *rows, const p4d_rank_sizes *sizes);
/* Input features of the adapter that has the most input features. */
uint64_t p4d_framework__widest_adapter(const p4d_layout *layout);
/* Bytes of attention's workspace; backward: in the backward pass. */
uint64_t p4d_framework__attention_workspace(const p4d_rows *rows, const p4d_rank_sizes *sizes, bool backward);
