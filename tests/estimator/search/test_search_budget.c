/* SPDX-License-Identifier: Apache-2.0 */
/* The time that a search takes, and its result if it exceeds its budget. */
#include "support/search_space.h"

#include <time.h>

#include "request/defaults.h"

static void prints_its_cost(void **state)
{
	static const uint64_t nodes[] = {1, 8, 64, 1024};

	(void)state;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		p4d_request r = {.gpu = ""};
		p4d_search_space space = space_of(nodes[i], 8, "h100-80gb");
		p4d_candidate found;
		p4d_search_counts counts;
		struct timespec from, to;
		set_all(&r, MODEL_70B);
		clock_gettime(CLOCK_MONOTONIC, &from);
		p4d_search_run(&r, &space, &found, 1, &counts);
		clock_gettime(CLOCK_MONOTONIC, &to);
		printf("70B on %5d GPUs: %6d layouts considered, %.2f ms\n", (int)(8 * nodes[i]),
		       (int)counts.considered,
		       1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec));
	}
}

/* Models that nobody trains. Without a budget, a search takes seconds for them. */
static void ends_within_its_budget(void **state)
{
	static const char *const shape =
	    "model=x norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off "
	    "head-dim=128 kv-heads=8 max-seq-len=8192 seq-len=8192 vocab=128256 ";
	static const struct {
		uint64_t nodes;
		const char *flags;
		bool cut, untimed;
	} cases[] = {
	    {4, "layers=80 hidden=8192 ffn=28672 heads=64", false, false},
	    {1024, "layers=80 hidden=8192 ffn=28672 heads=64", false, false},
	    {4096, "layers=65536 hidden=1024 ffn=4096 heads=8", true, false},
	    {15120, "layers=55440 hidden=4096 ffn=8192 heads=64", true, false},
	    /* without rates of the GPU, only the number of layouts costs time */
	    {15120, "layers=55440 hidden=4096 ffn=8192 heads=64", false, true},
	    {128,
	     "layers=65536 hidden=64 ffn=64 heads=8 pp=1024 tp=1 cp=1 schedule=zb1p micro-batch=1 "
	     "recompute=full global-batch=1048576",
	     true, false},
	};
	static const p4d_gpu unknown = {
	    .name = "toy", .usable_bytes = UINT64_C(84932804608), .nominal_bytes = 80000000000};
	const uint64_t units = 3000000;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_search_budget budget = {.left = units};
		p4d_search_space space = space_of(cases[i].nodes, 8, "h100-80gb");
		p4d_request r = {.model = ""}, first;
		static p4d_candidate found[2];
		p4d_search_counts counts = {0};
		struct timespec from, to;
		set_all(&r, shape);
		set_all(&r, cases[i].flags);
		p4d_request_default(&r, P4D_FRAMEWORK, P4D_FRAMEWORK_P4D, P4D_BY_P4D);
		first = r;
		space.budget = &budget;
		if (cases[i].untimed)
			space.capacity.gpu = &unknown;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		const bool any = p4d_search_preferred(&r, &space, &found[0], &counts);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		printf("%5d nodes: %6d units, %.2f ms\n", (int)cases[i].nodes, (int)(units - budget.left),
		       1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec));
		assert_true(budget.left <= units);
		if (budget.cut != cases[i].cut)
			fail_msg("%s: cut %d", cases[i].flags, budget.cut);
		/* a second search gives the same answer; so does a search without a budget, unless the
		 * budget ended the first one */
		p4d_search_budget again = {.left = units};
		space.budget = budget.cut ? &again : NULL;
		assert_int_equal(p4d_search_preferred(&first, &space, &found[1], &counts), any);
		if (any)
			assert_memory_equal(&found[0].request, &found[1].request, sizeof(found[0].request));
		if (budget.cut)
			assert_int_equal(again.left, budget.left);
	}
}

/* No search runs for a model that p4d-train does not support. */
static void ends_at_once_without_a_program(void **state)
{
	p4d_search_budget budget = {.left = 2000000};
	p4d_search_space space = space_of(4, 8, "h100-80gb");
	p4d_search_counts counts = {0};
	p4d_request r = {.model = ""};
	p4d_candidate found;

	(void)state;
	set_all(&r, MODEL_13B "norm=layernorm-scale");
	p4d_request_default(&r, P4D_FRAMEWORK, P4D_FRAMEWORK_P4D, P4D_BY_P4D);
	space.budget = &budget;
	assert_false(p4d_search_preferred(&r, &space, &found, &counts));
	assert_int_equal(p4d_search_nearest(&r, &space, &found), -1);
	assert_int_equal(counts.considered, 0);
	assert_int_equal(budget.left, 2000000);
}

/* If the budget ends the search, the result is the best layout so far. It is at most 3 % slower than the
 * fastest. */
static void keeps_what_a_cut_pass_does_not_better(void **state)
{
	static const char *const models[] = {
	    MODEL_70B "framework=p4d global-batch=",
	    MODEL_LLAMA_405B "seq-len=8192 framework=p4d global-batch=",
	};
	static const struct {
		unsigned model;
		uint64_t nodes;
		const char *batch;
		uint64_t units; /* enough for the first pass of the search and a part of the second */
	} cases[] = {{0, 240, "1920", 1500000}, {0, 720, "5760", 1500000}, {1, 2520, "2520", 3000000}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_search_budget budget = {.left = cases[i].units};
		p4d_search_space space = space_of(cases[i].nodes, 8, "h100-80gb");
		p4d_request r = {.gpu = ""};
		p4d_candidate cut, best;
		char flags[512];
		snprintf(flags, sizeof(flags), "%s%s", models[cases[i].model], cases[i].batch);
		set_all(&r, flags);
		assert_int_equal(p4d_search_run(&r, &space, &best, 1, NULL), 1);
		space.budget = &budget;
		assert_int_equal(p4d_search_run(&r, &space, &cut, 1, NULL), 1);
		assert_true(budget.cut);
		printf("%d nodes: %.3f s, best %.3f s\n", (int)cases[i].nodes, cut.step.seconds,
		       best.step.seconds);
		assert_true(cut.step.tokens_per_second_per_gpu > 0); /* the search had time to predict the
								      * step time of this layout */
		assert_true(cut.step.seconds <= 1.03 * best.step.seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(prints_its_cost),
	    cmocka_unit_test(ends_within_its_budget),
	    cmocka_unit_test(ends_at_once_without_a_program),
	    cmocka_unit_test(keeps_what_a_cut_pass_does_not_better),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
