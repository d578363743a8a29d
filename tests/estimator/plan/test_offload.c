/* SPDX-License-Identifier: Apache-2.0 */
/* p4d-train's offload to the host: which updates run on the host, the arenas of device and host, and the
 * host memory of a node. */
#include "support/support.h"

#include <math.h>

#include "cost/cost.h"
#include "plan/offload.h"
#include "plan/plan.h"
#include "request/defaults.h"
#include "support/cost_gpus.h"

static p4d_gpu h100;

static int setup(void **state)
{
	if (load_gpus(state) < 0)
		return -1;
	h100 = gpu_named("h100-80gb");
	return 0;
}

static p4d_layout layout_of(const char *text, uint64_t ranks)
{
	p4d_request r = {.model = "custom"};
	p4d_layout l;
	p4d_error err;

	set_all(&r,
		"model=custom framework=p4d layers=32 hidden=4096 ffn=14336 heads=32 kv-heads=8 head-dim=128 "
		"vocab=128256 max-seq-len=8192 seq-len=8192 norm=rmsnorm glu=on positions=rope bias=none "
		"tied=off "
		"qk-norm=off global-batch=64");
	set_all(&r, text);
	p4d_request_complete(&r, 0, ranks);
	if (p4d_layout_build(&r, 1, ranks, &l, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return l;
}

/* The subgroups on the device are spread evenly: the first i subgroups have their share of them, to within
 * one. */
static void subgroups_take_turns(void **state)
{
	(void)state;
	for (uint32_t share = 0; share <= P4D_OFFLOAD_PARTS; share++) {
		unsigned device = 0;
		for (uint64_t i = 0; i < 1000; i++) {
			device += p4d_offload_on_device(share, i);
			assert_true(fabs((double)device - (double)((i + 1) * share) / P4D_OFFLOAD_PARTS) < 1);
		}
	}
	assert_int_equal(p4d_offload_subgroup(1), 128);
	assert_int_equal(p4d_offload_subgroup(UINT64_C(1) << 20), (1 << 16) + 128);
	assert_int_equal(p4d_offload_subgroup(UINT64_C(1) << 40), 1 << 24);
}

/* Times calculated by hand, in seconds per element. */
static void the_split_follows_the_rates(void **state)
{
	const p4d_layout l = layout_of("precision=bf16 offload=optimizer", 8),
			 fp32 = layout_of("precision=fp32 offload=optimizer", 8);
	p4d_gpu gpu = h100;

	(void)state;
	assert_int_equal(p4d_offload_staged_states(&l), 12);
	assert_int_equal(p4d_offload_state_offset(&l, 2), 8);
	assert_int_equal(p4d_offload_staged_states(&fp32), 8);
	/* (8 d + 4) / 0.8 / 64e9 = (1 - d) / 2e9 if both take equally long: d = 0.643, so the host has 41 of
	 * 64 */
	gpu.host_link_bytes_per_s = 64e9;
	p4d_offload_split split = p4d_offload_split_of(&l, &gpu);
	assert_int_equal(split.share, 41);
	assert_float_equal(split.seconds, 23 / 64. / 2e9, 1e-16);
	/* over a slow link, copying gradients to the host takes longest, so all updates run on the host */
	gpu.host_link_bytes_per_s = 1e9;
	split = p4d_offload_split_of(&l, &gpu);
	assert_int_equal(split.share, 0);
	assert_float_equal(split.seconds, 4 / 0.8e9, 1e-16);
	/* a fast link */
	gpu.host_link_bytes_per_s = 450e9;
	assert_true(p4d_offload_split_of(&l, &gpu).share > 55);
	/* if gpus.json has no rate for the link, half of the updates run on the host, and p4d predicts no
	 * time */
	gpu.host_link_bytes_per_s = 0;
	split = p4d_offload_split_of(&l, &gpu);
	assert_int_equal(split.share, P4D_OFFLOAD_PARTS / 2);
	assert_true(split.seconds == 0 && p4d_offload_split_of(&l, NULL).share == P4D_OFFLOAD_PARTS / 2);
	/* without a rate for the link, p4d predicts no step time either */
	assert_true(p4d_cost_known(&l, &h100));
	gpu = h100;
	gpu.host_link_bytes_per_s = 0;
	assert_false(p4d_cost_known(&l, &gpu));
}

/* With offload=optimizer, only the states leave the device. Three subgroups of states are staged where
 * activations are free during the update. */
static void states_are_in_the_arena_of_the_host(void **state)
{
	const p4d_layout here = layout_of("precision=bf16", 8), away = layout_of("offload=optimizer", 8);
	static p4d_plan one, other;

	(void)state;
	assert_int_equal(p4d_plan_build(&here, &h100, 0, &one, NULL), 0);
	assert_int_equal(p4d_plan_build(&away, &h100, 0, &other, NULL), 0);
	const uint64_t shard = p4d_plan_find(&one, B_STATE)->shape[0], n = p4d_offload_subgroup(shard);
	assert_int_equal(one.host_bytes, 0);
	assert_int_equal(other.host_bytes, shard * 12 + 3 * n * (4 + 2));
	assert_int_equal(one.arena_bytes - other.arena_bytes, shard * 12);
	assert_int_equal(p4d_plan_find(&other, B_STAGED_STATES)->bytes, 3 * n * 12);
	uint64_t end = 0;
	for (unsigned i = 0; i < other.count; i++)
		if (other.tensor[i].lifetime == P4D_LIVES_ON_HOST) {
			assert_int_equal(other.tensor[i].offset, end);
			assert_int_equal(end % 256, 0);
			end += other.tensor[i].bytes * other.tensor[i].slots;
		}
	assert_int_equal(end, other.host_bytes);
	assert_int_equal(other.part[P4D_PART_OPTIMIZER], 0);
}

static uint64_t bytes_of(const p4d_plan *plan, p4d_buffer which)
{
	const p4d_tensor *row = p4d_plan_find(plan, which);

	return row ? row->bytes * row->slots : 0;
}

/*
 * With offload=params, the device has only a window of layers and one vocabulary table. Updates run on the
 * device if its states are there. With offload=optimizer,params they run in both places, and the host
 * keeps only one copy of the parameters.
 */
static void parameters_are_in_the_arena_of_the_host(void **state)
{
	const p4d_layout here = layout_of("precision=bf16", 1), away = layout_of("offload=params", 1),
			 both = layout_of("offload=optimizer,params resident-layers=4", 1);
	static p4d_plan one, other, all;

	(void)state;
	assert_int_equal(p4d_plan_build(&here, &h100, 0, &one, NULL), 0);
	assert_int_equal(p4d_plan_build(&away, &h100, 0, &other, NULL), 0);
	assert_int_equal(p4d_plan_build(&both, &h100, 0, &all, NULL), 0);
	const uint64_t parameters = bytes_of(&one, B_PARAMETERS), states = 6 * parameters;
	/* elements of the last layer, which also has the final norm: q, k, v, out; gate, up, down; three
	 * norms */
	const uint64_t layer = 4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336 + 3 * 4096,
		       table = UINT64_C(128256) * 4096;
	assert_int_equal(layer % 128, 0);
	assert_int_equal(bytes_of(&other, B_LAYER_WINDOW), 2 * layer * 2);
	assert_int_equal(bytes_of(&all, B_LAYER_WINDOW), 4 * layer * 2);
	assert_int_equal(bytes_of(&other, B_TABLE_WINDOW), table * 2);
	assert_int_equal(bytes_of(&other, B_PARAMETERS), parameters);
	assert_int_equal(other.host_bytes, parameters);
	assert_int_equal(one.arena_bytes - other.arena_bytes, parameters - 2 * layer * 2 - table * 2);
	const uint64_t n = p4d_offload_subgroup(parameters / 2);
	assert_int_equal(bytes_of(&other, B_STAGED_STATES), 3 * n * 2);
	assert_int_equal(bytes_of(&all, B_STAGED_STATES), 3 * n * 14);
	assert_int_equal(all.host_bytes, parameters + states + 3 * n * 4);
	assert_int_equal(other.arena_bytes - all.arena_bytes, states - 2 * layer * 2);
	assert_int_equal(p4d_offload_split_of(&away, &h100).share, P4D_OFFLOAD_PARTS);
	/* with 8 ranks, each rank has an eighth of the parameters on its host */
	const p4d_layout sharded = layout_of("offload=params", 8);
	assert_int_equal(p4d_plan_build(&sharded, &h100, 0, &other, NULL), 0);
	assert_int_equal(other.host_bytes, parameters / 8);
}

/* The device has room for the activations of three layers and for the inputs of all layers. In each slot,
 * as many layers are copied to the host as a forward pass can hide. */
static void activations_are_in_the_arena_of_the_host(void **state)
{
	const p4d_layout here = layout_of("precision=bf16 pp=2 schedule=1f1b", 2),
			 away = layout_of("precision=bf16 pp=2 schedule=1f1b offload=activations", 2);
	static p4d_plan one, other;
	p4d_gpu gpu = h100;

	(void)state;
	assert_int_equal(p4d_plan_build(&here, &h100, 0, &one, NULL), 0);
	assert_int_equal(p4d_plan_build(&away, &h100, 0, &other, NULL), 0);
	const uint64_t n = 8192, input = n * 4096 * 2;
	/* two norm statistics, qkv, attention's output and lse, the second norm's input, gate and up */
	const uint64_t layer =
	    2 * n * 4 + n * 6144 * 2 + n * 4096 * 2 + 32 * n * 4 + n * 4096 * 2 + n * 2 * 14336 * 2;
	assert_int_equal(one.slots.activation, 2);
	assert_int_equal(one.arena_bytes - other.arena_bytes, (2 * 16 - 3) * layer);
	assert_int_equal(bytes_of(&other, B_ACTIVATION + ACT_INPUT), 2 * input);
	const p4d_tensor *row = p4d_plan_find(&other, B_HOST_ACTIVATIONS);
	assert_int_equal(row->bytes, layer);
	assert_int_equal(row->slots, 2);
	assert_int_equal(other.host_bytes, 2 * row->layers * layer);
	/* 2 n (218M + 8192 * 4096) FLOPs at the rate of matmuls, compared with 698 MB at 51.2 GB/s */
	const double forward = 2. * 8192 * (4096 * 10240. + 3 * 4096 * 14336. + 8192 * 4096.) /
			       h100.peak_bf16_flops / h100.gemm_efficiency;
	const double swapped = forward * 0.8 * h100.host_link_bytes_per_s / (double)layer * 16;
	assert_int_equal(row->layers, (uint32_t)swapped);
	assert_true(row->layers > 4 && row->layers < 12);
	/* over a fast link all layers are copied, over a slow one none */
	gpu.host_link_bytes_per_s = 450e9;
	assert_int_equal(p4d_offload_swapped(&away, &gpu, 16, layer), 16);
	gpu.host_link_bytes_per_s = 1e9;
	assert_int_equal(p4d_offload_swapped(&away, &gpu, 16, layer), 0);
	assert_int_equal(p4d_offload_swapped(&away, NULL, 15, layer), 8);
	assert_int_equal(p4d_plan_build(&away, &gpu, 0, &other, NULL), 0);
	assert_null(p4d_plan_find(&other, B_HOST_ACTIVATIONS));
}

/* p4d_offload_swapped_before counts the swapped layers before a layer, and swapped layers are spread over
 * the stage. */
static void swapped_layers_are_spread(void **state)
{
	(void)state;
	for (uint32_t layers = 1; layers < 40; layers++)
		for (uint32_t swapped = 0; swapped <= layers; swapped++) {
			uint32_t count = 0;
			for (uint32_t i = 0; i < layers; i++) {
				assert_int_equal(p4d_offload_swapped_before(swapped, layers, i), count);
				count += p4d_offload_is_swapped(swapped, layers, i);
			}
			assert_int_equal(count, swapped);
		}
}

/* --mem must include the host's arena. */
static void the_node_needs_more(void **state)
{
	const p4d_capacity capacity = {.gpu = &h100};
	const p4d_layout here = layout_of("precision=bf16", 8), away = layout_of("offload=optimizer", 8);
	p4d_estimate one, other;
	static p4d_plan plan;

	(void)state;
	assert_int_equal(p4d_plan_build(&away, &h100, 0, &plan, NULL), 0);
	assert_int_equal(p4d_memory_estimate(&here, P4D_METHOD_PLAN, &capacity, &one, NULL), 0);
	assert_int_equal(p4d_memory_estimate(&away, P4D_METHOD_PLAN, &capacity, &other, NULL), 0);
	assert_int_equal(other.host_bytes - one.host_bytes, 8 * plan.host_bytes);
	assert_int_equal(other.offloaded_bytes, 8 * plan.host_bytes);
	assert_int_equal(one.offloaded_bytes, 0);
}

/* Offloading makes the step longer by the time of the update, minus the update at HBM's rate that it
 * replaces (a hundredth). */
static void the_step_shows_the_transfers(void **state)
{
	const p4d_layout here = layout_of("precision=bf16", 8), away = layout_of("offload=optimizer", 8);
	p4d_timeline_work work = {0};
	p4d_step one, other;
	static p4d_plan plan;

	(void)state;
	assert_int_equal(p4d_plan_build(&away, &h100, 0, &plan, NULL), 0);
	assert_int_equal(p4d_cost_step(&here, &h100, &work, &one, NULL), 0);
	assert_int_equal(p4d_cost_step(&away, &h100, &work, &other, NULL), 0);
	const double shard = (double)p4d_plan_find(&plan, B_STATE)->shape[0];
	const double update = shard * p4d_offload_split_of(&away, &h100).seconds;
	assert_true(update > 0.1);
	assert_true(other.seconds - one.seconds > 0.9 * update && other.seconds - one.seconds < update);
	p4d_timeline_work_free(&work);
	assert_true(p4d_cost_bound(&away, &h100, NULL) <= other.seconds);
}

static double step_of(const p4d_layout *layout, const p4d_gpu *gpu)
{
	p4d_timeline_work work = {0};
	p4d_step step;

	assert_int_equal(p4d_cost_step(layout, gpu, &work, &step, NULL), 0);
	p4d_timeline_work_free(&work);
	assert_true(p4d_cost_bound(layout, gpu, NULL) <= step.seconds * (1 + 1e-9));
	return step.seconds;
}

/* A pass hides the copies of layers that take no longer than the pass. Over a slow link, every copied byte
 * adds time. */
static void the_step_shows_what_passes_do_not_hide(void **state)
{
	const p4d_layout here = layout_of("precision=bf16", 1), away = layout_of("offload=params", 1),
			 eight = layout_of("offload=params resident-layers=8", 1),
			 whole = layout_of("offload=params resident-layers=32", 1);
	const double layer = 2. * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336),
		     table = 2. * 128256 * 4096;
	p4d_gpu gpu = h100;

	(void)state;
	/* the first of 128 passes copies 32 layers, and each later one copies the 30 layers that did not
	 * stay */
	const double misses = p4d_offload_misses(&away);
	assert_float_equal(misses, (32 + 127 * 30) / (128 * 32.), 1e-12);
	assert_float_equal(p4d_offload_misses(&eight), (32 + 127 * 24) / (128 * 32.), 1e-12);
	assert_float_equal(p4d_offload_misses(&whole), 1 / 128., 1e-12);
	assert_true(step_of(&here, &gpu) < step_of(&whole, &gpu));
	assert_true(step_of(&eight, &gpu) < step_of(&away, &gpu));
	/* Forward, copies take 8.0 ms and computing 6.7 ms; with eight resident layers, copies take 6.4
	 * ms. The backward pass hides all copies. The embedding's copy is not hidden. */
	assert_float_equal(step_of(&whole, &gpu), step_of(&eight, &gpu), 1e-9);
	gpu.host_link_bytes_per_s = 32e9;
	assert_true(step_of(&whole, &gpu) < step_of(&eight, &gpu));
	gpu.host_link_bytes_per_s = 64e9;
	const double link = 0.8 * 64e9, update = 2 * 8.03e9 / link;
	const double more = step_of(&away, &gpu) - step_of(&here, &gpu), hidden = more - update;
	assert_true(hidden > 64 * table / link && hidden < 64 * (table + 32 * layer) / link);
	gpu.host_link_bytes_per_s = 1e9;
	const double slow = step_of(&away, &gpu);
	assert_true(slow > 64 * 2 * 32 * misses * layer / 0.8e9 &&
		    slow < 1.2 * 64 * 2 * (32 * misses * layer + table) / 0.8e9);
}

/* The step takes between the time with all activations kept and the time with all recomputed. Over a fast
 * link, nothing is recomputed and no pass waits. */
static void the_step_shows_what_is_computed_again(void **state)
{
	const p4d_layout here = layout_of("precision=bf16", 1), away = layout_of("offload=activations", 1),
			 full = layout_of("precision=bf16 recompute=full", 1);
	p4d_gpu gpu = h100;

	(void)state;
	const double keeps = step_of(&here, &gpu), all = step_of(&full, &gpu), some = step_of(&away, &gpu);
	static p4d_plan plan;
	assert_int_equal(p4d_plan_build(&away, &gpu, 0, &plan, NULL), 0);
	const double again = 1 - p4d_plan_find(&plan, B_HOST_ACTIVATIONS)->layers / 32.;
	assert_true(fabs((some - keeps) / (all - keeps) - again) < 1e-3);
	gpu.host_link_bytes_per_s = 450e9;
	assert_true(fabs(step_of(&away, &gpu) - keeps) < 1e-9 * keeps);
	gpu.host_link_bytes_per_s = 1e9;
	assert_true(fabs(step_of(&away, &gpu) - all) < 1e-9 * all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(subgroups_take_turns),
	    cmocka_unit_test(the_split_follows_the_rates),
	    cmocka_unit_test(states_are_in_the_arena_of_the_host),
	    cmocka_unit_test(the_node_needs_more),
	    cmocka_unit_test(the_step_shows_the_transfers),
	    cmocka_unit_test(parameters_are_in_the_arena_of_the_host),
	    cmocka_unit_test(the_step_shows_what_passes_do_not_hide),
	    cmocka_unit_test(activations_are_in_the_arena_of_the_host),
	    cmocka_unit_test(swapped_layers_are_spread),
	    cmocka_unit_test(the_step_shows_what_is_computed_again),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
