/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/world.h"

/* Handles incoming connections and notices. */

/* Breaks the world for all ranks; returns -1. */
int p4d_events__break(p4d_world *w, p4d_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int p4d_events__error(const p4d_world *w, p4d_error *err); /* copies the reason to *err; returns -1 */

/* Handles events. timeout: milliseconds, as in epoll_wait. */
void p4d_events__take(p4d_world *w, int timeout);
int p4d_events__add(p4d_world *w, int fd, uint32_t events, unsigned kind, uint32_t rank, unsigned channel);
enum { P4D_EVENT_CONTROL, P4D_EVENT_LISTENER, P4D_EVENT_HANDSHAKE, P4D_EVENT_WAKEUP, P4D_EVENT_DATA };
int p4d_events__control(p4d_world *w, uint32_t rank, int fd,
			p4d_error *err); /* takes over a control connection from `rank` */
void p4d_events__live(p4d_world *w);     /* tells all ranks that this one does not hang */
void p4d_events__leave(p4d_world *w);    /* tells all ranks that this one leaves cleanly */
p4d_hello p4d_events__hello(const p4d_world *w, uint32_t from, uint32_t to, unsigned channel);
