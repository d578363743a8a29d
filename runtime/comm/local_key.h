/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"

/*
 * Makes a key for ranks that are all on one node and were not given one. Rank 0 makes the key and sends it to
 * each process of its own user that connects to ranks->key_socket. Each side learns the other's user from the
 * kernel.
 */
/* Rank 0: makes ranks->key and opens *listener. Errors: IO; RANK (other processes use all names). */
int p4d_local_key__offer(p4d_ranks *ranks, int *listener, p4d_error *err);
/* Rank 0: answers all waiting processes. Never blocks. */
void p4d_local_key__hand_out(int listener, const p4d_ranks *ranks);
/* The others: get ranks->key. Errors: RANK (rank 0 does not answer). */
int p4d_local_key__fetch(p4d_ranks *ranks, double deadline, p4d_error *err);
