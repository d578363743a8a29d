/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes at the limits of the options, in any combination. p4d must either refuse the plan, or the plan
 * must need at least as much memory as the same plan with shorter sequences (workspaces excepted). After
 * an overflow in a multiplication, the plan would need less. Sanitizers notice wrong shifts, conversions
 * and divisions.
 */
#include "support/support.h"

#include "gpu/gpu.h"
#include "plan/stage_memory.h"
#include "request/defaults.h"
#include "request/framework.h"

enum { TRIALS = 1600, TRIED = 60, NODES = 1 << 10, GPUS = 8 };

static const p4d_gpu gpu = {.name = "a", .sm = 90, .usable_bytes = (uint64_t)80 << 30};
static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % below;
}

/* The smallest or the largest value of an option, or a power of two. Powers of two often divide each
 * other. */
static void put_any(p4d_request *r, p4d_option option)
{
	const p4d_option_info *info = p4d_request_option_info(option);
	uint64_t choices = 1;
	int64_t n = 1;

	switch (info->kind) {
	case P4D_INTEGER_KIND:
		while (2 * n <= info->max && draw(8))
			n *= 2;
		p4d_request_put(r, option, draw(16) && n >= info->min ? n : info->max, P4D_BY_USER);
		break;
	case P4D_DECIMAL_KIND:
		p4d_request_put_real(r, option, draw(2) ? info->most : info->least, P4D_BY_USER);
		break;
	case P4D_CHOICE_KIND:
		for (const char *at = p4d_option_choices(info); *at; at++)
			choices += *at == '|';
		p4d_request_put(r, option, (int64_t)draw(choices), P4D_BY_USER);
		break;
	default:
		if (option != P4D_LAYER_PATTERN)
			return;
		snprintf(r->layer_pattern, sizeof(r->layer_pattern), "%s", draw(2) ? "M*-E" : "GGG*");
		p4d_request_put(r, option, 1, P4D_BY_USER);
	}
}

/* Builds a layout from values that nobody checked, as slurmctld does with a plan line. */
static int build(const p4d_request *r, p4d_layout *layout, p4d_error *err)
{
	p4d_request complete = *r;

	p4d_request_complete(&complete, 0, (uint64_t)NODES * GPUS);
	return p4d_layout_build(&complete, NODES, GPUS, layout, err);
}

/* Draws a request. It adds random options while the layout stays possible. */
static p4d_request drawn(void)
{
	static const p4d_option model[] = {P4D_LAYERS, P4D_HIDDEN,   P4D_FFN,    P4D_HEADS,
					   P4D_VOCAB,  P4D_HEAD_DIM, P4D_SEQ_LEN};
	static const p4d_option sparse[] = {P4D_EXPERTS,         P4D_EXPERTS_PER_TOKEN, P4D_EP,
					    P4D_IMBALANCE,       P4D_EXPERT_CAPACITY,   P4D_PAD_EXPERTS,
					    P4D_TOKEN_DISPATCHER};
	static const p4d_option states[] = {P4D_LAYER_PATTERN, P4D_STATE_SIZE, P4D_STATE_HEADS,
					    P4D_STATE_HEAD_DIM};
	static p4d_layout layout;
	p4d_request r = {.model = "hostile"};

	set_all(&r, "model=hostile norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off "
		    "recompute=none");
	put_any(&r, P4D_FRAMEWORK);
	for (size_t i = 0; i < sizeof(model) / sizeof(model[0]); i++)
		put_any(&r, model[i]);
	p4d_request_put(&r, P4D_KV_HEADS, r.value[P4D_HEADS], P4D_BY_USER);
	p4d_request_put(&r, P4D_GLOBAL_BATCH, p4d_request_option_info(P4D_GLOBAL_BATCH)->max, P4D_BY_USER);
	if (draw(2))
		for (size_t i = 0; i < sizeof(sparse) / sizeof(sparse[0]); i++)
			put_any(&r, sparse[i]);
	if (!draw(8)) {
		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
			put_any(&r, states[i]);
		p4d_request_put(&r, P4D_ARCHITECTURE,
				draw(2) ? P4D_ARCHITECTURE_NEMOTRON_H : P4D_ARCHITECTURE_QWEN3_NEXT,
				P4D_BY_USER);
	}
	for (int i = 0; i < TRIED; i++) {
		const p4d_option option = (p4d_option)draw(P4D_OPTIONS);
		p4d_request more = r;
		if (!(p4d_request_option_info(option)->where & P4D_WHERE_PLAN) || option == P4D_WORKLOAD)
			continue;
		put_any(&more, option);
		if (build(&more, &layout, NULL) == 0)
			r = more;
	}
	return r;
}

/* Bytes of the plan; 0: p4d refused it. */
static uint64_t bytes_of(const p4d_request *r, int64_t seq_len, p4d_error *err)
{
	const p4d_capacity capacity = {.gpu = &gpu};
	static p4d_layout layout;
	p4d_request changed = *r;
	p4d_estimate estimate;

	p4d_request_put(&changed, P4D_SEQ_LEN, seq_len, P4D_BY_USER);
	if (build(&changed, &layout, err) < 0 ||
	    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, &capacity, &estimate, err) < 0)
		return 0;
	return estimate.peak.device_bytes;
}

static void no_product_wraps(void **state)
{
	unsigned compared = 0, refused = 0, overflows = 0;
	const size_t stride = test_stride(4, 16);

	(void)state;
	for (int i = 0; i < TRIALS; i += (int)stride) {
		p4d_error err = {.code = P4D_OK};
		const p4d_request r = drawn();
		uint64_t least = 0;
		for (int64_t seq_len = 64; seq_len <= 1 << 27; seq_len *= 2) {
			const uint64_t bytes = bytes_of(&r, seq_len, &err);
			if (bytes && bytes < least / 4 * 3) {
				char flags[2000];
				p4d_request_flags(&r, "--", 1u << P4D_BY_USER, flags, sizeof(flags));
				fail_msg("seq-len %" PRId64 ": %" PRIu64 " after %" PRIu64 ": %s", seq_len,
					 bytes, least, flags);
			}
			if (!bytes)
				assert_true(err.code != P4D_OK && err.text[0]);
			overflows += !bytes && err.code == P4D_E_OVERFLOW;
			refused += !bytes;
			compared += least > 0 && bytes > 0;
			least = bytes ? bytes : least;
		}
	}
	print_message("%u compared, %u refused, %u of them too large to count\n", compared, refused,
		      overflows);
	assert_true(compared > 100 && overflows > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_product_wraps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
