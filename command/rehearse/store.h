/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * A store for PyTorch's process groups: a separate process on the loopback interface, with the protocol of
 * TCPStore. The job has many ranks, but only one of them runs. It must not wait for the others, so a wait
 * ends after 50 ms. A key that no rank has set reads as 128 zero bytes, which the rank takes as NCCL's id.
 */

/* Starts the store, which ends with the calling process. The caller ends it with p4d_store__stop. Errors:
 * IO. */
int p4d_store__start(pid_t *process, uint16_t *port, p4d_error *err);
void p4d_store__stop(pid_t process);
