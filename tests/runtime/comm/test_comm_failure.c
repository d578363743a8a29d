/* SPDX-License-Identifier: Apache-2.0 */
/* Failures between ranks: joining, dying, leaving early, mismatched calls. All get the cause, in time. */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "comm/wire.h"
#include "support/forked.h"

static const uint32_t two_by_two[] = {0, 0, 1, 1}, two_by_four[] = {0, 0, 0, 0, 1, 1, 1, 1};
static const uint32_t apart[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const double PROMISED = 5; /* seconds until all have noticed */

/* May fail already: others are killed at any moment. */
static int group_of_all(p4d_group **group, p4d_world *world, uint32_t size, p4d_error *err)
{
	uint32_t ranks[FORKED_MOST];

	for (uint32_t i = 0; i < size; i++)
		ranks[i] = i;
	return p4d_group_open(group, world, ranks, size, err);
}

/* All kinds of traffic, until it fails. */
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

static double slowest; /* of all ranks that had to notice */

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

/* At any moment of the start, rank 0 included: the others end, one way or another, and none waits to the end.
 * Most of it is waiting: three rounds wait at once, so that their ranks get to run. */
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

/* Rank 1 aborts; rank 0 waits for it, rank 2 for rank 0, rank 3 computes and polls now and then. */
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

/* What was sent arrives although the sender left; nobody waits for what was not. */
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

static int nothing(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;

	(void)rank;
	TRY(group_of_all(&g, world, size, err));
	return p4d_comm_barrier(g, err);
}

static void test_missing(void **state)
{
	forked f;

	(void)state;
	forked_init(&f, 8, two_by_four);
	f.ranks.join_seconds = 2;
	for (uint32_t r = 0; r < 8; r++)
		if (r != 2 && r != 5 && r != 6 && r != 7)
			forked_rank(&f, r, nothing);
	assert_true(forked_finish(&f, 20));
	for (uint32_t r = 0; r < 5; r++) {
		if (r == 2)
			continue;
		assert_int_equal(f.ends[r].err.code, P4D_E_RANK);
		if (!strstr(f.ends[r].err.text, "4 of 8 ranks did not join rank 0 (n0)") ||
		    !strstr(f.ends[r].err.text, ": 2, 5-7"))
			fail_msg("rank %u: %s", r, f.ends[r].err.text);
	}
}

static void test_no_rank_0(void **state)
{
	forked f;

	(void)state;
	forked_init(&f, 2, NULL);
	f.ranks.join_seconds = 0.3;
	forked_rank(&f, 1, nothing);
	assert_true(forked_finish(&f, 20));
	assert_int_equal(f.ends[1].err.code, P4D_E_RANK);
	assert_non_null(strstr(f.ends[1].err.text, "rank 1 (n0) could not join"));
	assert_non_null(strstr(f.ends[1].err.text, "rank 0 at 127.0.0.1:"));
}

static void other_key(p4d_ranks *ranks)
{
	ranks->key.word[1] ^= ranks->rank == 2;
}

static void other_session(p4d_ranks *ranks)
{
	if (ranks->rank == 2)
		snprintf(ranks->session, sizeof(ranks->session), "17.0.0");
}

static void other_count(p4d_ranks *ranks)
{
	ranks->size += ranks->rank == 2;
}

static void same_rank(p4d_ranks *ranks)
{
	ranks->rank -= ranks->rank == 2;
}

static void test_not_ours(void **state)
{
	void (*const changes[])(p4d_ranks *) = {other_key, other_session, other_count, same_rank};
	const char *const said[] = {"a process with another key came from 127.0.0.1:",
				    "a process with another key came from 127.0.0.1:",
				    "of 4, rank 0 expects 3", "two processes joined as rank 1"};

	forked f[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		forked_init(&f[i], 3, NULL);
		f[i].ranks.join_seconds = 2;
		f[i].change = changes[i];
		forked_start(&f[i], nothing);
	}
	for (int i = 0; i < 4; i++) {
		assert_true(forked_finish(&f[i], 20));
		for (uint32_t r = 0; r < 3; r++)
			assert_int_equal(f[i].ends[r].err.code, P4D_E_RANK);
		if (!strstr(f[i].ends[0].err.text, said[i]))
			fail_msg("%s", f[i].ends[0].err.text);
		if (i < 2 && !strstr(f[i].ends[2].err.text, "refused this job's key"))
			fail_msg("%s", f[i].ends[2].err.text);
	}
}

/* Two jobs with the same ports, and connections that send nothing or garbage. */
static void test_crowded_ports(void **state)
{
	enum { OTHERS = 5 };
	int others[OTHERS];
	p4d_wire_address to;
	forked f, g;

	(void)state;
	forked_init(&f, 3, apart);
	forked_init(&g, 3, NULL);
	g.ranks.port = f.ranks.port;
	forked_rank(&f, 0, nothing);
	forked_rank(&g, 0, nothing);
	usleep(50000);
	for (int i = 0; i < OTHERS; i++) {
		assert_int_equal(p4d_wire__address_resolve(&to, 1, "127.0.0.1"), 1);
		to.port = f.ranks.port;
		others[i] = p4d_wire__dial(&to);
		assert_true(others[i] >= 0);
		if (i % 2)
			(void)!send(others[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
	}
	for (uint32_t r = 1; r < 3; r++) {
		forked_rank(&f, r, nothing);
		forked_rank(&g, r, nothing);
	}
	assert_true(forked_finish(&f, 20) && forked_finish(&g, 20));
	assert_true(forked_all_well(&f) && forked_all_well(&g));
	for (int i = 0; i < OTHERS; i++)
		close(others[i]);
}

/* The name of the local socket that a process is listening on; "": none yet. */
static void local_name(pid_t pid, char name[64])
{
	char line[512], path[64], target[64], bound[64];
	unsigned long inode;
	FILE *sockets = fopen("/proc/net/unix", "r");

	name[0] = '\0';
	assert_non_null(sockets);
	while (!name[0] && fgets(line, sizeof(line), sockets)) {
		/* flags 10000: it accepts connections */
		if (sscanf(line, "%*s %*s %*s 00010000 %*s %*s %lu @%63s", &inode, bound) != 2)
			continue;
		snprintf(path, sizeof(path), "socket:[%lu]", inode);
		for (int fd = 3; fd < 32 && !name[0]; fd++) {
			char at[64];
			snprintf(at, sizeof(at), "/proc/%d/fd/%d", (int)pid, fd);
			ssize_t n = readlink(at, target, sizeof(target) - 1);
			if (n > 0 && !strncmp(target, path, (size_t)n) && !path[n])
				snprintf(name, 64, "%s", bound);
		}
	}
	fclose(sockets);
}

static int connect_local(const char *name)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t length = strlen(name);

	memcpy(to.sun_path + 1, name, length);
	if (connect(fd, (struct sockaddr *)&to,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Connections that say nothing wait beside the ranks, not before them. */
static void test_silent_strangers(void **state)
{
	enum { STRANGERS = 12 };
	int strangers[STRANGERS];
	char name[64] = "";
	forked f;

	(void)state;
	forked_init(&f, 3, NULL);
	double since = forked_now();
	forked_rank(&f, 0, nothing);
	for (int i = 0; i < 2000 && !name[0]; i++) {
		usleep(1000);
		local_name(f.pids[0], name);
	}
	for (int i = 0; i < STRANGERS; i++) {
		strangers[i] = connect_local(name);
		assert_true(strangers[i] >= 0);
	}
	forked_rank(&f, 1, nothing);
	forked_rank(&f, 2, nothing);
	assert_true(forked_finish(&f, 20) && forked_all_well(&f));
	for (uint32_t r = 0; r < 3; r++)
		if (f.ends[r].opened - since > 1.9)
			fail_msg("rank %u had joined after %.1f s", r, f.ends[r].opened - since);
	for (int i = 0; i < STRANGERS; i++)
		close(strangers[i]);
}

static void forget_key(p4d_ranks *ranks)
{
	memset(&ranks->key, (int)ranks->rank, sizeof(ranks->key));
}

/*
 * Takes the first name as another user (where this test may), says with one byte that rank 0 gave it no key,
 * and gives a key of its own to whoever asks, until it is killed.
 */
static pid_t be_another_user(const char *socket_name, int ready, int asked)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char name[128], byte = 0;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	int length = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "%s.0", socket_name);

	CHECK(setuid(65534) == 0);
	CHECK(bind(fd, (struct sockaddr *)&at,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0 &&
	      listen(fd, 16) == 0);
	CHECK(write(ready, &byte, 1) == 1);
	/* rank 0 has the next name by now */
	CHECK(read(asked, &byte, 1) == 1);
	snprintf(name, sizeof(name), "%s.1", socket_name);
	int to = connect_local(name);
	CHECK(to >= 0 && read(to, &byte, 1) == 0);
	CHECK(write(ready, &byte, 1) == 1);
	for (int client; (client = accept(fd, NULL, NULL)) >= 0; close(client))
		(void)!send(client, &(p4d_comm_key){{1, 2}}, sizeof(p4d_comm_key), MSG_NOSIGNAL);
	_exit(FORKED_WRONG);
}

/* Without a key: rank 0 gives one to its own user's processes, and to nobody else. */
static void test_key_of_one_node(void **state)
{
	int ready[2], asked[2];
	char byte;
	forked f;

	(void)state;
	forked_init(&f, 4, NULL);
	f.change = forget_key;
	snprintf(f.ranks.key_socket, sizeof(f.ranks.key_socket), "p4dt%d", getpid());
	forked_start(&f, nothing);
	assert_true(forked_finish(&f, 20) && forked_all_well(&f));

	if (geteuid()) {
		print_message("not root: cannot be another user\n");
		return;
	}
	assert_true(!pipe(ready) && !pipe(asked));
	pid_t other = be_another_user(f.ranks.key_socket, ready[1], asked[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	forked_rank(&f, 0, nothing);
	usleep(100000);
	assert_int_equal(write(asked[1], &byte, 1), 1);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	for (uint32_t r = 1; r < 4; r++)
		forked_rank(&f, r, nothing);
	assert_true(forked_finish(&f, 20) && forked_all_well(&f));
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(waitpid(other, NULL, 0), other);
	close(ready[0]);
	close(asked[0]);
	close(asked[1]);
}

/* Rank 2 stops for longer than the idle timeout, but is not dead. */
static int be_stopped(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	p4d_group *g;

	TRY(group_of_all(&g, world, size, err));
	TRY(p4d_comm_barrier(g, err));
	if (rank == 2)
		raise(SIGSTOP);
	return p4d_comm_barrier(g, err);
}

/* It is begun before all other tests, and looked at behind them. */
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

/* Names in /dev/shm of a session: others may be running beside this test. */
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

/* All are killed at once, during and after the start; another session's memory is unchanged. */
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
	    cmocka_unit_test(test_killed),
	    cmocka_unit_test(test_killed_while_joining),
	    cmocka_unit_test(test_abort),
	    cmocka_unit_test(test_left),
	    cmocka_unit_test(test_disagreement),
	    cmocka_unit_test(test_missing),
	    cmocka_unit_test(test_no_rank_0),
	    cmocka_unit_test(test_not_ours),
	    cmocka_unit_test(test_crowded_ports),
	    cmocka_unit_test(test_nothing_left),
	    cmocka_unit_test(test_silent_strangers),
	    cmocka_unit_test(test_key_of_one_node),
	    cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests(tests, begin_stop, NULL);
}
