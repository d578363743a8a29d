/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "comm/comm.h"

/*
 * Sockets with deadlines, and the MAC that authenticates the ranks of a job. Messages are sent as plain
 * structures, because all hosts of a job should have the same architecture. A magic number detects if they do
 * not. Every socket is non-blocking and closed on exec.
 */
typedef struct p4d_wire_address {
	uint16_t family; /* AF_INET or AF_INET6 */
	uint16_t port;   /* in host order */
	uint32_t scope;  /* scope id of a link-local IPv6 address, on this host */
	uint8_t bytes[16];
} p4d_wire_address;

enum { P4D_ADDRESS_TEXT = 64 };

int p4d_wire__random(void *data, size_t bytes);
/* SipHash-2-4 (Aumasson, Bernstein 2012), with 64 and with 128 bits of output */
uint64_t p4d_wire__mac(p4d_comm_key key, const void *data, size_t bytes);
p4d_comm_key p4d_wire__derive(p4d_comm_key key, const void *data, size_t bytes);
/* Like p4d_wire__mac, as a hash function for data that is not secret. */
uint64_t p4d_wire__hash(uint64_t seed, const void *data, size_t bytes);

bool p4d_wire__address_is_loopback(const p4d_wire_address *address);
/* Writes an address as text: "10.0.0.1:29500". */
const char *p4d_wire__address_text(const p4d_wire_address *address, char text[P4D_ADDRESS_TEXT]);
bool p4d_wire__address_local(p4d_wire_address *address, int fd);  /* this end of a connection */
bool p4d_wire__address_remote(p4d_wire_address *address, int fd); /* the other end */
/*
 * Writes up to `most` addresses of a host, with port 0. Returns their number; 0: the name does not resolve.
 */
int p4d_wire__address_resolve(p4d_wire_address *addresses, int most, const char *host);

/*
 * Finds the address of this host from which it reaches `host`, without sending anything. False: there is
 * none, or only loopback.
 */
bool p4d_wire__address_toward(p4d_wire_address *address, const char *host);

/*
 * Return an open socket; -1 with errno. port 0: any free port. A socket from p4d_wire__dial may still be
 * connecting.
 */
int p4d_wire__listen(const p4d_wire_address *address);
int p4d_wire__dial(const p4d_wire_address *address);
int p4d_wire__accept(int listener);
/* Whether this process's user opened the other end of a local socket. False: errno is EACCES. */
bool p4d_wire__same_user(int fd);
/* Sends small messages immediately. */
void p4d_wire__no_delay(int fd);
/*
 * TCP keep-alive: the connection fails with ETIMEDOUT after idle_seconds (at least 3) without an answer of
 * the other kernel. The answer comes from the kernel, so a process that computes, or is stopped, does not
 * lose its connection.
 */
void p4d_wire__keep_alive(int fd, double idle_seconds);

/*
 * Transfer all bytes before `deadline` (p4d_clock_seconds). -1 with errno: ECONNRESET if the other side
 * closed the connection.
 */
int p4d_wire__read_by(int fd, void *data, size_t bytes, double deadline);
int p4d_wire__write_by(int fd, const void *data, size_t bytes, double deadline);
/* Waits for events on one descriptor. 1: ready; 0: the deadline has passed. */
int p4d_wire__poll_by(int fd, short events, double deadline);
