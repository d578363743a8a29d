/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * SIGTERM (scancel, preemption), SIGUSR1 (sbatch --signal) and SIGINT ask the program to save and exit with
 * P4D_EXIT_AGAIN, which means that the run is unfinished and the same command continues it. A second SIGINT
 * kills the process as usual. That is not so if one of the two came from p4d_stop_pass, because a parent also
 * passes on signals that the whole process group has received. A second SIGTERM does not kill, because Slurm,
 * timeout(1) and a parent may each send one. SIGPIPE is ignored.
 */
enum { P4D_EXIT_AGAIN = 75 };

void p4d_stop_catch(void);
/* Passes a signal on to a child that called p4d_stop_catch. May be called in a signal handler. */
void p4d_stop_pass(pid_t to, int number);
/* The signal that asks to stop; 0: none. */
int p4d_stop_asked(void);
const char *p4d_stop_name(int number); /* "SIGTERM" */
