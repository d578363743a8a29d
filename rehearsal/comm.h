/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ncclResult_t */
enum { COMM_OK = 0, COMM_CUDA = 1, COMM_SYSTEM = 2 };
enum { COMM_ID_BYTES = 128 };

/* ncclComm */
typedef struct p4d_comm {
	int ranks, rank;
	int splits;          /* number of communicators made from this one */
	uint64_t broadcasts; /* running number, which identifies a record */
	char id[COMM_ID_BYTES];
	FILE *written, *read;
	int read_root;
} p4d_comm;

/*
 * Broadcast data of ranks, in files of the directory P4D_REHEARSAL_RECORD, by communicator and root. A
 * broadcast of at most P4D_ACCOUNT_SMALL bytes is written with its number, and read by number and size.
 * Without the directory, or if the record has no such broadcast, nothing is written or changed, and reading
 * returns false.
 */
void p4d_comm_record_write(p4d_comm *c, const void *from, size_t bytes);
bool p4d_comm_record_read(p4d_comm *c, int root, void *to, size_t bytes);
void p4d_comm_record_end(p4d_comm *c);

/* Header of each message in a record. */
typedef struct p4d_comm_logged {
	uint64_t number, bytes;
} p4d_comm_logged;

/* Copies message NUMBER to TO if its size is BYTES. Numbers only grow, so the search continues where the
 * last one ended. False: there is no such message. */
bool p4d_comm_record_find(FILE *record, uint64_t number, void *to, size_t bytes);

/*
 * Integers between two ranks, which may decide later sizes (comm_peers.c). Integers that this rank sends to
 * PEER are stored; those that PEER would send come from the stored messages. False: there is no such message,
 * which is a doubt in the report, unless another source has it.
 */
enum { P4D_COMM_NUMBERS = 4096 }; /* bytes; larger messages contain no sizes */
void p4d_comm_peers_sent(const p4d_comm *c, int peer, const void *from, size_t bytes);
bool p4d_comm_peers_read(const p4d_comm *c, int peer, void *to, size_t bytes);
void p4d_comm_peers_doubt(size_t bytes);
