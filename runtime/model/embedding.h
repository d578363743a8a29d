/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Computes the embedding of a micro-batch: rows of the table, times a factor, plus learned positions if the
 * model has them.
 */

int p4d_embedding_forward(p4d_net *m, uint32_t micro_batch, void *to, p4d_error *err);
/* gradient: the gradient of the embedding, which the function may change */
int p4d_embedding_backward(p4d_net *m, uint32_t micro_batch, void *gradient, p4d_error *err);

/*
 * Parts of the two functions above, for tables that are sharded over stages. Each stage looks up its own rows
 * of the table (p4d_embedding__rows). Only the first stage calls `finish` and `finish_back`, which apply the
 * factor and the learned positions.
 */
int p4d_embedding__rows(p4d_net *m, uint32_t micro_batch, void *to, p4d_error *err);
void p4d_embedding__finish(p4d_net *m, void *rows);
void p4d_embedding_finish_back(p4d_net *m, void *gradient);
int p4d_embedding__rows_back(p4d_net *m, uint32_t micro_batch, const void *gradient, p4d_error *err);
