/* SPDX-License-Identifier: Apache-2.0 */
#include "model/host_link.h"

int p4d_host_link__open(p4d_host_link *link, p4d_device *device, p4d_error *err)
{
	link->device = device;
	if (device->stream_open(device, &link->stream, err) < 0)
		return -1;
	for (int i = 0; i < P4D_LINK_EVENTS; i++)
		if (device->event_open(device, &link->done[i], err) < 0)
			return -1;
	return 0;
}

void p4d_host_link__follow(p4d_host_link *link)
{
	link->device->stream_wait(link->device, link->stream, NULL);
}

void p4d_host_link__move(p4d_host_link *link, void *to, const void *from, uint64_t bytes)
{
	link->device->move(link->device, link->stream, to, from, bytes);
}

uint64_t p4d_host_link__ticket(p4d_host_link *link)
{
	link->device->event_record(link->device, link->done[link->tickets % P4D_LINK_EVENTS], link->stream);
	return link->tickets++;
}

/*
 * The event of a ticket. Events of old tickets are reused. For an old ticket this returns the oldest event
 * that still exists. A wait for that is also correct, because all transfers are on one stream.
 */
void *p4d_host_link__event(const p4d_host_link *link, uint64_t ticket)
{
	if (ticket + P4D_LINK_EVENTS < link->tickets)
		ticket = link->tickets - P4D_LINK_EVENTS;
	return link->done[ticket % P4D_LINK_EVENTS];
}

void p4d_host_link__await(p4d_host_link *link, uint64_t ticket)
{
	link->device->event_wait(link->device, NULL, p4d_host_link__event(link, ticket));
}
