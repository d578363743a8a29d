/* SPDX-License-Identifier: Apache-2.0 */
/* p4d-train's memory, compared with calculations by hand and at the limits of the formulas. */
#include "support/estimates.h"

#include "request/framework.h"

#include <math.h>

static void p4d_by_hand(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;

	(void)state;
	set_all(&r, SMALL "framework=p4d global-batch=2");
	p4d_estimate e = estimate(&r, 1, 2, P4D_METHOD_PLAN, &l);
	uint64_t n = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64) + 2 * 256 * 64 + 64;
	uint64_t padded = (n + 255) / 256 * 256; /* a multiple of dp*cp*128 */
	assert_part(&l, &e, P4D_PART_PARAMS, 2 * padded);
	assert_part(&l, &e, P4D_PART_GRADS, 4 * padded);
	assert_part(&l, &e, P4D_PART_OPTIMIZER, 12 * padded / 2);
	/* a layer stores two norms (input and statistic, rounded up to 256), qkv, attention's output and
	 * lse, gate and up */
	uint64_t layer =
	    2 * (2 * 32 * 64 + 256) + 2 * 32 * (64 + 64) + 2 * 32 * 64 + 4 * 32 * 4 + 2 * 32 * 2 * 128;
	/* + 3 * 2 * 256: tokens, labels and documents, of the micro-batch in flight and of the prefetched
	 * one */
	uint64_t head = 2 * 32 * 64 + 256; /* the last hidden state is stored for the backward pass */
	assert_part(&l, &e, P4D_PART_ACTIVATIONS, 2 * layer + head + 3 * 2 * 256);
	assert_part(&l, &e, P4D_PART_LIBRARIES, 32 << 20);
	assert_int_equal(e.peak.phase_bytes[P4D_SAVE], e.peak.phase_bytes[P4D_INIT]);
	assert_part(&l, &e, P4D_PART_COMM, 544000000); /* one communicator of two ranks: dp */
	assert_true(e.host_bytes != P4D_NOT_MODELLED);
}

/* On the GPU, each group of ranks has a communicator: 544 MB for two ranks, 688 MB for more. */
static void communicators_by_hand(void **state)
{
	static const struct {
		const char *layout;
		unsigned gpus, of_two, of_more;
	} cases[] = {
	    {"tp=1", 1, 0, 0},
	    {"tp=2", 4, 2, 0},                             /* groups: tp, dp */
	    {"tp=1 cp=2", 2, 2, 0},                        /* groups: messages of the ring, dp */
	    {"tp=1 cp=2", 4, 1, 1},                        /* the same groups, but dp has four ranks */
	    {"tp=1 cp=4 cp-comm=all-gather", 4, 0, 3},     /* groups: one for keys in each of two orders,
							    * and dp */
	    {"tp=1 pp=2", 2, 1, 0},                        /* messages between stages */
	    {"tp=1 pp=2 tied=on", 2, 2, 0},                /* also messages between the two ends */
	    {"tp=2 pp=2 vocab-parallel=vocab-1", 4, 3, 1}, /* tp, messages, hidden states; the vocabulary */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p4d_request r = {.gpu = ""};
		p4d_layout l;
		set_all(&r, SMALL "framework=p4d global-batch=8");
		set_all(&r, cases[i].layout);
		const p4d_estimate e = estimate(&r, 1, cases[i].gpus, P4D_METHOD_PLAN, &l);
		const uint64_t bytes = cases[i].of_two * 544000000ull + cases[i].of_more * 688000000ull;
		if (e.peak.part[P4D_PART_COMM] != bytes)
			fail_msg("%s on %u: %llu bytes", cases[i].layout, cases[i].gpus,
				 (unsigned long long)e.peak.part[P4D_PART_COMM]);
	}
}

/* ---- properties ---- */

static uint64_t device_bytes(const char *more, uint64_t gpus)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;

	set_all(&r, MODEL_13B);
	set_all(&r, more);
	return estimate(&r, (gpus + 7) / 8, gpus < 8 ? gpus : 8, P4D_METHOD_PLAN, &l).peak.device_bytes;
}

static void more_of_anything_needs_more(void **state)
{
	(void)state;
	for (int f = 0; f < 2; f++) {
		char base[128], more[192];
		snprintf(base, sizeof(base), "framework=%s global-batch=512", f ? "megatron" : "p4d");
#define WITH(text) (snprintf(more, sizeof(more), "%s " text, base), more)
		assert_true(device_bytes(WITH("tp=8"), 8) < device_bytes(WITH("tp=4"), 8));
		assert_true(device_bytes(WITH("tp=8 micro-batch=1"), 8) <
			    device_bytes(WITH("tp=8 micro-batch=2"), 8));
		assert_true(device_bytes(WITH("tp=8 recompute=full"), 8) <
			    device_bytes(WITH("tp=8 recompute=mlp"), 8));
		assert_true(device_bytes(WITH("tp=8 recompute=mlp"), 8) < device_bytes(WITH("tp=8"), 8));
		assert_true(device_bytes(WITH("tp=8 cp=2"), 16) < device_bytes(WITH("tp=8"), 16));
		assert_true(device_bytes(WITH("tp=8 pp=4"), 32) < device_bytes(WITH("tp=8 pp=2"), 32));
		assert_true(device_bytes(WITH("tp=8"), 32) < device_bytes(WITH("tp=8"), 8));
		assert_true(device_bytes(WITH("tp=8 optimizer-sharding=off"), 16) >
			    device_bytes(WITH("tp=8"), 16));
		assert_true(device_bytes(WITH("tp=8 precision=fp32"), 16) > device_bytes(WITH("tp=8"), 16));
		assert_true(device_bytes(WITH("tp=4 pp=2 schedule=gpipe"), 8) >
			    device_bytes(WITH("tp=4 pp=2"), 8));
		assert_true(device_bytes(WITH("tp=2 pp=4 vpp=5"), 8) > device_bytes(WITH("tp=2 pp=4"), 8));
		assert_true(device_bytes(WITH("tp=2 pp=4 micro-batch=8 pipeline-split=7,11,11,11"), 8) <
			    device_bytes(WITH("tp=2 pp=4 micro-batch=8"), 8));
#undef WITH
	}
}

static void peak_is_the_fullest_stage(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_stage stage;

	(void)state;
	set_all(&r, MODEL_13B "framework=megatron tp=2 pp=4 global-batch=64");
	p4d_estimate e = estimate(&r, 1, 8, P4D_METHOD_PLAN, &l);
	uint64_t most = 0, sum = 0;
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(p4d_memory_of_stage(&l, P4D_METHOD_PLAN, NULL, i, &stage, NULL), 0);
		most = stage.device_bytes > most ? stage.device_bytes : most;
	}
	assert_int_equal(e.peak.device_bytes, most);
	assert_int_equal(e.stage, 0); /* 1F1B: the first stage has the most micro-batches in flight */
	for (int i = 0; i < P4D_PART_COUNT; i++)
		sum += e.peak.part[i];
	assert_int_equal(sum, e.peak.device_bytes);
}

/* If the first layers have no experts, a stage in which more layers have experts needs the most memory. */
static void peak_of_experts(void **state)
{
	static const char *const layouts[] = {"pp=4 dense-layers=3", "pp=8 dense-layers=2", "pp=4 vpp=2",
					      "pp=4 dense-layers=1 pipeline-split=3,2,1,2",
					      "pp=8 dense-layers=5 ep=4"};

	(void)state;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		p4d_request r = {.gpu = ""};
		p4d_layout l;
		p4d_stage stage;
		uint64_t most = 0;
		set_all(&r, MODEL_LATENT "seq-len=4096 global-batch=64");
		set_all(&r, layouts[i]);
		p4d_estimate e = estimate(&r, 8, 8, P4D_METHOD_PLAN, &l);
		for (uint32_t j = 0; j < l.pp; j++) {
			assert_int_equal(p4d_memory_of_stage(&l, P4D_METHOD_PLAN, NULL, j, &stage, NULL), 0);
			most = stage.device_bytes > most ? stage.device_bytes : most;
		}
		assert_int_equal(e.peak.device_bytes, most);
	}
}

/* The message names the largest imbalance that fits. A little more does not fit. */
static void imbalance_that_fits(void **state)
{
	const p4d_gpu h100 = {.name = "h100-80gb", .usable_bytes = UINT64_C(84933525504)};
	const p4d_capacity capacity = {&h100, 0, 0};
	p4d_request r = {.gpu = ""};
	uint64_t bytes;
	p4d_layout l;

	(void)state;
	set_all(&r, MODEL_SPARSE "seq-len=4096 ep=8 pp=2 micro-batch=2 global-batch=64");
	estimate(&r, 2, 8, P4D_METHOD_PLAN, &l);
	const double most = p4d_memory_most_imbalance(&l, P4D_METHOD_PLAN, &capacity, 0.95);
	printf("fits up to an imbalance of %.2f\n", most);
	assert_true(most > 1 && most < 100);
	l.imbalance = most;
	assert_true(p4d_memory_fits_below(&l, P4D_METHOD_PLAN, &capacity, 0.95, NULL, &bytes));
	l.imbalance = 1.02 * most;
	assert_false(p4d_memory_fits_below(&l, P4D_METHOD_PLAN, &capacity, 0.95, NULL, &bytes));
	assert_true(p4d_memory_most_imbalance(&l, P4D_METHOD_PLAN, &capacity, 0.01) == 0);
	assert_true(p4d_memory_most_imbalance(&l, P4D_METHOD_PLAN, &capacity, 1e6) == P4D_MOST_IMBALANCE);
}

static void absurd_numbers_are_an_error(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_capacity none = {NULL, 0, 0};
	p4d_layout l;
	p4d_estimate e;
	p4d_error err;

	(void)state;
	set_all(
	    &r,
	    "model=custom layers=65536 hidden=1048576 ffn=8388608 heads=65536 kv-heads=65536 head-dim=65536 "
	    "vocab=16777216 norm=layernorm glu=off tied=off positions=rope bias=all qk-norm=on "
	    "seq-len=134217728 "
	    "micro-batch=65536 global-batch=65536 framework=megatron attention=unfused");
	p4d_request_complete(&r, 0, 1);
	assert_int_equal(p4d_layout_build(&r, 1, 1, &l, &err), 0);
	assert_int_equal(p4d_memory_estimate(&l, P4D_METHOD_PLAN, &none, &e, &err), -1);
	assert_int_equal(err.code, P4D_E_OVERFLOW);
	assert_int_equal(p4d_memory_estimate(&l, P4D_METHOD_PAPER, &none, &e, &err), -1);
	assert_int_equal(err.code, P4D_E_OVERFLOW);
}

static void cpu_is_compared_with_host_memory(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_capacity host = {NULL, (uint64_t)8 << 30, 0};
	p4d_layout l;
	p4d_estimate e;

	(void)state;
	set_all(&r, SMALL "framework=p4d device=cpu tp=2 global-batch=4");
	p4d_request_complete(&r, 0, 4);
	assert_int_equal(r.value[P4D_PRECISION], P4D_FP32);
	assert_int_equal(p4d_layout_build(&r, 1, 4, &l, NULL), 0);
	assert_int_equal(p4d_memory_estimate(&l, P4D_METHOD_PLAN, &host, &e, NULL), 0);
	assert_int_equal(e.capacity_bytes, (uint64_t)2 << 30);
	assert_int_equal(e.peak.part[P4D_PART_CONTEXT] + e.peak.part[P4D_PART_COMM], 0);
	assert_true(e.host_bytes >= 4 * e.peak.allocated_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(p4d_by_hand),
	    cmocka_unit_test(communicators_by_hand),
	    cmocka_unit_test(more_of_anything_needs_more),
	    cmocka_unit_test(peak_is_the_fullest_stage),
	    cmocka_unit_test(peak_of_experts),
	    cmocka_unit_test(imbalance_that_fits),
	    cmocka_unit_test(absurd_numbers_are_an_error),
	    cmocka_unit_test(cpu_is_compared_with_host_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
