/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "request/layout.h"
#include "serve/serving.h"

/* The engine's model and degrees: model, tp, pp, dp (engines that divide the experts), ep. */
void p4d_serving__layout_of(const p4d_request *request, p4d_layout *layout);

/* How the linear layers' weights are on the GPU (P4D_STORED_*), and thousandths of a byte for each. */
int p4d_serving__stored_of(const p4d_request *request);
uint64_t p4d_serving__thousandths(int stored);
