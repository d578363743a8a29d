/* SPDX-License-Identifier: Apache-2.0 */
/* p4d reads command lines, environments and #SBATCH lines as sbatch does. */
#include "support/sbatch_words.h"

static p4d_error arguments_fail(const char *one, const char *two)
{
	char *words[] = {(char *)"check", (char *)one, (char *)two, NULL};
	p4d_sbatch sbatch = {0};
	p4d_error err = {0};
	int operand = -1;

	assert_int_equal(p4d_sbatch_arguments(&sbatch, two ? 3 : 2, words, &operand, &err), -1);
	assert_int_equal(err.code, P4D_E_USAGE);
	assert_int_equal(operand, -1);
	p4d_sbatch_free(&sbatch);
	return err;
}

static void finds_the_script_behind_the_options(void **state)
{
	static const struct {
		const char *line, *operand;
	} cases[] = {
	    {"job.sh", "job.sh"},
	    {"job.sh -N 4", "job.sh"},
	    {"-N4 job.sh", "job.sh"},
	    {"-N 4 job.sh", "job.sh"},
	    {"--nodes 4 job.sh", "job.sh"},
	    {"--nodes=4 job.sh", "job.sh"},
	    {"-H job.sh", "job.sh"},
	    {"-HOk job.sh", "job.sh"},
	    {"-HN 4 job.sh", "job.sh"},
	    {"-t 1:00 -J name -o out -e err -d afterok:1 -w n1 -x n2 job.sh", "job.sh"},
	    {"--exclusive job.sh", "job.sh"},
	    {"--nice job.sh", "job.sh"},
	    {"--get-user-env job.sh", "job.sh"},
	    {"--p4d-tp 8 job.sh", "job.sh"},
	    {"--p4d-fix job.sh", "job.sh"},
	    {"-- job.sh", "job.sh"},
	    {"-N2 : -N3 job.sh", ":"},
	    {"-N2", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		assert_string_equal(arguments(&sbatch, cases[i].line), cases[i].operand);
		p4d_sbatch_free(&sbatch);
	}
}

static void reads_what_decides_where_a_job_runs(void **state)
{
	p4d_sbatch sbatch = {0};

	(void)state;
	arguments(&sbatch, "-A acct -q large --reservation=week -p h100,a100 -C h100&ib -N2-4 -n 16 "
			   "--ntasks-per-node=8 -c 4 "
			   "--gres=lustre:1,gpu:h100:4 --mem=16G --exclusive job.sh");
	understand(&sbatch);
	assert_string_equal(sbatch.job.account, "acct");
	assert_string_equal(sbatch.job.qos, "large");
	assert_string_equal(sbatch.job.reservation, "week");
	assert_string_equal(sbatch.job.partition, "h100,a100");
	assert_string_equal(sbatch.job.constraint, "h100&ib");
	assert_int_equal(sbatch.job.min_nodes, 2);
	assert_int_equal(sbatch.job.max_nodes, 4);
	assert_int_equal(sbatch.job.tasks, 16);
	assert_int_equal(sbatch.job.tasks_per_node, 8);
	assert_int_equal(sbatch.job.cpus_per_task, 4);
	assert_string_equal(sbatch.job.gres, "lustre:1,gpu:h100:4");
	assert_true(sbatch.job.mem_per_node_bytes == UINT64_C(16) << 30);
	assert_true(sbatch.job.exclusive);
	assert_false(sbatch.job.mem_is_all);
	assert_null(sbatch.job.gpus);
	assert_null(sbatch.job.script);
	p4d_sbatch_free(&sbatch);
}

/* sbatch uses at most one node per task. From a node list, it then takes the first nodes in sorted order. */
static void no_more_nodes_than_tasks(void **state)
{
	static const struct {
		const char *line, *nodelist;
		uint32_t min_nodes, max_nodes;
	} cases[] = {
	    {"-w h1,a1 job.sh", "h1,a1", 2, 0},
	    {"-w h1,a1 -n 1 job.sh", "a1", 1, 1},
	    {"-w h1,a1 -N 3 -n 8 job.sh", "h1,a1", 3, 3},
	    {"-w h[1-4] -N 4 -n 2 job.sh", "h1,h2", 2, 2},
	    {"-N 4 -n 2 job.sh", NULL, 2, 2},
	    {"-N 1-4 -n 2 job.sh", NULL, 1, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		arguments(&sbatch, cases[i].line);
		understand(&sbatch);
		if (cases[i].nodelist)
			assert_string_equal(sbatch.job.nodelist, cases[i].nodelist);
		assert_int_equal(sbatch.job.min_nodes, cases[i].min_nodes);
		assert_int_equal(sbatch.job.max_nodes, cases[i].max_nodes);
		p4d_sbatch_free(&sbatch);
	}
}

/* Tasks that sbatch computes from sockets, cores and threads, if the number of nodes is fixed. */
static void tasks_that_sbatch_counts(void **state)
{
	static const struct {
		const char *line;
		uint32_t tasks;
	} cases[] = {{"-N2 --sockets-per-node=2 job.sh", 4},
		     {"-N1 --cores-per-socket=4 --threads-per-core=2 job.sh", 8},
		     {"--sockets-per-node=2 job.sh", 0},
		     {"-N1-2 --sockets-per-node=2 job.sh", 0},
		     {"-N2 -n3 --sockets-per-node=2 job.sh", 3},
		     {"-N2 --ntasks-per-node=3 --sockets-per-node=2 job.sh", 0},
		     {"--ntasks-per-gpu=2 -G8 job.sh", 16},
		     {"--ntasks-per-gpu=2 -n3 -G h100:8 -N2 --gpus-per-node=4 job.sh", 16},
		     {"--ntasks-per-gpu=2 -N2 --gpus-per-node=4 --gres=gpu:8 job.sh", 16},
		     {"--ntasks-per-gpu=2 -N2-4 --gres=lustre:1,gpu:8 job.sh", 32},
		     {"--ntasks-per-gpu=2 -n8 job.sh", 8},
		     {"-N2 --hint=nomultithread --sockets-per-node=2 job.sh", 0},
		     {"-N2 -B 2:4 job.sh", 16},
		     {"-N2 -B 2-3:*:2 job.sh", 8},
		     {"-N2 -B -1:-1:1 job.sh", 0},
		     {"-N2 --threads-per-core=1 job.sh", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		arguments(&sbatch, cases[i].line);
		understand(&sbatch);
		assert_int_equal(sbatch.job.tasks, cases[i].tasks);
		p4d_sbatch_free(&sbatch);
	}
}

/* Options that --hint unsets, and options that make sbatch ignore --hint. */
static void a_hint_counts_alone(void **state)
{
	static const struct {
		const char *line, *variables[3];
		unsigned release;
		uint32_t tasks, sockets, threads;
	} cases[] = {
	    {"-N2 --hint=nomultithread job.sh", {NULL}, 2605, 0, 0, 1},
	    {"-N2 --hint=nomultithread --sockets-per-node=2 job.sh", {NULL}, 2205, 0, 0, 1},
	    {"-N2 --hint=nomultithread --sockets-per-node=2 job.sh", {NULL}, 2505, 0, 0, 1},
	    {"-N2 --hint=nomultithread --sockets-per-node=2 job.sh", {NULL}, 2511, 4, 2, 0},
	    {"-N2 --hint=nomultithread --cores-per-socket=3 job.sh", {NULL}, 2605, 6, 0, 0},
	    {"-N2 --hint=nomultithread --threads-per-core=2 job.sh", {NULL}, 2205, 4, 0, 2},
	    {"-N2 --hint=nomultithread -B 2:2 job.sh", {NULL}, 2205, 8, 2, 0},
	    {"-N2 --hint=nomultithread job.sh", {"SBATCH_THREADS_PER_CORE=2"}, 2605, 0, 0, 1},
	    {"-N2 --threads-per-core=2 job.sh", {"SBATCH_HINT=nomultithread"}, 2605, 4, 0, 2},
	    {"-N2 job.sh", {"SBATCH_HINT=nomultithread", "SBATCH_THREADS_PER_CORE=2"}, 2605, 4, 0, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		p4d_error err;
		arguments(&sbatch, cases[i].line);
		assert_int_equal(p4d_sbatch_environment(&sbatch, (char *const *)cases[i].variables, &err), 0);
		sbatch.release = cases[i].release;
		understand(&sbatch);
		if (sbatch.job.tasks != cases[i].tasks || sbatch.job.sockets_per_node != cases[i].sockets ||
		    sbatch.job.threads_per_core != cases[i].threads)
			fail_msg("%s, Slurm %u: %u tasks, %u sockets, %u threads", cases[i].line,
				 cases[i].release, sbatch.job.tasks, sbatch.job.sockets_per_node,
				 sbatch.job.threads_per_core);
		p4d_sbatch_free(&sbatch);
	}
}

static void gpus_are_in_the_words_of_gres(void **state)
{
	p4d_sbatch sbatch = {0};

	(void)state;
	arguments(&sbatch, "--gres=lustre:1 --gpus-per-node=a100:2,h100:1 -G 8 --gpus-per-task=h100:1 "
			   "--tres-per-task=gres/gpu:2 --gpus-per-socket=2 job.sh");
	understand(&sbatch);
	assert_string_equal(sbatch.job.gres, "gpu:a100:2,gpu:h100:1,lustre:1");
	assert_string_equal(sbatch.job.gpus, "gpu:8");
	assert_string_equal(sbatch.job.gpus_per_task, "gpu:h100:1,gres/gpu:2");
	assert_string_equal(sbatch.job.gpus_per_socket, "gpu:2");
	assert_true(sbatch.job.per_node_option);
	p4d_sbatch_free(&sbatch);
	arguments(&sbatch, "--gpus-per-node=8 --gres=gpu job.sh");
	understand(&sbatch);
	assert_false(sbatch.job.per_node_option);
	p4d_sbatch_free(&sbatch);
}

static void exclusive_counts_only_when_the_node_is_not_shared(void **state)
{
	static const struct {
		const char *line;
		bool exclusive;
	} cases[] = {
	    {"--exclusive", true}, {"--exclusive=user", false}, {"--exclusive=mcs", false}, {"-N1", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		arguments(&sbatch, cases[i].line);
		understand(&sbatch);
		assert_int_equal(sbatch.job.exclusive, cases[i].exclusive);
		p4d_sbatch_free(&sbatch);
	}
}

static void names_may_be_abbreviated(void **state)
{
	p4d_sbatch sbatch = {0};

	(void)state;
	arguments(&sbatch, "--part=h100 --gpus-per-n=8 --p4d-model=llama13b --p4d-glob 64 job.sh");
	understand(&sbatch);
	assert_string_equal(sbatch.job.partition, "h100");
	assert_string_equal(sbatch.job.gres, "gpu:8");
	assert_string_equal(sbatch.request.model, "llama13b");
	assert_int_equal(sbatch.request.value[P4D_GLOBAL_BATCH], 64);
	p4d_sbatch_free(&sbatch);

	p4d_error err = arguments_fail("--nod=4", NULL);
	assert_mentions(&err, "ambiguous");
	assert_mentions(&err, "--nodelist");
	assert_mentions(&err, "--nodes");
}

static void mistakes_are_named(void **state)
{
	p4d_error err;

	(void)state;
	err = arguments_fail("--nosuch", NULL);
	assert_mentions(&err, "--nosuch");
	err = arguments_fail("-y", NULL);
	assert_mentions(&err, "-y");
	err = arguments_fail("--nodes", NULL);
	assert_mentions(&err, "--nodes needs a value");
	err = arguments_fail("-N", NULL);
	assert_mentions(&err, "-N needs a value");
	err = arguments_fail("--hold=1", NULL);
	assert_mentions(&err, "--hold takes no value");
	/* options of `p4d estimate`, without the prefix --p4d- */
	err = arguments_fail("--tp=8", NULL);
	assert_string_equal(err.fix, "--p4d-tp=8");
	/* sbatch does not know options that only the command has */
	arguments_fail("--p4d-gpus-per-node=8", NULL);
	arguments_fail("--p4d-nodes=4", NULL);
}

static void the_last_of_several_wins(void **state)
{
	p4d_sbatch sbatch = {0};

	(void)state;
	arguments(&sbatch, "-p a100 --p4d-tp=2 --partition=h100 --p4d-tp=8 job.sh");
	script(&sbatch, SCRIPT("#SBATCH -p early -A one\n#SBATCH -A two --p4d-tp=1\n"));
	understand(&sbatch);
	assert_string_equal(sbatch.job.partition, "h100");
	assert_string_equal(sbatch.job.account, "two");
	assert_int_equal(sbatch.request.value[P4D_TP], 8);
	assert_int_equal(sbatch.request.origin[P4D_TP], P4D_BY_USER);
	p4d_sbatch_free(&sbatch);
}

static void memory_options_exclude_each_other(void **state)
{
	char *const one[] = {(char *)"SBATCH_MEM_PER_NODE=3G", NULL};
	char *const two[] = {(char *)"SBATCH_MEM_PER_NODE=3G", (char *)"SBATCH_MEM_PER_CPU=1G", NULL};
	p4d_error err;

	(void)state;
	p4d_sbatch sbatch = {0};
	arguments(&sbatch, "--mem-per-cpu=2G job.sh");
	script(&sbatch, SCRIPT("#SBATCH --mem=5G\n"));
	assert_int_equal(p4d_sbatch_job(&sbatch, &err), -1);
	assert_int_equal(err.code, P4D_E_USAGE);
	p4d_sbatch_free(&sbatch);

	/* an option on the command line replaces the environment's */
	script(&sbatch, SCRIPT("#SBATCH --mem-per-gpu=5G\n"));
	assert_int_equal(p4d_sbatch_environment(&sbatch, one, &err), 0);
	understand(&sbatch);
	assert_true(sbatch.job.mem_per_gpu_bytes == UINT64_C(5) << 30);
	assert_true(sbatch.job.mem_per_node_bytes == 0);
	p4d_sbatch_free(&sbatch);

	assert_int_equal(p4d_sbatch_environment(&sbatch, two, &err), 0);
	assert_int_equal(p4d_sbatch_job(&sbatch, &err), -1);
	assert_int_equal(err.code, P4D_E_USAGE);
	p4d_sbatch_free(&sbatch);

	arguments(&sbatch, "--mem=0");
	understand(&sbatch);
	assert_true(sbatch.job.mem_is_all);
	p4d_sbatch_free(&sbatch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_the_script_behind_the_options),
	    cmocka_unit_test(reads_what_decides_where_a_job_runs),
	    cmocka_unit_test(no_more_nodes_than_tasks),
	    cmocka_unit_test(tasks_that_sbatch_counts),
	    cmocka_unit_test(a_hint_counts_alone),
	    cmocka_unit_test(gpus_are_in_the_words_of_gres),
	    cmocka_unit_test(exclusive_counts_only_when_the_node_is_not_shared),
	    cmocka_unit_test(names_may_be_abbreviated),
	    cmocka_unit_test(mistakes_are_named),
	    cmocka_unit_test(the_last_of_several_wins),
	    cmocka_unit_test(memory_options_exclude_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
