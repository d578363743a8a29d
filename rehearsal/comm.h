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
	int splits;          /* communicators made of this one */
	uint64_t broadcasts; /* so far: what numbers a record */
	char id[COMM_ID_BYTES];
	FILE *written, *read;
	int read_root;
} p4d_comm;

/*
 * What ranks broadcast, in files of the directory P4D_REHEARSAL_RECORD, by communicator and root. A broadcast
 * of at most P4D_ACCOUNT_SMALL bytes is written with its number, and read by number and size. Without the
 * directory, or where the record has no such broadcast, nothing is written or changed, and the read is false.
 */
void p4d_comm_record_write(p4d_comm *c, const void *from, size_t bytes);
bool p4d_comm_record_read(p4d_comm *c, int root, void *to, size_t bytes);
void p4d_comm_record_end(p4d_comm *c);

/* What stands before each message of a record. */
typedef struct p4d_comm_logged {
	uint64_t number, bytes;
} p4d_comm_logged;

/* Copies message NUMBER to TO if its size is BYTES. Numbers only grow: the search goes on from where the last
 * one ended. False where there is no such message. */
bool p4d_comm_record_find(FILE *record, uint64_t number, void *to, size_t bytes);

/*
 * Whole numbers between two ranks, on which later sizes may depend (comm_peers.c): what this rank sends to
 * PEER is kept; what PEER would send comes from the kept messages. False if there is no such message: a doubt
 * of the report, unless something else answers.
 */
enum { P4D_COMM_NUMBERS = 4096 }; /* bytes; more than that are no sizes */
void p4d_comm_peers_sent(const p4d_comm *c, int peer, const void *from, size_t bytes);
bool p4d_comm_peers_read(const p4d_comm *c, int peer, void *to, size_t bytes);
void p4d_comm_peers_doubt(size_t bytes);
