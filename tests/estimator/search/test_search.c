/* SPDX-License-Identifier: Apache-2.0 */
/* The search is as good as a loop over all layouts, keeps the user's values, and reports what would fit. */
#include "support/search_space.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "cost/cost.h"
#include "plan/plan_line.h"
#include "request/defaults.h"

/* Sets a value. Returns false if the user requested another value. */
static bool put(p4d_request *r, p4d_option option, int64_t value)
{
	p4d_request_default(r, option, value, P4D_BY_P4D);
	return r->value[option] == value;
}

/* A loop over all layouts, which computes memory and time of each. least: the shortest step among those
 * that fit; 0: none fits. */
typedef struct walk {
	const p4d_search_space *space;
	p4d_timeline_work work;
	double least;
	uint64_t fitting;
	uint64_t batch; /* global batch of all layouts */
} walk;

static void judge(walk *w, const p4d_layout *layout)
{
	p4d_estimate e;
	p4d_step step;

	if (p4d_memory_estimate(layout, w->space->method, &w->space->capacity, &e, NULL) < 0 ||
	    e.fraction > w->space->limit)
		return;
	assert_int_equal(p4d_cost_step(layout, w->space->capacity.gpu, &w->work, &step, NULL), 0);
	assert_int_equal(layout->global_batch, w->batch);
	w->fitting++;
	if (w->least == 0 || step.seconds < w->least)
		w->least = step.seconds;
}

static void visit(walk *w, p4d_request *r)
{
	static p4d_layout layout;

	p4d_request_default(r, P4D_GLOBAL_BATCH, (int64_t)w->batch, P4D_BY_MODEL);
	p4d_request_complete(r, 0, w->space->nodes * w->space->gpus_per_node);
	if (p4d_layout_build(r, w->space->nodes, w->space->gpus_per_node, &layout, NULL) < 0)
		return;
	judge(w, &layout);
	if (layout.cp == 1 || layout.framework != P4D_FRAMEWORK_P4D)
		return;
	layout.cp_comm = P4D_CP_ALL_GATHER;
	if (w->least == 0 || p4d_cost_bound(&layout, w->space->capacity.gpu, NULL) < w->least)
		judge(w, &layout);
}

/* Visits all schedules that `p4d plan` proposes by itself. */
static void visit_schedules(walk *w, const p4d_request *asked)
{
	for (int schedule = 0; schedule < P4D_SCHEDULES; schedule++)
		for (int64_t vpp = 1; vpp <= (p4d_schedule_kinds[schedule]->chunks ? 2 : 80); vpp++)
			for (int vocabulary = P4D_VOCAB_OFF; vocabulary <= P4D_VOCAB_2; vocabulary++) {
				p4d_request r = *asked;
				if (!p4d_schedule_kinds[schedule]->only_asked &&
				    put(&r, P4D_SCHEDULE, schedule) && put(&r, P4D_VPP, vpp) &&
				    put(&r, P4D_VOCAB_PARALLEL, vocabulary))
					visit(w, &r);
			}
}

static void exhaustive(walk *w, const p4d_request *asked)
{
	const int64_t world = (int64_t)(w->space->nodes * w->space->gpus_per_node);

	for (int64_t tp = 1; tp <= 16; tp++)
		for (int64_t cp = 1; cp <= 64; cp *= 2)
			for (int64_t pp = 1; tp * cp * pp <= world; pp++)
				for (int64_t b = 1; b <= 1024 && world % (tp * cp * pp) == 0; b *= 2)
					for (int64_t r = 0; r <= P4D_RECOMPUTE_FULL; r++) {
						p4d_request trial = *asked;
						if (put(&trial, P4D_TP, tp) && put(&trial, P4D_CP, cp) &&
						    put(&trial, P4D_PP, pp) &&
						    put(&trial, P4D_MICRO_BATCH, b) &&
						    put(&trial, P4D_RECOMPUTE, r))
							visit_schedules(w, &trial);
					}
}

/* Models that people train on 64 GPUs: no layout is faster than the one that the search found. */
static void nothing_is_faster(void **state)
{
	static const char *const models[] = {MODEL_13B "seq-len=2048 ", MODEL_70B "seq-len=4096 ",
					     MODEL_70B "seq-len=8192 "};
	static const char *const more[] = {"framework=p4d", "framework=megatron", "framework=p4d tp=4",
					   "framework=megatron micro-batch=1 cp=1"};
	static const char *const cards[] = {"h100-80gb", "a100-80gb"};
	static const uint32_t batches[] = {128, 1024};
	const size_t stride = test_stride(7, 7);
	unsigned cases = 0, near = 0;

	(void)state;
	for (size_t i = 0; i < 3 * 4 * 2 * 2; i += stride) {
		p4d_search_space space = space_of(8, 8, cards[i / 12 % 2]);
		walk all = {.space = &space, .batch = batches[i / 24]};
		p4d_request r = {.gpu = ""};
		p4d_candidate best;
		space.published_batch = batches[i / 24];
		set_all(&r, models[i % 3]);
		set_all(&r, more[i / 3 % 4]);
		exhaustive(&all, &r);
		size_t n = p4d_search_run(&r, &space, &best, 1, NULL);
		p4d_timeline_work_free(&all.work);
		assert_int_equal(n, all.fitting > 0);
		if (!n)
			continue;
		cases++;
		near += best.step.seconds <= 1.015 * all.least;
		if (best.step.seconds > 1.015 * all.least)
			printf("%s%s on %s: %.2f %% slower than the fastest of %d\n", models[i % 3] + 6,
			       more[i / 3 % 4], cards[i / 12 % 2], 100 * (best.step.seconds / all.least - 1),
			       (int)all.fitting);
	}
	printf("within 1.5 %% of an exhaustive search: %u of %u\n", near, cases);
	assert_true(cases * stride >= 20);
	assert_true(near >= 0.95 * cases);
}

/* Visits all values of ep and etp that are possible with the other degrees. */
static void spread_experts(walk *w, const p4d_request *asked)
{
	for (int64_t etp = 1; etp <= asked->value[P4D_TP]; etp++)
		for (int64_t ep = 1; ep <= asked->value[P4D_EXPERTS]; ep++) {
			p4d_request r = *asked;
			if (asked->value[P4D_TP] % etp == 0 && put(&r, P4D_ETP, etp) && put(&r, P4D_EP, ep))
				visit(w, &r);
		}
}

/* The search tries ep and etp together with all other degrees. */
static void spreads_experts(void **state)
{
	static const char *const models[] = {MODEL_SPARSE "seq-len=4096 micro-batch=1 vpp=1 ",
					     MODEL_LATENT "seq-len=4096 micro-batch=1 vpp=1 ",
					     MODEL_SPARSE "seq-len=4096 micro-batch=1 vpp=1 ep=4 "};
	static const int recomputes[] = {P4D_RECOMPUTE_NONE, P4D_RECOMPUTE_MOE, P4D_RECOMPUTE_FULL};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		p4d_search_space space = space_of(2, 8, "h100-80gb");
		walk all = {.space = &space, .batch = 64};
		p4d_request r = {.gpu = ""};
		p4d_candidate best;
		space.published_batch = 64;
		set_all(&r, models[i]);
		for (int64_t tp = 1; tp <= 8; tp *= 2)
			for (int64_t cp = 1; cp <= 16 / tp; cp *= 2)
				for (int64_t pp = 1; pp <= 16 / tp / cp; pp *= 2)
					for (size_t j = 0; j < 3; j++) {
						p4d_request trial = r;
						put(&trial, P4D_TP, tp);
						put(&trial, P4D_CP, cp);
						put(&trial, P4D_PP, pp);
						put(&trial, P4D_RECOMPUTE, recomputes[j]);
						spread_experts(&all, &trial);
					}
		assert_true(all.fitting > 0);
		assert_int_equal(p4d_search_run(&r, &space, &best, 1, NULL), 1);
		p4d_timeline_work_free(&all.work);
		printf("%s: %.3f s, the fastest of %d %.3f s\n", models[i] + 6, best.step.seconds,
		       (int)all.fitting, all.least);
		assert_true(best.step.seconds <= 1.015 * all.least);
		assert_true(p4d_is_set(&best.request, P4D_EP) && best.request.value[P4D_EP] > 1);
		if (i == 2)
			assert_int_equal(best.request.value[P4D_EP], 4);
	}
}

/* Bytes of the GPU with the most memory; 0: the layout is impossible. */
static uint64_t bytes_with(const char *flags, const char *schedule)
{
	const p4d_capacity none = {NULL, 0, 0};
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	uint64_t bytes;

	set_all(&r, flags);
	set_all(&r, schedule);
	p4d_request_complete(&r, 0, 64);
	if (p4d_layout_build(&r, 8, 8, &l, NULL) < 0)
		return 0;
	assert_true(p4d_memory_fits_below(&l, P4D_METHOD_PLAN, &none, 1, NULL, &bytes));
	return bytes;
}

/* The search skips schedules that need more memory than 1f1b if a micro-batch does not fit with 1f1b. The
 * test checks that they do need more. */
static void fuller_schedules_hold_no_less(void **state)
{
	static const char *const models[] = {MODEL_13B "seq-len=2048 ", MODEL_70B "seq-len=4096 "};
	static const char *const recomputes[] = {"none", "mlp", "full"};
	unsigned compared = 0;

	(void)state;
	for (unsigned i = 0; i < 2 * 2 * 3 * 3 * 3 * 2; i++) {
		char flags[512], interleaved[64];
		snprintf(flags, sizeof(flags),
			 "%sframework=%s pp=%u tp=%u recompute=%s micro-batch=%u global-batch=256",
			 models[i % 2], i / 2 % 2 ? "p4d" : "megatron", 2u << i / 4 % 3, 1u << i / 12 % 3,
			 recomputes[i / 36 % 3], 1u << i / 108 % 2);
		const uint64_t least = bytes_with(flags, "schedule=1f1b");
		for (unsigned vpp = 1; vpp <= 5; vpp++) {
			snprintf(interleaved, sizeof(interleaved),
				 vpp == 1 ? "schedule=zb1p" : "schedule=interleaved vpp=%u", vpp);
			const uint64_t more = bytes_with(flags, interleaved);
			if (more && more < least)
				fail_msg("%s %s: %" PRIu64 " bytes, with 1f1b %" PRIu64, flags, interleaved,
					 more, least);
			compared += more && least;
		}
	}
	assert_true(compared > 200);
}

/* A search for a single layout finds one whose step is at most 1.5 % longer than the shortest step of all
 * layouts that fit. */
static void one_is_the_best_of_all(void **state)
{
	static const struct {
		const char *card;
		uint64_t nodes;
	} worlds[] = {{"h100-80gb", 4}, {"a100-80gb", 2}, {"h200", 4}, {"h100-80gb", 16}};
	static p4d_candidate found[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++) {
		p4d_search_space space = space_of(worlds[i].nodes, 8, worlds[i].card);
		p4d_request r = {.gpu = ""};
		p4d_candidate one;
		double least = INFINITY;
		set_all(&r, MODEL_SPARSE "layers=32 seq-len=4096 framework=megatron global-batch=256");
		const size_t count = p4d_search_run(&r, &space, found, 4096, NULL);
		assert_true(count > 0);
		for (size_t j = 0; j < count; j++)
			least = found[j].step.seconds < least ? found[j].step.seconds : least;
		assert_int_equal(p4d_search_run(&r, &space, &one, 1, NULL), 1);
		printf("%d nodes of %s: %.3f s, the fastest of %zu %.3f s\n", (int)worlds[i].nodes,
		       worlds[i].card, one.step.seconds, count, least);
		assert_true(one.step.seconds <= 1.015 * least);
	}
}

/* DeepSeek V3 on 2,048 GPUs. Expert groups stay within a node or extend over few nodes, and the search is
 * quick. */
static void spreads_the_largest(void **state)
{
	p4d_search_space space = space_of(256, 8, "h100-80gb");
	p4d_request r = {.gpu = ""};
	p4d_candidate found[5];
	const clock_t start = clock();

	(void)state;
	set_all(&r, MODEL_LATENT);
	set_all(
	    &r,
	    "layers=61 hidden=7168 ffn=18432 vocab=129280 experts=256 experts-per-token=8 expert-ffn=2048 "
	    "shared-ffn=2048 dense-layers=3 seq-len=4096");
	space.published_batch = 15360;
	assert_int_equal(p4d_search_run(&r, &space, found, 5, NULL), 5);
	const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	printf("DeepSeek V3 on 2,048 GPUs: %.2f s; ep=%d pp=%d\n", seconds,
	       (int)found[0].request.value[P4D_EP], (int)found[0].request.value[P4D_PP]);
	assert_true(found[0].request.value[P4D_EP] >= 8 && found[0].request.value[P4D_PP] >= 8);
	assert_true(seconds <= 1); /* fifty times the usual time */
}

static int kinds(const p4d_candidate *c)
{
	static const p4d_option options[] = {P4D_TP, P4D_CP, P4D_PP, P4D_VPP};
	int count = 0;

	for (size_t i = 0; i < 4; i++)
		count += c->request.value[options[i]] > 1;
	return count;
}

/* Between layouts with nearly the same step time, the search prefers less memory, and then the simpler
 * layout. */
static void best_comes_first(void **state)
{
	static const char *const flags[] = {"framework=p4d", "framework=megatron",
					    "framework=megatron pp=4 tp=8"};
	static p4d_candidate found[4096];
	unsigned better = 0;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		p4d_request r = {.gpu = ""};
		p4d_search_space space = space_of(8, 8, "h100-80gb");
		p4d_search_counts counts;
		p4d_candidate best, five[5];
		double least = 1e9;
		set_all(&r, MODEL_70B);
		set_all(&r, flags[i]);
		const size_t n = p4d_search_run(&r, &space, found, 4096, &counts);
		assert_true(n >= 5 && counts.considered > n);
		for (size_t j = 0; j < n; j++)
			least = found[j].step.seconds < least ? found[j].step.seconds : least;
		const p4d_candidate *first = &found[0];
		assert_true(first->step.seconds <= 1.015 * least);
		for (size_t j = 1; j < n && found[j].step.seconds <= 1.015 * least; j++) {
			const int step = (int)(50 * found[j].fraction),
				  least_step = (int)(50 * first->fraction);
			assert_true(step > least_step ||
				    (step == least_step && kinds(&found[j]) >= kinds(first)));
			better += step > least_step && found[j].step.seconds < first->step.seconds;
		}
		/* all layouts have the same batch, and a search for fewer of them finds the same first
		 * ones */
		for (size_t j = 0; j < n; j++)
			assert_int_equal(found[j].request.value[P4D_GLOBAL_BATCH], 1024);
		assert_int_equal(p4d_search_run(&r, &space, five, 5, &counts), 5);
		for (size_t j = 0; j < 5; j++)
			assert_false(p4d_plan_differs(&five[j].request, &found[j].request, NULL));
		assert_int_equal(p4d_search_run(&r, &space, &best, 1, NULL), 1);
		assert_false(p4d_plan_differs(&best.request, &found[0].request, NULL));
		/* sbatch chooses another layout if the first one needs more than `safe` */
		space.safe = found[0].fraction - 0.01;
		assert_true(p4d_search_preferred(&r, &space, &best, NULL));
		assert_int_equal(p4d_search_run(&r, &space, five, 5, &counts), 5);
		assert_true(counts.has_safe && five[0].fraction > space.safe);
		assert_false(p4d_plan_differs(&best.request, &counts.safe.request, NULL));
	}
	assert_true(better > 0); /* some layouts are faster, but so little that they count as tied, and
				  * they need more memory */
}

/* Without rates of the GPU, the documented rules order the layouts. Memory is still checked. */
static void without_a_clock(void **state)
{
	p4d_gpu unknown = {
	    .name = "toy", .usable_bytes = UINT64_C(84932804608), .nominal_bytes = 80000000000};
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(1, 8, "h100-80gb");
	p4d_candidate found[32];

	(void)state;
	space.capacity.gpu = &unknown;
	set_all(&r, MODEL_13B);
	size_t n = p4d_search_run(&r, &space, found, 32, NULL);
	assert_true(n > 2);
	for (size_t i = 0; i < n; i++)
		assert_true(found[i].step.seconds == 0);
	assert_true(found[0].fraction <= space.safe);
	for (size_t i = 1; i < n; i++) {
		const bool safe = found[i].fraction <= space.safe,
			   safer = found[i - 1].fraction <= space.safe;
		assert_true(safer >= safe);
		if (safer == safe)
			assert_true(found[i - 1].request.value[P4D_RECOMPUTE] <=
				    found[i].request.value[P4D_RECOMPUTE]);
	}
	assert_int_equal(found[0].request.value[P4D_RECOMPUTE], P4D_RECOMPUTE_NONE);
}

/* 126 layers on 16 stages: the middle stages get one more layer. */
static void splits_layers_that_do_not_divide(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(128, 8, "h100-80gb");
	p4d_candidate found;

	(void)state;
	set_all(&r, MODEL_70B);
	p4d_request_put(&r, P4D_LAYERS, 126, P4D_BY_USER);
	p4d_request_put(&r, P4D_PP, 16, P4D_BY_USER);
	assert_int_equal(p4d_search_run(&r, &space, &found, 1, NULL), 1);
	assert_true(p4d_is_set(&found.request, P4D_PIPELINE_SPLIT));
	assert_int_equal(found.request.origin[P4D_PIPELINE_SPLIT], P4D_BY_P4D);
	p4d_request_put(&r, P4D_SCHEDULE, P4D_1F1B, P4D_BY_USER);
	assert_int_equal(p4d_search_run(&r, &space, &found, 1, NULL), 1);
	assert_string_equal(found.request.pipeline_split, "7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7");
}

/* With embedding and loss counted as layers, 405B has 128 layers, which divide evenly where 126 do not. No
 * pipeline-split is added then. */
static void divides_layers_and_counted_ends(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(64, 8, "h100-80gb");
	p4d_candidate found[8];

	(void)state;
	set_all(&r, MODEL_LLAMA_405B "framework=megatron "
				     "grad-dtype=bf16 seq-len=8192 global-batch=256 account-for-embedding=on "
				     "account-for-loss=on");
	size_t n = p4d_search_run(&r, &space, found, 8, NULL);
	assert_true(n > 1);
	for (size_t i = 0; i < n; i++) {
		const p4d_request *layout = &found[i].request;
		assert_false(p4d_is_set(layout, P4D_PIPELINE_SPLIT));
		assert_int_equal(128 % (layout->value[P4D_PP] * layout->value[P4D_VPP]), 0);
	}
	/* the search finds NVIDIA's own layout */
	set_all(&r, "tp=8 pp=8 cp=2 vpp=8");
	assert_int_equal(p4d_search_run(&r, &space, found, 1, NULL), 1);
	assert_true(found[0].fraction <= space.limit);
	/* the first and the last chunk have no layer */
	p4d_request_put(&r, P4D_LAYERS, 30, P4D_BY_USER);
	set_all(&r, "pp=4");
	assert_int_equal(p4d_search_run(&r, &space, found, 1, NULL), 1);
}

/* With short sequences on many ranks, a ring would only wait, so the search gathers keys. It keeps a
 * method that the user chose, and Megatron-LM's p2p. */
static void gathers_keys_where_that_is_faster(void **state)
{
	p4d_search_space space = space_of(8, 8, "h100-80gb");
	p4d_request r = {.gpu = ""}, asked, megatron;
	p4d_candidate found, other;
	char flags[512];

	(void)state;
	set_all(&r, MODEL_13B "layers=16 seq-len=2048 tp=1 cp=64 micro-batch=1 pp=1 recompute=none");
	assert_int_equal(p4d_search_run(&r, &space, &found, 1, NULL), 1);
	assert_int_equal(found.request.value[P4D_CP_COMM], P4D_CP_ALL_GATHER);
	assert_int_equal(found.request.origin[P4D_CP_COMM], P4D_BY_P4D);
	p4d_request_flags(&found.request, "--", 1u << P4D_BY_P4D, flags, sizeof(flags));
	assert_non_null(strstr(flags, "--cp-comm=all-gather"));
	asked = megatron = r;
	set_all(&asked, "cp-comm=p2p");
	assert_int_equal(p4d_search_run(&asked, &space, &other, 1, NULL), 1);
	assert_int_equal(other.request.value[P4D_CP_COMM], P4D_CP_P2P);
	assert_true(other.step.seconds > found.step.seconds && other.fraction < found.fraction);
	/* if gathered keys do not fit, the search takes the ring */
	space.limit = (other.fraction + found.fraction) / 2;
	assert_int_equal(p4d_search_run(&r, &space, &found, 1, NULL), 1);
	assert_int_equal(found.request.value[P4D_CP_COMM], P4D_CP_P2P);
	p4d_search_counts counts;
	assert_int_equal(p4d_search_run(&r, &space, &found, 1, &counts), 1);
	assert_int_equal(found.request.value[P4D_CP_COMM], P4D_CP_P2P);
	space.limit = 0.95;
	set_all(&megatron, "framework=megatron");
	assert_int_equal(p4d_search_run(&megatron, &space, &other, 1, NULL), 1);
	assert_int_equal(other.request.value[P4D_CP_COMM], P4D_CP_P2P);
}

static void keeps_what_was_asked(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(4, 8, "h100-80gb");
	p4d_candidate found[64];

	(void)state;
	set_all(&r, MODEL_70B "tp=4 recompute=mlp");
	size_t n = p4d_search_run(&r, &space, found, 64, NULL);
	assert_true(n > 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(found[i].request.value[P4D_TP], 4);
		assert_int_equal(found[i].request.value[P4D_RECOMPUTE], P4D_RECOMPUTE_MLP);
		assert_true(found[i].fraction <= space.limit);
	}
}

/* With full recomputation, zb1p is as fast as 1f1b but needs more memory, so the search does not propose
 * it. */
static void proposes_nothing_that_cannot_gain(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(4, 8, "h100-80gb");
	static p4d_candidate found[2048];
	unsigned split = 0, asked = 0;

	(void)state;
	set_all(&r, MODEL_70B "framework=p4d recompute=full");
	size_t n = p4d_search_run(&r, &space, found, 2048, NULL);
	for (size_t i = 0; i < n; i++) {
		assert_int_not_equal(found[i].request.value[P4D_SCHEDULE], P4D_ZB1P);
		split += found[i].request.value[P4D_SCHEDULE] == P4D_ZBV;
	}
	assert_true(split > 0);
	set_all(&r, "schedule=zb1p");
	n = p4d_search_run(&r, &space, found, 2048, NULL);
	for (size_t i = 0; i < n; i++)
		asked += found[i].request.value[P4D_SCHEDULE] == P4D_ZB1P;
	assert_true(asked > 0 && asked == n);
}

static void gives_up_as_little_as_possible(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_search_space space = space_of(4, 8, "h100-80gb");
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
	p4d_search_space space = space_of(1, 2, "h100-80gb");
	p4d_candidate found;
	uint64_t nodes, per_node;

	(void)state;
	set_all(&r, MODEL_13B);
	assert_int_equal(p4d_search_smallest(&r, &space, 8, &nodes, &per_node, &found), 0);
	assert_int_equal(nodes, 1);
	assert_int_equal(per_node, 4);
	memset(&r, 0, sizeof(r));
	set_all(&r, MODEL_70B);
	assert_int_equal(p4d_search_smallest(&r, &space, 8, &nodes, &per_node, &found), 0);
	assert_int_equal(per_node, 8);
	space = space_of(nodes - 1, 8, "h100-80gb"); /* with one node less, nothing fits */
	assert_int_equal(p4d_search_run(&r, &space, &found, 1, NULL), 0);
	space.capacity.gpu = &(p4d_gpu){.name = "toy", .usable_bytes = 1000};
	assert_int_equal(p4d_search_smallest(&r, &space, 8, &nodes, &per_node, &found), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_faster),
	    cmocka_unit_test(spreads_experts),
	    cmocka_unit_test(fuller_schedules_hold_no_less),
	    cmocka_unit_test(one_is_the_best_of_all),
	    cmocka_unit_test(spreads_the_largest),
	    cmocka_unit_test(best_comes_first),
	    cmocka_unit_test(without_a_clock),
	    cmocka_unit_test(splits_layers_that_do_not_divide),
	    cmocka_unit_test(divides_layers_and_counted_ends),
	    cmocka_unit_test(gathers_keys_where_that_is_faster),
	    cmocka_unit_test(keeps_what_was_asked),
	    cmocka_unit_test(gives_up_as_little_as_possible),
	    cmocka_unit_test(smallest_world),
	    cmocka_unit_test(proposes_nothing_that_cannot_gain),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
