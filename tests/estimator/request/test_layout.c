/* SPDX-License-Identifier: Apache-2.0 */
/* Every divisibility rule: the message names numbers that work, and the fix does. */
#include "support/support.h"

#include "request/defaults.h"
#include "request/layout.h"

static int build(const char *flags, uint64_t nodes, uint64_t gpus, p4d_layout *layout, p4d_error *err)
{
	p4d_request r = {.gpu = ""};

	set_all(&r, MODEL_13B);
	set_all(&r, flags);
	p4d_request_complete(&r, 0, nodes * gpus);
	return p4d_layout_build(&r, nodes, gpus, layout, err);
}

/* The layout is refused with this code, text and fix; and with the fix applied (unless it changes the job) it
 * is built. */
static void refuse(const char *flags, uint64_t nodes, uint64_t gpus, p4d_code code, const char *text,
		   const char *fix)
{
	p4d_layout layout;
	p4d_error err;
	char fixed[512];
	size_t used;

	assert_int_equal(build(flags, nodes, gpus, &layout, &err), -1);
	assert_int_equal(err.code, code);
	assert_string_equal(err.text, text);
	assert_string_equal(err.fix, fix);
	if (strncmp(fix, "--p4d-", 6) != 0)
		return;
	used = (size_t)snprintf(fixed, sizeof(fixed), "%s ", flags);
	for (const char *at = fix; *at; at++) {
		if (!strncmp(at, "--p4d-", 6))
			at += 6;
		fixed[used++] = *at;
	}
	fixed[used] = '\0';
	if (build(fixed, nodes, gpus, &layout, &err) < 0)
		fail_msg("with the fix %s: %s", fixed, err.text);
}

static void derived_numbers(void **state)
{
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(build("tp=4 pp=2 cp=2 global-batch=512 micro-batch=2", 8, 8, &l, &err), 0);
	assert_int_equal(l.world, 64);
	assert_int_equal(l.dp, 4);
	assert_int_equal(l.micro_batches, 64);
	assert_int_equal(l.stage_layers[0], 20);
	assert_int_equal(l.stage_layers[1], 20);
	assert_true(l.sequence_parallel);
	assert_int_equal(l.vocab, 32000);
	assert_int_equal(build("tp=8 framework=megatron", 1, 8, &l, &err), 0);
	assert_int_equal(l.vocab, 32768); /* a multiple of 128*tp */
	assert_int_equal(build("pp=3 pipeline-split=13,14,13", 1, 3, &l, &err), 0);
	assert_int_equal(l.stage_layers[1], 14);
	assert_int_equal(build("tp=1", 1, 1, &l, &err), 0);
	assert_false(l.sequence_parallel);
}

static void tensor_rules(void **state)
{
	(void)state;
	refuse("tp=3", 1, 8, P4D_E_HEADS, "tp=3 does not divide the 40 attention heads; tp can be 1, 2, 4, 8",
	       "--p4d-tp=4");
	refuse("tp=4 kv-heads=2", 1, 8, P4D_E_KV_HEADS,
	       "tp=4 does not divide the 2 key/value heads; tp can be 1, 2", "--p4d-tp=2");
	refuse("tp=4 ffn=13826", 1, 8, P4D_E_WIDTH,
	       "tp=4 does not divide the 13826 columns of the feed-forward layer; tp can be 1, 2",
	       "--p4d-tp=2");
	refuse("tp=10 ffn=13840", 1, 8, P4D_E_TP_NODE,
	       "tp=10 does not divide the 8 GPUs of a node; tp can be 1, 2, 4, 8", "--p4d-tp=8");
	refuse("tp=8", 2, 4, P4D_E_TP_NODE, "tp=8 does not divide the 4 GPUs of a node; tp can be 1, 2, 4",
	       "--p4d-tp=4");
}

static void pipeline_rules(void **state)
{
	(void)state;
	refuse("pp=3", 3, 8, P4D_E_LAYERS,
	       "pp=3 x vpp=1 does not divide the 40 layers; with vpp=1 pp can be 1, 2, 4, 8",
	       "--p4d-pipeline-split=13,14,13");
	refuse("pp=4 vpp=3 schedule=interleaved", 1, 8, P4D_E_LAYERS,
	       "pp=4 x vpp=3 does not divide the 40 layers; with vpp=3 pp can be none",
	       "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=64", 8, 8, P4D_E_LAYERS,
	       "pp=64 x vpp=1 does not divide the 40 layers; with vpp=1 pp can be 1, 2, 4, 8", "--p4d-pp=8");
	refuse("pp=2 pipeline-split=20,21", 1, 8, P4D_E_SPLIT,
	       "pipeline-split=20,21 must be pp=2 numbers, each a multiple of vpp=1, that add up to the 40 "
	       "layers",
	       "--p4d-pipeline-split=20,20");
	refuse(
	    "pp=2 pipeline-split=40", 1, 8, P4D_E_SPLIT,
	    "pipeline-split=40 must be pp=2 numbers, each a multiple of vpp=1, that add up to the 40 layers",
	    "--p4d-pipeline-split=20,20");
	const char *bad[] = {"40,0", "20,,20", "20,20,", ",20,20", "20;20", "-20,60", "20,20x", "20,10,10"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char flags[64];
		p4d_layout l;
		p4d_error err;
		snprintf(flags, sizeof(flags), "pp=2 pipeline-split=%s", bad[i]);
		assert_int_equal(build(flags, 1, 8, &l, &err), -1);
		assert_int_equal(err.code, P4D_E_SPLIT);
	}
}

static void world_rule(void **state)
{
	(void)state;
	refuse("tp=8 pp=2 pipeline-split=20,20", 3, 8, P4D_E_WORLD,
	       "24 GPUs are not a multiple of tp*cp*pp = 8*1*2 = 16; use 32 GPUs or a product dividing 24",
	       "--nodes=4 --gpus-per-node=8");
	refuse("tp=2 pp=2", 1, 6, P4D_E_WORLD,
	       "6 GPUs are not a multiple of tp*cp*pp = 2*1*2 = 4; use 8 GPUs or a product dividing 6",
	       "--p4d-tp=2 --p4d-cp=1 --p4d-pp=1");
}

static void sequence_rule(void **state)
{
	(void)state;
	refuse("cp=4 seq-len=2044", 1, 8, P4D_E_SEQUENCE,
	       "seq-len=2044 is not a multiple of 8 (2 x cp=4); seq-len can be 2040 or 2048",
	       "--p4d-seq-len=2040");
	refuse("tp=8 seq-len=1001", 1, 8, P4D_E_SEQUENCE,
	       "seq-len=1001 is not a multiple of 8 (cp=1, times tp); seq-len can be 1000 or 1008",
	       "--p4d-seq-len=1000");
}

static void batch_rule(void **state)
{
	(void)state;
	refuse("tp=2 global-batch=10", 1, 8, P4D_E_BATCH,
	       "global-batch=10 is not a multiple of micro-batch=1 x dp=4 = 4; global-batch can be 8 or 12",
	       "--p4d-global-batch=12");
	refuse("tp=2 global-batch=12 micro-batch=2", 1, 8, P4D_E_BATCH,
	       "global-batch=12 is not a multiple of micro-batch=2 x dp=4 = 8; global-batch can be 8 or 16",
	       "--p4d-micro-batch=1");
}

static void schedule_rule(void **state)
{
	(void)state;
	refuse("pp=2 schedule=zbv vpp=1", 1, 8, P4D_E_SCHEDULE,
	       "schedule=zbv needs pp > 1 and vpp = 2, not pp=2 vpp=1", "--p4d-vpp=2");
	refuse("pp=1 schedule=v-half vpp=2", 1, 8, P4D_E_SCHEDULE,
	       "schedule=v-half needs pp > 1 and vpp = 2, not pp=1 vpp=2", "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=2 schedule=zb1p vocab-parallel=vocab-1", 1, 8, P4D_E_SCHEDULE,
	       "vocab-parallel needs pp > 1 and schedule=1f1b or v-half, not pp=2 schedule=zb1p",
	       "--p4d-vocab-parallel=off");
	refuse("pp=2 schedule=zb1p framework=megatron", 1, 8, P4D_E_SCHEDULE,
	       "schedule=zb1p needs p4d-train; Megatron-LM supports 1f1b and interleaved",
	       "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=2 vpp=2 schedule=1f1b", 1, 8, P4D_E_SCHEDULE, "vpp=2 needs the interleaved schedule",
	       "--p4d-schedule=interleaved");
	refuse("pp=1 vpp=2", 1, 8, P4D_E_SCHEDULE,
	       "schedule=interleaved needs pp > 1 and vpp > 1, not pp=1 vpp=2",
	       "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=4 vpp=2 tp=2 global-batch=6", 1, 8, P4D_E_SCHEDULE,
	       "schedule=interleaved needs a number of micro-batches that is a multiple of pp=4, not 6",
	       "--p4d-global-batch=8");
}

static void framework_rule(void **state)
{
	(void)state;
	refuse("framework=p4d norm=layernorm", 1, 8, P4D_E_UNMODELLED,
	       "framework p4d trains Llama-type models (RMSNorm, gated feed-forward, rotary positions, no "
	       "bias beyond query, key and value), "
	       "which llama13b is not",
	       "--p4d-framework=megatron");
}

static void default_batch(void **state)
{
	(void)state;
	assert_int_equal(p4d_defaults__global_batch(2048, 8, 8, 1, 1, 1), 2048);
	assert_int_equal(p4d_defaults__global_batch(2048, 24, 8, 1, 1, 1),
			 2049); /* rounded up to a multiple of dp = 3 */
	assert_int_equal(p4d_defaults__global_batch(0, 16, 2, 1, 4, 2),
			 16); /* dp 2, micro-batch 2, four stages */
	assert_int_equal(p4d_defaults__global_batch(512, 16384, 1, 1, 1, 1), 16384);
}

static void an_incomplete_request_is_refused(void **state)
{
	p4d_request r = {.gpu = ""};
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), -1);
	set_all(&r, MODEL_13B);
	r.origin[P4D_HEAD_DIM] = P4D_UNSET;
	p4d_request_complete(&r, 0, 8);
	assert_int_equal(p4d_layout_build(&r, 1, 8, &l, &err), -1);
	assert_int_equal(err.code, P4D_E_INCOMPLETE_MODEL);
	assert_string_equal(err.text, "head-dim is not set");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(derived_numbers), cmocka_unit_test(tensor_rules),
	    cmocka_unit_test(pipeline_rules),  cmocka_unit_test(world_rule),
	    cmocka_unit_test(sequence_rule),   cmocka_unit_test(batch_rule),
	    cmocka_unit_test(schedule_rule),   cmocka_unit_test(framework_rule),
	    cmocka_unit_test(default_batch),   cmocka_unit_test(an_incomplete_request_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
