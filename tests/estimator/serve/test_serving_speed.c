/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The predicted speed of an inference engine, and the layout with the lowest cost.
 * tests/command/test_validate.sh compares these speeds with others' measurements.
 */
#include "support/support.h"

#include <math.h>

#include "model/model.h"
#include "plan/offload.h"
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

/* The predicted speed on `world` GPUs, in nodes of eight. */
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

/* A single sequence is limited by the time to read all weights for each token. */
static void weights_bound_one_sequence(void **state)
{
	const p4d_serving_speed v = speed_on(LLAMA "concurrency=1", 1);
	const double read = 2 * 8.03e9 / h100.hbm_bytes_per_s;

	(void)state;
	assert_true(v.between_tokens_s > read && v.between_tokens_s < 2 * read);
	assert_true(fabs(v.tokens_per_s * v.between_tokens_s - 1) < 1e-9);
	/* a prompt of 1,024 tokens, at the matmul rate of training */
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
	/* sequences that do not fit into the cache wait */
	const p4d_serving_speed full = speed_on(LLAMA, 1), crowded = speed_on(LLAMA "concurrency=5000", 1);
	assert_true(crowded.at_a_time <= full.most && crowded.tokens_per_s <= full.most_tokens_per_s + 1);
	assert_true(crowded.first_token_s > 2 * full.first_token_s);
	/* replicas share the sequences evenly */
	const p4d_serving_speed shared = speed_on(LLAMA "concurrency=64", 8),
				alone = speed_on(LLAMA "concurrency=8", 1);
	assert_true(fabs(shared.between_tokens_s / alone.between_tokens_s - 1) < 1e-9);
	assert_true(fabs(shared.tokens_per_s / alone.tokens_per_s - 8) < 1e-9);
}

/* Little's law: the requests in flight are the request rate times the seconds of an answer. */
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

/* Requests that arrive at once run in waves. A full wave of 100 is as fast as 100 requests that are always
 * in flight. One request more than a wave takes nearly as long as another wave. */
static void bursts_run_in_waves(void **state)
{
	const char *const burst = LLAMA "prompt-len=500 answer-len=500 max-num-seqs=100 requests=%d";
	char flags[128];
	double last = 0;

	(void)state;
	const p4d_serving_speed endless = speed_on(LLAMA "prompt-len=500 answer-len=500 max-num-seqs=100", 1);
	for (int n = 1; n <= 300; n++) {
		snprintf(flags, sizeof(flags), burst, n);
		const p4d_serving_speed v = speed_on(flags, 1);
		const double seconds = n * 500 / v.tokens_per_s;
		assert_true(fabs(v.at_a_time - (n < 100 ? n : 100)) < 1e-9);
		assert_true(fabs(v.requests_per_s * 500 / v.tokens_per_s - 1) < 1e-9);
		assert_true(seconds > last);
		assert_true(v.first_token_s < seconds && v.between_tokens_s * 500 <= seconds);
		if (n % 100 == 0)
			assert_true(fabs(v.tokens_per_s / endless.tokens_per_s - 1) < 0.06);
		if (n == 101)
			assert_true(seconds > 1.3 * last);
		last = seconds;
	}
	/* a limit on requests in flight makes more waves; replicas share the requests */
	const p4d_serving_speed few =
	    speed_on(LLAMA "prompt-len=500 answer-len=500 requests=100 concurrency=25", 1);
	assert_true(fabs(few.at_a_time - 25) < 1e-9 && few.tokens_per_s < endless.tokens_per_s);
	const p4d_serving_speed two = speed_on(LLAMA "prompt-len=500 answer-len=500 requests=200", 2),
				one = speed_on(LLAMA "prompt-len=500 answer-len=500 requests=100", 1);
	assert_true(fabs(two.tokens_per_s / one.tokens_per_s - 2) < 1e-9);
}

/* With sliding-window layers, attention of a prompt is faster. Without a hybrid cache only about half of
 * the sequences fit, but a sequence takes the same time. */
static void windows_save_cache_and_attention(void **state)
{
#define OSS "workload=serve model=gpt-oss-20b seq-len=32768 stored=fp4 prompt-len=24000 answer-len=2000 "
	const p4d_serving_speed on = speed_on(OSS, 1), off = speed_on(OSS "hybrid-cache=off", 1);

	(void)state;
	assert_true(off.most > 0.45 * on.most && off.most < 0.6 * on.most);
	const p4d_serving_speed some = speed_on(OSS "concurrency=8", 1),
				same = speed_on(OSS "concurrency=8 hybrid-cache=off", 1);
	assert_true(fabs(some.tokens_per_s / same.tokens_per_s - 1) < 1e-6);
	/* with this window, all layers attend to the whole prompt */
	const p4d_serving_speed wide = speed_on(OSS "concurrency=8 sliding-window=32768", 1);
	assert_true(wide.first_token_s > 1.1 * some.first_token_s);
}

static p4d_serving_speed speed_of(const char *gpu, const char *flags, uint64_t world)
{
	const p4d_gpu here = h100;

	h100 = gpu_named(gpu);
	const p4d_serving_speed speed = speed_on(flags, world);
	h100 = here;
	return speed;
}

/*
 * MARLIN (arXiv 2408.11743): with 4-bit weights, vLLM answers up to 2.8 times as fast. The gain is smaller
 * with more sequences, because arithmetic limits them. Llama 2 7B on an A10, prompts and answers of 64
 * tokens.
 */
static void four_bits_help_small_batches(void **state)
{
	double last = INFINITY;

	(void)state;
	for (int n = 1; n <= 128; n *= 2) {
		char full[160], four[176];
		snprintf(
		    full, sizeof(full),
		    "workload=serve model=llama2-7b seq-len=128 prompt-len=64 answer-len=64 concurrency=%d",
		    n);
		snprintf(four, sizeof(four), "%s stored=int4", full);
		const double gain =
		    speed_of("a10-24gb", four, 1).tokens_per_s / speed_of("a10-24gb", full, 1).tokens_per_s;
		printf("MARLIN, %3d sequences: %.2f times\n", n, gain);
		if (n == 1)
			assert_true(fabs(gain / 2.8 - 1) < 0.1);
		if (n == 64)
			assert_true(gain > 1.2);
		assert_true(gain > 1 && gain < last);
		last = gain;
	}
}

/*
 * NanoFlow (arXiv 2408.12757): nano-batches reach 59 to 72 % of the optimum. The optimum is the speed of a
 * GPU that runs only matmuls. Llama 2 70B on 8 A100, prompts and answers of 512 tokens: the paper's
 * optimum is 1,857 tokens/s per GPU.
 */
static void nano_batches_near_the_optimum(void **state)
{
	const char *const flags =
	    "workload=serve model=llama2-70b tp=8 seq-len=1024 prompt-len=512 answer-len=512 "
	    "max-num-seqs=2048";
	char nano[256];
	double best = 0;

	(void)state;
	const double plain = speed_of("a100-80gb", flags, 8).tokens_per_s;
	for (int n = 2; n <= 4; n++) {
		snprintf(nano, sizeof(nano), "%s nano-batches=%d", flags, n);
		best = fmax(best, speed_of("a100-80gb", nano, 8).tokens_per_s);
	}
	const double share = 2 * best / 8 / 1857;
	printf("NanoFlow: %.0f %% of the optimum, %.2f times without\n", 100 * share, best / plain);
	assert_true(share > 0.59 && share < 0.72);
	assert_true(best / plain > 1.15);
}

/* Bytes of weights on one GPU, in 16 bits. */
static double weights_of(const char *flags, uint64_t world)
{
	const p4d_request r = request_of(flags);
	p4d_error err = {0};
	p4d_serving s;

	if (p4d_serving_estimate(&r, &h100, world, &s, &err) < 0)
		fail_msg("%s: %s", flags, err.text);
	return (double)s.weights_bytes;
}

/* TPI-LLM (arXiv 2410.00531): Llama 2 70B in 32 bits uses 3.1 GB on each of 8 devices, with a window of
 * two layers. The leading device stores whole vocabulary tables, but p4d's engines shard them. */
static void a_window_of_layers(void **state)
{
#define OF_70B "workload=serve model=llama2-70b seq-len=1024 offload=weights resident-layers="
	const double one = weights_of(OF_70B "1 tp=8", 8), two = weights_of(OF_70B "2 tp=8", 8);
	const double whole = weights_of("workload=serve model=llama2-70b seq-len=1024 tp=8", 8);
	const double tables = 8 * (2 * one - two), leading = 2 * (tables + 2 * (two - one)) / 1e9;

	(void)state;
	printf("TPI-LLM: %.2f GB, of %.1f with all layers\n", leading, 2 * whole / 1e9);
	assert_true(fabs(leading / 3.1 - 1) < 0.1);
	assert_true(leading < 0.1 * 2 * whole);
}

/* Seconds per token on devices that read their weights from disk. The disk has half the given rate,
 * because p4d's engines store 16 bits per element and the devices store 32. */
static double token_on(const char *model, unsigned devices, double disk)
{
	p4d_gpu edge = h100;
	char flags[192];
	p4d_serving_speed speed = {0};
	p4d_error err = {0};
	p4d_serving s;

	edge.host_link_bytes_per_s = disk / 2 / P4D_HOST_LINK_EFFICIENCY;
	edge.hbm_bytes_per_s = 10e9;
	edge.link_bytes_per_s = edge.net_bytes_per_s = 40e6;
	snprintf(flags, sizeof(flags),
		 "workload=serve model=%s seq-len=512 tp=%u offload=weights resident-layers=2 prompt-len=16 "
		 "answer-len=64 concurrency=1",
		 model, devices);
	const p4d_request r = request_of(flags);
	const p4d_serving_load load = p4d_serving_load_of(&r);
	if (p4d_serving_estimate(&r, &edge, devices, &s, &err) < 0 ||
	    p4d_serving_speed_of(&r, &edge, 8, &s, &load, &speed, &err) < 0)
		fail_msg("%s: %s", flags, err.text);
	return speed.between_tokens_s;
}

/*
 * TPI-LLM's seconds per token in 32 bits, in whole seconds, from the table in the authors' repository: 8
 * devices on a wired network, and 4 laptops. The test has one disk rate for all of them, 1.2 GB/s, which
 * comes from the row of Yi 34B. p4d predicts the other rows. Tolerance: 25 %. Two models are outside of
 * it: Llama 2 13B on 8 devices, and Llama 3.1 8B, whose tables of 128,256 rows p4d keeps in memory.
 */
static void tokens_from_disks(void **state)
{
	static const struct {
		const char *model;
		unsigned devices;
		double published, tolerance;
	} rows[] = {{"yi-34b", 8, 14, 0.25},     {"llama2-7b", 8, 3, 0.25}, {"llama3.1-8b", 8, 4, 0.30},
		    {"llama2-13b", 8, 3, 0.90},  {"yi-34b", 4, 29, 0.25},   {"llama2-7b", 4, 5, 0.25},
		    {"llama3.1-8b", 4, 8, 0.30}, {"llama2-13b", 4, 9, 0.25}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const double said = token_on(rows[i].model, rows[i].devices, 1.2e9);
		printf("TPI-LLM: %s on %u devices, published %.0f s, p4d %.2f s\n", rows[i].model,
		       rows[i].devices, rows[i].published, said);
		assert_true(fabs(said / rows[i].published - 1) <= rows[i].tolerance);
	}
}

/* Superpipeline (arXiv 2410.08791): up to 60 % less memory. Llama 3.1 8B with 10 of 32 layers on the GPU.
 * A pass of few tokens waits for the copies of the other layers. A long prompt hides most of the copies. */
static void resident_layers(void **state)
{
#define RESIDENT LLAMA "offload=weights resident-layers=10 "
	const double all = weights_of(LLAMA, 1), some = weights_of(RESIDENT, 1);
	const double slow = speed_on(RESIDENT "concurrency=1", 1).between_tokens_s,
		     fast = speed_on(LLAMA "concurrency=1", 1).between_tokens_s;

	(void)state;
	printf("Superpipeline: %.0f %% less memory, one token %.1f times as slow\n", 100 * (1 - some / all),
	       slow / fast);
	assert_true(fabs((1 - some / all) / 0.6 - 1) < 0.05);
	assert_true(slow > 10 * fast);
	/* with one resident layer, copying and computing alternate; with two, the matmuls of a long prompt
	 * run during the copies */
	const char *const prompts = LLAMA "prompt-len=3900 answer-len=10 concurrency=1 offload=weights ";
	char alone[192], window[192];
	snprintf(alone, sizeof(alone), "%sresident-layers=1", prompts);
	snprintf(window, sizeof(window), "%sresident-layers=2", prompts);
	const double computes =
	    speed_on(LLAMA "prompt-len=3900 answer-len=10 concurrency=1", 1).first_token_s;
	const double saved = speed_on(alone, 1).first_token_s - speed_on(window, 1).first_token_s;
	assert_true(saved > 0.5 * computes && saved < 1.5 * computes);
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
	} cases[] = {{LLAMA "prompt-len=100 answer-len=100 requests=10 rate=2", P4D_E_VALUE, true},
		     {LLAMA "prompt-len=4000 answer-len=200", P4D_E_VALUE, true},
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
	/* the search keeps the requested tp */
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
		/* one more request in flight would be too slow, if there is memory for it */
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

/* Each engine has its own cache. Together, the engines hold the sequences of one engine times their
 * number. */
static void engines_hold_sequences_each(void **state)
{
	const char *flags = "workload=serve model=qwen3-30b-a3b seq-len=8192 prompt-len=4096 answer-len=4096 "
			    "max-num-seqs=1024 expert-parallel=on ";
	char two[256], four[256];

	(void)state;
	snprintf(two, sizeof(two), "%s data-parallel-size=2", flags);
	snprintf(four, sizeof(four), "%s data-parallel-size=4", flags);
	const p4d_serving_speed a = speed_on(two, 2), b = speed_on(four, 4);
	/* with more engines, each has fewer experts and therefore more memory for its cache */
	assert_true(a.most > 0 && b.most > 2 * a.most);
	assert_true(b.most_tokens_per_s > 1.5 * a.most_tokens_per_s);
}

/* SGLang processes prompts in separate passes, without CUDA graphs. With many short answers, tokens often
 * wait for such passes; with few long answers, they rarely do. */
static void prompts_apart_delay_tokens(void **state)
{
	const char *many = LLAMA "concurrency=64 prompt-len=64 answer-len=32",
		   *few = LLAMA "concurrency=1 prompt-len=64 answer-len=2048";
	char flags[160];

	(void)state;
	snprintf(flags, sizeof(flags), "%s engine=sglang", many);
	const double apart = speed_on(flags, 1).between_tokens_s,
		     together = speed_on(many, 1).between_tokens_s;
	/* each pass has two prompts, and the host launches 10 kernels of 45 us in 32 layers */
	assert_true(apart > together + 10e-3 && apart < together + 20e-3);
	snprintf(flags, sizeof(flags), "%s engine=sglang", few);
	assert_true(fabs(speed_on(flags, 1).between_tokens_s / speed_on(few, 1).between_tokens_s - 1) < 0.01);
}

/* Engines use tensor cores for heads of 256 elements, even if cuDNN does not support such heads. */
static void wide_heads_use_tensor_cores(void **state)
{
	const char *load = LLAMA "seq-len=16384 prompt-len=8192 concurrency=1";
	char wide[192];

	(void)state;
	snprintf(wide, sizeof(wide), "%s heads=16 kv-heads=4 head-dim=256", load);
	const double narrow = speed_of("a100-80gb", load, 1).first_token_s;
	assert_true(speed_of("a100-80gb", wide, 1).first_token_s < 1.1 * narrow);
}

/* 4-bit files have only the experts in 4 bits. On Hopper, each matmul of experts expands its weights to 16
 * bits, which makes prompts slower. A single sequence is faster, because fewer bytes are read. */
static void expanded_experts(void **state)
{
	const char *full = "workload=serve model=qwen3-30b-a3b seq-len=8192 ";
	char flags[4][160];

	(void)state;
	snprintf(flags[0], sizeof(flags[0]), "%s concurrency=1 answer-len=1024", full);
	snprintf(flags[1], sizeof(flags[1]), "%s concurrency=1 answer-len=1024 stored=fp4", full);
	snprintf(flags[2], sizeof(flags[2]), "%s concurrency=64 prompt-len=4096 answer-len=64", full);
	snprintf(flags[3], sizeof(flags[3]), "%s concurrency=64 prompt-len=4096 answer-len=64 stored=fp4",
		 full);
	assert_true(speed_on(flags[1], 1).tokens_per_s > 1.1 * speed_on(flags[0], 1).tokens_per_s);
	assert_true(speed_of("h200-141gb", flags[3], 1).tokens_per_s <
		    speed_of("h200-141gb", flags[2], 1).tokens_per_s);
	/* Blackwell has matmuls in 4 bits */
	assert_true(speed_of("b200-180gb", flags[3], 1).tokens_per_s >
		    speed_of("b200-180gb", flags[2], 1).tokens_per_s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(weights_bound_one_sequence),
	    cmocka_unit_test(more_in_flight_are_slower_and_more),
	    cmocka_unit_test(arrivals_balance),
	    cmocka_unit_test(bursts_run_in_waves),
	    cmocka_unit_test(windows_save_cache_and_attention),
	    cmocka_unit_test(four_bits_help_small_batches),
	    cmocka_unit_test(nano_batches_near_the_optimum),
	    cmocka_unit_test(a_window_of_layers),
	    cmocka_unit_test(tokens_from_disks),
	    cmocka_unit_test(resident_layers),
	    cmocka_unit_test(weights_on_the_host_are_slow),
	    cmocka_unit_test(bad_loads_are_refused),
	    cmocka_unit_test(the_cheapest_comes_first),
	    cmocka_unit_test(bounds_hold),
	    cmocka_unit_test(the_fewest_gpus_answer_a_rate),
	    cmocka_unit_test(engines_hold_sequences_each),
	    cmocka_unit_test(prompts_apart_delay_tokens),
	    cmocka_unit_test(wide_heads_use_tensor_cores),
	    cmocka_unit_test(expanded_experts),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
