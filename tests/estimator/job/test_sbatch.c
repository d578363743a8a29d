/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, environments and #SBATCH lines, understood as sbatch understands them. */
#include "support/support.h"

#include "job/sbatch.h"

#define SCRIPT(lines) "#!/bin/sh\n" lines "srun hostname\n"

enum { WORDS = 32 };

/* Reads a command line given as one string; returns the first operand, "" when there is none. */
static const char *arguments(p4d_sbatch *sbatch, const char *line)
{
	static char text[1024];
	char *words[WORDS] = {text}, *save = NULL;
	int count = 1, operand;
	p4d_error err;

	snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok_r(text, " ", &save); word && count < WORDS - 1;
	     word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	if (p4d_sbatch_arguments(sbatch, count, words, &operand, &err) < 0)
		fail_msg("%s: %s", line, err.text);
	return operand < count ? words[operand] : "";
}

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

static void script(p4d_sbatch *sbatch, const char *text)
{
	unsigned components;
	p4d_error err;

	if (p4d_sbatch_script(sbatch, text, strlen(text), 0, &components, &err) < 0)
		fail_msg("%s: %s", text, err.text);
}

static p4d_error script_fails(const char *text, size_t length)
{
	p4d_sbatch sbatch = {0};
	p4d_error err = {0};
	unsigned components = 77;

	assert_int_equal(p4d_sbatch_script(&sbatch, text, length, 0, &components, &err), -1);
	assert_int_equal(err.code, P4D_E_USAGE);
	assert_int_equal(components, 77);
	p4d_sbatch_free(&sbatch);
	return err;
}

static void understand(p4d_sbatch *sbatch)
{
	p4d_error err;

	if (p4d_sbatch_job(sbatch, &err) < 0 || p4d_sbatch_request(sbatch, &err) < 0)
		fail_msg("%s", err.text);
}

static void assert_mentions(const p4d_error *err, const char *what)
{
	if (!strstr(err->text, what))
		fail_msg("\"%s\" does not mention \"%s\"", err->text, what);
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

/* sbatch takes no more nodes than tasks, and of a list the first. */
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

/* sockets, cores and threads of a fixed number of nodes */
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
	/* the flags of `p4d estimate` */
	err = arguments_fail("--tp=8", NULL);
	assert_string_equal(err.fix, "--p4d-tp=8");
	/* options of the command alone are none of sbatch */
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

static void command_line_over_environment_over_script(void **state)
{
	char *const environment[] = {(char *)"SBATCH_PARTITION=env",
				     (char *)"SBATCH_QOS=env",
				     (char *)"SBATCH_ACCOUNT=",
				     (char *)"SBATCH_P4D_TP=4",
				     (char *)"SBATCH_P4D_MICRO_BATCH=2",
				     (char *)"SBATCH_PARTITIONS=no",
				     (char *)"SBATCH_P4D_TPX=9",
				     (char *)"SBATCH_P4D_NODES=9",
				     (char *)"P4D_PP=4",
				     NULL};
	p4d_error err;

	(void)state;
	/* every order of the sources gives the same */
	for (int order = 0; order < 6; order++) {
		static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
						 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
		p4d_sbatch sbatch = {0};
		for (int i = 0; i < 3; i++)
			if (orders[order][i] == 0)
				arguments(&sbatch, "-p line --p4d-tp=8 job.sh");
			else if (orders[order][i] == 1)
				assert_int_equal(p4d_sbatch_environment(&sbatch, environment, &err), 0);
			else
				script(&sbatch,
				       SCRIPT("#SBATCH -p script -q script -A script --p4d-micro-batch=1 "
					      "--p4d-pp=2 --p4d-tp=1\n"));
		understand(&sbatch);
		assert_string_equal(sbatch.job.partition, "line");
		assert_string_equal(sbatch.job.qos, "env");
		assert_string_equal(sbatch.job.account, "script");
		assert_int_equal(sbatch.request.value[P4D_TP], 8);
		assert_int_equal(sbatch.request.value[P4D_MICRO_BATCH], 2);
		assert_int_equal(sbatch.request.value[P4D_PP], 2);
		assert_int_equal(sbatch.request.origin[P4D_NODES], P4D_UNSET);
		p4d_sbatch_free(&sbatch);
	}
}

/* What sbatch 22.05 was seen to make of these lines. */
static void directive_words(void **state)
{
	static const struct {
		const char *directive, *account;
	} cases[] = {
	    {"#SBATCH -A plain\n", "plain"},
	    {"#SBATCH\t--account=tab\n", "tab"},
	    {"#SBATCH-Aglued\n", "glued"},
	    {"#SBATCH -A \"two words\"\n", "two words"},
	    {"#SBATCH --account=\"a b\"c\n", "a bc"},
	    {"#SBATCH -A 'a\"b'\n", "a\"b"},
	    {"#SBATCH -A \"a\\ b\\\"q\"\n", "a b\"q"},
	    {"#SBATCH -A 'a\\'b'\n", "a'b"},
	    {"#SBATCH -A a\\\"b\n", "a\"b"},
	    {"#SBATCH -A a\\nb\n", "anb"},
	    {"#SBATCH -A a#b\n", "a"},
	    {"#SBATCH -A a # -A b\n", "a"},
	    {"#SBATCH -A \"a # b\"\n", "a # b"},
	    {"#SBATCH -A first\n\n  \t\n# a comment\n   # another\n#SBATCH -A second\n", "second"},
	    {"#SBATCH -A yes\n #SBATCH -A indented\n", "yes"},
	    {"#SBATCH -A yes\n##SBATCH -A hashes\n", "yes"},
	    {"#SBATCH -A yes\n#sbatch -A small\n", "yes"},
	    {"#SBATCH -A yes\nexport X=1\n#SBATCH -A late\n", "yes"},
	    {"#SBATCH -A one -J \"quoted name\" --mail-type=END\n", "one"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		p4d_sbatch sbatch = {0};
		snprintf(text, sizeof(text), "#!/bin/bash -l\n%strue\n", cases[i].directive);
		script(&sbatch, text);
		understand(&sbatch);
		if (!sbatch.job.account || strcmp(sbatch.job.account, cases[i].account) != 0)
			fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].directive,
				 sbatch.job.account ? sbatch.job.account : "(none)", cases[i].account);
		p4d_sbatch_free(&sbatch);
	}
}

static void directive_without_newline_at_the_end(void **state)
{
	static const char text[] = "#!/bin/sh\n#SBATCH -p h100";
	char *exact = malloc(strlen(text));
	p4d_sbatch sbatch = {0};
	p4d_error err;
	unsigned components;

	(void)state;
	assert_non_null(exact);
	memcpy(exact, text, strlen(text)); /* without the terminating NUL: sanitizers see a read too far */
	assert_int_equal(p4d_sbatch_script(&sbatch, exact, strlen(text), 0, &components, &err), 0);
	understand(&sbatch);
	assert_string_equal(sbatch.job.partition, "h100");
	p4d_sbatch_free(&sbatch);
	free(exact);
}

static void bad_scripts(void **state)
{
	static const struct {
		const char *text, *what;
	} cases[] = {
	    {"", "empty"},
	    {"echo\n", "#!"},
	    {"  #!/bin/sh\n", "#!"},
	    {"#!/bin/sh\r\necho\r\n", "DOS"},
	    {SCRIPT("#SBATCH -N2\n#SBATCH --account=\"open -J k\n"), "line 3"},
	    {SCRIPT("#SBATCH --nosuch=1\n"), "line 2"},
	    {SCRIPT("#SBATCH -p a extra -J k\n"), "\"extra\""},
	    {SCRIPT("#SBATCHX -p a\n"), "\"X\""},
	    {SCRIPT("#SBATCH --json\n"), "not of sbatch"},
	    {SCRIPT("#SBATCH --conf=x\n"), "not of sbatch"},
	};
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err = script_fails(cases[i].text, strlen(cases[i].text));
		assert_mentions(&err, cases[i].what);
	}
	err = script_fails("#!/bin/sh\n\0x", 12);
	assert_mentions(&err, "NUL");
}

static void components_of_a_heterogeneous_script(void **state)
{
	static const char text[] = SCRIPT("#SBATCH -p first --p4d-tp=2\n#SBATCH hetjob\n#SBATCH -p second\n"
					  "#SBATCH packjob\n#SBATCH -N3\n");
	static const char *const partitions[] = {"first", "second", NULL};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		p4d_sbatch sbatch = {0};
		p4d_error err;
		unsigned components;
		assert_int_equal(p4d_sbatch_script(&sbatch, text, strlen(text), i, &components, &err), 0);
		assert_int_equal(components, 3);
		understand(&sbatch);
		if (partitions[i])
			assert_string_equal(sbatch.job.partition, partitions[i]);
		else
			assert_null(sbatch.job.partition);
		assert_int_equal(p4d_is_set(&sbatch.request, P4D_TP), i == 0);
		assert_int_equal(sbatch.job.min_nodes, i == 2 ? 3 : 0);
		p4d_sbatch_free(&sbatch);
	}
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

	/* one that was typed takes the place of the environment's */
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

static void bad_numbers(void **state)
{
	static const char *const lines[] = {
	    "-n 0",   "-n 4x", "-n -1", "-n 99999999999", "--ntasks-per-node=",
	    "-c two", "-N 0",  "-N x",  "--mem=4Q"};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		p4d_sbatch sbatch = {0};
		p4d_error err = {0};
		arguments(&sbatch, lines[i]);
		if (p4d_sbatch_job(&sbatch, &err) == 0)
			fail_msg("%s was accepted", lines[i]);
		assert_int_equal(err.code, P4D_E_VALUE);
		p4d_sbatch_free(&sbatch);
	}
}

/* A .bashrc with SBATCH_P4D_ variables refuses no job that is not p4d's. */
static void variables_are_defaults(void **state)
{
	char *const good[] = {(char *)"SBATCH_P4D_TP=4", (char *)"SBATCH_P4D_MODEL=llama13b", NULL};
	char *const bad[] = {(char *)"SBATCH_P4D_TP=8x", (char *)"SBATCH_P4D_FRAMEWORK=megatron", NULL};
	static const struct {
		const char *arguments;
		bool bad, ours, fails;
	} cases[] = {
	    {"job.sh", false, false, false},
	    {"job.sh", true, false, false},
	    {"--gpus=8 job.sh", false, true, false},
	    {"--gpus=8 job.sh", true, false, false}, /* no model */
	    {"--gpus=8 --p4d-model=llama7b job.sh", true, true, true},
	    {"--p4d-model=llama7b job.sh", false, true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		p4d_error err;
		arguments(&sbatch, cases[i].arguments);
		assert_int_equal(p4d_sbatch_environment(&sbatch, cases[i].bad ? bad : good, &err), 0);
		assert_int_equal(p4d_sbatch_job(&sbatch, &err), 0);
		assert_int_equal(p4d_sbatch_request(&sbatch, &err), cases[i].fails ? -1 : 0);
		if (!cases[i].fails)
			assert_int_equal(p4d_request_any(&sbatch.request), cases[i].ours);
		p4d_sbatch_free(&sbatch);
	}
}

/* PyTorch's variable counts where the job gets it. */
static void an_environment_that_is_exported(void **state)
{
	static const struct {
		const char *arguments, *variable;
		bool expandable;
	} cases[] = {
	    {"job.sh", "A=", true},
	    {"--export=ALL,X=1 job.sh", "A=", true},
	    {"--export=NONE job.sh", "A=", false},
	    {"--export=X job.sh", "A=", false},
	    {"job.sh", "SBATCH_EXPORT=NONE", false},
	    {"--export=all job.sh", "SBATCH_EXPORT=NONE", true},
	    {"--export=ALL,PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 job.sh", "A=", false},
	    {"--export=PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True job.sh", "A=", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *const environment[] = {(char *)"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
					     (char *)(uintptr_t)cases[i].variable, NULL};
		p4d_sbatch sbatch = {0};
		p4d_error err;
		arguments(&sbatch, cases[i].arguments);
		assert_int_equal(p4d_sbatch_environment(&sbatch, environment, &err), 0);
		understand(&sbatch);
		assert_int_equal(sbatch.job.expandable, cases[i].expandable);
		p4d_sbatch_free(&sbatch);
	}
}

static void bad_options_say_where_they_are(void **state)
{
	char *const environment[] = {(char *)"SBATCH_P4D_TP=8x", (char *)"SBATCH_P4D_MODEL=llama13b", NULL};
	p4d_sbatch sbatch = {0};
	p4d_error err;

	(void)state;
	arguments(&sbatch, "--p4d-tp=8x job.sh");
	assert_int_equal(p4d_sbatch_request(&sbatch, &err), -1);
	assert_int_equal(err.code, P4D_E_VALUE);
	assert_mentions(&err, "--p4d-tp=8x");
	p4d_sbatch_free(&sbatch);

	script(&sbatch, SCRIPT("#SBATCH --p4d-tp=8x\n"));
	assert_int_equal(p4d_sbatch_request(&sbatch, &err), -1);
	assert_mentions(&err, "from the batch script");
	p4d_sbatch_free(&sbatch);

	arguments(&sbatch, "--gpus=8 job.sh");
	assert_int_equal(p4d_sbatch_environment(&sbatch, environment, &err), 0);
	assert_int_equal(p4d_sbatch_job(&sbatch, &err), 0);
	assert_int_equal(p4d_sbatch_request(&sbatch, &err), -1);
	assert_mentions(&err, "(from SBATCH_P4D_TP)");
	/* only the value that wins has to be right */
	arguments(&sbatch, "--p4d-tp=8 job.sh");
	assert_int_equal(p4d_sbatch_request(&sbatch, &err), 0);
	assert_int_equal(sbatch.request.value[P4D_TP], 8);
	p4d_sbatch_free(&sbatch);
}

static void long_lines(void **state)
{
	enum { LENGTH = 1 << 16 };
	char *text = malloc(LENGTH + 64);
	p4d_sbatch sbatch = {0};
	size_t used;

	(void)state;
	assert_non_null(text);
	used = (size_t)snprintf(text, 64, "#!/bin/sh\n#SBATCH");
	while (used < LENGTH)
		used += (size_t)snprintf(text + used, 8, " -H");
	snprintf(text + used, 16, " -p h100\n");
	script(&sbatch, text);
	understand(&sbatch);
	assert_string_equal(sbatch.job.partition, "h100");
	p4d_sbatch_free(&sbatch);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_the_script_behind_the_options),
	    cmocka_unit_test(reads_what_decides_where_a_job_runs),
	    cmocka_unit_test(no_more_nodes_than_tasks),
	    cmocka_unit_test(tasks_that_sbatch_counts),
	    cmocka_unit_test(gpus_are_in_the_words_of_gres),
	    cmocka_unit_test(exclusive_counts_only_when_the_node_is_not_shared),
	    cmocka_unit_test(names_may_be_abbreviated),
	    cmocka_unit_test(mistakes_are_named),
	    cmocka_unit_test(the_last_of_several_wins),
	    cmocka_unit_test(command_line_over_environment_over_script),
	    cmocka_unit_test(directive_words),
	    cmocka_unit_test(directive_without_newline_at_the_end),
	    cmocka_unit_test(bad_scripts),
	    cmocka_unit_test(components_of_a_heterogeneous_script),
	    cmocka_unit_test(memory_options_exclude_each_other),
	    cmocka_unit_test(bad_numbers),
	    cmocka_unit_test(an_environment_that_is_exported),
	    cmocka_unit_test(variables_are_defaults),
	    cmocka_unit_test(bad_options_say_where_they_are),
	    cmocka_unit_test(long_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
