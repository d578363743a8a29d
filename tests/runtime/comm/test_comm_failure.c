/* SPDX-License-Identifier: Apache-2.0 */
/* Failures between ranks: ranks fail while they join, die, leave early, or make different calls. All ranks
 * must report the cause within a time limit. */
#include "support/comm_failures.h"

/* Makes all kinds of calls, until one fails. */
static int busy(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	static uint8_t data[1 << 20], other[1 << 20];
	p4d_group *g;
	uint64_t draw = 7, ticket;

	TRY(group_of_all(&g, world, size, err));
	for (;;) {
		uint64_t count = forked_random(&draw) % 2 ? 1 : forked_random(&draw) % 30000;
		switch (forked_random(&draw) % 4) {
		case 0:
			TRY(p4d_comm_all_reduce(g, data, count, P4D_DT_FP32, P4D_SUM, err));
			break;
		case 1:
			TRY(p4d_comm_all_gather(g, data, other, count, err));
			break;
		case 2:
			TRY(p4d_comm_broadcast(g, data, count, forked_random(&draw) % size, err));
			break;
		default:
			TRY(p4d_comm_send(g, (rank + 1) % size, 1, data, 8 * count, &ticket, err));
			TRY(p4d_comm_recv(g, (rank + size - 1) % size, 1, other, 8 * count, err));
			TRY(p4d_comm_send_wait(g, (rank + 1) % size, 1, ticket, err));
		}
	}
}

static double slowest; /* the longest time, in seconds, until a rank noticed a failure */

static void check_blame(const forked *f, uint32_t victim, double since, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "rank %u (n%u)", victim, f->nodes ? f->nodes[victim] : 0);
	for (uint32_t r = 0; r < f->ranks.size; r++) {
		const forked_end *end = &f->ends[r];
		if (r == victim)
			continue;
		if (f->status[r] != 1 << 8 || end->err.code != P4D_E_RANK || !strstr(end->err.text, name) ||
		    !strstr(end->err.text, why))
			fail_msg("rank %u, %s gone: status %#x, \"%s\"", r, name, f->status[r],
				 end->err.text);
		if (end->ended - since > slowest)
			slowest = end->ended - since;
		if (end->ended - since > PROMISED)
			fail_msg("rank %u took %.1f s", r, end->ended - since);
	}
}

static void wait_until_open(const forked *f)
{
	for (uint32_t r = 0; r < f->ranks.size; r++)
		for (int i = 0; *(volatile double *)&f->ends[r].opened == 0; i++) {
			if (i > 30000)
				fail_msg("rank %u did not join: %s", r, f->ends[r].err.text);
			usleep(1000);
		}
}

static void test_killed(void **state)
{
	const uint32_t *places[] = {NULL, two_by_four, apart, two_by_two};
	const uint32_t sizes[] = {4, 8, 4, 4};
	uint64_t draw = 42;

	(void)state;
	for (int round = 0; round < 24; round++) {
		forked f;
		forked_init(&f, sizes[round % 4], places[round % 4]);
		forked_start(&f, busy);
		wait_until_open(&f);
		uint32_t victim = forked_random(&draw) % f.ranks.size;
		usleep(forked_random(&draw) % 30000);
		double since = forked_now();
		kill(f.pids[victim], SIGKILL);
		assert_true(forked_finish(&f, 20));
		assert_int_equal(f.status[victim], SIGKILL);
		check_blame(&f, victim, since, "was killed or crashed");
	}
	print_message("the last rank noticed after %.3f s\n", slowest);
}

/* Kills ranks, including rank 0, at random moments while they start. */
static void test_killed_while_joining(void **state)
{
	enum { ROUNDS = 12, AT_ONCE = 3 };
	forked all[AT_ONCE];
	uint64_t draw = 3;

	(void)state;
	for (uint32_t first = 0; first < ROUNDS; first += AT_ONCE) {
		for (uint32_t round = first; round < first + AT_ONCE; round++) {
			forked *f = &all[round - first];
			forked_init(f, 6, round % 2 ? two_by_four : NULL);
			f->ranks.join_seconds = 0.6;
			forked_start(f, busy);
			usleep(forked_random(&draw) % 4000);
			kill(f->pids[round % 6], SIGKILL);
		}
		for (uint32_t round = first; round < first + AT_ONCE; round++) {
			forked *f = &all[round - first];
			assert_true(forked_finish(f, 20));
			for (uint32_t r = 0; r < 6; r++)
				if (r != round % 6 &&
				    (f->status[r] != 1 << 8 || f->ends[r].err.code != P4D_E_RANK))
					fail_msg("rank %u: %#x %s", r, f->status[r], f->ends[r].err.text);
		}
	}
}

/* Rank 1 aborts. Rank 0 waits for rank 1, rank 2 waits for rank 0, and rank 3 computes and polls from time
 * to time. */
static int abort_one(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;
	char data[8] = {0};

	TRY(group_of_all(&g, world, size, err));
	if (rank == 1) {
		TRY(p4d_comm_barrier(g, err));
		p4d_world_abort(world, "loss is not a number");
		CHECK(p4d_world_failed(world, err));
		CHECK(p4d_comm_barrier(g, err) < 0);
		return -1;
	}
	TRY(p4d_comm_barrier(g, err));
	if (rank == 0)
		return p4d_comm_recv(g, 1, 0, data, 8, err);
	if (rank == 2)
		return p4d_comm_recv(g, 0, 0, data, 8, err);
	while (!p4d_world_failed(world, err))
		usleep(100);
	return -1;
}

static void test_abort(void **state)
{
	const uint32_t *places[] = {NULL, two_by_two, apart};

	(void)state;
	for (int i = 0; i < 3; i++) {
		forked f;
		forked_init(&f, 4, places[i]);
		double since = forked_now();
		forked_start(&f, abort_one);
		assert_true(forked_finish(&f, 20));
		check_blame(&f, 1, since, "loss is not a number");
		assert_string_equal(f.ends[1].err.text, f.ends[0].err.text);
	}
}

/* A message arrives even if its sender has left. Ranks do not wait for others at the end. */
static int leave_early(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;
	char data[1000] = {0};
	uint64_t ticket;

	TRY(group_of_all(&g, world, size, err));
	if (rank == 1) {
		TRY(p4d_comm_send(g, 0, 3, data, sizeof(data), &ticket, err));
		return p4d_comm_send_wait(g, 0, 3, ticket, err);
	}
	usleep(50000);
	TRY(p4d_comm_recv(g, 1, 3, data, sizeof(data), err));
	if (p4d_comm_recv(g, 1, 3, data, sizeof(data), err) < 0 &&
	    strstr(err->text, "left while rank 0 was waiting"))
		return 0;
	CHECK(!"it waited, or gave another reason");
	return -1;
}

static void test_left(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		forked f;
		forked_init(&f, 2, i ? apart : NULL);
		forked_start(&f, leave_early);
		assert_true(forked_finish(&f, 20) && forked_all_well(&f));
	}
}

static int other_collective(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;
	float data[100] = {0};

	TRY(group_of_all(&g, world, size, err));
	if (rank == 2)
		TRY(p4d_comm_all_reduce(g, data, 100, P4D_DT_FP32, P4D_SUM, err));
	else
		TRY(p4d_comm_all_gather(g, data, data, 4, err));
	return p4d_comm_barrier(g, err);
}

static int other_size(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;
	float data[100] = {0};
	uint64_t ticket;

	TRY(group_of_all(&g, world, size, err));
	if (rank == 2)
		TRY(p4d_comm_send(g, 0, 0, data, 5, &ticket, err));
	if (rank == 0)
		TRY(p4d_comm_recv(g, 2, 0, data, 6, err));
	return p4d_comm_barrier(g, err);
}

static void test_disagreement(void **state)
{
	const forked_work works[] = {other_collective, other_size};

	(void)state;
	for (int i = 0; i < 4; i++) {
		forked f;
		forked_init(&f, 4, i % 2 ? apart : NULL);
		forked_start(&f, works[i / 2]);
		assert_true(forked_finish(&f, 20));
		for (uint32_t r = 0; r < 4; r++)
			assert_int_equal(f.ends[r].err.code, P4D_E_RANK);
	}
}

/* Rank 2 is stopped for longer than the idle timeout, but is not dead. */
static int be_stopped(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;

	TRY(group_of_all(&g, world, size, err));
	TRY(p4d_comm_barrier(g, err));
	if (rank == 2)
		raise(SIGSTOP);
	return p4d_comm_barrier(g, err);
}

/* Time limit of a step. All ranks must have reported after 3/4 to 9/10 of it, even on a busy machine. */
#define STEP_SECONDS 8

/* Rank 1 is stopped for good. Rank 3 computes and polls from time to time. The other ranks wait for rank
 * 1. */
static int hang(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;

	TRY(group_of_all(&g, world, size, err));
	TRY(p4d_comm_barrier(g, err));
	p4d_world_expect(world, "step 12", STEP_SECONDS);
	if (rank == 1)
		raise(SIGSTOP);
	for (int i = 0; rank == 3 && i < 200; i++) {
		TRY(p4d_world_failed(world, err) ? -1 : 0);
		usleep(10000);
	}
	return p4d_comm_barrier(g, err);
}

/* All ranks name the rank that hangs, and no other one. A slow rank does not count as hanging. */
static void test_hung(void **state)
{
	const uint32_t *places[] = {NULL, two_by_two, apart};
	forked all[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		forked_init(&all[i], 4, places[i]);
		forked_start(&all[i], hang);
	}
	for (int i = 0; i < 3; i++) {
		forked *f = &all[i];
		const double given_up = forked_now() + 0.9 * STEP_SECONDS;
		assert_false(forked_finish(f, i ? 1 : 2 * STEP_SECONDS)); /* ends the stopped rank, which must
									   * be killed */
		check_blame(f, 1, given_up, "hangs in step 12: process ");
		assert_null(strstr(f->ends[0].err.text, "others"));
	}
}

/* A rank is slower than expected, but alive. The rank that waits for it decides what to do. */
static int be_slow(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;

	TRY(group_of_all(&g, world, size, err));
	TRY(p4d_comm_barrier(g, err));
	p4d_world_expect(world, "step 12", STEP_SECONDS);
	for (int i = 0; rank == 1 && i < 125 * STEP_SECONDS; i++) {
		TRY(p4d_world_failed(world, err) ? -1 : 0);
		usleep(10000);
	}
	TRY(p4d_comm_barrier(g, err));
	p4d_world_expect(world, "the end", 0);
	if (rank == 2)
		usleep(500000);
	return p4d_comm_barrier(g, err);
}

static void test_slow(void **state)
{
	forked f;

	(void)state;
	forked_init(&f, 4, two_by_two);
	forked_start(&f, be_slow);
	assert_true(forked_finish(&f, 5 * STEP_SECONDS) && forked_all_well(&f));
}

/* These ranks start before all other tests, and the last test checks them, because they take long. */
static forked stopped;
static double stopped_since;

static int begin_stop(void **state)
{
	(void)state;
	forked_init(&stopped, 3, apart);
	stopped.ranks.idle_seconds = 3;
	forked_start(&stopped, be_stopped);
	wait_until_open(&stopped);
	stopped_since = forked_now();
	return 0;
}

static void test_stopped(void **state)
{
	const double left = stopped_since + 4.5 - forked_now();

	(void)state;
	if (left > 0)
		usleep((useconds_t)(1e6 * left));
	kill(stopped.pids[2], SIGCONT);
	assert_true(forked_finish(&stopped, 20) && forked_all_well(&stopped));
}

/* Number of this session's names in /dev/shm. Other processes may also have names there. */
static int names(const char *session)
{
	DIR *dir = opendir("/dev/shm");
	int count = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += strstr(entry->d_name, session) != NULL;
	closedir(dir);
	return count;
}

/* Kills all ranks at the same time, during their start and later. Shared memory of another session must
 * stay. */
static void test_nothing_left(void **state)
{
	char name[96];
	uint64_t draw = 5;
	forked f;

	(void)state;
	forked_init(&f, 4, NULL);
	snprintf(name, sizeof(name), "/p4d-%s", f.ranks.session);
	int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600), before = names(f.ranks.session);
	assert_true(fd >= 0 && write(fd, "stale", 6) == 6);
	for (int round = 0; round < 10; round++) {
		forked_start(&f, busy);
		usleep(forked_random(&draw) % 8000);
		for (uint32_t r = 0; r < 4; r++)
			kill(f.pids[r], SIGKILL);
		assert_true(forked_finish(&f, 20));
	}
	char text[7] = "";
	assert_int_equal(names(f.ranks.session), before);
	assert_int_equal(pread(fd, text, 7, 0), 6);
	assert_string_equal(text, "stale");
	close(fd);
	shm_unlink(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_killed),       cmocka_unit_test(test_killed_while_joining),
	    cmocka_unit_test(test_abort),        cmocka_unit_test(test_left),
	    cmocka_unit_test(test_disagreement), cmocka_unit_test(test_nothing_left),
	    cmocka_unit_test(test_hung),         cmocka_unit_test(test_slow),
	    cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests(tests, begin_stop, NULL);
}
