/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rehearse/launch_ranks.h"

/*
 * A vLLM server starts a process for each of its GPUs itself. p4d rehearses one such process: it runs the
 * command as one rank, which sees all GPUs of its node. This function sets these ranks if the words start
 * such a server and nothing else starts ranks. The number of GPUs is the job's, or what the server's options
 * request.
 */
void p4d_engine_ranks__take(const p4d_words *words, p4d_rehearse_ranks *ranks);
