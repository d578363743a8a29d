/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "framework/megatron_reserved.h"

/* All forward and backward passes of a step. */
void p4d_megatron__passes(p4d_megatron_step *step);
