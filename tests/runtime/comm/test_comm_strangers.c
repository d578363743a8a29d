/* SPDX-License-Identifier: Apache-2.0 */
/* Other runs, other users and occupied ports while ranks connect. */
#include "support/comm_failures.h"

#include <sys/resource.h>

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

/* Limits open files to those that the listener and a few ports need. */
static void few_files(p4d_ranks *ranks)
{
	const int next = dup(0);
	struct rlimit limit = {(rlim_t)next + 5, (rlim_t)next + 5};

	close(next);
	if (ranks->rank == 0 && setrlimit(RLIMIT_NOFILE, &limit) < 0)
		_exit(1);
}

static void test_few_files(void **state)
{
	forked f;

	(void)state;
	forked_init(&f, 16, NULL);
	f.ranks.join_seconds = 2;
	f.change = few_files;
	forked_start(&f, nothing);
	assert_true(forked_finish(&f, 20));
	assert_int_equal(f.ends[0].err.code, P4D_E_RANK);
	if (!strstr(f.ends[0].err.text,
		    "the limit on open files (ulimit -n) of rank 0 (n0) is too low for 16 ranks") ||
	    strcmp(f.ends[0].err.fix, "ulimit -n 192") != 0)
		fail_msg("%s; %s", f.ends[0].err.text, f.ends[0].err.fix);
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
				    "of 4, but rank 0 expects 3 ranks", "two processes joined as rank 1"};

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
		if (i < 2 && !strstr(f[i].ends[2].err.text, "refused the key of this job"))
			fail_msg("%s", f[i].ends[2].err.text);
	}
}

/* Two jobs use the same ports. Other processes connect and send nothing or random bytes. */
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

/* Finds the name of the local socket on which a process is listening; "": none yet. */
static void local_name(pid_t pid, char name[64])
{
	char line[512], path[64], target[64], bound[64];
	unsigned long inode;
	FILE *sockets = fopen("/proc/net/unix", "r");

	name[0] = '\0';
	assert_non_null(sockets);
	while (!name[0] && fgets(line, sizeof(line), sockets)) {
		/* flags 10000: the socket accepts connections */
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

/* Connections that send nothing stay open, but do not delay the ranks. */
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

/* Takes the first socket name, as another user if this process may. Writes a byte to report that rank 0
 * gave it no key. Then gives a key of its own to each process that asks, until it is killed. */
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
	/* rank 0 has moved to the next name */
	CHECK(read(asked, &byte, 1) == 1);
	snprintf(name, sizeof(name), "%s.1", socket_name);
	int to = connect_local(name);
	CHECK(to >= 0 && read(to, &byte, 1) == 0);
	CHECK(write(ready, &byte, 1) == 1);
	for (int client; (client = accept(fd, NULL, NULL)) >= 0; close(client))
		(void)!send(client, &(p4d_comm_key){{1, 2}}, sizeof(p4d_comm_key), MSG_NOSIGNAL);
	_exit(FORKED_WRONG);
}

/* If no key is configured, rank 0 gives its key to processes of its own user only. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_missing),         cmocka_unit_test(test_few_files),
	    cmocka_unit_test(test_no_rank_0),       cmocka_unit_test(test_not_ours),
	    cmocka_unit_test(test_crowded_ports),   cmocka_unit_test(test_silent_strangers),
	    cmocka_unit_test(test_key_of_one_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
