/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/net.h"

/*
 * Logits (vocab) for the token after `token` at `position`, fp32 on the host and the same on all ranks. Keys
 * and values of the previous tokens come from earlier calls, in the buffers that training uses for a
 * micro-batch. Positions count from 0, without gaps, below seq_len. Only for layouts with one sequence and
 * one stage, without context and sequence parallelism, with all activations kept. Errors: RANK, DEVICE, DATA
 * (no such token).
 */
int p4d_net_predict(p4d_net *net, int32_t token, uint64_t position, float *logits, p4d_error *err);
