/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of lower bounds that the search relies on: no step is shorter than its bound, and no bound is
 * below its floor. */
#include "support/support.h"

#include "cost/cost_internal.h"
#include "request/defaults.h"
#include "support/cost_gpus.h"

static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static uint32_t pick(uint32_t *state, const uint32_t *from, uint32_t count)
{
	return from[next(state) % count];
}

/* A random request, whose layout may be refused. */
static void random_options(uint32_t *state, char *options, size_t size, uint32_t *nodes)
{
	static const uint32_t degrees[] = {1, 1, 2, 4, 8}, stages[] = {1, 2, 4, 5, 8, 10, 20},
			      chunks[] = {1, 1, 2, 4, 5};
	static const char *const schedules[] = {"gpipe", "1f1b", "1f1b",   "interleaved",
						"zb1p",  "zbv",  "v-half", "dualpipe-v"};
	static const char *const vocabularies[] = {"off", "off", "vocab-1", "vocab-2"};
	static const char *const recomputes[] = {"none", "selective", "mlp", "full"};
	static const char *const splits[] = {"", "", "", " pipeline-split=8,12,12,8",
					     " pipeline-split=10,8,12,10"};
	uint32_t tp = pick(state, degrees, 5), cp = pick(state, degrees, 4), pp = pick(state, stages, 7);
	uint32_t dp = pick(state, degrees, 5), micro = 1 + next(state) % 40, schedule = next(state) % 8;
	uint32_t micro_batch = 1u << next(state) % 3;
	uint32_t vpp = schedule >= 5 ? 2 : schedule == 3 ? pick(state, chunks, 5) : 1;

	*nodes = (tp * cp * pp * dp + 7) / 8;
	snprintf(options, size,
		 MODEL_13B "seq-len=4096 framework=%s tp=%u cp=%u pp=%u vpp=%u schedule=%s vocab-parallel=%s "
			   "recompute=%s micro-batch=%u global-batch=%u%s%s",
		 next(state) % 2 ? "megatron" : "p4d", tp, cp, pp, vpp, schedules[schedule],
		 vocabularies[next(state) % 4], recomputes[next(state) % 4], micro_batch,
		 micro * micro_batch * dp, pp == 4 ? splits[next(state) % 5] : "",
		 (schedule == 1 || schedule == 2) && micro % 3 == 0 ? " local-loss=stage" : "");
}

/* How close the bound is to the step time, for each schedule. */
typedef struct nearness {
	double sum;
	unsigned count;
} nearness;

static double mean_of(const nearness *n)
{
	assert_true(n->count >= 50);
	return n->sum / n->count;
}

/* The floor for the layout's tp and cp, with any larger micro-batch and without recomputation, is at most
 * the layout's bound. The floor for its own micro-batch plus the ramp is also at most the bound. */
static void compare_floors(const p4d_layout *l, const p4d_gpu *gpu, bool uneven, uint32_t *seed, double bound,
			   const char *options)
{
	const double batch = (double)l->global_batch, most = bound * (1 + 1e-9);
	p4d_layout of = *l;

	of.schedule = P4D_1F1B;
	of.megatron.recompute_modules = 0;
	of.pp = l->vocab_parallel || uneven ? 1 : l->pp;
	const p4d_cost_least own = p4d_cost_floor(&of, gpu, NULL);
	const double ramp = uneven ? 0 : p4d_cost_ramp(l, own.layers * batch);
	if ((own.layers + own.head) * batch + ramp > most)
		fail_msg("%s: bound %g is below floor and ramp", options, bound);
	of.recompute = P4D_RECOMPUTE_NONE;
	of.micro_batch *= 1 + next(seed) % 64;
	const p4d_cost_least any = p4d_cost_floor(&of, gpu, NULL);
	if ((any.layers + any.head) * batch > most)
		fail_msg("%s: bound %g is below the floor", options, bound);
}

/* No schedule is faster than the bound, and the bound is close enough to be useful. */
static void bound_is_below(void **state)
{
	p4d_timeline_work work = {0};
	uint32_t seed = 20250614, tried = 0;
	nearness plain[P4D_SCHEDULES] = {{0}}, cut[P4D_SCHEDULES] = {{0}};
	(void)state;

	while (tried < 5500) {
		char options[1024];
		p4d_request r = {.gpu = ""};
		uint32_t nodes;
		p4d_layout l;
		p4d_step step;
		p4d_error err;
		p4d_gpu gpu = gpu_named(next(&seed) % 2 ? "a100-80gb" : "b200");
		gpu.net_bytes_per_s /= next(&seed) % 3 ? 1 : 20;
		random_options(&seed, options, sizeof(options), &nodes);
		set_all(&r, options);
		p4d_request_complete(&r, 0, (uint64_t)nodes * 8);
		if (p4d_layout_build(&r, nodes, 8, &l, NULL) < 0)
			continue;
		tried++;
		if (p4d_cost_step(&l, &gpu, &work, &step, &err) < 0)
			fail_msg("%s: %s", options, err.text);
		double bound = p4d_cost_bound(&l, &gpu, NULL);
		/* the simulated time may be too short by a thousandth */
		if (!(bound <= step.seconds * 1.001 && bound > 0))
			fail_msg("%s: bound %g, step %g", options, bound, step.seconds);
		compare_floors(&l, &gpu, *r.pipeline_split || l.layers % l.pp, &seed, bound, options);
		nearness *of = &(l.vocab_parallel ? cut : plain)[l.schedule];
		of->sum += bound / step.seconds;
		of->count++;
	}
	p4d_timeline_work_free(&work);
	static const double least[P4D_SCHEDULES] = {
	    [P4D_1F1B] = 0.95, [P4D_INTERLEAVED] = 0.9, [P4D_ZB1P] = 0.9,
	    [P4D_ZBV] = 0.8,   [P4D_V_HALF] = 0.65,     [P4D_DUALPIPE_V] = 0.75};
	for (int kind = 0; kind < P4D_SCHEDULES; kind++) {
		if (least[kind] == 0)
			continue;
		printf("bound / step, schedule %d: %.3f\n", kind, mean_of(&plain[kind]));
		assert_true(mean_of(&plain[kind]) > least[kind]);
	}
	printf("with vocabulary parallelism: %.3f, %.3f\n", mean_of(&cut[P4D_1F1B]),
	       mean_of(&cut[P4D_V_HALF]));
	assert_true(mean_of(&cut[P4D_1F1B]) > 0.85 && mean_of(&cut[P4D_V_HALF]) > 0.7);
}

/* A layout of a model with experts, which may be refused. */
static void random_experts(uint32_t *state, char *options, size_t size, uint32_t *nodes)
{
	static const uint32_t degrees[] = {1, 1, 2, 4, 8}, spread[] = {1, 2, 4, 8, 16}, shards[] = {1, 1, 2};
	static const char *const recomputes[] = {"none", "moe", "full"};
	const uint32_t tp = pick(state, degrees, 4), cp = pick(state, degrees, 3),
		       pp = pick(state, degrees, 4), dp = pick(state, degrees, 5),
		       micro = 1 + next(state) % 20, vpp = 1 + next(state) % 2;

	*nodes = (tp * cp * pp * dp + 7) / 8;
	snprintf(options, size,
		 "%sseq-len=4096 tp=%u cp=%u pp=%u vpp=%u schedule=%s ep=%u etp=%u imbalance=%s recompute=%s "
		 "overlap-dp=%s global-batch=%u",
		 next(state) % 2 ? MODEL_LATENT : MODEL_SPARSE, tp, cp, pp, vpp,
		 vpp > 1 ? "interleaved" : "1f1b", pick(state, spread, 5), pick(state, shards, 3),
		 next(state) % 2 ? "1" : "1.5", recomputes[next(state) % 3], next(state) % 2 ? "on" : "off",
		 micro * dp * pp);
}

/* Bounds of models with experts whose stages have dense layers and layers with experts. Cached results
 * must be equal. */
static void bound_with_experts(void **state)
{
	p4d_timeline_work work = {0};
	p4d_cost_cache memory = {0};
	uint32_t seed = 7, tried = 0;
	nearness all = {0};
	(void)state;

	while (tried < 1500) {
		char options[1024];
		p4d_request r = {.gpu = ""};
		uint32_t nodes;
		p4d_layout l;
		p4d_step step;
		p4d_error err;
		const p4d_gpu gpu = gpu_named("h100-80gb");
		random_experts(&seed, options, sizeof(options), &nodes);
		set_all(&r, options);
		p4d_request_complete(&r, 0, (uint64_t)nodes * 8);
		if (p4d_layout_build(&r, nodes, 8, &l, NULL) < 0)
			continue;
		tried++;
		if (p4d_cost_step(&l, &gpu, &work, &step, &err) < 0)
			fail_msg("%s: %s", options, err.text);
		const double bound = p4d_cost_bound(&l, &gpu, NULL);
		if (!(bound <= step.seconds * 1.001 && bound > 0))
			fail_msg("%s: bound %g, step %g", options, bound, step.seconds);
		/* a cache is for one request and world size: requests alternate, so the cache starts anew */
		memory = (p4d_cost_cache){0};
		const double first = p4d_cost_bound(&l, &gpu, &memory);
		if (first != bound || p4d_cost_bound(&l, &gpu, &memory) != bound)
			fail_msg("%s: not %g", options, bound);
		compare_floors(&l, &gpu, *r.pipeline_split || l.layers % l.pp, &seed, bound, options);
		all.sum += bound / step.seconds;
		all.count++;
	}
	p4d_timeline_work_free(&work);
	printf("bound / step, with experts: %.3f\n", mean_of(&all));
	assert_true(mean_of(&all) > 0.9);
}

/* Layouts get separate cache entries if they differ in an option that changes the passes of experts. */
static void remembers_experts_apart(void **state)
{
	static const char *const options[] = {"ep=1",
					      "ep=2",
					      "ep=4",
					      "ep=8",
					      "ep=2 etp=2 tp=2",
					      "ep=2 tp=2",
					      "ep=8 cp=2",
					      "ep=8 recompute=moe",
					      "ep=8 recompute=full",
					      "ep=8 pp=2",
					      "ep=8 micro-batch=2"};
	const p4d_gpu gpu = gpu_named("h100-80gb");
	p4d_cost_cache memory = {0};

	(void)state;
	for (int turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
			p4d_request r = {.gpu = ""};
			p4d_layout l;
			p4d_error err;
			set_all(&r, MODEL_SPARSE "seq-len=4096 global-batch=256");
			set_all(&r, options[i]);
			p4d_request_complete(&r, 0, 64);
			if (p4d_layout_build(&r, 8, 8, &l, &err) < 0)
				fail_msg("%s: %s", options[i], err.text);
			const double bound = p4d_cost_bound(&l, &gpu, NULL);
			if (p4d_cost_bound(&l, &gpu, &memory) != bound)
				fail_msg("%s: not %g", options[i], bound);
		}
}

/* The cache changes no bound by a single bit: a value is shared only by layouts for which it is the same. */
static void remembers_what_is_the_same(void **state)
{
	static const uint32_t degrees[] = {1, 2, 4, 8};
	static const char *const frameworks[] = {"p4d", "megatron"};
	static const char *const schedules[] = {"1f1b", "interleaved", "zb1p", "zbv", "v-half"};
	static const char *const vocabularies[] = {"off", "vocab-1", "vocab-2"};
	static const char *const recomputes[] = {"none", "selective", "mlp", "full"};
	const p4d_gpu gpu = gpu_named("h100-80gb");
	uint32_t seed = 5;

	(void)state;
	for (int i = 0; i < 2; i++) {
		p4d_cost_cache memory = {0};
		for (unsigned tried = 0; tried < 3000;) {
			char options[1024];
			p4d_request r = {.gpu = ""};
			p4d_layout l;
			const uint32_t schedule = next(&seed) % (i ? 2 : 5);
			snprintf(options, sizeof(options),
				 MODEL_13B
				 "tied=on seq-len=4096 framework=%s tp=%u cp=%u cp-comm=%s pp=%u vpp=%d "
				 "schedule=%s vocab-parallel=%s recompute=%s micro-batch=%u "
				 "global-batch=1024",
				 frameworks[i], pick(&seed, degrees, 4), pick(&seed, degrees, 3),
				 next(&seed) % 2 ? "p2p" : "all-gather", pick(&seed, degrees, 4),
				 schedule == 0 || schedule == 2 ? 1 : 2, schedules[schedule],
				 vocabularies[i ? 0 : next(&seed) % 3], recomputes[next(&seed) % 4],
				 pick(&seed, degrees, 4) + next(&seed) % 2);
			set_all(&r, options);
			p4d_request_complete(&r, 0, 64);
			if (p4d_layout_build(&r, 8, 8, &l, NULL) < 0)
				continue;
			tried++;
			const double bound = p4d_cost_bound(&l, &gpu, NULL);
			if (p4d_cost_bound(&l, &gpu, &memory) != bound)
				fail_msg("%s: not %g", options, bound);
		}
	}
}

/* Layouts with different micro-batches and degrees rarely collide in the cache. */
static void keeps_what_differs(void **state)
{
	static const char *const recomputes[] = {"none", "mlp", "full"};
	p4d_cost_cache memory = {0};
	const p4d_gpu gpu = gpu_named("h100-80gb");
	p4d_layout l;
	int kept = 0;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		char options[512];
		p4d_request r = {0};
		snprintf(options, sizeof(options),
			 MODEL_13B "seq-len=2048 framework=p4d tp=%u pp=1 cp=1 recompute=%s micro-batch=%u "
				   "global-batch=1024",
			 1u << i % 4, recomputes[i / 4 % 3], 1u << i / 12);
		set_all(&r, options);
		p4d_request_complete(&r, 0, 64);
		assert_int_equal(p4d_layout_build(&r, 1, 8, &l, NULL), 0);
		p4d_cost_bound(&l, &gpu, &memory);
	}
	for (int i = 0; i < P4D_COST_CACHE_PLACES; i++)
		kept += memory.place[i].key != 0;
	/* 60 layers, 20 embeddings and 20 heads; with random keys, some 17 places would collide */
	assert_within(kept, 70, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bound_is_below),          cmocka_unit_test(bound_with_experts),
	    cmocka_unit_test(remembers_experts_apart), cmocka_unit_test(remembers_what_is_the_same),
	    cmocka_unit_test(keeps_what_differs),
	};
	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
