/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearse_answer.h"

/*
 * Stores the result for sbatch and `p4d check` in a file of the user (rehearsals/rehearsals.h). If that
 * fails, it prints the reason on stderr in one line. It stores no incomplete answer. key: from
 * p4d_read_command__key, if the command is from a job script; NULL: the program's words are the command.
 */
void p4d_rehearse__keep(const p4d_rehearse_answer *a, const char *key);
