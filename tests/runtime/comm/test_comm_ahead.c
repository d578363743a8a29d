/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that arrive while the sender computes: the rings that hold them, and the sizes of rings. */
#include "support/support.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "comm/channel_shm.h"
#include "comm/node.h"
#include "support/forked.h"

enum { MESSAGE = 1 << 20, MESSAGES = 2 }; /* larger than a ring of default size */

static uint8_t byte_of(uint64_t i)
{
	return (uint8_t)(i * 31 + i / 251);
}

static void test_sizes(void **state)
{
	p4d_comm_node node = {.count = 2};

	(void)state;
	p4d_shm__size(&node, 0);
	assert_int_equal(node.ring_bytes, P4D_RING_BYTES);
	const size_t small = node.bytes;
	p4d_shm__size(&node, MESSAGE);
	assert_int_equal(node.ring_bytes, 4 * MESSAGE);
	assert_int_equal(node.bytes - small, 2 * 2 * P4D_NODE_CHANNELS * (node.ring_bytes - P4D_RING_BYTES));
	/* whatever the number and length of rings, their size is limited by the address space */
	node.count = P4D_NODE_RANKS;
	const uint64_t long_ones[] = {(uint64_t)1 << 30, (uint64_t)1 << 60, UINT64_MAX};
	for (size_t i = 0; i < sizeof(long_ones) / sizeof(*long_ones); i++) {
		p4d_shm__size(&node, long_ones[i]);
		assert_true(node.bytes <= (uint64_t)1 << 40);
		assert_true(node.ring_bytes > P4D_RING_BYTES);
	}
}

/* A stream that passes through a ring in chunks of any size. The ring is sometimes full and sometimes
 * empty. */
static void test_ring(void **state)
{
	int eventfds[2] = {-1, -1}; /* no rank sleeps, so nothing is written to these */
	p4d_comm_node node = {.count = 2, .index = 1, .eventfds = eventfds};
	static uint8_t data[2 * P4D_RING_BYTES];
	uint64_t written = 0, taken = 0, draw = 1, most = 0;

	(void)state;
	p4d_shm__size(&node, 0);
	assert_int_equal(posix_memalign((void **)&node.base, 128, node.bytes), 0);
	memset(node.base, 0, node.bytes);
	const p4d_shm_ring *ring = p4d_shm__ring_of(&node, 1, 1, 3);
	for (int round = 0; round < 4000; round++) {
		const size_t in = forked_random(&draw) % (round % 64 < 32 ? 60000 : 20000);
		const size_t out = forked_random(&draw) % (round % 64 < 32 ? 20000 : 60000);
		for (size_t i = 0; i < in; i++)
			data[i] = byte_of(written + i);
		const bool empty = written == taken;
		const size_t n = p4d_shm__ring_write(&node, 1, 3, data, in);
		assert_true(n == in || written - taken + n == P4D_RING_BYTES || n == P4D_RING_BYTES / 4);
		if (empty && n)
			assert_memory_equal(ring->data, data, n);
		written += n;
		most = written - taken > most ? written - taken : most;
		const size_t m = p4d_shm__ring_read(&node, 1, 3, data, out);
		assert_true(m <= written - taken);
		for (size_t i = 0; i < m; i++)
			assert_int_equal(data[i], byte_of(taken + i));
		taken += m;
	}
	assert_int_equal(most, P4D_RING_BYTES);
	free(node.base);
}

static _Atomic int *arrived; /* memory that the ranks share */

/* Rank 1 receives rank 0's messages while rank 0 does not call the library. */
static int hand_over(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const uint32_t both[] = {0, 1};
	uint8_t *data = malloc(MESSAGE * MESSAGES);
	uint64_t ticket = 0;
	p4d_group *group;

	(void)size;
	CHECK(data);
	TRY(p4d_group_open(&group, world, both, 2, err));
	for (int i = 0; i < MESSAGES; i++) {
		uint8_t *message = data + i * MESSAGE;
		if (rank == 1) {
			TRY(p4d_comm_recv(group, 0, 1, message, MESSAGE, err));
			CHECK(message[0] == i + 1 && message[MESSAGE - 1] == i + 1);
			continue;
		}
		memset(message, i + 1, MESSAGE);
		TRY(p4d_comm_send(group, 1, 1, message, MESSAGE, &ticket, err));
	}
	if (rank == 1)
		atomic_store(arrived, 1);
	while (!atomic_load(arrived))
		usleep(1000);
	if (rank == 0)
		TRY(p4d_comm_send_wait(group, 1, 1, ticket, err));
	p4d_group_close(group);
	free(data);
	return 0;
}

static void test_ahead(void **state)
{
	forked f;

	(void)state;
	arrived = mmap(NULL, sizeof(*arrived), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(arrived != MAP_FAILED);
	forked_init(&f, 2, NULL);
	f.ranks.message_bytes = MESSAGE;
	forked_start(&f, hand_over);
	assert_true(forked_finish(&f, 30) && forked_all_well(&f));
	munmap((void *)arrived, sizeof(*arrived));
}

static int meet(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	const uint32_t both[] = {0, 1};
	p4d_group *group;

	(void)rank, (void)size;
	TRY(p4d_group_open(&group, world, both, 2, err));
	TRY(p4d_comm_barrier(group, err));
	p4d_group_close(group);
	return 0;
}

static void tell_another_size(p4d_ranks *ranks)
{
	ranks->message_bytes = ranks->rank == 1 ? MESSAGE : 0;
}

static void test_disagreement(void **state)
{
	forked f;

	(void)state;
	forked_init(&f, 2, NULL);
	f.change = tell_another_size;
	forked_start(&f, meet);
	assert_true(forked_finish(&f, 30));
	for (int i = 0; i < 2; i++) { /* both ranks get the reason */
		assert_int_equal(f.ends[i].err.code, P4D_E_RANK);
		assert_non_null(strstr(f.ends[i].err.text, "rank 1 has another message size"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sizes),
	    cmocka_unit_test(test_ring),
	    cmocka_unit_test(test_ahead),
	    cmocka_unit_test(test_disagreement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
