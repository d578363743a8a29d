/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "plan/plan.h"

/*
 * Communication between ranks. A world is this rank's connections to all others: shared memory to ranks with
 * the same node id, TCP to the rest. A group is an ordered list of ranks. All members call the same
 * collectives on a group in the same order. Every call may fail: if a peer is lost or aborts, it fails with
 * P4D_E_RANK and names that peer; nothing hangs. Results are deterministic: a sum adds the members in group
 * order, in fp32 (fp64 for FP64), and rounds once, so placement changes no bit.
 *
 * Single-threaded. It allocates nothing after p4d_world_open and p4d_group_open. It leaves no names in
 * /dev/shm (shared memory is passed from process to process) and nothing else that outlives the processes. A
 * world belongs to the process that opened it, not to its forks.
 *
 * A dead process is noticed immediately, by its closed connection; a dead or unreachable host after
 * idle_seconds, by TCP keep-alive. A process that computes for a long time, or is stopped, counts as alive
 * until p4d_world_expect. The rank that notices a loss tells all others, so that all report the same cause.
 *
 * Data is in host memory unless the group was moved to a device: comm_device.h.
 */
typedef struct p4d_world p4d_world;
typedef struct p4d_group p4d_group;

typedef struct p4d_comm_key {
	uint64_t word[2];
} p4d_comm_key;

/*
 * This process, and how it finds the other ranks. Only rank, node, node_name and local may differ between
 * ranks.
 */
typedef struct p4d_ranks {
	uint32_t rank, size;
	uint32_t node;       /* ranks with the same number share memory; at most 250 of them */
	char node_name[64];  /* for messages; "": the host's name */
	char host[256];      /* where rank 0 listens */
	char other_host[64]; /* used if `host` does not resolve or means loopback; "": none */
	uint16_t port;
	uint16_t ports;      /* number of ports: rank 0 takes the first free one, and the others try all */
	p4d_comm_key key;    /* key of the job: a process with another key or session cannot join */
	char key_socket[96]; /* for ranks on one node: local socket through which rank 0 gives its key to this
				user's processes; "": `key` is set */
	uint32_t local;      /* index of this rank on its node, if a launcher gives it */
	char session[64];    /* unique among concurrent jobs on a machine */
	double join_seconds; /* how long to wait for the others */
	double idle_seconds; /* seconds after which an unreachable host counts as lost; at least 3 */
	/*
	 * Two messages of this size per channel can be in flight to a rank of the same node while their
	 * sender computes. 0: only short messages can. Memory is used only while messages are in flight.
	 */
	uint64_t message_bytes;
} p4d_ranks;

enum { P4D_JOIN_SECONDS = 60, P4D_IDLE_SECONDS = 5 };

/*
 * For forked ranks: makes a random key; all ranks are on node 0 and use loopback. Call it before the fork;
 * each child then sets its rank. Errors: IO (no random numbers).
 */
int p4d_ranks_local(p4d_ranks *ranks, uint32_t size, p4d_error *err);

/*
 * Reads the environment of a task that srun started. variable: getenv, or a table in tests.
 * SLURM_PROCID, SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_NODEID, SLURM_JOB_ID, SLURM_STEP_ID: rank,
 * size, node, session (job, step, and SLURM_RESTART_COUNT: a task from before a requeue cannot join).
 * SLURM_STEP_NUM_NODES (or SLURM_NNODES): a step on one node uses loopback.
 * P4D_JOB_HOST, or the first host of SLURM_STEP_NODELIST; if that does not resolve, SLURM_LAUNCH_NODE_IPADDR
 * (right when srun was called from the batch script).
 * SLURM_STEP_RESV_PORTS ("12000-12003"), or 8 ports out of 20000..31999 derived from the session.
 * P4D_JOB_KEY: 32 hex digits, or P4D_JOB_KEY_FILE: a file with them that only its owner can read; without
 * either the ranks must be on one node. SLURMD_NODENAME: node_name.
 * Errors: VALUE (which variable), RANK (not a task of a step), JOB_KEY (no usable key).
 */
int p4d_ranks_from_slurm(p4d_ranks *ranks, char *(*variable)(const char *name), p4d_error *err);

/*
 * For a process that torchrun, Open MPI's mpirun or MPICH's mpiexec started. Reads RANK, WORLD_SIZE,
 * LOCAL_RANK and LOCAL_WORLD_SIZE; OMPI_COMM_WORLD_*; or PMI_RANK, PMI_SIZE and MPI_LOCAL*. A task of srun
 * may also have these variables, but does not count as such a process. Every node must have equally many
 * ranks, with consecutive numbers. *nodes: number of nodes.
 * Rank 0 listens at MASTER_ADDR if there are several nodes, else on loopback. Its port is MASTER_PORT. If
 * that is not set, or if torchrun itself listens there, the ports are derived from the session.
 * Key and errors are those of p4d_ranks_from_slurm.
 */
bool p4d_ranks_are_launched(char *(*variable)(const char *name));
/* Whether this process is the first one, or the only one, that srun or such a launcher started. */
bool p4d_ranks_begin_here(char *(*variable)(const char *name));
int p4d_ranks_launched(p4d_ranks *ranks, char *(*variable)(const char *name), uint32_t *nodes,
		       p4d_error *err);

typedef enum p4d_reduction { P4D_SUM, P4D_MAX } p4d_reduction;

/*
 * Opens the world; returns when this rank is connected to all others. Rank 0 listens on loopback if `host` is
 * "localhost" or a loopback address. Otherwise it listens on the address to which rank 0's machine resolves
 * `host` or, if that is only loopback, on its address towards other_host; never on all interfaces. The others
 * listen on the address from which they reach rank 0. The key never leaves a node: both sides prove that they
 * have it. Raises the soft limit of open files if that is too low. Errors: RANK (who is missing after
 * join_seconds, or why one could not join), NO_MEMORY, VALUE, IO.
 */
int p4d_world_open(p4d_world **world, const p4d_ranks *ranks, p4d_error *err);
/*
 * Tells the other ranks that this one leaves, without waiting for them. Messages that were sent still arrive.
 * Call it also after failures. NULL: no-op.
 */
void p4d_world_close(p4d_world *world);
uint32_t p4d_world_rank(const p4d_world *world);
uint32_t p4d_world_size(const p4d_world *world);
const char *p4d_world_host(const p4d_world *world, uint32_t rank);
/* Breaks the world: all ranks' present and later calls fail with the reason `why`. Not async-signal-safe. */
void p4d_world_abort(p4d_world *world, const char *why);
/* True if the world is broken; err says why. Cheap enough for long compute loops. */
bool p4d_world_failed(p4d_world *world, p4d_error *err);
/*
 * Sets a time limit in seconds, from now on, for what all ranks now begin; 0: no limit. what: for messages
 * ("step 12", copied). A rank that is stopped, or hangs in a driver, neither communicates nor checks the
 * world. If the others wait for such a rank, its name is reported after nine tenths of the time, and the
 * world is broken.
 */
void p4d_world_expect(p4d_world *world, const char *what, double seconds);

/*
 * ranks[count] are distinct and include this one. Does not communicate. If members open the same list several
 * times, their first groups belong together, their second groups, and so on. Groups of one rank are valid and
 * do nothing. At most 4096 groups on a node in a world's lifetime. Errors: VALUE, NO_MEMORY, RANK.
 */
int p4d_group_open(p4d_group **group, p4d_world *world, const uint32_t *ranks, uint32_t count,
		   p4d_error *err);
void p4d_group_close(p4d_group *group);
uint32_t p4d_group_size(const p4d_group *group);
uint32_t p4d_group_index(const p4d_group *group); /* index of this rank in the group */

/*
 * Collectives. Each may wait until all members have called it. count 0 does nothing and does not wait.
 * Members that call with different sizes or different collectives get P4D_E_RANK if that is detected. Other
 * errors: VALUE (type), OVERFLOW.
 */
/*
 * Reduces data in place. Types: BF16, FP16, FP32 and FP64; for MAX only FP32 and FP64. A maximum of values
 * that include a NaN is NaN.
 */
int p4d_comm_all_reduce(p4d_group *group, void *data, uint64_t count, p4d_dtype type, p4d_reduction how,
			p4d_error *err);
/*
 * to (count) = this rank's shard of the sum of all members' from (size*count); `to` may be this rank's shard
 * inside `from`
 */
int p4d_comm_reduce_scatter(p4d_group *group, void *to, const void *from, uint64_t count, p4d_dtype type,
			    p4d_error *err);
/* to (size*bytes) = all members' from (bytes) in group order; `from` may be this rank's shard inside `to` */
int p4d_comm_all_gather(p4d_group *group, void *to, const void *from, uint64_t bytes, p4d_error *err);
int p4d_comm_broadcast(p4d_group *group, void *data, uint64_t bytes, uint32_t root, p4d_error *err);
/* sums to the root; the data of all other members does not change */
int p4d_comm_reduce(p4d_group *group, void *data, uint64_t count, p4d_dtype type, uint32_t root,
		    p4d_error *err);
int p4d_comm_barrier(p4d_group *group, p4d_error *err);

/*
 * Messages to the member with that index, which may be this rank. Messages are ordered per pair of ranks and
 * `channel` (0..3), in all groups together, so that forward and backward traffic do not wait for each other.
 * A send returns a ticket. Its data must stay valid until p4d_comm_send_wait has returned. If P4D_SENDS sends
 * of the channel are in flight, a further send blocks until the oldest is done. Every blocking call makes
 * progress on all sends; while a rank computes, unsent data (see message_bytes) waits. A receive must ask for
 * the size that was sent; otherwise it fails with RANK. A rank must send a message to itself before it
 * receives it.
 */
enum { P4D_CHANNELS = 4, P4D_SENDS = 16 };
int p4d_comm_send(p4d_group *group, uint32_t to, unsigned channel, const void *data, uint64_t bytes,
		  uint64_t *ticket, p4d_error *err);
int p4d_comm_send_wait(p4d_group *group, uint32_t to, unsigned channel, uint64_t ticket, p4d_error *err);
/* Waits until any of several sends of a group is done; *which: its index. */
typedef struct p4d_pending {
	uint32_t to;
	unsigned channel;
	uint64_t ticket;
} p4d_pending;
int p4d_comm_send_wait_any(p4d_group *group, const p4d_pending *pending, unsigned count, unsigned *which,
			   p4d_error *err);
int p4d_comm_recv(p4d_group *group, uint32_t from, unsigned channel, void *data, uint64_t bytes,
		  p4d_error *err);
/*
 * A receive in two steps with the same arguments, so that a message may arrive while its receiver computes:
 * the buffer may be written from the first call on, and is complete after the second call. Receives of a
 * channel end in the order they began, and at most P4D_SENDS are in flight.
 */
int p4d_comm_recv_begin(p4d_group *group, uint32_t from, unsigned channel, void *data, uint64_t bytes,
			p4d_error *err);
int p4d_comm_recv_end(p4d_group *group, uint32_t from, unsigned channel, void *data, uint64_t bytes,
		      p4d_error *err);
