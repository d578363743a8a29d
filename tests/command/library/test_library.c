/* SPDX-License-Identifier: Apache-2.0 */
/* libp4d.so inside another program: threads, the program's getopt and locale, no output, and errors in
 * queries. The kernel kills a quick query that accesses a file. */
#include <fcntl.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <p4d.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

enum { THREADS = 8, ROUNDS = 6 };

static p4d_reply *ask(const char *const *words)
{
	p4d_query *query = p4d_query_new(words[0]);

	for (words++; *words; words++)
		assert_int_equal(p4d_query_word(query, *words), 0);
	p4d_reply *reply = p4d_query_run(query);
	assert_non_null(reply);
	p4d_query_free(query);
	return reply;
}

#define ASK(...) ask((const char *const[]){__VA_ARGS__, NULL})

static void test_estimate(void **state)
{
	(void)state;
	p4d_reply *fits = ASK("estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", "--tp=8"),
		  *large = ASK("estimate", "llama3-70b", "--gpu=h100-80gb", "--gpus=8", "--tp=8", "--pp=1");
	double need = 0, have = 0, tp = 0;

	assert_string_equal(p4d_reply_verdict(fits), "pass");
	assert_int_equal(p4d_reply_code(fits), 0);
	assert_string_equal(p4d_reply_verdict(large), "reject");
	assert_int_equal(p4d_reply_code(large), 12);
	assert_int_equal(p4d_reply_messages(large), 1);
	assert_int_equal(p4d_reply_message_code(large, 0), 12);
	assert_non_null(strstr(p4d_reply_message_text(large, 0), "needs"));
	assert_non_null(strstr(p4d_reply_message_fix(large, 0), "--"));
	assert_int_equal(p4d_reply_number(large, "/peak/device_bytes", &need), 0);
	assert_int_equal(p4d_reply_number(large, "/gpu/usable_bytes", &have), 0);
	assert_true(need > have && have > 79e9);
	assert_int_equal(p4d_reply_number(large, "/layout/tp", &tp), 0);
	assert_float_equal(tp, 8, 0);
	assert_string_equal(p4d_reply_text(large, "/framework"), "p4d");
	assert_null(p4d_reply_text(large, "/layout/tp"));
	assert_null(p4d_reply_text(large, "/nothing"));
	assert_null(p4d_reply_text(large, NULL));
	assert_int_equal(p4d_reply_number(large, "/framework", &tp), -1);
	assert_int_equal(p4d_reply_message_code(large, 1), 0);
	assert_null(p4d_reply_message_text(large, 1));
	p4d_reply_free(fits);
	p4d_reply_free(large);
}

static void test_plan(void **state)
{
	(void)state;
	p4d_reply *reply = ASK("plan", "llama3-8b", "--gpu", "h100-80gb", "--gpus", "8");

	assert_int_equal(p4d_reply_code(reply), 0);
	assert_null(p4d_reply_verdict(reply));
	assert_non_null(p4d_reply_text(reply, "/plans/0/flags"));
	p4d_reply_free(reply);
}

/* A job with two components, and a script that submits another script: the reply has the messages of all
 * jobs. */
static void test_messages_of_all_jobs(void **state)
{
	static const char script[] =
	    "#!/bin/bash\n"
	    "#SBATCH -N1 --gpus-per-node=8 --p4d-model=llama3-70b --p4d-tp=8 --p4d-pp=1\n"
	    "#SBATCH hetjob\n"
	    "#SBATCH -N1 --gpus-per-node=8 --p4d-model=llama3-70b --p4d-tp=8 --p4d-pp=1\n"
	    "srun p4d-train\n";
	p4d_query *query = p4d_query_new("check");

	(void)state;
	assert_int_equal(p4d_query_word(query, "--gpu=h100-80gb"), 0);
	assert_int_equal(p4d_query_script(query, "het.sh", script, strlen(script)), 0);
	p4d_reply *reply = p4d_query_run(query);
	assert_string_equal(p4d_reply_verdict(reply), "reject");
	assert_int_equal(p4d_reply_messages(reply), 2);
	assert_int_equal(p4d_reply_message_code(reply, 0), p4d_reply_code(reply));
	assert_int_equal(p4d_reply_message_code(reply, 1), p4d_reply_code(reply));
	p4d_reply_free(reply);
	p4d_query_free(query);
}

/* Each query gets a reply with a code, a text and a fix. */
static void test_errors(void **state)
{
	(void)state;
	const struct {
		p4d_reply *reply;
		const char *text;
	} of[] = {
	    {ASK("simulate"), "libp4d has no command \"simulate\""},
	    {ASK("estimate", "llama3-8b", "--tp=none"), "--tp"},
	    {ASK("estimate", "no-such-model-7b"), "no-such-model"},
	    {ASK("estimate", "--help"), "prints neither help"},
	    {ASK("plan", "llama3-8b", "--gpu=h100-80gb", "--env"), "prints neither help"},
	    {ASK("estimate", "llama3-8b", "--svg=/tmp/p4d.svg"), "unknown option --svg"},
	    {ASK("check", "--help", "job.sh"), "no help text"},
	    {ASK("check", "/nonexistent/job.sh"), "/nonexistent/job.sh"},
	    {ASK("check", "--p4d-tp=x", "--wrap=true", "job.sh"), "--wrap"},
	    {ASK("check", "--gpu=h100-80gb"),
	     "no job script given"}, /* standard input belongs to the program */
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		assert_string_equal(p4d_reply_verdict(of[i].reply), "error");
		assert_true(p4d_reply_code(of[i].reply) > 0);
		assert_int_equal(p4d_reply_message_code(of[i].reply, 0), p4d_reply_code(of[i].reply));
		assert_non_null(strstr(p4d_reply_message_text(of[i].reply, 0), of[i].text));
		p4d_reply_free(of[i].reply);
	}
}

static void test_nothing_given(void **state)
{
	p4d_query *query = p4d_query_new("check");

	(void)state;
	assert_null(p4d_query_new(NULL));
	assert_null(p4d_query_run(NULL));
	assert_int_equal(p4d_query_word(query, NULL), -1);
	assert_int_equal(p4d_query_word(NULL, "x"), -1);
	assert_int_equal(p4d_query_script(query, "x", NULL, 1), -1);
	assert_int_equal(p4d_query_script(query, NULL, "x", 1), -1);
	assert_int_equal(p4d_query_script(query, "x", "x", SIZE_MAX), -1);
	assert_int_equal(p4d_query_directory(query, NULL), -1);
	assert_int_equal(p4d_query_environment(query, NULL), -1);
	p4d_query_free(query);
	p4d_query_free(NULL);
	p4d_reply_free(NULL);
}

/* In a command line, these names would be options or files. In p4d_query_script they are only names. */
static void test_names_of_scripts(void **state)
{
	static const char *const names[] = {"--help", ":", "", "-", "a b;$(c)"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		p4d_query *query = p4d_query_new("check");
		assert_int_equal(p4d_query_script(query, names[i], "#!/bin/sh\ntrue\n", 15), 0);
		assert_int_equal(p4d_query_word(query, "--help"), 0); /* this is an argument of the script */
		p4d_reply *reply = p4d_query_run(query);
		assert_string_equal(p4d_reply_verdict(reply), "pass");
		p4d_reply_free(reply);
		p4d_query_free(query);
	}
}

static void *ask_often(void *expected)
{
	for (int i = 0; i < ROUNDS; i++) {
		p4d_reply *reply =
		    ASK("estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", i % 2 ? "--tp=8" : "--tp=4");
		const char *const *want = expected;
		assert_string_equal(p4d_reply_json(reply), want[i % 2]);
		p4d_reply_free(reply);
	}
	return expected;
}

static void test_threads(void **state)
{
	p4d_reply *four = ASK("estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", "--tp=4"),
		  *eight = ASK("estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", "--tp=8");
	const char *want[2] = {p4d_reply_json(four), p4d_reply_json(eight)};
	pthread_t thread[THREADS];
	void *done;

	(void)state;
	assert_string_not_equal(want[0], want[1]);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask_often, want), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], &done), 0);
		assert_ptr_equal(done, want);
	}
	p4d_reply_free(four);
	p4d_reply_free(eight);
}

static void test_state_of_the_program(void **state)
{
	char *argv[] = {"program", "-a", "-b", NULL}, at[] = "at";

	(void)state;
	assert_int_equal(getopt(3, argv, "ab"), 'a');
	opterr = 1;
	optarg = at;
	const int before = optind;
	const char *own = setlocale(
	    LC_ALL, "de_DE.UTF-8"); /* its decimal sign is a comma, if this machine has the locale */
	p4d_reply *reply = ASK("estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", "--lora-rank=8",
			       "--finetune=lora", "--framework=ddp");
	assert_null(strstr(p4d_reply_json(reply), "GiB") ? strstr(p4d_reply_json(reply), ",0 GiB") : NULL);
	p4d_reply_free(reply);
	assert_true(!own || !strcmp(setlocale(LC_ALL, NULL), "de_DE.UTF-8"));
	setlocale(LC_ALL, "C");
	assert_int_equal(optind, before);
	assert_int_equal(opterr, 1);
	assert_ptr_equal(optarg, at);
}

/* stdout and stderr are files here, which have to stay empty. */
static void test_prints_nothing(void **state)
{
	char path[] = "/tmp/p4d-library.XXXXXX";
	const int file = mkstemp(path), out = dup(STDOUT_FILENO), messages = dup(STDERR_FILENO);

	(void)state;
	fflush(stdout);
	fflush(stderr);
	dup2(file, STDOUT_FILENO);
	dup2(file, STDERR_FILENO);
	p4d_reply *replies[] = {
	    ASK("estimate", "llama3-70b", "--gpu=h100-80gb", "--gpus=8", "--tp=8", "--pp=1", "--verbose"),
	    ASK("estimate", "llama3-8b", "--gpu=l40s", "--workload=serve"),
	    ASK("estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", "--workload=preference"),
	    ASK("estimate", "--help"),
	    ASK("estimate", "nothing"),
	    ASK("plan", "llama3-8b", "--gpu=h100-80gb"),
	    ASK("plan", "llama3-8b", "--partitions=all"),
	    ASK("check", "--gpu=h100-80gb", "-N1", "--gpus-per-node=8", "--p4d-model=llama3-70b",
		"--p4d-tp=8", "--p4d-verbose", "--wrap=srun p4d-train"),
	    ASK("check", "--nothing"),
	};
	fflush(stdout);
	fflush(stderr);
	dup2(out, STDOUT_FILENO);
	dup2(messages, STDERR_FILENO);
	assert_int_equal(lseek(file, 0, SEEK_END), 0);
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++)
		p4d_reply_free(replies[i]);
	close(file);
	close(out);
	close(messages);
	unlink(path);
}

static p4d_reply *ask_quickly(const char *const *words)
{
	p4d_query *query = p4d_query_new(words[0]);
	int failed = p4d_query_quick(query);

	for (words++; *words; words++)
		failed |= p4d_query_word(query, *words);
	p4d_reply *reply = failed ? NULL : p4d_query_run(query);
	p4d_query_free(query);
	return reply;
}

#define QUICKLY(...) ask_quickly((const char *const[]){__VA_ARGS__, NULL})

/* From here on, a system call other than those for memory and for the end of the process kills the process.
 */
static bool forbid_files(void)
{
	static const unsigned allowed[] = {SYS_mmap,    SYS_munmap,   SYS_mremap, SYS_brk,
					   SYS_madvise, SYS_mprotect, SYS_futex,  SYS_exit_group};
	enum { ALLOWED = sizeof(allowed) / sizeof(*allowed) };
	struct sock_filter rule[ALLOWED + 3] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	const struct sock_fprog program = {ALLOWED + 3, rule};

	for (unsigned i = 0; i < ALLOWED; i++)
		rule[1 + i] =
		    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], ALLOWED - i, 0);
	rule[ALLOWED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL);
	rule[ALLOWED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/*
 * Asks quick queries with words that name files. Returns the number of the query whose reply is wrong; 0:
 * none.
 */
static int ask_without_files(void)
{
	static const struct {
		const char *word[6], *verdict, *text;
	} of[] = {
	    {{"estimate", "llama3-8b", "--gpu=h100-80gb", "--gpus=8", "--tp=8"}, "pass", ""},
	    {{"estimate", "meta-llama/Llama-3.1-8B", "--gpu=l40s", "--framework=ddp"}, "reject", "needs"},
	    {{"estimate", "llama3-8b", "--gpu=l40s", "--workload=serve"}, "pass", ""},
	    {{"estimate", "llama3-8b", "--gpu=l40s", "--workload=rl"}, "reject", "generates"},
	    {{"estimate", "nobody/nothing-7b", "--gpu=l40s"}, "error", "unknown model"},
	    {{"estimate", "nothing-7b", "--gpu=l40s"}, "error", "unknown model"},
	    {{"estimate", "/etc/passwd", "--gpu=l40s"}, "error", "reads no model files"},
	    {{"estimate", "model/config.json", "--gpu=l40s"}, "error", "reads no model files"},
	    {{"estimate", "custom", "--gpu=l40s"}, "error", "the model lacks"},
	    {{"estimate", "--gpu=l40s"}, "error", "no model"},
	    {{"estimate", "llama3-8b", "--conf=/etc/passwd"}, "error", "--conf"},
	    {{"estimate", "llama3-8b", "--gpu=l40s", "--micro-batch=auto"}, "error", "--micro-batch"},
	    {{"plan", "llama3-8b", "--gpu=l40s"}, "error", "no quick command \"plan\""},
	    {{"check", "--wrap=true"}, "error", "no quick command \"check\""},
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		p4d_reply *reply = ask_quickly(of[i].word);
		const char *text = reply ? p4d_reply_message_text(reply, 0) : NULL;
		if (!reply || strcmp(p4d_reply_verdict(reply), of[i].verdict) != 0 ||
		    !strstr(text ? text : "", of[i].text))
			return (int)i + 1;
		p4d_reply_free(reply);
	}
	return 0;
}

static void test_quick_reads_no_file(void **state)
{
	int status;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	const bool makes_calls = true; /* the address sanitizer makes system calls of its own */
#else
	const bool makes_calls = false;
#endif
	if (makes_calls)
		skip();
	const pid_t child = fork();
	if (child == 0)
		_exit(forbid_files() ? ask_without_files() : 100);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status)); /* otherwise a system call killed the process */
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A quick reply equals the command's reply, except the parts that need a search or a simulated step. */
static void test_quick(void **state)
{
	p4d_reply *slow = ASK("estimate", "llama3-70b", "--gpu=h100-80gb", "--gpus=8"),
		  *quick = QUICKLY("estimate", "llama3-70b", "--gpu=h100-80gb", "--gpus=8");
	double need[2] = {0, 0}, seconds;

	(void)state;
	assert_int_equal(p4d_query_quick(NULL), -1);
	assert_int_equal(p4d_reply_number(slow, "/peak/device_bytes", &need[0]), 0);
	assert_int_equal(p4d_reply_number(quick, "/peak/device_bytes", &need[1]), 0);
	assert_float_equal(need[0], need[1], 0);
	assert_int_equal(p4d_reply_code(quick), p4d_reply_code(slow));
	assert_non_null(p4d_reply_message_fix(slow, 0));
	assert_null(p4d_reply_message_fix(quick, 0));
	assert_int_equal(p4d_reply_number(slow, "/step/seconds", &seconds), 0);
	assert_int_equal(p4d_reply_number(quick, "/step/seconds", &seconds), -1);
	p4d_reply_free(slow);
	p4d_reply_free(quick);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_estimate),
	    cmocka_unit_test(test_plan),
	    cmocka_unit_test(test_messages_of_all_jobs),
	    cmocka_unit_test(test_errors),
	    cmocka_unit_test(test_nothing_given),
	    cmocka_unit_test(test_names_of_scripts),
	    cmocka_unit_test(test_threads),
	    cmocka_unit_test(test_state_of_the_program),
	    cmocka_unit_test(test_prints_nothing),
	    cmocka_unit_test(test_quick),
	    cmocka_unit_test(test_quick_reads_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
