/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a job script, and the time that slurmctld needs to read it. */
#include "support/support.h"

#include <stdlib.h>
#include <time.h>

#include "job/script.h"
#include "request/framework.h"
#include "support/built_layout.h"

static bool starts(p4d_script script, int framework)
{
	return script.frameworks >> framework & 1;
}

static p4d_script scan(const char *text)
{
	return p4d_script_scan(text, strlen(text), NULL);
}

static void scripts(void **state)
{
	(void)state;
	assert_false(scan("#!/bin/bash\necho hello\n").uses_plan);
	assert_false(scan("#!/bin/bash\n# srun p4d-train $P4D_TP\necho hello # $P4D_TP\n").uses_plan);
	assert_true(scan("srun python pretrain_gpt.py $P4D_MEGATRON_ARGS").uses_plan);
	assert_true(scan("srun python x.py --tp ${P4D_TP}").uses_plan);
	assert_false(scan("export MY_P4D_TP=3").uses_plan);
	assert_true(scan("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n").expandable);
	assert_true(scan("PYTORCH_ALLOC_CONF='max_split_size_mb:64,expandable_segments:True' x").expandable);
	assert_false(scan("# export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n").expandable);
	assert_false(scan("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False\n").expandable);
	assert_true(starts(scan("srun p4d-train\n"), P4D_FRAMEWORK_P4D));
	assert_false(scan("srun p4d-train\n").sets_tasks);
	assert_true(scan("srun -n 8 p4d-train\n").sets_tasks);
	assert_true(scan("srun --ntasks-per-node=8 p4d-train").sets_tasks);
	assert_true(
	    starts(scan("torchrun pretrain_gpt.py --tensor-model-parallel-size 4"), P4D_FRAMEWORK_MEGATRON));
	assert_false(starts(scan("echo '#not a comment inside a word'x#y"), P4D_FRAMEWORK_MEGATRON));
	assert_false(starts(p4d_script_scan("p4d-train", 5, NULL),
			    P4D_FRAMEWORK_P4D)); /* nothing beyond the given length is read */
}

/* The last assignment of the variable counts. Words that only look like assignments do not. */
static void the_allocator(void **state)
{
#define NAME "PYTORCH_CUDA_ALLOC_CONF="
#define SET NAME "expandable_segments:True"
	static const struct {
		const char *text;
		bool sets, expandable;
	} cases[] = {
	    {SET " srun x", true, true},
	    {"srun \\\n  --ntasks=8 env " SET " x", true, true},
	    {"if true; then export A=1 " SET "; fi", true, true},
	    {"export " NAME "\"max_split_size_mb:64,expandable_segments:True\"", true, true},
	    {"export " NAME "${PYTORCH_CUDA_ALLOC_CONF},max_split_size_mb:512", false, false},
	    {"export " NAME "max_split_size_mb:512\n", true, false},
	    {"export " SET "\nexport " NAME "max_split_size_mb:512", true, false},
	    {"export " NAME "\n# expandable_segments:True", true, false},
	    {"echo expandable_segments:True", false, false},
	    {"echo " SET, false, false},
	    {"echo \"try: export " SET "\"", false, false},
	    {"echo 'export " SET "'", false, false},
	    {"echo \\\n" SET, false, false},
	    {"# export " SET, false, false},
	    {"MY_" SET, false, false},
	    {"unset PYTORCH_CUDA_ALLOC_CONF", true, false},
	    {"export " SET "; unset -v A PYTORCH_ALLOC_CONF\n", true, false},
	    {"unset PYTORCH_CUDA_ALLOC_CONF\nexport " SET, true, true},
	    {"unset A\n" SET " x", true, true},
	    {"unset A; PYTORCH_CUDA_ALLOC_CONF", false, false},
	    {"echo unset PYTORCH_CUDA_ALLOC_CONF", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_script script = scan(cases[i].text);
		if (script.sets_allocator != cases[i].sets || script.expandable != cases[i].expandable)
			fail_msg("%s: %d %d", cases[i].text, script.sets_allocator, script.expandable);
	}
}

static void literal_flags(void **state)
{
	p4d_request r;
	p4d_layout l;
	p4d_script script;
	static const char *const agree[] = {
	    "--tensor-model-parallel-size 8",
	    "--tensor-model-parallel-size=8",
	    "--tensor-model-parallel-size \"8\"",
	    "--tensor-model-parallel-size $TP",
	    "# --tensor-model-parallel-size 4",
	    "--tensor-model-parallel-size",
	    "--tensor-model-parallel-size-x 4",
	    "--num-layers 80 --num-layers-per-virtual-pipeline-stage $N",
	};
	static const char *const contradict[] = {
	    "--tensor-model-parallel-size 4",
	    "x --tensor-model-parallel-size=4 y",
	    "--tensor-model-parallel-size $TP --tensor-model-parallel-size 4",
	    "ok\n  --tensor-model-parallel-size\t4",
	    "--tensor-model-parallel-size 99999999999999999999999",
	};

	(void)state;
	build(MODEL_70B "tp=8 framework=megatron", &r, &l);
	for (size_t i = 0; i < sizeof(agree) / sizeof(*agree); i++)
		if ((script = p4d_script_scan(agree[i], strlen(agree[i]), &l)).contradiction[0])
			fail_msg("%s: %s", agree[i], script.contradiction);
	for (size_t i = 0; i < sizeof(contradict) / sizeof(*contradict); i++)
		if (!p4d_script_scan(contradict[i], strlen(contradict[i]), &l).contradiction[0])
			fail_msg("%s", contradict[i]);
}

/* Commands that continue on another line, comments, and DOS line ends. */
static void lines(void **state)
{
	(void)state;
	assert_true(scan("srun -n 8 \\\n  p4d-train\n").sets_tasks);
	assert_true(scan("srun -n 8 \\\r\n  p4d-train\r\n").sets_tasks);
	assert_true(scan("srun \\\n--ntasks=8 \\\np4d-train").sets_tasks);
	assert_false(scan("srun -n 8 true\nsrun p4d-train\n").sets_tasks);
	assert_false(scan("srun -n 8 true # \\\nsrun p4d-train\n").sets_tasks);
	assert_false(scan("true;# p4d-train\r\n\t# p4d-train\n(# p4d-train").frameworks);
	assert_true(scan("# p4d\r\np4d-train\r\n").frameworks);
	assert_true(scan("a#p4d-train").frameworks);
	assert_true(scan("/opt/p4d/bin/p4d-train").frameworks);
	assert_false(scan("stop4d-train").frameworks);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ten to twenty times the usual time. The test checks that time is linear in the length, not how fast this
 * machine is. */
#define LIMIT_SECONDS 20e-3

/* Seconds to read a script: the fastest of some runs, with more runs on a busy machine. */
static double cost(const char *text, size_t length, const p4d_layout *l)
{
	double best = 1;

	for (int i = 0; i < 5 || (i < 200 && best >= LIMIT_SECONDS); i++) {
		double start = seconds();
		p4d_script script = p4d_script_scan(text, length, l);
		double took = seconds() - start;
		assert_int_not_equal(script.planned, 1);
		best = took < best ? took : best;
	}
	return best;
}

/* The time is bounded for scripts of any content, up to the longest that slurmctld accepts. */
static void cost_is_bounded(void **state)
{
	static const char *const pieces[] = {"\n",
					     "#",
					     "# comment\n",
					     "\r\n",
					     "a",
					     "a ",
					     "p4d- ",
					     "-n ",
					     "$P4D_",
					     "srun p4d-train -n 8\n",
					     "--num-layers 80 ",
					     "--num ",
					     "PYTORCH_ALLOC_CONF=",
					     "a=PYTORCH_ALLOC_CONF= PYTORCH_ALLOC_CONF= ",
					     "--tensor-model-parallel-size 8\n",
					     "--num-layers   \"\"\"",
					     "pretrain_gpt ",
					     "--num-layers-per-virtual-pipeline-stage=1"};
	enum { LARGEST = 4 << 20 };
	static const char word[] = " p4d-train ";
	char *text = malloc(LARGEST);
	p4d_request r;
	p4d_layout l;

	(void)state;
	assert_non_null(text);
	build(MODEL_70B "tp=8 framework=megatron", &r, &l);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		for (size_t at = 0, length = strlen(pieces[i]); at < LARGEST; at++)
			text[at] = pieces[i][at % length];
		double took = cost(text, LARGEST, &l);
		print_message("%-48.*s %.3f ms\n", (int)strcspn(pieces[i], "\r\n"), pieces[i], 1e3 * took);
		assert_true(took < LIMIT_SECONDS);
	}
	/* only the first P4D_SCRIPT_BYTES are read */
	memset(text, ' ', LARGEST);
	memcpy(text + P4D_SCRIPT_BYTES - strlen(word), word, strlen(word));
	assert_true(starts(p4d_script_scan(text, LARGEST, NULL), P4D_FRAMEWORK_P4D));
	memset(text, ' ', P4D_SCRIPT_BYTES);
	memcpy(text + P4D_SCRIPT_BYTES, word, strlen(word));
	assert_false(p4d_script_scan(text, LARGEST, NULL).frameworks);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(scripts), cmocka_unit_test(the_allocator),   cmocka_unit_test(literal_flags),
	    cmocka_unit_test(lines),   cmocka_unit_test(cost_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
