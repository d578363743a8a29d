/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearse_answer.h"

/*
 * Keeps what was found for sbatch and `p4d check`, in a file of the user's (rehearsals/rehearsals.h). Says in
 * one line on stderr why nothing is kept. An answer that is incomplete is none to keep, without a word. key:
 * of the command in a job script (p4d_read_command__key); NULL: the words of the program are the command.
 */
void p4d_rehearse__keep(const p4d_rehearse_answer *a, const char *key);
