/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/comm.h"
#include "comm/wire.h"

/*
 * How ranks find each other. Every rank opens a listener, connects to rank 0 and sends its rank and address;
 * when all have joined, rank 0 sends everyone the table and a secret that authenticates later connections.
 * Rank 0 first sends a nonce. Join, answer and table have MACs made with the job's key. So neither side
 * accepts a process of another job, and the key is never sent.
 */
typedef struct p4d_member {
	uint32_t rank, node;
	int64_t pid;
	p4d_wire_address address; /* address of its listener */
	char local[8];            /* abstract name of its local socket, without the leading NUL */
	char name[64];            /* name of its node, for messages */
} p4d_member;

typedef struct p4d_rendezvous {
	p4d_member *members; /* by rank; owned */
	/*
	 * connection to each rank; -1: none yet. Rank 0 has one to each rank, the others have only one to
	 * rank 0
	 */
	int *control;
	int listener; /* TCP listener */
	int local;    /* listener of the local socket for the node's shared memory */
	int keys;     /* listener of key_socket on rank 0; -1: there is none */
	uint64_t secret;
} p4d_rendezvous;

/*
 * Connects this rank to rank 0 and fills *m. If ranks has a key_socket, it also fills ranks->key. Errors:
 * RANK, NO_MEMORY, IO. On failure nothing stays open.
 */
int p4d_rendezvous__open(p4d_rendezvous *m, p4d_ranks *ranks, double deadline, p4d_error *err);
void p4d_rendezvous__close(p4d_rendezvous *m, uint32_t size);

/* The messages. All padding is zero, because the MACs cover it. */
enum { P4D_CHALLENGE = 0x70346401, P4D_JOIN = 0x70346402, P4D_ANSWER = 0x70346403 };

typedef struct p4d_challenge {
	uint32_t magic, reserved;
	uint64_t nonce;
} p4d_challenge;

typedef struct p4d_join {
	uint32_t magic, size;
	p4d_member self;
	uint64_t challenge, nonce, mac;
} p4d_join;

typedef struct p4d_answer {
	uint32_t magic, failed; /* failed: text says why, and no table follows */
	uint64_t nonce;         /* nonce of the join */
	uint64_t secret, table; /* MAC of the table */
	char text[sizeof(((p4d_error *)0)->text)];
	uint64_t mac;
} p4d_answer;

uint64_t p4d_rendezvous__join_mac(p4d_comm_key key, const p4d_join *join);
uint64_t p4d_rendezvous__answer_mac(p4d_comm_key key, const p4d_answer *answer);
/* The key of the MACs, derived from the job's key and this step. */
p4d_comm_key p4d_rendezvous__join_key(const p4d_ranks *ranks);

/* "localhost" or a literal loopback address */
bool p4d_rendezvous__is_loopback(const char *host);
/*
 * Rank 0's part of p4d_rendezvous__open. Its caller has allocated m->members, filled rank 0's entry and
 * opened the listener.
 */
int p4d_rendezvous__serve(p4d_rendezvous *m, const p4d_ranks *ranks, double deadline, p4d_error *err);

/* "3, 5-7" for the ranks with absent[rank] set; ends in "..." if it is too long */
void p4d_rendezvous__rank_list(char *text, size_t size, const bool *absent, uint32_t count);
