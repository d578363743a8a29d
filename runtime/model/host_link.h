/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/device.h"

/*
 * One direction of the link between the arenas of host and device. Transfers run one after another on a
 * stream of their own, concurrently with the passes. The host may write to its arena only after all transfers
 * that read that memory are done.
 */
enum { P4D_LINK_EVENTS = 16 };

typedef struct p4d_host_link {
	p4d_device *device;
	void *stream;
	void *done[P4D_LINK_EVENTS]; /* events of the last tickets */
	uint64_t tickets;
} p4d_host_link;

/* Errors: as stream_open. */
int p4d_host_link__open(p4d_host_link *link, p4d_device *device, p4d_error *err);

/* Makes later transfers start after the operations that are queued on the device so far. */
void p4d_host_link__follow(p4d_host_link *link);
void p4d_host_link__move(p4d_host_link *link, void *to, const void *from, uint64_t bytes);
/* Returns a ticket for all transfers so far. */
uint64_t p4d_host_link__ticket(p4d_host_link *link);
/* Returns the event of a ticket, or of a slightly later one. It is valid until the next ticket. */
void *p4d_host_link__event(const p4d_host_link *link, uint64_t ticket);
/* Makes later operations of the device start after the ticket's transfers. */
void p4d_host_link__await(p4d_host_link *link, uint64_t ticket);
