/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "schedule/schedule.h"

/*
 * The error in an instruction's fields; NULL: none. chunk, micro-batch and peer must exist in this schedule
 * and stage. Only instructions that use a slot may have one.
 */
const char *p4d_schedule_instruction_fault(const p4d_schedule *s, uint32_t stage, const p4d_instruction *in);

/* Fails with "stage 3, instruction 17 (send forward of micro-batch 4, chunk 0): why"; returns -1. */
int p4d_schedule_instruction_fail(p4d_error *err, const p4d_instruction_list *list, uint32_t stage, size_t at,
				  const char *format, ...) __attribute__((format(printf, 5, 6)));
