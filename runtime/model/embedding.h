/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/* The embedding of a micro-batch. */

int p4d_embedding_forward(p4d_net *m, uint32_t micro_batch, void *to, p4d_error *err);
int p4d_embedding_backward(p4d_net *m, uint32_t micro_batch, const void *gradient, p4d_error *err);
