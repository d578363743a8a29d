/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures communication between ranks that it forks, on one node (shared memory) and with one node per
 * rank (TCP over loopback). Prints the best of several rounds, because other processes disturb that round
 * least. A long time is no failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"

enum { ROUNDS = 10, HUGE_PAGE = 2 << 20 };
static const uint64_t LARGE = 16 << 20;

typedef struct bench {
	const char *where;
	uint32_t size;
	bool one_node;
	p4d_group *group;
	uint8_t *data, *more;
} bench;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(int rc, const p4d_error *err)
{
	if (!rc)
		return;
	fprintf(stderr, "comm_speed: %s\n", err->text);
	_exit(1);
}

/* Seconds of one call, in the best round. */
static double timed(bench *b, void (*call)(bench *b, p4d_error *err), int repeats)
{
	double best = 1e9;
	p4d_error err;

	call(b, &err);
	for (int round = 0; round < ROUNDS; round++) {
		must(p4d_comm_barrier(b->group, &err), &err);
		double from = seconds();
		for (int i = 0; i < repeats; i++)
			call(b, &err);
		double took = (seconds() - from) / repeats;
		best = took < best ? took : best;
	}
	return best;
}

static void all_reduce_large(bench *b, p4d_error *err)
{
	must(p4d_comm_all_reduce(b->group, b->data, LARGE / 4, P4D_DT_FP32, P4D_SUM, err), err);
}

static void all_reduce_bf16(bench *b, p4d_error *err)
{
	must(p4d_comm_all_reduce(b->group, b->data, LARGE / 2, P4D_DT_BF16, P4D_SUM, err), err);
}

static void all_reduce_small(bench *b, p4d_error *err)
{
	must(p4d_comm_all_reduce(b->group, b->data, 1, P4D_DT_FP32, P4D_SUM, err), err);
}

static void reduce_scatter(bench *b, p4d_error *err)
{
	must(p4d_comm_reduce_scatter(b->group, b->more, b->data, LARGE / 4 / b->size, P4D_DT_FP32, err), err);
}

/* The speed of memory alone, to compare with: all ranks copy LARGE bytes at the same time and do not
 * communicate. */
static void copy(bench *b, p4d_error *err)
{
	memcpy(b->more, b->data, LARGE);
	must(p4d_comm_barrier(b->group, err), err);
}

static void all_gather(bench *b, p4d_error *err)
{
	must(p4d_comm_all_gather(b->group, b->data, b->more, LARGE / b->size, err), err);
}

static void broadcast(bench *b, p4d_error *err)
{
	must(p4d_comm_broadcast(b->group, b->data, LARGE, 0, err), err);
}

static void barrier(bench *b, p4d_error *err)
{
	must(p4d_comm_barrier(b->group, err), err);
}

/* Rank 0 sends `bytes` to rank 1, which sends as many back. One call is two transfers. */
static void ping_pong(bench *b, uint64_t bytes, p4d_error *err)
{
	uint32_t me = p4d_group_index(b->group);
	uint64_t ticket;

	if (me > 1)
		return;
	if (me == 1)
		must(p4d_comm_recv(b->group, 0, 0, b->more, bytes, err), err);
	must(p4d_comm_send(b->group, 1 - me, 0, b->data, bytes, &ticket, err), err);
	must(p4d_comm_send_wait(b->group, 1 - me, 0, ticket, err), err);
	if (me == 0)
		must(p4d_comm_recv(b->group, 1, 0, b->more, bytes, err), err);
}

static void ping_pong_small(bench *b, p4d_error *err)
{
	ping_pong(b, 4, err);
}

static void ping_pong_large(bench *b, p4d_error *err)
{
	ping_pong(b, LARGE, err);
}

/* Allocates memory as for a trainer's arena. */
static uint8_t *block(void)
{
	uint8_t *data = aligned_alloc(HUGE_PAGE, LARGE);

	if (!data)
		_exit(1);
	madvise(data, LARGE, MADV_HUGEPAGE);
	memset(data, 1, LARGE);
	return data;
}

static void measure(bench *b, p4d_ranks ranks, uint32_t rank)
{
	uint32_t all[64];
	p4d_world *world;
	p4d_error err;
	bool speaks = rank == 0;
	double copied, large, bf16, small, scatter, gather, cast, meet, latency, transfer;

	ranks.rank = rank;
	ranks.node = b->one_node ? 0 : rank;
	for (uint32_t i = 0; i < b->size; i++)
		all[i] = i;
	double from = seconds();
	must(p4d_world_open(&world, &ranks, &err), &err);
	from = seconds() - from;
	must(p4d_group_open(&b->group, world, all, b->size, &err), &err);
	b->data = block();
	b->more = block();
	copied = timed(b, copy, 3);
	large = timed(b, all_reduce_large, 3);
	bf16 = timed(b, all_reduce_bf16, 3);
	scatter = timed(b, reduce_scatter, 3);
	gather = timed(b, all_gather, 3);
	cast = timed(b, broadcast, 3);
	small = timed(b, all_reduce_small, 200);
	meet = timed(b, barrier, 200);
	latency = timed(b, ping_pong_small, 200);
	transfer = timed(b, ping_pong_large, 3);
	if (speaks) {
		printf("comm_speed: %u ranks, %-12s join %.1f ms; 16 MiB: copied by each %.1f ms, "
		       "all-reduce %.1f (bf16 %.1f), reduce-scatter %.1f, all-gather %.1f, broadcast %.1f\n",
		       b->size, b->where, 1e3 * from, 1e3 * copied, 1e3 * large, 1e3 * bf16, 1e3 * scatter,
		       1e3 * gather, 1e3 * cast);
		printf("comm_speed: %u ranks, %-12s 4 bytes: all-reduce %.1f us, barrier %.1f us, one way "
		       "%.1f us; "
		       "send %.2f GB/s\n",
		       b->size, b->where, 1e6 * small, 1e6 * meet, 0.5e6 * latency,
		       2e-9 * (double)LARGE / transfer);
		fflush(stdout);
	}
	p4d_group_close(b->group);
	p4d_world_close(world);
	_exit(0);
}

int main(void)
{
	bench benches[] = {
	    {.where = "shared memory", .size = 2, .one_node = true},
	    {.where = "shared memory", .size = 4, .one_node = true},
	    {.where = "tcp", .size = 2},
	    {.where = "tcp", .size = 4},
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		pid_t children[64];
		p4d_ranks ranks;
		p4d_error err;
		must(p4d_ranks_local(&ranks, benches[i].size, &err), &err);
		for (uint32_t r = 0; r < benches[i].size; r++)
			if ((children[r] = fork()) == 0)
				measure(&benches[i], ranks, r);
		for (uint32_t r = 0; r < benches[i].size; r++) {
			int status = 1;
			if (children[r] < 0 || waitpid(children[r], &status, 0) < 0 || status)
				failed = 1;
		}
	}
	return failed;
}
