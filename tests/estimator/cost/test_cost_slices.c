/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step times of token slices: the lengths that p4d chooses, their gain, and their memory. Also step times of
 * attention that cuDNN does not compute.
 */
#include "support/cost_steps.h"

#include "plan/plan.h"

#define LONG MODEL_70B "framework=p4d seq-len=32768 tp=8 pp=8 micro-batch=1 global-batch=8 "

/*
 * The value that TeraPipe minimizes, for both passes of a layer: m times the sum of all slices' times, and
 * p-1 times the longest.
 */
static double objective(const p4d_layout *l, const p4d_gpu *gpu, const uint32_t *tokens)
{
	const p4d_cost_rates rates = p4d_cost__rates_of(l, gpu);
	p4d_layout one = *l;
	double sum = 0, longest = 0;

	one.slice_begin = 0;
	for (uint64_t i = 0; i < l->slices; i++) {
		one.slice_len = tokens[i];
		const p4d_cost_passes y = p4d_cost__layer_passes(&one, &rates, NULL);
		const double each = y.forward + y.input + y.weight;
		sum += each;
		longest = fmax(longest, each);
		one.slice_begin += tokens[i];
	}
	return (double)l->micro_batches * sum + (double)(l->pp - 1) * longest;
}

/* The minimum over all cuts at multiples of `unit`. */
static double least(const p4d_layout *l, const p4d_gpu *gpu, uint32_t *tokens, uint64_t slice, uint64_t left,
		    uint64_t unit)
{
	double best = INFINITY;

	if (slice == l->slices - 1) {
		tokens[slice] = (uint32_t)left;
		return objective(l, gpu, tokens);
	}
	for (uint64_t length = unit; length + unit * (l->slices - 1 - slice) <= left; length += unit) {
		tokens[slice] = (uint32_t)length;
		best = fmin(best, least(l, gpu, tokens, slice + 1, left - length, unit));
	}
	return best;
}

/* The lengths that p4d chooses; false: no slices. */
static bool choose(p4d_layout l, const p4d_gpu *gpu, uint32_t *lengths)
{
	p4d_request request = {0};

	p4d_cost_choose_slices(&request, &l, gpu);
	memcpy(lengths, l.slice_tokens, l.slices * sizeof(*lengths));
	return p4d_is_set(&request, P4D_SLICE_LENGTHS);
}

/* The dynamic program finds the same lengths as a walk over all cuts; its bound may be a hundredth higher. */
static void the_best_cut_is_found(void **state)
{
	static const struct {
		const char *options;
		uint64_t unit;
	} cases[] = {
	    {LONG "token-slices=3 seq-len=4096", 128},
	    {LONG "token-slices=2", 256},
	    {LONG "token-slices=3 seq-len=131072 global-batch=1", 4096},
	    {LONG "token-slices=4 seq-len=2048 pp=2 global-batch=64 schedule=gpipe", 128},
	};
	const p4d_gpu gpu = gpu_named("h100-80gb");

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_layout l = layout_of(cases[i].options, 8, 8);
		uint32_t found[P4D_MAX_SLICES], tried[P4D_MAX_SLICES];
		uint64_t sum = 0;
		assert_true(choose(l, &gpu, found));
		for (uint64_t k = 0; k < l.slices; k++)
			sum += found[k];
		assert_int_equal(sum, l.seq_len);
		const double best = least(&l, &gpu, tried, 0, l.seq_len, cases[i].unit),
			     have = objective(&l, &gpu, found);
		if (!(have <= 1.01 * best))
			fail_msg("%s: %.6g s, but %.6g s are possible", cases[i].options, have, best);
	}
}

/* Later slices attend to more tokens and are shorter, which is faster than equal slices; with more slices,
 * they are shorter still. */
static void later_slices_are_shorter(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb");

	(void)state;
	for (uint64_t slices = 2; slices <= 16; slices *= 2) {
		char options[512];
		snprintf(options, sizeof(options), LONG "seq-len=131072 token-slices=%d", (int)slices);
		p4d_layout equal = layout_of(options, 8, 8), cut = equal;
		uint32_t found[P4D_MAX_SLICES];
		assert_true(choose(equal, &gpu, found));
		for (uint64_t i = 1; i < slices; i++)
			assert_true(found[i] <= found[i - 1]);
		assert_true(found[0] > found[slices - 1]);
		p4d_layout_set_slices(&cut, found);
		assert_true(step_of(&cut, &gpu).seconds < step_of(&equal, &gpu).seconds);
	}
}

/* The request has the chosen lengths; the user's lengths are kept; without rates there are no lengths. */
static void the_request_says_them(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb"), unknown = {.name = "unknown", .usable_bytes = 1 << 30};
	p4d_layout l = layout_of(LONG "token-slices=4", 8, 8);
	p4d_request r = {.gpu = ""}, again;
	char text[512];

	(void)state;
	p4d_cost_choose_slices(&r, &l, &unknown);
	p4d_cost_choose_slices(&r, &l, NULL);
	assert_false(p4d_is_set(&r, P4D_SLICE_LENGTHS));
	assert_int_equal(l.slice_tokens[0], 8192);
	p4d_cost_choose_slices(&r, &l, &gpu);
	assert_int_equal(r.origin[P4D_SLICE_LENGTHS], P4D_BY_P4D);
	assert_string_equal(r.slice_lengths,
			    p4d_layout_slices_text(l.slice_tokens, l.slices, text, sizeof(text)));
	assert_true(l.slice_tokens[0] > 8192 && l.slice_len == l.slice_tokens[0]);
	again = r;
	p4d_layout_set_slices(&l, (const uint32_t[]){8192, 8192, 8192, 8192});
	p4d_cost_choose_slices(&again, &l, &gpu);
	assert_int_equal(l.slice_tokens[0], 8192);
	assert_string_equal(again.slice_lengths, r.slice_lengths);
}

/*
 * The passes of all slices together take longer than those of whole sequences, because of launches, tiles and
 * keys that are kept, and most of all because of attention's last blocks if a rank has few heads.
 */
static void slices_add_up(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb");
	const p4d_layout whole = layout_of(LONG, 8, 8);
	p4d_cost_passes_of_chunk one, all;

	(void)state;
	p4d_cost__pass(&whole, &gpu, 1, 0, &one);
	for (int slices = 2; slices <= 16; slices *= 2) {
		char options[512];
		snprintf(options, sizeof(options), LONG "token-slices=%d", slices);
		const p4d_layout l = layout_of(options, 8, 8);
		p4d_cost__pass(&l, &gpu, 1, 0, &all);
		const double ratio = (all.forward + all.backward_input + all.backward_weight) /
				     (one.forward + one.backward_input + one.backward_weight);
		if (!(ratio > 1 && ratio < 1 + 0.05 * slices))
			fail_msg("%d slices take %.4f of the whole", slices, ratio);
		assert_true(all.gemm > one.gemm && all.gemm < (1 + 0.02 * slices) * one.gemm);
	}
}

/* No step is shorter than the bound, with any slices. */
static void the_bound_is_below(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb");
	double nearest = 0;

	(void)state;
	for (int i = 0; i < 4 * 4 * 2 * 3; i++) {
		static const char *const schedules[] = {"1f1b", "gpipe"};
		static const char *const recompute[] = {"none", "mlp", "full"};
		char options[512];
		snprintf(options, sizeof(options),
			 MODEL_70B
			 "framework=p4d seq-len=16384 tp=%d pp=%d token-slices=%d schedule=%s recompute=%s "
			 "micro-batch=1 global-batch=%d",
			 i % 2 ? 8 : 4, 1 << i % 4, 2 << i / 4 % 4, schedules[i / 16 % 2], recompute[i / 32],
			 64);
		const p4d_layout l = layout_of(options, 8, 8);
		const double bound = p4d_cost_bound(&l, &gpu, NULL), step = step_of(&l, &gpu).seconds;
		if (!(bound <= step * (1 + 1e-9)))
			fail_msg("%s: a bound of %.6g s above %.6g s", options, bound, step);
		nearest = fmax(nearest, bound / step);
	}
	assert_true(nearest > 0.9);
}

static uint64_t bytes_of(const p4d_layout *l, const p4d_gpu *gpu)
{
	uint64_t most = 0, bytes;

	for (uint32_t stage = 0; stage < l->pp; stage++) {
		assert_int_equal(p4d_plan_bytes(l, gpu, stage, NULL, &bytes, NULL, NULL), 0);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* Long sequences and few micro-batches: more slices mean less idle time and less memory. */
static void long_sequences_gain(void **state)
{
	const p4d_gpu gpu = gpu_named("h100-80gb");
	const p4d_layout whole = layout_of(LONG, 8, 8);
	double seconds = step_of(&whole, &gpu).seconds, bubble = step_of(&whole, &gpu).bubble_fraction;
	uint64_t bytes = bytes_of(&whole, &gpu);

	(void)state;
	for (int slices = 4; slices <= 16; slices *= 2) {
		char options[512];
		snprintf(options, sizeof(options), LONG "token-slices=%d", slices);
		p4d_request r = {.gpu = ""};
		p4d_layout l = layout_of(options, 8, 8);
		p4d_cost_choose_slices(&r, &l, &gpu);
		const p4d_step step = step_of(&l, &gpu);
		assert_true(step.bubble_fraction < 0.8 * bubble);
		assert_true(bytes_of(&l, &gpu) < bytes);
		assert_true(step.seconds < seconds);
		bubble = step.bubble_fraction;
		bytes = bytes_of(&l, &gpu);
	}
}

/*
 * p4d-train computes attention with kernels of its own where cuDNN refuses it: for some head sizes, for
 * documents with context parallelism, and for windows with documents or in a ring.
 */
static void own_kernels(void **state)
{
	static const char *const slower[][2] = {
	    {"cp=2", "cp=2 document-len=8192"},
	    {"head-dim=256", "head-dim=264"},
	    {"sliding-window=4096", "sliding-window=4096 document-len=4096"},
	    {"sliding-window=4096 cp=2 cp-comm=all-gather", "sliding-window=4096 cp=2 cp-comm=p2p"}};
	p4d_gpu gpu = gpu_named("h100");
	char options[512];

	(void)state;
	for (size_t i = 0; i < sizeof(slower) / sizeof(*slower); i++) {
		double step[2];
		for (int k = 0; k < 2; k++) {
			snprintf(options, sizeof(options),
				 MODEL_13B "framework=p4d tp=4 global-batch=64 seq-len=8192 micro-batch=1 %s",
				 slower[i][k]);
			step[k] = seconds(options, 1, 8, &gpu);
		}
		print_message("%s: %.2f s, %s: %.2f s\n", slower[i][0], step[0], slower[i][1], step[1]);
		assert_true(step[1] > 1.5 * step[0]);
	}
}

/*
 * On Hopper and Blackwell cuDNN computes documents: shorter documents take less time, and reach the same
 * share of the peak as whole sequences within 5 points. On Ampere p4d's own kernels compute them.
 */
static void packed_documents(void **state)
{
	static const char *const names[] = {"h100", "h200-141gb", "b200"};
	static const char *const documents[] = {"", "document-len=8192", "document-len=2048",
						"document-len=512", "document-len=64"};
	enum { DOCUMENTS = sizeof(documents) / sizeof(*documents) };
	char options[512];
	p4d_layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const p4d_gpu gpu = gpu_named(names[i]);
		double before = 0, whole = 0;
		for (size_t k = 0; k < DOCUMENTS; k++) {
			snprintf(options, sizeof(options),
				 MODEL_13B "framework=p4d tp=4 global-batch=64 seq-len=8192 micro-batch=1 %s",
				 documents[k]);
			const double step = seconds(options, 1, 8, &gpu);
			l = layout_of(options, 1, 8);
			const double share = p4d_cost_model_flops(&l) / step / 8 / gpu.peak_bf16_flops;
			whole = k ? whole : share;
			print_message("%s, %s: %.2f s, %.1f %%\n", names[i], documents[k], step, 100 * share);
			assert_true(k == 0 || step < before);
			assert_true(fabs(share - whole) < 0.05);
			before = step;
		}
	}
	const p4d_gpu old = gpu_named("a100-80gb");
	assert_true(seconds(MODEL_13B
			    "framework=p4d tp=4 global-batch=64 seq-len=8192 micro-batch=1 document-len=8k",
			    1, 8, &old) >
		    1.5 * seconds(MODEL_13B "framework=p4d tp=4 global-batch=64 seq-len=8192 micro-batch=1",
				  1, 8, &old));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(own_kernels),           cmocka_unit_test(packed_documents),
	    cmocka_unit_test(the_best_cut_is_found), cmocka_unit_test(later_slices_are_shorter),
	    cmocka_unit_test(the_request_says_them), cmocka_unit_test(slices_add_up),
	    cmocka_unit_test(the_bound_is_below),    cmocka_unit_test(long_sequences_gain),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
