/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"
#include "serve/serving.h"

/* The engine's model and degrees: model, tp, pp, dp (engines that divide the experts), ep. */
void p4d_serving__layout_of(const p4d_request *request, p4d_layout *layout);

/*
 * How the GPU stores the linear layers' weights (P4D_STORED_*), and the size of a weight in thousandths of a
 * byte.
 */
int p4d_serving__stored_of(const p4d_request *request);
uint64_t p4d_serving__thousandths(int stored);
