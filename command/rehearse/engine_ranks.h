/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/launch_ranks.h"

/*
 * A vLLM server starts a process for each of its GPUs by itself. p4d rehearses one of these processes: it
 * runs the command as one rank that sees all GPUs of its node. This function sets these ranks if the words
 * start such a server and nothing else starts ranks. The number of GPUs comes from the job or from the
 * server's options.
 */
void p4d_engine_ranks__take(const p4d_words *words, p4d_rehearse_ranks *ranks);
