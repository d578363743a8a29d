/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"

/*
 * Proves lists (of whatever origin): every forward has its backward (and weight) pass, once, in every chunk;
 * slots are not reused while live, nor used when free, and slots says how many there are; a slice runs when
 * those that it needs have, and what it needs of them is still there; the k-th send to a
 * stage is the k-th it receives on that connection; vocabulary passes come in the same order on all stages;
 * neighbours and hand-over buffers are as described above; and executing all lists ends, where a SEND waits
 * while P4D_SEND_BUFFERS sends of its direction and stage are not yet received. Errors: P4D_E_INSTRUCTIONS,
 * naming stage, instruction and why; NO_MEMORY.
 */
int p4d_schedule_check(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err);

/* The last part of p4d_schedule_check: executes all lists, which have passed the other checks. */
int p4d_schedule_execute(const p4d_schedule *s, const p4d_instruction_list *lists, p4d_error *err);
