/* SPDX-License-Identifier: Apache-2.0 */
/* p4d reads #SBATCH lines and environment variables as sbatch does. */
#include "support/sbatch_words.h"

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
	/* every order of the sources gives the same result */
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

/* Results of sbatch 22.05 for these lines. */
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
	memcpy(exact, text, strlen(text)); /* without the terminating NUL, so that sanitizers notice a
					    * read beyond the end */
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
	    {SCRIPT("#SBATCH --p4d-nosuch=1\n"), "line 2"},
	    {SCRIPT("#SBATCH --gpus\n"), "needs a value"},
	    {SCRIPT("#SBATCH --nodes 2 --quotatype reserved extra\n"), "\"extra\""},
	    {SCRIPT("#SBATCH --ntasks-per=1\n"), "ambiguous"},
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

/* Options of other SPANK plugins. Only the site's sbatch knows them. */
static void options_of_other_plugins(void **state)
{
	static const struct {
		const char *text, *name;
		unsigned count;
	} cases[] = {
	    {SCRIPT("#SBATCH --quotatype=reserved\n#SBATCH -p h100\n"), "--quotatype", 1},
	    {SCRIPT("#SBATCH --quotatype reserved -p h100\n"), "--quotatype", 1},
	    {SCRIPT("#SBATCH --with-scratch -p h100\n#SBATCH --tenant a --vlan=3 -N1\n"), "--with-scratch",
	     3},
	    {SCRIPT("#SBATCH -p h100 --comment --quotatype\n"), NULL,
	     0}, /* "--quotatype" is the value of --comment */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_sbatch sbatch = {0};
		script(&sbatch, cases[i].text);
		understand(&sbatch);
		assert_string_equal(sbatch.job.partition, "h100");
		assert_int_equal(sbatch.foreigns, cases[i].count);
		if (cases[i].name)
			assert_string_equal(sbatch.foreign, cases[i].name);
		p4d_sbatch_free(&sbatch);
	}
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

static void bad_numbers(void **state)
{
	static const char *const lines[] = {
	    "-n 0", "-n 4x", "-n -1", "-n 99999999999", "--ntasks-per-node=", "-c two", "-N x", "--mem=4Q"};

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

/* SBATCH_P4D_ variables in a .bashrc do not refuse jobs that use no p4d option. */
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

/* PyTorch's variable counts only if sbatch exports it to the job. */
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
	/* values that are overridden need not be valid */
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
	    cmocka_unit_test(command_line_over_environment_over_script),
	    cmocka_unit_test(directive_words),
	    cmocka_unit_test(directive_without_newline_at_the_end),
	    cmocka_unit_test(bad_scripts),
	    cmocka_unit_test(options_of_other_plugins),
	    cmocka_unit_test(components_of_a_heterogeneous_script),
	    cmocka_unit_test(bad_numbers),
	    cmocka_unit_test(an_environment_that_is_exported),
	    cmocka_unit_test(variables_are_defaults),
	    cmocka_unit_test(bad_options_say_where_they_are),
	    cmocka_unit_test(long_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
