/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * The store of PyTorch's process groups for one rank of many, in a process of its own on the loopback
 * interface. It speaks the protocol of TCPStore and lets nobody wait for a rank that is not there: a wait
 * ends after 50 ms, and a key that nobody set has 128 zero bytes, which other ranks read as NCCL's id.
 */

/* Starts it; it ends with the calling process. The caller ends it with p4d_store__stop. Errors: IO. */
int p4d_store__start(pid_t *process, uint16_t *port, p4d_error *err);
void p4d_store__stop(pid_t process);
