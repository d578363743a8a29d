/* SPDX-License-Identifier: Apache-2.0 */
/* The search finds what an exhaustive walk finds, in the documented order. */
#include "support.h"

#include <time.h>

#include "defaults.h"
#include "plan_line.h"
#include "search.h"

static const p4d_gpu h100 = {
    .name = "h100-80gb", .usable_bytes = UINT64_C(84932804608), .nominal_bytes = 80000000000};

static p4d_search_space space_of(uint64_t nodes, uint64_t gpus)
{
	p4d_search_space space = {.nodes = nodes,
				  .gpus_per_node = gpus,
				  .published_batch = 1024,
				  .capacity = {&h100, 0, 0},
				  .safe = 0.80,
				  .limit = 0.95};
	return space;
}

/* Every combination by brute force: the number that fit, and whether any comes before `best`. */
static uint64_t exhaustive(const p4d_request *asked, const p4d_search_space *space, const p4d_candidate *best)
{
	static p4d_layout layout;
	uint64_t fitting = 0, world = space->nodes * space->gpus_per_node;

	for (int64_t tp = 1; tp <= 16; tp++)
		for (int64_t cp = 1; cp <= 64; cp *= 2)
			for (int64_t pp = 1; pp <= 80; pp++)
				for (int64_t b = 1; b <= 1024; b *= 2)
					for (int64_t r = 0; r <= P4D_RECOMPUTE_FULL; r++) {
						p4d_candidate c = {.request = *asked};
						p4d_estimate e;
						if (r == P4D_RECOMPUTE_SELECTIVE)
							continue;
						p4d_request_default(&c.request, P4D_TP, tp, P4D_BY_P4D);
						p4d_request_default(&c.request, P4D_CP, cp, P4D_BY_P4D);
						p4d_request_default(&c.request, P4D_PP, pp, P4D_BY_P4D);
						p4d_request_default(&c.request, P4D_MICRO_BATCH, b,
								    P4D_BY_P4D);
						p4d_request_default(&c.request, P4D_RECOMPUTE, r, P4D_BY_P4D);
						p4d_request_complete(&c.request, space->published_batch,
								     world);
						if (c.request.value[P4D_TP] != tp ||
						    c.request.value[P4D_CP] != cp ||
						    c.request.value[P4D_PP] != pp ||
						    c.request.value[P4D_MICRO_BATCH] != b ||
						    c.request.value[P4D_RECOMPUTE] != r)
							continue;
						if (p4d_layout_build(&c.request, space->nodes,
								     space->gpus_per_node, &layout, NULL) < 0)
							continue;
						if (p4d_estimate_memory(&layout, space->method,
									&space->capacity, &e, NULL) < 0 ||
						    e.fraction > space->limit)
							continue;
						c.model_ranks = (uint64_t)(tp * cp * pp);
						c.pipeline_full = layout.micro_batches >= layout.pp;
						c.fraction = e.fraction;
						fitting++;
						if (p4d_candidate_better(&c, best, space->safe))
							fail_msg("tp=%d cp=%d pp=%d micro-batch=%d "
								 "recompute=%d is better",
								 (int)tp, (int)cp, (int)pp, (int)b, (int)r);
					}
	return fitting;
}

static void finds_the_best(void **state)
{
	static const struct {
		const char *flags;
		uint64_t nodes, gpus;
	} cases[] = {
	    {MODEL_13B, 1, 8},
	    {MODEL_13B "tp=8", 1, 8},
	    {MODEL_13B "pp=4 framework=megatron", 2, 8},
	    {MODEL_70B, 4, 8},
	    {MODEL_70B "framework=megatron", 8, 8},
	    {MODEL_70B "micro-batch=2 recompute=full", 4, 8},
	    {MODEL_70B "global-batch=96", 12, 4},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {.gpu = ""};
		p4d_search_space space = space_of(cases[i].nodes, cases[i].gpus);
		p4d_candidate found[8];
		p4d_search_counts counts;
		set_all(&r, cases[i].flags);
		size_t n = p4d_search(&r, &space, found, 8, &counts);
		assert_true(n > 0);
		assert_int_equal(exhaustive(&r, &space, &found[0]), counts.fitting);
		/* the shortcut for just the best finds the same */
		p4d_candidate best;
		assert_int_equal(p4d_search(&r, &space, &best, 1, NULL), 1);
		assert_false(p4d_plan_differs(&best.request, &found[0].request, NULL));
		for (size_t j = 1; j < n; j++)
			assert_false(p4d_candidate_better(&found[j], &found[j - 1], space.safe));
	}
}

static void keeps_what_was_asked(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(4, 8);
	p4d_candidate found[64];

	(void)state;
	set_all(&r, MODEL_70B "tp=4 recompute=mlp");
	size_t n = p4d_search(&r, &space, found, 64, NULL);
	assert_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(found[i].request.value[P4D_TP], 4);
		assert_int_equal(found[i].request.value[P4D_RECOMPUTE], P4D_RECOMPUTE_MLP);
		assert_true(found[i].fraction <= space.limit);
	}
}

static void gives_up_as_little_as_possible(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(4, 8);
	p4d_candidate found;

	(void)state;
	set_all(&r, MODEL_70B "tp=8 pp=4 cp=1 micro-batch=512 recompute=none");
	assert_int_equal(p4d_search_nearest(&r, &space, &found), 1);
	assert_int_equal(found.request.value[P4D_TP], 8);
	assert_int_equal(found.request.value[P4D_PP], 4);
	assert_true(found.request.value[P4D_MICRO_BATCH] < 512);
	assert_true(found.fraction <= space.safe);
	space.limit = space.safe = 0.001;
	assert_int_equal(p4d_search_nearest(&r, &space, &found), -1);
}

static void smallest_world(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(1, 2);
	p4d_candidate found;
	uint64_t nodes, gpus;

	(void)state;
	set_all(&r, MODEL_13B);
	assert_int_equal(p4d_search_smallest(&r, &space, 8, &nodes, &gpus, &found), 0);
	assert_int_equal(nodes, 1);
	assert_int_equal(gpus, 4);
	memset(&r, 0, sizeof(r));
	set_all(&r, MODEL_70B);
	assert_int_equal(p4d_search_smallest(&r, &space, 8, &nodes, &gpus, &found), 0);
	assert_int_equal(gpus, 8);
	space = space_of(nodes - 1, 8); /* one node fewer is not enough */
	assert_int_equal(p4d_search(&r, &space, &found, 1, NULL), 0);
	space.capacity.gpu = &(p4d_gpu){.name = "toy", .usable_bytes = 1000};
	assert_int_equal(p4d_search_smallest(&r, &space, 8, &nodes, &gpus, &found), -1);
}

static void prints_its_cost(void **state)
{
	static const uint64_t nodes[] = {1, 8, 64, 1024};

	(void)state;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		p4d_request r = {.gpu = ""};
		p4d_search_space space = space_of(nodes[i], 8);
		p4d_candidate found;
		p4d_search_counts counts;
		struct timespec from, to;
		set_all(&r, MODEL_70B);
		clock_gettime(CLOCK_MONOTONIC, &from);
		p4d_search(&r, &space, &found, 1, &counts);
		clock_gettime(CLOCK_MONOTONIC, &to);
		printf("70B on %5d GPUs: %6d layouts considered, %6d fit, %.2f ms\n", (int)(8 * nodes[i]),
		       (int)counts.considered, (int)counts.fitting,
		       1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec));
		assert_true(counts.considered >= counts.fitting);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_the_best),
	    cmocka_unit_test(keeps_what_was_asked),
	    cmocka_unit_test(gives_up_as_little_as_possible),
	    cmocka_unit_test(smallest_world),
	    cmocka_unit_test(prints_its_cost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
