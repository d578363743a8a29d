/* SPDX-License-Identifier: Apache-2.0 */
/* Properties that all plans have. */
#include "support/support.h"

#include "base/wide.h"
#include "plan/parameters.h"
#include "support/plan_layouts.h"

/* Whether the buffer exists while activations are in slots. */
static bool beside_slots(const p4d_tensor *row)
{
	return row->lifetime != P4D_LIVES_IN_RANGE || row->live_range & ~P4D_FREE_OF_SLOTS;
}

static bool in_slot(const p4d_tensor *row)
{
	return row->lifetime == P4D_LIVES_IN_SLOT || row->lifetime == P4D_LIVES_IN_VOCABULARY_SLOT;
}

static bool together(const p4d_tensor *a, const p4d_tensor *b)
{
	if ((in_slot(a) && !beside_slots(b)) || (in_slot(b) && !beside_slots(a)))
		return false;
	return a->lifetime != P4D_LIVES_IN_RANGE || b->lifetime != P4D_LIVES_IN_RANGE ||
	       (a->live_range & b->live_range);
}

/* Copies of two rows may interleave (layers in a slot), so the test compares all copies. */
static bool overlap(const p4d_tensor *a, const p4d_tensor *b, bool same)
{
	for (uint32_t s = 0; s < a->slots; s++)
		for (uint32_t i = 0; i < a->layers; i++)
			for (uint32_t t = 0; t < b->slots; t++)
				for (uint32_t j = 0; j < b->layers; j++) {
					uint64_t x = a->offset + s * a->slot_stride + i * a->layer_stride;
					uint64_t y = b->offset + t * b->slot_stride + j * b->layer_stride;
					if (same && s == t && i == j)
						continue;
					if (x < y + b->bytes && y < x + a->bytes)
						return true;
				}
	return false;
}

static void buffers_do_not_overlap(void **state)
{
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	for (unsigned count = 0; count < 60;) {
		if (!random_layout(&l, -1) || l.micro_batches > 12 || l.layers / l.pp > 4)
			continue;
		count++;
		assert_int_equal(p4d_plan_build(&l, &h100, (uint32_t)draw(l.pp), &plan, NULL), 0);
		uint64_t end = 0;
		for (unsigned i = 0; i < plan.count; i++) {
			const p4d_tensor *a = &plan.tensor[i];
			uint64_t last = a->offset + (a->slots ? a->slots - 1 : 0) * a->slot_stride +
					(a->layers - 1) * a->layer_stride + a->bytes;
			assert_int_equal(a->offset % P4D_ARENA_ALIGNMENT, 0);
			end = last > end ? last : end;
			assert_int_not_equal(a->id, B_NONE);
			assert_ptr_equal(p4d_plan_find(&plan, a->id), a);
			for (unsigned j = i; j < plan.count; j++)
				if (together(a, &plan.tensor[j]) && overlap(a, &plan.tensor[j], i == j))
					fail_msg("%s and %s overlap", a->name, plan.tensor[j].name);
		}
		assert_int_equal(end, plan.arena_bytes);
	}
}

/* To find the stage with the most memory, p4d skips stages and chunks whose memory follows from that of
 * others. The result must be that of a loop over all stages. */
static void the_fullest_stage_is_found(void **state)
{
	const p4d_capacity capacity = {&h100, 0, 0};
	static p4d_layout l;
	p4d_estimate e;
	p4d_stage stage;

	(void)state;
	for (unsigned count = 0; count < 1000;) {
		if (!random_layout(&l, -1) || l.pp < 3)
			continue;
		count++;
		const bool split = draw(2);
		for (uint64_t i = 0; split && i < l.pp; i++)
			l.stage_layers[i] = (uint32_t)(l.vpp * (1 + draw(6)));
		assert_int_equal(p4d_memory_estimate(&l, P4D_METHOD_PLAN, &capacity, &e, NULL), 0);
		const p4d_schedule schedule = p4d_schedule_of(&l);
		uint64_t fullest = 0, host = 0, seen;
		for (uint32_t i = 0; i < l.pp; i++) {
			assert_int_equal(p4d_memory_of_stage(&l, P4D_METHOD_PLAN, &h100, i, &stage, NULL), 0);
			fullest = P4D_MOST(fullest, stage.device_bytes);
			host = P4D_MOST(
			    host,
			    p4d_memory_host_of_rank(&l, i, stage.allocated_bytes, stage.host_bytes).sum);
			p4d_wide n = p4d_parameters__of_vocabulary(&l);
			for (uint32_t chunk = 0; chunk < l.vpp; chunk++)
				n += p4d_parameters__of_chunk(&l, &schedule, i, chunk);
			assert_true(n == p4d_parameters_of_stage(&l, &schedule, i));
		}
		if (fullest != e.peak.device_bytes || host * l.gpus_per_node != e.host_bytes)
			fail_msg("schedule %d, pp %d, %d micro-batches: a stage in the middle is fullest",
				 l.schedule, (int)l.pp, (int)l.micro_batches);
		if (e.capacity_bytes) {
			assert_int_equal(
			    p4d_memory_fits_below(&l, P4D_METHOD_PLAN, &capacity, 0.5, NULL, &seen),
			    e.fraction <= 0.5);
			assert_true(split || p4d_memory_least_states(&l) <= e.peak.device_bytes);
		}
	}
}

static void hash_tells_plans_apart(void **state)
{
	static p4d_layout l, other;
	uint64_t a, b, c;

	(void)state;
	while (!random_layout(&l, P4D_1F1B) || l.pp < 2)
		;
	other = l;
	assert_int_equal(p4d_plan_hash(&l, &h100, &a, NULL), 0);
	assert_int_equal(p4d_plan_hash(&other, &h100, &b, NULL), 0);
	assert_true(a == b);
	other.stage_layers[0]++;
	assert_int_equal(p4d_plan_hash(&other, &h100, &c, NULL), 0);
	assert_true(a != c);
	/* draws a layout with a middle stage, whose layers the hash must also include */
	while (!random_layout(&l, P4D_1F1B) || l.pp < 6 || l.local_loss || l.micro_batches == 3)
		;
	other = l;
	other.stage_layers[3]++;
	assert_int_equal(p4d_plan_hash(&l, &h100, &a, NULL), 0);
	assert_int_equal(p4d_plan_hash(&other, &h100, &b, NULL), 0);
	other = l;
	other.micro_batches = 3; /* with 3 micro-batches, the memory of the last stages stays the same */
	assert_int_equal(p4d_plan_hash(&other, &h100, &c, NULL), 0);
	assert_true(a != b && a != c && b != c);
}

static void absurd_sizes_are_an_error(void **state)
{
	static p4d_layout l;
	static p4d_plan plan;
	p4d_error err;

	(void)state;
	while (!random_layout(&l, P4D_1F1B) || l.local_loss)
		;
	l.seq_len = 134217728;
	l.micro_batch = 65536;
	l.hidden = 1048576;
	assert_int_equal(p4d_plan_build(&l, &h100, 0, &plan, &err), -1);
	assert_int_equal(err.code, P4D_E_OVERFLOW);
}

/* Bytes of one copy of an activation; 0: layers do not keep it. */
static uint64_t bytes_of(const p4d_plan *plan, p4d_activation which)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].id == B_ACTIVATION + which &&
		    plan->tensor[i].lifetime == P4D_LIVES_IN_SLOT)
			return plan->tensor[i].bytes;
	return 0;
}

/*
 * Operands of matmuls in FP8, calculated by hand. A rank has 1,024 tokens, and 256 hidden columns, 512 of
 * qkv, 256 of queries, 512 of gate and up, and 256 of the product of gate and up.
 *
 * Codes have one byte: 1,024 tokens of 512 columns; transposed gradients, 512 columns of 1,024 tokens; and
 * transposed inputs, 256 columns of 1,024 tokens. blockwise has an fp32 scale for 128 numbers, which is 4
 * per token and 8 per column. mxfp8 has a one-byte exponent for 32 numbers, four times as many.
 *
 * Matrices of two layers, 2 * 512 * 256 and 2 * 256 * 256 elements, have codes in both directions: eight
 * operands, each with a scale for 128 x 128 elements, for 32 elements, or for all.
 */
#define MATRICES (2 * 2 * (2 * 512 * 256 + 2 * 256 * 256))
static void operands_in_fp8(void **state)
{
	static const struct {
		const char *recipe;
		uint64_t bytes[7]; /* one size per buffer, from B_FP8_LEFT on */
	} cases[] = {
	    {"blockwise",
	     {1024 * 512, 1024 * 4 * 4, 512 * 1024, 512 * 8 * 4, 256 * 1024, 256 * 8 * 4,
	      MATRICES + 2 * 8 * 256}},
	    {"mxfp8",
	     {1024 * 512, 1024 * 16, 512 * 1024, 512 * 32, 256 * 1024, 256 * 32, MATRICES + MATRICES / 32}},
	    {"current", {1024 * 512, 256, 512 * 1024, 256, 256 * 1024, 256, MATRICES + 2 * 8 * 256}}};
	static const struct {
		const char *options;
		unsigned rows;
	} layouts[] = {{"recompute=keep", 7},
		       {"recompute=none", 6},
		       {"recompute=keep optimizer-sharding=parameters nodes=2", 6}};

	(void)state;
	for (size_t i = 0; i < 3 * sizeof(cases) / sizeof(*cases); i++) {
		p4d_request r = {.model = "custom"};
		unsigned found = 0;
		char text[160];
		p4d_layout l;
		p4d_plan plan;

		set_all(&r,
			"model=custom layers=2 hidden=256 ffn=512 heads=4 kv-heads=2 head-dim=128 vocab=203 "
			"max-seq-len=512 norm=rmsnorm glu=on positions=rope bias=none tied=off qk-norm=off "
			"framework=p4d device=cpu precision=fp8 seq-len=512 micro-batch=2 global-batch=4 "
			"nodes=1 gpus-per-node=2 tp=2 cp=1 pp=1");
		snprintf(text, sizeof(text), "fp8-recipe=%s %s", cases[i / 3].recipe, layouts[i % 3].options);
		set_all(&r, text);
		const int nodes = i % 3 == 2 ? 2 : 1;
		p4d_request_complete(&r, 0, 2);
		assert_int_equal(p4d_layout_build(&r, nodes, 2, &l, NULL), 0);
		assert_int_equal(p4d_plan_build(&l, NULL, 0, &plan, NULL), 0);
		for (unsigned k = 0; k < plan.count; k++)
			if (plan.tensor[k].id >= B_FP8_LEFT && plan.tensor[k].id <= B_FP8_WEIGHTS) {
				assert_int_equal(plan.tensor[k].bytes,
						 cases[i / 3].bytes[plan.tensor[k].id - B_FP8_LEFT]);
				found++;
			}
		assert_int_equal(found, layouts[i % 3].rows);
		/* With `keep`, the outputs of attention and SwiGLU are stored transposed, like other
		 * inputs. tp ranks shard the outputs of norms, which are not transposed. */
		const bool keeps = l.recompute == P4D_RECOMPUTE_KEEP;
		const uint64_t *kept = &cases[i / 3].bytes[B_FP8_RIGHT - B_FP8_LEFT];
		assert_int_equal(bytes_of(&plan, ACT_ATTENTION_CODES), keeps ? kept[0] + kept[1] : 0);
		assert_int_equal(bytes_of(&plan, ACT_PRODUCT_CODES), keeps ? kept[0] + kept[1] : 0);
		assert_int_equal(bytes_of(&plan, ACT_PRODUCT), 0);
		assert_int_equal(bytes_of(&plan, ACT_INPUT_CODES), 0);
		assert_true(!keeps || bytes_of(&plan, ACT_INPUT_NORMED));
	}
}

/* Draws a layout of a dense model or of one with experts, with random degrees, schedule and recomputation. */
static bool drawn_for_torchtitan(p4d_layout *l)
{
	static const char *const recompute[] = {"none", "selective", "full"};
	const unsigned nodes = 1u << draw(3), pp = 1u << draw(3), vpp = pp > 1 ? 1 + (unsigned)draw(3) : 1;
	const bool sparse = draw(2);
	p4d_request r = {.model = "custom"};
	char text[256];

	set_all(
	    &r,
	    "model=custom layers=24 hidden=1024 heads=16 kv-heads=8 head-dim=64 vocab=32000 max-seq-len=4096 "
	    "norm=rmsnorm glu=on positions=rope bias=none tied=off framework=fsdp seq-len=4096 "
	    "gpus-per-node=8 cp-comm=all-gather optimizer=adamw");
	set_all(&r, sparse ? "ffn=2048 experts=32 experts-per-token=4 expert-ffn=512 qk-norm=on"
			   : "ffn=4096 qk-norm=off");
	snprintf(
	    text, sizeof(text),
	    "nodes=%u tp=%u cp=%u pp=%u vpp=%u ep=%u micro-batch=%u global-batch=%u recompute=%s schedule=%s",
	    nodes, 1u << draw(3), 1u << draw(3), pp, vpp, sparse ? 1u << draw(3) : 1, 1u << draw(2),
	    64u << draw(3), recompute[draw(3)],
	    vpp > 1   ? "interleaved"
	    : draw(2) ? "gpipe"
		      : "1f1b");
	set_all(&r, text);
	p4d_request_complete(&r, nodes, 8);
	return p4d_layout_build(&r, nodes, 8, l, NULL) == 0;
}

/* All layouts share one cache, which has too few entries for them. Cached bounds also take entries. */
static void a_memo_changes_no_plan(void **state)
{
	const p4d_plan_memo memo = p4d_plan_memo_of(32);
	p4d_plan_memo bounded = memo;
	uint64_t with, without, idle, idle_without, least;
	unsigned count = 0, deep = 0, sparse = 0, bounds = 0;
	static p4d_layout l;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		if (!drawn_for_torchtitan(&l))
			continue;
		count++;
		deep += l.pp > 1;
		sparse += l.experts > 0;
		for (uint32_t stage = 0; stage < l.pp; stage++) {
			assert_int_equal(p4d_plan_bytes(&l, &h100, stage, &memo, &with, &idle, NULL), 0);
			assert_int_equal(
			    p4d_plan_bytes(&l, &h100, stage, NULL, &without, &idle_without, NULL), 0);
			assert_int_equal(with, without);
			assert_int_equal(idle, idle_without);
			/* if the plan needs more than `enough`, the result may be any number from `enough`
			 * up to the plan's bytes */
			bounded.enough = without / 2;
			assert_int_equal(p4d_plan_bytes(&l, &h100, stage, &bounded, &least, NULL, NULL), 0);
			assert_true(least <= without && least >= bounded.enough);
			bounds += least < without;
		}
	}
	assert_true(count > 500 && deep > 100 && sparse > 100 && bounds > 100);
	free(memo.entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_memo_changes_no_plan),     cmocka_unit_test(buffers_do_not_overlap),
	    cmocka_unit_test(the_fullest_stage_is_found), cmocka_unit_test(hash_tells_plans_apart),
	    cmocka_unit_test(absurd_sizes_are_an_error),  cmocka_unit_test(operands_in_fp8),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
