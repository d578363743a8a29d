/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/world.h"

/*
 * Messages between two ranks. Data must stay valid until its message was sent: post_wait waits for a ticket.
 */
int p4d_channel_post(p4d_world *w, uint32_t to, unsigned channel, uint32_t tag, const void *data,
		     uint64_t bytes, uint64_t *ticket, p4d_error *err);
int p4d_channel_post_wait(p4d_world *w, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err);
/*
 * Waits until one of the pending sends is done. ranks: the group's ranks, which `to` of a pending send
 * indexes.
 */
int p4d_channel_post_wait_any(p4d_world *w, const uint32_t *ranks, const p4d_pending *pending, unsigned count,
			      unsigned *which, p4d_error *err);
/*
 * Waits for the next message, which must have this tag and size. p4d_channel_take_data then receives its data
 * in pieces.
 */
int p4d_channel_take(p4d_world *w, uint32_t from, unsigned channel, uint32_t tag, uint64_t bytes,
		     p4d_error *err);
int p4d_channel_take_data(p4d_world *w, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			  p4d_error *err);
/* Returns the data of a message that this rank sent to itself, and marks the message as received. */
const void *p4d_channel__take_own(p4d_world *w, unsigned channel);
void p4d_channel_push_all(p4d_world *w); /* makes progress without blocking */

/* Send or receive up to `bytes` bytes. Return the number of bytes; 0: the call would block. */
size_t p4d_tcp__send(p4d_world *w, p4d_out *out, const void *data, size_t bytes);
size_t p4d_tcp__receive(p4d_world *w, const p4d_peer *peer, p4d_in *in, void *data, size_t bytes);
