/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Logits (vocab), fp32 on the host and the same on all ranks, of what follows `token` at `position`. Keys and
 * values of the tokens before it are those of earlier calls, in the buffers that training keeps a
 * micro-batch's in: positions count from 0, without gaps, below seq_len. For layouts of one
 * sequence, of one stage, whole on every rank, whose activations are all kept. Errors: RANK, DEVICE, DATA (no
 * such token).
 */
int p4d_net_predict(p4d_net *net, int32_t token, uint64_t position, float *logits, p4d_error *err);
