/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/launch_ranks.h"

/*
 * A vLLM server itself starts a process for each of its GPUs. p4d plays one of them: the command is one rank,
 * which sees all GPUs of its node. Sets these ranks if the words start such a server and nothing else starts
 * ranks: as many GPUs as the job has, or as its options request.
 */
void p4d_engine_ranks__take(const p4d_words *words, p4d_rehearse_ranks *ranks);
