/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"

/*
 * Makes a key for ranks that are all on one node and have no key. Rank 0 makes it, and gives it to every
 * process of its user that asks at ranks->key_socket. The kernel tells both sides which user the other
 * process belongs to.
 */
/* Rank 0: makes ranks->key and opens *listener. Errors: IO; RANK (other processes use all names). */
int p4d_local_key__offer(p4d_ranks *ranks, int *listener, p4d_error *err);
/* Rank 0: answers all waiting processes. Never blocks. */
void p4d_local_key__hand_out(int listener, const p4d_ranks *ranks);
/* The others: get ranks->key. Errors: RANK (rank 0 does not answer). */
int p4d_local_key__fetch(p4d_ranks *ranks, double deadline, p4d_error *err);
