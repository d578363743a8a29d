/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"

/*
 * Proves that lists are correct, wherever they come from: every forward has its backward (and weight) pass,
 * once, in every chunk; slots are not reused while live, nor used when free, and list->slots has their
 * number; a slice runs after the slices that it needs, and while their results still exist; the k-th message
 * sent to a stage is the k-th that it receives on that connection; vocabulary passes have the same order on
 * all stages; transfers are next to their passes, and there are enough send buffers; and all lists can be
 * executed to their ends, if a SEND waits while P4D_SEND_BUFFERS messages of its direction and stage are not
 * yet received. Errors: P4D_E_INSTRUCTIONS, naming stage, instruction and why; NO_MEMORY.
 */
int p4d_schedule_check(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err);

/* The last part of p4d_schedule_check: executes all lists, which have passed the other checks. */
int p4d_schedule_execute(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err);
