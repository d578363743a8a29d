/* SPDX-License-Identifier: Apache-2.0 */
/* The search shards gradients and parameters only if no layout with less sharding fits. */
#include "support/search_space.h"

#include "cost/cost.h"
#include "request/defaults.h"

enum { ROOM = 4096 };
static p4d_candidate found[ROOM];

static size_t search(const char *options, uint64_t nodes, uint64_t per_node)
{
	p4d_request r = {.gpu = ""};
	const p4d_search_space space = space_of(nodes, per_node, "h100-80gb");

	set_all(&r, options);
	const size_t count = p4d_search_run(&r, &space, found, ROOM, NULL);
	assert_true(count < ROOM);
	return count;
}

static int64_t sharding_of(const p4d_candidate *c)
{
	return c->request.value[P4D_OPTIMIZER_SHARDING];
}

static p4d_layout holds(const p4d_candidate *c, uint64_t nodes, uint64_t per_node)
{
	const p4d_layout l = layout_that_holds(c, nodes, per_node);

	assert_int_equal(l.zero_stage, sharding_of(c));
	return l;
}

/* 70B without tensor and pipeline parallelism: all gradients are 282 GB, too much for one rank. */
#define ALONE MODEL_70B "framework=p4d seq-len=8192 global-batch=1024 tp=1 pp=1 "

static void only_parameters_fit(void **state)
{
	(void)state;
	assert_int_equal(search(ALONE "optimizer-sharding=states", 16, 8), 0);
	assert_int_equal(search(ALONE "optimizer-sharding=gradients", 16, 8), 0);
	const size_t count = search(ALONE, 16, 8);
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(sharding_of(&found[i]), P4D_SHARD_PARAMETERS);
		holds(&found[i], 16, 8);
	}
	/* the layout is as fast as with the sharding set by the user */
	const p4d_candidate best = found[0];
	assert_true(search(ALONE "optimizer-sharding=parameters", 16, 8) > 0);
	assert_true(best.step.seconds <= 1.015 * found[0].step.seconds);
}

/* 13B on 2 nodes. A node has enough memory for all shards, and NVLink is faster than the network, so the
 * search shards within nodes. */
static void inside_nodes(void **state)
{
	unsigned inside = 0;

	(void)state;
	const size_t count =
	    search(MODEL_13B "framework=p4d seq-len=4096 global-batch=256 tp=1 pp=1 cp=1 recompute=none "
			     "micro-batch=1",
		   2, 8);
	assert_true(count > 1);
	for (size_t i = 0; i < count; i++) {
		const p4d_layout l = holds(&found[i], 2, 8);
		assert_true(l.zero_stage > P4D_SHARD_STATES);
		assert_true(l.shard_degree == 0 || l.shard_degree == 8);
		inside += l.shard_degree == 8;
	}
	assert_true(inside > 0 && inside < count);
}

/* The search does not shard more than states in three cases: something fits with sharded states, the
 * framework is not p4d-train, or the user set the sharding. */
static void states_stay(void **state)
{
	static const struct {
		const char *options;
		int64_t sharding;
	} cases[] = {
	    {MODEL_70B "framework=p4d seq-len=8192 global-batch=512", P4D_SHARD_STATES},
	    {MODEL_70B "framework=megatron seq-len=8192 global-batch=512", P4D_SHARD_STATES},
	    {MODEL_70B "framework=p4d seq-len=8192 global-batch=512 optimizer-sharding=gradients",
	     P4D_SHARD_GRADIENTS},
	    {MODEL_70B "framework=p4d seq-len=8192 global-batch=512 optimizer-sharding=off",
	     P4D_SHARD_NOTHING},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
		const size_t count = search(cases[k].options, 8, 8);
		assert_true(count > 0);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(sharding_of(&found[i]), cases[k].sharding);
			assert_false(p4d_is_set(&found[i].request, P4D_SHARD_DEGREE));
		}
	}
	assert_int_equal(
	    search(MODEL_70B "framework=megatron seq-len=8192 global-batch=1024 tp=1 pp=1", 16, 8), 0);
}

/* The search prefers a layout that shards only states, as long as it fits, even if it needs more than
 * `safe` and more sharding would not. */
static void above_safe_before_sharing(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(16, 8, "h100-80gb");
	p4d_search_counts counts = {.considered = 0};

	(void)state;
	set_all(&r, ALONE);
	assert_true(p4d_search_preferred(&r, &space, &found[0], &counts));
	assert_int_equal(sharding_of(&found[0]), P4D_SHARD_PARAMETERS);

	p4d_request wide = {.gpu = ""};
	space = space_of(2, 8, "h100-80gb");
	set_all(&wide, MODEL_13B "framework=p4d seq-len=4096 global-batch=256 tp=2 pp=1 cp=1");
	assert_true(p4d_search_run(&wide, &space, &found[0], 1, NULL) == 1);
	/* only layouts with sharded parameters need so little memory */
	space.safe = space.limit = 0.5;
	assert_true(p4d_search_run(&wide, &space, &found[1], 1, NULL) == 1);
	assert_int_equal(sharding_of(&found[1]), P4D_SHARD_PARAMETERS);
	space.limit = 0.95;
	assert_true(p4d_search_preferred(&wide, &space, &found[1], &counts));
	assert_int_equal(sharding_of(&found[1]), P4D_SHARD_STATES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_parameters_fit),
	    cmocka_unit_test(inside_nodes),
	    cmocka_unit_test(states_stay),
	    cmocka_unit_test(above_safe_before_sharing),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
