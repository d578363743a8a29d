/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers, addresses and shared key of ranks, from Slurm's environment, from a file and from the
 * command line. */
#include "support/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/rendezvous.h"

static const struct {
	const char *name, *value;
} good[] = {
    {"SLURM_JOB_ID", "4711"},
    {"SLURM_STEP_ID", "2"},
    {"SLURM_PROCID", "3"},
    {"SLURM_STEP_NUM_TASKS", "8"},
    {"SLURM_NODEID", "1"},
    {"SLURM_STEP_NODELIST", "h[07-09,12]"},
    {"SLURM_STEP_RESV_PORTS", "12000-12003"},
    {"P4D_JOB_KEY", "00112233445566778899aabbccddeeff"},
    {"SLURMD_NODENAME", "h08"},
    {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
};
static const char *changed, *changed_to, *also, *also_to;

/* A valid environment in which up to two variables are changed (NULL: unset). */
static char *environment(const char *name)
{
	if (changed && !strcmp(name, changed))
		return (char *)changed_to;
	if (also && !strcmp(name, also))
		return (char *)also_to;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!strcmp(name, good[i].name))
			return (char *)good[i].value;
	return NULL;
}

static int with(const char *name, const char *value, p4d_ranks *ranks, p4d_error *err)
{
	changed = name;
	changed_to = value;
	memset(err, 0, sizeof(*err));
	return p4d_ranks_from_slurm(ranks, environment, err);
}

static void test_slurm(void **state)
{
	p4d_ranks r;
	p4d_error err;

	(void)state;
	also = NULL;
	assert_int_equal(with(NULL, NULL, &r, &err), 0);
	assert_int_equal(r.rank, 3);
	assert_int_equal(r.size, 8);
	assert_int_equal(r.node, 1);
	assert_string_equal(r.host, "h07");
	assert_string_equal(r.other_host, "10.0.0.9");
	assert_string_equal(r.node_name, "h08");
	assert_string_equal(r.session, "4711.2.0");
	assert_int_equal(r.port, 12000);
	assert_int_equal(r.ports, 4);
	assert_true(r.join_seconds > 0 && r.idle_seconds >= 3);

	/* outside of job steps, Slurm sets only the old names of the variables */
	also = "SLURM_NTASKS";
	also_to = "16";
	assert_int_equal(with("SLURM_STEP_NUM_TASKS", NULL, &r, &err), 0);
	assert_int_equal(r.size, 16);
	also = "P4D_JOB_HOST";
	also_to = "192.0.2.1";
	assert_int_equal(with("SLURM_STEP_NODELIST", NULL, &r, &err), 0);
	assert_string_equal(r.host, "192.0.2.1");
	also = NULL;
	assert_int_equal(with("SLURM_RESTART_COUNT", "3", &r, &err), 0);
	assert_string_equal(r.session, "4711.2.3");
}

static void test_slurm_hosts(void **state)
{
	static const char *const lists[][2] = {
	    {"a", "a"},
	    {"a,b", "a"},
	    {"a-1.example.org,b", "a-1.example.org"},
	    {"n[3,5]", "n3"},
	    {"n[003-007,009],m", "n003"},
	    {"r[2-3]n[11-14]", "r2n11"},
	    {"n[1-2]-ib,x[1-9]", "n1-ib"},
	    {"x,n[1-2]", "x"},
	};
	static const char *const malformed[] = {"n[", "n[1", "n[]",    "n[a]",   "n[1-", ",a",  "[",
						"n]", "a b", "n[[1]]", "n[1]x[", "a;b",  "$(x)"};
	p4d_ranks r = {0}, before;
	p4d_error err;
	char longest[300];

	(void)state;
	also = NULL;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		assert_int_equal(with("SLURM_STEP_NODELIST", lists[i][0], &r, &err), 0);
		assert_string_equal(r.host, lists[i][1]);
	}
	before = r;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		if (with("SLURM_STEP_NODELIST", malformed[i], &r, &err) == 0)
			fail_msg("%s: %s", malformed[i], r.host);
		assert_int_equal(err.code, P4D_E_VALUE);
		assert_memory_equal(&r, &before, sizeof(r));
	}
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(r.host) - 1] = '\0';
	assert_int_equal(with("SLURM_STEP_NODELIST", longest, &r, &err), 0);
	assert_string_equal(r.host, longest);
	longest[sizeof(r.host) - 1] = 'a';
	longest[sizeof(r.host)] = '\0';
	assert_int_equal(with("SLURM_STEP_NODELIST", longest, &r, &err), -1);
	assert_int_equal(with("P4D_JOB_HOST", longest, &r, &err), -1);
}

static void test_slurm_malformed(void **state)
{
	static const struct {
		const char *name, *value;
		p4d_code code;
	} wrong[] = {
	    {"SLURM_STEP_ID", NULL, P4D_E_RANK},
	    {"SLURM_JOB_ID", "", P4D_E_RANK},
	    {"SLURM_PROCID", NULL, P4D_E_RANK},
	    {"SLURM_STEP_NUM_TASKS", NULL, P4D_E_RANK},
	    {"SLURM_NODEID", NULL, P4D_E_RANK},
	    {"SLURM_STEP_NODELIST", NULL, P4D_E_RANK},
	    {"SLURM_PROCID", "-1", P4D_E_VALUE},
	    {"SLURM_PROCID", "3x", P4D_E_VALUE},
	    {"SLURM_PROCID", " 3", P4D_E_VALUE},
	    {"SLURM_PROCID", "8", P4D_E_VALUE},
	    {"SLURM_PROCID", "4294967299", P4D_E_VALUE},
	    {"SLURM_STEP_NUM_TASKS", "0", P4D_E_VALUE},
	    {"SLURM_STEP_NUM_TASKS", "99999999999999999999", P4D_E_VALUE},
	    {"SLURM_JOB_ID", "4294967296", P4D_E_VALUE},
	    {"SLURM_NODEID", "0x1", P4D_E_VALUE},
	    {"SLURM_RESTART_COUNT", "two", P4D_E_VALUE},
	    {"SLURM_STEP_RESV_PORTS", "0", P4D_E_VALUE},
	    {"SLURM_STEP_RESV_PORTS", "-5", P4D_E_VALUE},
	    {"SLURM_STEP_RESV_PORTS", "70000", P4D_E_VALUE},
	    {"SLURM_STEP_RESV_PORTS", "12003-12000", P4D_E_VALUE},
	    {"SLURM_STEP_RESV_PORTS", "12000-", P4D_E_VALUE},
	    {"SLURM_STEP_RESV_PORTS", "12000/4", P4D_E_VALUE},
	    {"P4D_JOB_KEY", "0011223344556", P4D_E_VALUE},
	    {"P4D_JOB_KEY", "00112233445566zz", P4D_E_VALUE},
	    {"P4D_JOB_KEY", "0x11223344556677889900", P4D_E_VALUE},
	    {"P4D_JOB_KEY", "0123456789abcdef0123456789abcdef0", P4D_E_VALUE},
	    {"P4D_JOB_KEY", NULL, P4D_E_JOB_KEY},
	    {"SLURM_STEP_NUM_NODES", "two", P4D_E_VALUE},
	};
	p4d_ranks r, before;
	p4d_error err;

	(void)state;
	also = NULL;
	memset(&r, 0x5a, sizeof(r));
	before = r;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (with(wrong[i].name, wrong[i].value, &r, &err) == 0)
			fail_msg("%s=%s", wrong[i].name, wrong[i].value);
		if (err.code != wrong[i].code || !strstr(err.text, wrong[i].name))
			fail_msg("%s=%s: %d %s", wrong[i].name, wrong[i].value, err.code, err.text);
		assert_memory_equal(&r, &before, sizeof(r));
	}
	/* a message must not contain the key, even if it is malformed */
	with("P4D_JOB_KEY", "00112233445566zz", &r, &err);
	assert_null(strstr(err.text, "0011"));
}

static bool same_key(const p4d_ranks *one, const p4d_ranks *other)
{
	return !memcmp(&one->key, &other->key, sizeof(one->key));
}

static void test_slurm_keys(void **state)
{
	p4d_ranks one, other;
	p4d_error err;

	(void)state;
	also = NULL;
	with(NULL, NULL, &one, &err);
	with("P4D_JOB_KEY", "00112233445566778899AABBCCDDEEFF", &other, &err);
	assert_true(same_key(&one, &other) && !one.key_socket[0]);
	assert_true(one.key.word[0] == 0x0011223344556677 && one.key.word[1] == 0x8899aabbccddeeff);
	with("P4D_JOB_KEY", "00112233445566778899AABBCCDDEEFE", &other, &err);
	assert_false(same_key(&one, &other));
	/* all tasks have the same key and ports */
	also = "SLURM_STEP_RESV_PORTS";
	also_to = NULL;
	with("SLURM_PROCID", "0", &one, &err);
	with("SLURM_PROCID", "7", &other, &err);
	assert_true(same_key(&one, &other) && one.port == other.port && one.ports == other.ports);
	assert_true(one.port >= 20000 && one.port + one.ports <= 32000);
	/* another step of the same job has other ports and another key */
	with("SLURM_STEP_ID", "3", &other, &err);
	assert_true(one.port != other.port);
	p4d_comm_key joins[] = {p4d_rendezvous__join_key(&one), p4d_rendezvous__join_key(&other)};
	assert_memory_not_equal(&joins[0], &joins[1], sizeof(joins[0]));
}

/* Data that others can know is no key. Ranks on one node then use its local sockets, and ranks on several
 * nodes need a secret. */
static void test_slurm_without_key(void **state)
{
	p4d_ranks r, other;
	p4d_error err;

	(void)state;
	also = "P4D_JOB_KEY";
	also_to = NULL;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(with("SLURM_STEP_NUM_NODES", i ? "2" : NULL, &r, &err), -1);
		assert_int_equal(err.code, P4D_E_JOB_KEY);
		assert_non_null(strstr(err.fix, "P4D_JOB_KEY_FILE="));
	}
	assert_int_equal(with("SLURM_STEP_NUM_NODES", "1", &r, &err), 0);
	assert_string_equal(r.host, "127.0.0.1");
	assert_true(r.key_socket[0]);
	also = "SLURM_SRUN_COMM_PORT";
	also_to = "4242";
	changed = "P4D_JOB_KEY";
	with("SLURM_STEP_NUM_NODES", "1", &other, &err);
	assert_string_equal(other.key_socket, "");
}

static void write_key(const char *path, const char *text, unsigned mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_key_file(void **state)
{
	static const struct {
		const char *text;
		unsigned mode;
	} wrong[] = {
	    {"00112233445566778899aabbccddeeff\n", 0640}, {"00112233445566778899aabbccddeeff\n", 0604},
	    {"00112233445566778899aabbccddeef\n", 0600},  {"00112233445566778899aabbccddeeff0\n", 0600},
	    {"0x112233445566778899aabbccddeeff\n", 0600}, {"", 0600},
	};
	char path[] = "key.XXXXXX", link_to[32];
	p4d_ranks r, keyed;
	p4d_error err;

	(void)state;
	close(mkstemp(path));
	also = "P4D_JOB_KEY_FILE";
	also_to = path;
	assert_int_equal(with(NULL, NULL, &keyed, &err), 0);
	for (int newline = 0; newline < 2; newline++) {
		write_key(path,
			  newline ? "00112233445566778899AABBccddeeff\n" : "00112233445566778899aabbccddeeff",
			  newline ? 0600 : 0400);
		assert_int_equal(with("P4D_JOB_KEY", NULL, &r, &err), 0);
		assert_true(same_key(&r, &keyed));
		unlink(path);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_key(path, wrong[i].text, wrong[i].mode);
		if (with("P4D_JOB_KEY", NULL, &r, &err) == 0 || err.code != P4D_E_JOB_KEY ||
		    strstr(err.text, "0011"))
			fail_msg("file %zu: %d %s", i, err.code, err.text);
		assert_true(wrong[i].mode == 0600 || strstr(err.fix, "chmod 600"));
		unlink(path);
	}
	write_key(path, "00112233445566778899aabbccddeeff\n", 0600);
	snprintf(link_to, sizeof(link_to), "%s.link", path);
	assert_int_equal(symlink(path, link_to), 0);
	also_to = link_to;
	assert_int_equal(with("P4D_JOB_KEY", NULL, &r, &err), -1);
	unlink(link_to);
	unlink(path);
	/* opening a pipe does not wait for a writer */
	assert_int_equal(mkfifo(link_to, 0600), 0);
	assert_int_equal(with("P4D_JOB_KEY", NULL, &r, &err), -1);
	unlink(link_to);
	also = NULL;
}

static void test_local(void **state)
{
	p4d_ranks one, other;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_ranks_local(&one, 4, &err), 0);
	assert_int_equal(p4d_ranks_local(&other, 4, &err), 0);
	assert_false(same_key(&one, &other));
	assert_string_not_equal(one.session, other.session);
	assert_string_equal(one.host, "127.0.0.1");
	assert_int_equal(one.size, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_slurm),
	    cmocka_unit_test(test_slurm_hosts),
	    cmocka_unit_test(test_slurm_malformed),
	    cmocka_unit_test(test_slurm_keys),
	    cmocka_unit_test(test_slurm_without_key),
	    cmocka_unit_test(test_key_file),
	    cmocka_unit_test(test_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
