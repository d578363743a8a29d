/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"

/*
 * Proves that lists are correct, whoever made them:
 * - Each forward pass has its backward (and weight) pass, once, in each chunk.
 * - Slots are not reused while they are live, and not used while they are free. list->slots has their
 * number.
 * - A slice runs after the slices that it needs, while their results still exist.
 * - On each connection, the k-th message that is sent to a stage is the k-th that the stage receives.
 * - Vocabulary passes have the same order on all stages.
 * - Transfers are next to their passes, and there are enough send buffers.
 * - All lists can be executed to their ends, if a SEND waits while P4D_SEND_BUFFERS messages of its
 * direction and stage are not yet received.
 * Errors: P4D_E_INSTRUCTIONS with stage, instruction and reason; NO_MEMORY.
 */
int p4d_schedule_check(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err);

/* The last check of p4d_schedule_check: executes all lists. They must have passed the other checks. */
int p4d_schedule_execute(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err);
