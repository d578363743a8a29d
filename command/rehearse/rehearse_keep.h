/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/rehearse_answer.h"

/*
 * Keeps what was found for sbatch and `p4d check`, in a file of the user's (rehearsals/rehearsals.h). Says in
 * one line on stderr why nothing is kept; an answer that is incomplete is none to keep, without a word.
 */
void p4d_rehearse__keep(const p4d_rehearse_answer *a);
