/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism in two and three dimensions: which grids are possible, their time and memory, and
 * which one p4d chooses. */
#include "plan/plan.h"
#include "search/search.h"
#include "support/cost_steps.h"

#define P4D_13B MODEL_13B "framework=p4d seq-len=4096 global-batch=64 "

/* A grid (X,1,1) is plain tensor parallelism: plan, time and arena are the same. */
static void one_dimension_is_no_other_layout(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout plain = layout_of(P4D_13B "tp=8", 1, 8),
			 grid = layout_of(P4D_13B "tp=8 tp-grid=8,1,1", 1, 8);
	uint64_t a, b;

	(void)state;
	assert_int_equal(p4d_plan_hash(&plain, &gpu, &a, NULL), 0);
	assert_int_equal(p4d_plan_hash(&grid, &gpu, &b, NULL), 0);
	assert_true(a == b);
	assert_true(seconds(P4D_13B "tp=8", 1, 8, &gpu) == seconds(P4D_13B "tp=8 tp-grid=8,1,1", 1, 8, &gpu));
}

/* The time of each collective, computed from its bytes and rates alone. */
static void collectives_by_hand(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout l = layout_of(P4D_13B "tp=8 tp-grid=2,2,2 micro-batch=2", 1, 8);
	const p4d_cost_rates r = p4d_cost__rates_of(&l, &gpu);
	const p4d_cost_ring two = {.ranks = 2, .in_node = 2};
	const double n = 4096, h = 5120 / 2, q = 5120 / 2, f = 13824 / 2, ns = n / 2;
	const double one = p4d_cost__gather_seconds(&r, two, 2 * n * h);
	const double norms = 4 * p4d_cost__gather_seconds(&r, two, 4 * ns);
	const double over_y = 2 * p4d_cost__gather_seconds(&r, two, 2 * n * 3 * q) +
			      2 * p4d_cost__gather_seconds(&r, two, 2 * n * 2 * f);
	const double matrices = h * (4 * q + 3 * f);
	const double over_z = p4d_cost__gather_seconds(&r, two, 2 * matrices);
	p4d_cost_part y;

	(void)state;
	p4d_cost__layer(&l, &r, &y);
	const double work = y.forward.gemm + y.forward.attention + y.forward.memory_bound;
	const double expected = 4 * one + norms + over_y + fmax(over_z - work, 0);
	print_message("forward: %.0f us of %.0f, gathered in %.0f\n", 1e6 * y.forward.tensor_comm,
		      1e6 * p4d_cost_share_seconds(&y.forward), 1e6 * over_z);
	assert_true(fabs(y.forward.tensor_comm / expected - 1) < 1e-9);
}

/* Ranks along Z gather matrices from other nodes, at the network's rate. X and Y stay within a node. */
static void z_goes_over_nodes(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout l = layout_of(P4D_13B "tp=16 tp-grid=2,2,4 micro-batch=4 seq-len=2048", 4, 8);
	const p4d_cost_rates r = p4d_cost__rates_of(&l, &gpu);
	const double h = 5120 / 2, q = 5120 / 2, f = 13824 / 2, bytes = 2 * h * (4 * q + 3 * f);
	const p4d_cost_ring two_of_four = {.ranks = 4, .in_node = 2};
	p4d_cost_part with, without;

	(void)state;
	assert_int_equal(l.dp, 2);
	p4d_cost__layer(&l, &r, &with);
	p4d_layout one = l;
	one.tp_z = 1;
	one.micro_batch = 1;
	p4d_cost__layer(&one, &r, &without);
	const double hides = with.forward.gemm + with.forward.attention + with.forward.memory_bound;
	const double gather = p4d_cost__gather_seconds(&r, two_of_four, bytes);
	print_message("gathered in %.0f us, of which a layer hides %.0f\n", 1e6 * gather, 1e6 * hides);
	assert_true(gather >
		    1.1 * p4d_cost__gather_seconds(&r, (p4d_cost_ring){.ranks = 4, .in_node = 4}, bytes));
	const double seen = with.forward.tensor_comm - without.forward.tensor_comm;
	assert_true(gather > hides && fabs(seen - (gather - hides)) < 1e-9);

	/* tp=8 does not fill whole nodes of 6 GPUs */
	p4d_request request = {.gpu = ""};
	p4d_error err;
	set_all(&request, P4D_13B "tp=8 tp-grid=2,1,4 micro-batch=4");
	p4d_request_complete(&request, 0, 24);
	assert_int_equal(p4d_layout_build(&request, 4, 6, &one, &err), -1);
	assert_int_equal(err.code, P4D_E_TP_NODE);
}

/* If the micro-batch has a sequence for each rank of Z, matrices are gathered during matmuls and no
 * activations are summed. */
static void the_best_grid(void **state)
{
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_layout few = layout_of(P4D_13B "tp=8 micro-batch=1", 1, 8),
			 many = layout_of(P4D_13B "tp=8 micro-batch=8", 1, 8);
	const p4d_tp_grid one = p4d_cost_best_grid(&few, &gpu), eight = p4d_cost_best_grid(&many, &gpu);
	char options[512];

	(void)state;
	print_message("one sequence: %d,%d,%d; eight: %d,%d,%d\n", (int)one.x, (int)one.y, (int)one.z,
		      (int)eight.x, (int)eight.y, (int)eight.z);
	assert_int_equal(one.z, 1); /* Z divides the micro-batch */
	assert_true(eight.z > 1);
	snprintf(options, sizeof(options), P4D_13B "tp=8 micro-batch=8 tp-grid=%d,%d,%d", (int)eight.x,
		 (int)eight.y, (int)eight.z);
	const double chosen = seconds(options, 1, 8, &gpu),
		     plain = seconds(P4D_13B "tp=8 micro-batch=8", 1, 8, &gpu);
	print_message("a step: %.3f s, with tp=8 %.3f s\n", chosen, plain);
	assert_true(chosen < plain);
}

/* With --tp-grid=auto, the search finds a faster layout than without a grid. The result names the grid. */
static void the_search_chooses(void **state)
{
	static p4d_candidate with, without;
	p4d_search_counts counts;
	const p4d_gpu gpu = gpu_named("h100");
	const p4d_search_space space = {
	    .nodes = 4, .gpus_per_node = 8, .capacity = {&gpu, 0, 0}, .safe = 0.95, .limit = 0.97};
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	(void)state;
	set_all(&r, P4D_13B "tp=8 cp=1 pp=1");
	assert_int_equal(p4d_search_run(&r, &space, &without, 1, &counts), 1);
	set_all(&r, "tp-grid=auto");
	assert_int_equal(p4d_search_run(&r, &space, &with, 1, &counts), 1);
	print_message("%.3f s with %s, micro-batch %d; %.3f s with tp alone, micro-batch %d\n",
		      with.step.seconds, with.request.tp_grid, (int)with.request.value[P4D_MICRO_BATCH],
		      without.step.seconds, (int)without.request.value[P4D_MICRO_BATCH]);
	assert_true(with.step.seconds < without.step.seconds);
	assert_int_equal(p4d_layout_build(&with.request, 4, 8, &l, &err), 0);
	assert_true(l.tp_z > 1);
}

static void refused_on(uint64_t nodes, const char *options, p4d_code code, const char *text, const char *fix)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	set_all(&r, options);
	p4d_request_complete(&r, 0, 8 * nodes);
	assert_int_equal(p4d_layout_build(&r, nodes, 8, &l, &err), -1);
	if (!strstr(err.text, text))
		fail_msg("%s", err.text);
	assert_int_equal(err.code, code);
	assert_string_equal(err.fix, fix);
}

static void refused(const char *options, p4d_code code, const char *text, const char *fix)
{
	refused_on(1, options, code, text, fix);
}

/* No fix proposes a grid that p4d would also refuse. */
static void over_nodes_and_refused(void **state)
{
	static const char sixteen[] = P4D_13B "heads=64 kv-heads=64 hidden=8192 ffn=16384 tp=16 ";
	char options[1024];

	(void)state;
	snprintf(options, sizeof(options), "%stp-grid=2,2,2 micro-batch=2", sixteen);
	refused_on(4, options, P4D_E_VALUE, "has 8 ranks, but tp=16", "--p4d-tp-grid=8,1,2");
	snprintf(options, sizeof(options), "%stp-grid=auto micro-batch=1", sixteen);
	refused_on(4, options, P4D_E_VALUE, "p4d chooses the grid only in p4d plan",
		   "--p4d-tp=8 --p4d-tp-grid=8,1,1");
	refused_on(6, P4D_13B "heads=48 kv-heads=48 hidden=6144 ffn=18432 tp=6 tp-grid=2,1,3 micro-batch=3",
		   P4D_E_TP_NODE,
		   "tp-grid=2,1,3: its 6 ranks neither divide the 8 GPUs of a node nor fill whole nodes",
		   "--p4d-tp=8 --p4d-tp-grid=8,1,1");
}

static void grids_that_are_none(void **state)
{
	(void)state;
	refused(P4D_13B "tp=8 tp-grid=2x4", P4D_E_VALUE, "tp-grid=2x4 is not three positive numbers",
		"--p4d-tp-grid=8,1,1");
	refused(P4D_13B "tp=8 tp-grid=auto", P4D_E_VALUE, "p4d chooses the grid only in p4d plan",
		"--p4d-tp-grid=8,1,1");
	refused(P4D_13B "tp=8 tp-grid=2,2,1", P4D_E_VALUE, "has 4 ranks, but tp=8", "--p4d-tp-grid=8,1,1");
	refused(P4D_13B "tp=8 tp-grid=0,2,4", P4D_E_VALUE, "is not three positive numbers",
		"--p4d-tp-grid=8,1,1");
	refused(P4D_13B "tp=6 tp-grid=3,2,1", P4D_E_WIDTH, "X does not divide the attention heads (heads=40",
		"--p4d-tp=2 --p4d-tp-grid=2,1,1");
	refused(P4D_13B "tp=8 tp-grid=2,1,4 micro-batch=2", P4D_E_BATCH, "Z=4 does not divide micro-batch=2",
		"--p4d-micro-batch=4");
	refused(P4D_13B "tp=2 pp=4 tp-grid=1,1,2 micro-batch=2 vocab-parallel=vocab-1", P4D_E_UNMODELLED,
		"vocab-parallel needs Y = Z = 1", "--p4d-vocab-parallel=off");
	refused(P4D_13B "tp=8 tp-grid=2,1,4 micro-batch=4 tp-comm-overlap=on", P4D_E_UNMODELLED,
		"tp-comm-overlap needs Y = Z = 1", "--p4d-tp-comm-overlap=off");
	refused(P4D_13B "tp=8 tp-grid=4,2,1 precision=fp8", P4D_E_UNMODELLED, "FP8 needs Y = Z = 1",
		"--p4d-precision=bf16");
	refused(P4D_13B "tp=8 tp-grid=4,2,1 finetune=lora lora-rank=8", P4D_E_UNMODELLED,
		"adapters need Y = Z = 1", "--p4d-finetune=full");
	refused(P4D_13B "tp=4 tp-grid=2,2,1 optimizer-sharding=gradients", P4D_E_UNMODELLED,
		"with Y or Z, p4d-train shards only optimizer states", "--p4d-optimizer-sharding=states");
	refused(P4D_13B "tp=4 tp-grid=2,2,1 optimizer-sharding=parameters", P4D_E_UNMODELLED,
		"with Y or Z, p4d-train shards only optimizer states", "--p4d-optimizer-sharding=states");
	refused(P4D_13B "tp=8 tp-grid=4,2,1 offload=optimizer", P4D_E_UNMODELLED,
		"offloading needs Y = Z = 1", "--p4d-offload=none");
	refused(P4D_13B "tp=4 pp=2 tp-grid=2,2,1 token-slices=2", P4D_E_UNMODELLED,
		"token-slices needs Y = Z = 1", "--p4d-token-slices=1");
	refused(P4D_13B "tp=4 pp=2 tp-grid=2,2,1 local-loss=stage schedule=1f1b vpp=1", P4D_E_UNMODELLED,
		"local-loss needs Y = Z = 1", "--p4d-local-loss=off");
	refused(P4D_13B "tp=4 tp-grid=2,2,1 device=cpu norm=layernorm", P4D_E_UNMODELLED,
		"LayerNorm needs Y = 1", "--p4d-tp-grid=4,1,1");
	/* heads do not divide by X = 8, so the fix does not propose tp-grid=8,1,1 */
	refused(P4D_13B "heads=12 kv-heads=12 tp=8 tp-grid=4,2,1 device=cpu norm=layernorm", P4D_E_UNMODELLED,
		"LayerNorm needs Y = 1", "--p4d-tp=4 --p4d-tp-grid=4,1,1");
	refused(P4D_13B "heads=12 kv-heads=12 tp=8 tp-grid=4,2,1 device=cpu norm=layernorm micro-batch=2",
		P4D_E_UNMODELLED, "LayerNorm needs Y = 1", "--p4d-tp-grid=4,1,2");
	/* the fix has tp and tp-grid, because they must agree */
	refused(P4D_13B "tp=16 tp-grid=4,4,1", P4D_E_TP_NODE,
		"tp-grid=4,4,1: X*Y = 16 does not divide the 8 GPUs of a node",
		"--p4d-tp=8 --p4d-tp-grid=8,1,1");
	refused(P4D_13B "tp=16 tp-grid=4,2,2 micro-batch=2", P4D_E_WORLD,
		"8 GPUs are not a multiple of tp*cp*pp = 16*1*1", "--nodes=2 --gpus-per-node=8");
	refused(MODEL_13B "framework=megatron tp=8 tp-grid=4,2,1", P4D_E_VALUE,
		"tp-grid=4,2,1: Megatron-LM splits matrices in one dimension", "leave out --p4d-tp-grid");
	refused(MODEL_13B "framework=fsdp tp=8 tp-grid=4,2,1", P4D_E_VALUE,
		"splits matrices in one dimension", "leave out --p4d-tp-grid");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_dimension_is_no_other_layout),
	    cmocka_unit_test(collectives_by_hand),
	    cmocka_unit_test(z_goes_over_nodes),
	    cmocka_unit_test(the_best_grid),
	    cmocka_unit_test(the_search_chooses),
	    cmocka_unit_test(over_nodes_and_refused),
	    cmocka_unit_test(grids_that_are_none),
	};

	return cmocka_run_group_tests(tests, load_gpus, NULL);
}
