/* SPDX-License-Identifier: Apache-2.0 */
/* How fast an inference engine answers, and which layout answers for the least.
 * tests/command/test_validate.sh holds these speeds against what others measured. */
#include "support/support.h"

#include <math.h>

#include "model/model.h"
#include "serve/serving_search.h"
#include "support/cost_gpus.h"

static p4d_gpu h100;

static int setup(void **state)
{
	if (load_gpus(state) < 0)
		return -1;
	h100 = gpu_named("h100-80gb");
	return 0;
}

static p4d_request request_of(const char *flags)
{
	p4d_request r = {.model = ""};
	p4d_error err = {0};

	set_all(&r, flags);
	if (p4d_model_resolve(&r, NULL, NULL, &err) < 0)
		fail_msg("%s: %s", flags, err.text);
	p4d_serving_complete(&r, &h100);
	return r;
}

/* Of so many GPUs in nodes of eight. */
static p4d_serving_speed speed_on(const char *flags, uint64_t world)
{
	const p4d_request r = request_of(flags);
	const p4d_serving_load load = p4d_serving_load_of(&r);
	p4d_serving_speed speed = {0};
	p4d_error err = {0};
	p4d_serving s;

	if (p4d_serving_estimate(&r, &h100, world, &s, &err) < 0 ||
	    p4d_serving_speed_of(&r, &h100, 8, &s, &load, &speed, &err) < 0)
		fail_msg("%s: %s", flags, err.text);
	return speed;
}

#define LLAMA "workload=serve model=llama3.1-8b seq-len=4096 "

/* One sequence alone reads all weights for each token. */
static void weights_bound_one_sequence(void **state)
{
	const p4d_serving_speed v = speed_on(LLAMA "concurrency=1", 1);
	const double read = 2 * 8.03e9 / h100.hbm_bytes_per_s;

	(void)state;
	assert_true(v.between_tokens_s > read && v.between_tokens_s < 2 * read);
	assert_true(fabs(v.tokens_per_s * v.between_tokens_s - 1) < 1e-9);
	/* a prompt of 1,024 tokens at the rate of training's products */
	const double products = 2 * 8.03e9 * 1024 / (h100.peak_bf16_flops * h100.gemm_efficiency);
	assert_true(v.first_token_s > products && v.first_token_s < 3 * products);
}

static void more_in_flight_are_slower_and_more(void **state)
{
	p4d_serving_speed last = speed_on(LLAMA "concurrency=1", 1);

	(void)state;
	for (int n = 2; n <= 256; n *= 2) {
		char flags[128];
		snprintf(flags, sizeof(flags), LLAMA "concurrency=%d", n);
		const p4d_serving_speed v = speed_on(flags, 1);
		assert_true(v.tokens_per_s > last.tokens_per_s);
		assert_true(v.between_tokens_s > last.between_tokens_s);
		assert_true(fabs(v.at_a_time - n) < 1e-9);
		last = v;
	}
	/* more than the cache holds wait */
	const p4d_serving_speed full = speed_on(LLAMA, 1), crowded = speed_on(LLAMA "concurrency=5000", 1);
	assert_true(crowded.at_a_time <= full.most && crowded.tokens_per_s <= full.most_tokens_per_s + 1);
	assert_true(crowded.first_token_s > 2 * full.first_token_s);
	/* replicas share them */
	const p4d_serving_speed shared = speed_on(LLAMA "concurrency=64", 8),
				alone = speed_on(LLAMA "concurrency=8", 1);
	assert_true(fabs(shared.between_tokens_s / alone.between_tokens_s - 1) < 1e-9);
	assert_true(fabs(shared.tokens_per_s / alone.tokens_per_s - 8) < 1e-9);
}

/* Requests in flight are the rate times the seconds of an answer. */
static void arrivals_balance(void **state)
{
	const p4d_serving_speed v = speed_on(LLAMA "rate=10 prompt-len=500 answer-len=200", 1);
	const p4d_serving_speed late = speed_on(LLAMA "rate=1000 prompt-len=500 answer-len=200", 1);

	(void)state;
	assert_true(fabs(v.at_a_time / (10 * 200 * v.between_tokens_s) - 1) < 1e-3);
	assert_true(fabs(v.requests_per_s / 10 - 1) < 1e-3);
	assert_true(v.first_token_s > 0);
	assert_true(late.first_token_s == 0 && late.requests_per_s < 1000);
	assert_true(fabs(late.tokens_per_s / late.most_tokens_per_s - 1) < 1e-9);
}

/* MARLIN (arXiv 2408.11743): weights of 4 bits make small batches almost four times as fast, large ones
 * hardly. */
static void four_bits_help_small_batches(void **state)
{
	const char *const
	    small = "workload=serve model=llama3.1-70b tp=4 seq-len=512 prompt-len=1 answer-len=64 "
		    "concurrency=16",
	    *const large = "workload=serve model=llama3.1-70b tp=4 seq-len=512 prompt-len=256 answer-len=64 "
			   "concurrency=512";
	char flags[256];

	(void)state;
	snprintf(flags, sizeof(flags), "%s stored=int4", small);
	const double few = speed_on(flags, 4).tokens_per_s / speed_on(small, 4).tokens_per_s;
	snprintf(flags, sizeof(flags), "%s stored=int4", large);
	const double many = speed_on(flags, 4).tokens_per_s / speed_on(large, 4).tokens_per_s;
	assert_true(few > 1.5 && few < 4);
	assert_true(many > 1 && many < 1.15);
}

static void weights_on_the_host_are_slow(void **state)
{
	const double here = speed_on(LLAMA "concurrency=1", 1).between_tokens_s,
		     there = speed_on(LLAMA "concurrency=1 cpu-offload-gb=8", 1).between_tokens_s;
	const double link = 8 * 1073741824.0 / h100.host_link_bytes_per_s;

	(void)state;
	assert_true(there - here > link && there - here < 1.5 * link);
}

static void bad_loads_are_refused(void **state)
{
	const struct {
		const char *flags;
		p4d_code code;
		bool rated;
	} cases[] = {{LLAMA "prompt-len=4000 answer-len=200", P4D_E_VALUE, true},
		     {LLAMA "prompt-len=100 answer-len=100", P4D_E_NO_RATES, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_request r = request_of(cases[i].flags);
		const p4d_serving_load load = p4d_serving_load_of(&r);
		p4d_gpu gpu = h100;
		p4d_serving_speed speed;
		p4d_error err = {0};
		p4d_serving s;

		if (!cases[i].rated)
			gpu.hbm_bytes_per_s = 0;
		assert_int_equal(p4d_serving_estimate(&r, &gpu, 1, &s, &err), 0);
		assert_int_equal(p4d_serving_speed_of(&r, &gpu, 8, &s, &load, &speed, &err), -1);
		assert_int_equal(err.code, cases[i].code);
	}
}

enum { ROOM = 8 };

static size_t search(const char *flags, uint64_t nodes, double first, double between,
		     p4d_serving_found found[ROOM], p4d_serving_counts *counts)
{
	const p4d_request r = request_of(flags);
	const p4d_serving_space space = {&h100, nodes, 8, first, between};

	return p4d_serving_search(&r, &space, found, ROOM, counts, NULL);
}

static void the_cheapest_comes_first(void **state)
{
	p4d_serving_found found[ROOM];
	p4d_serving_counts counts;
	const size_t count =
	    search("workload=serve model=llama3.1-70b seq-len=4096", 1, 0, 0, found, &counts);

	(void)state;
	assert_true(count > 2 && counts.considered >= count + counts.too_large);
	for (size_t i = 1; i < count; i++)
		assert_true(found[i].speed.tokens_per_s / (double)found[i].gpus <=
			    found[i - 1].speed.tokens_per_s / (double)found[i - 1].gpus * (1 + 1e-6));
	/* what was asked for stays */
	const size_t fixed =
	    search("workload=serve model=llama3.1-70b seq-len=4096 tp=4", 1, 0, 0, found, &counts);
	for (size_t i = 0; i < fixed; i++)
		assert_int_equal(found[i].request.value[P4D_TP], 4);
	assert_true(fixed > 0);
}

static void bounds_hold(void **state)
{
	p4d_serving_found found[ROOM];
	p4d_serving_counts counts;
	const size_t count =
	    search("workload=serve model=llama3.1-70b seq-len=4096", 1, 0.2, 0.025, found, &counts);

	(void)state;
	assert_true(count > 0 && counts.too_slow > 0);
	for (size_t i = 0; i < count; i++) {
		assert_true(found[i].speed.between_tokens_s <= 0.025 && found[i].speed.first_token_s <= 0.2);
		/* one more in flight would be too many, if there is room */
		assert_true(found[i].speed.at_a_time >= 1);
	}
	assert_int_equal(
	    search("workload=serve model=llama3.1-70b seq-len=4096", 1, 0, 0.001, found, &counts), 0);
}

static void the_fewest_gpus_answer_a_rate(void **state)
{
	p4d_serving_found found[ROOM];
	p4d_serving_counts counts;
	const size_t count = search(LLAMA "rate=60 pp=1", 2, 0, 0, found, &counts);

	(void)state;
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++) {
		const uint64_t engine = (uint64_t)found[i].request.value[P4D_TP];
		char flags[128];
		assert_true(found[i].speed.first_token_s > 0 && found[i].gpus % engine == 0);
		snprintf(flags, sizeof(flags), LLAMA "rate=60 pp=1 tp=%u", (unsigned)engine);
		if (found[i].gpus > engine)
			assert_true(speed_on(flags, found[i].gpus - engine).first_token_s == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(weights_bound_one_sequence),
	    cmocka_unit_test(more_in_flight_are_slower_and_more),
	    cmocka_unit_test(arrivals_balance),
	    cmocka_unit_test(four_bits_help_small_batches),
	    cmocka_unit_test(weights_on_the_host_are_slow),
	    cmocka_unit_test(bad_loads_are_refused),
	    cmocka_unit_test(the_cheapest_comes_first),
	    cmocka_unit_test(bounds_hold),
	    cmocka_unit_test(the_fewest_gpus_answer_a_rate),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
