/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "plan/parameters.h"
#include "plan/stage_memory.h"

/* Fills the memory classes from the closed form of arXiv 2411.06465, for the first pipeline stage. */
void p4d_memory__paper(const p4d_layout *layout, p4d_wide part[P4D_PART_COUNT]);
