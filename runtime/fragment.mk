# SPDX-License-Identifier: Apache-2.0
# libp4dtrain: what p4d-train is made of.
comm_sources = \
	runtime/comm.h runtime/wire.h runtime/wire.c runtime/ranks_slurm.c \
	runtime/rendezvous.h runtime/rendezvous.c runtime/rendezvous_host.c \
	runtime/world.h runtime/world.c runtime/events.c \
	runtime/node.h runtime/node_open.c runtime/channel_shm.c runtime/channel_tcp.c runtime/channel.c \
	runtime/sum.h runtime/sum.c \
	runtime/group.h runtime/group.c runtime/collectives.c runtime/collectives_node.c runtime/collectives_wire.c

noinst_LTLIBRARIES += libp4dtrain.la
libp4dtrain_la_SOURCES = $(comm_sources)
libp4dtrain_la_CPPFLAGS = $(AM_CPPFLAGS)
libp4dtrain_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libp4dtrain_la_LIBADD = -lm
