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
	uint64_t broadcasts; /* number of broadcasts so far; the number of a broadcast in the record */
	char id[COMM_ID_BYTES];
	FILE *written, *read;
	int read_root;
} p4d_comm;

/*
 * The record: files in the directory P4D_REHEARSAL_RECORD with the data of broadcasts, one for each
 * communicator and root. A broadcast of at most P4D_ACCOUNT_SMALL bytes is written with its number. It is
 * found by number and size. If the directory is not set, nothing is written. If the record does not have the
 * broadcast, reading returns false.
 */
void p4d_comm_record_write(p4d_comm *c, const void *from, size_t bytes);
bool p4d_comm_record_read(p4d_comm *c, int root, void *to, size_t bytes);
void p4d_comm_record_end(p4d_comm *c);

/* Header of each message in a record. */
typedef struct p4d_comm_logged {
	uint64_t number, bytes;
} p4d_comm_logged;

/*
 * Copies message NUMBER to TO if its size is BYTES. Numbers grow from call to call, so the search continues
 * where the last one ended. False: there is no such message.
 */
bool p4d_comm_record_find(FILE *record, uint64_t number, void *to, size_t bytes);

/*
 * Integers between two ranks, which may decide later sizes (comm_peers.c). _sent stores integers that this
 * rank sends to PEER. _read takes integers that PEER would send from stored messages; it returns false if
 * there is no such message. _doubt then reports a doubt, if the caller has no other source either.
 */
enum { P4D_COMM_NUMBERS = 4096 }; /* bytes; larger messages contain no sizes */
void p4d_comm_peers_sent(const p4d_comm *c, int peer, const void *from, size_t bytes);
bool p4d_comm_peers_read(const p4d_comm *c, int peer, void *to, size_t bytes);
void p4d_comm_peers_doubt(size_t bytes);
