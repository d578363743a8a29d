/* SPDX-License-Identifier: Apache-2.0 */
/* Each divisibility rule has a message with valid numbers and a valid fix. */
#include "support/support.h"

#include "request/defaults.h"
#include "request/layout.h"
#include "schedule/schedule.h"

static int build(const char *flags, uint64_t nodes, uint64_t gpus, p4d_layout *layout, p4d_error *err)
{
	p4d_request r = {.gpu = ""};

	set_all(&r, MODEL_13B);
	set_all(&r, flags);
	p4d_request_complete(&r, 0, nodes * gpus);
	return p4d_layout_build(&r, nodes, gpus, layout, err);
}

/* p4d refuses the layout with this code, text and fix. With the fix, p4d accepts the layout, unless the
 * fix changes the job. */
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
	assert_int_equal(build("framework=deepspeed zero-stage=3 zero-bucket=0", 1, 8, &l, &err), 0);
	assert_int_equal(l.zero_bucket, l.hidden * l.hidden);
	assert_int_equal(build("tp=8 framework=megatron", 1, 8, &l, &err), 0);
	assert_int_equal(l.vocab, 32768); /* a multiple of 128*tp */
	assert_int_equal(build("pp=3 pipeline-split=13,14,13", 1, 3, &l, &err), 0);
	assert_int_equal(l.stage_layers[1], 14);
	assert_int_equal(build("pp=4 pipeline-split=13,-,-,5", 1, 4, &l, &err), 0);
	assert_int_equal(l.stage_layers[0], 13);
	assert_int_equal(l.stage_layers[1], 11);
	assert_int_equal(l.stage_layers[2], 11);
	assert_int_equal(l.stage_layers[3], 5);
	assert_int_equal(build("tp=1", 1, 1, &l, &err), 0);
	assert_false(l.sequence_parallel);
}

static void tensor_rules(void **state)
{
	p4d_layout l;
	p4d_error err;

	(void)state;
	refuse("tp=3", 1, 8, P4D_E_HEADS,
	       "tp=3 does not divide the 40 attention heads; with 40 heads, 40 key/value heads and 8 GPUs "
	       "per node tp can be 1, 2, 4, 8",
	       "--p4d-tp=4");
	/* Megatron-Core copies a KV head to several ranks */
	assert_int_equal(build("framework=megatron tp=4 kv-heads=2", 1, 8, &l, &err), 0);
	assert_int_equal(p4d_rank_kv_heads(&l), 1);
	refuse("framework=megatron tp=8 kv-heads=5", 1, 8, P4D_E_KV_HEADS,
	       "tp=8 neither divides nor is a multiple of the 5 key/value heads; with 40 heads, 5 key/value "
	       "heads and 8 GPUs per node tp can be 1",
	       "--p4d-tp=1");
	refuse("tp=4 kv-heads=2", 1, 8, P4D_E_KV_HEADS,
	       "tp=4 does not divide the 2 key/value heads; with 40 heads, 2 key/value heads and 8 GPUs per "
	       "node tp can be 1, 2",
	       "--p4d-tp=2");
	refuse("tp=4 ffn=13826", 1, 8, P4D_E_WIDTH,
	       "tp=4 does not divide the 13826 columns of the feed-forward layer; with 40 heads, 40 "
	       "key/value heads and 8 GPUs per node tp can be 1, 2",
	       "--p4d-tp=2");
	refuse("tp=8 experts=8 experts-per-token=2 expert-ffn=512 shared-ffn=4", 1, 8, P4D_E_WIDTH,
	       "tp=8 does not divide the 4 columns of the shared experts; with 40 heads, 40 key/value heads "
	       "and 8 "
	       "GPUs per node tp can be 1, 2, 4",
	       "--p4d-tp=4");
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
	       "pp=4 x vpp=3 does not divide the 40 layers; with pp=4 vpp can be 1, 2, 5, 10", "--p4d-vpp=2");
	refuse("layers=11 pp=2 vpp=3 schedule=interleaved", 1, 8, P4D_E_LAYERS,
	       "pp=2 x vpp=3 does not divide the 11 layers; pp x vpp can be 1, 11",
	       "--p4d-schedule=1f1b --p4d-vpp=1 --p4d-pipeline-split=6,5");
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
	refuse("pp=4 pipeline-split=12,-,-,-", 1, 8, P4D_E_SPLIT,
	       "pipeline-split=12,-,-,- must be pp=4 values, each a number or -; the stages with - share "
	       "the rest of the 40 layers evenly",
	       "--p4d-pipeline-split=10,10,10,10");
	const char *bad[] = {"40,0",   "20,,20",   "20,20,", ",20,20", "20;20", "-20,60",
			     "20,20x", "20,10,10", "-,40",   "40,-",   "20,--", "-20"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char flags[64];
		p4d_layout l;
		p4d_error err;
		snprintf(flags, sizeof(flags), "pp=2 pipeline-split=%s", bad[i]);
		assert_int_equal(build(flags, 1, 8, &l, &err), -1);
		assert_int_equal(err.code, P4D_E_SPLIT);
	}
}

/* Llama 3.1 405B as NVIDIA trains it: the embedding and the loss count as a layer each. */
#define MODEL_405B "layers=126 hidden=16384 ffn=53248 heads=128 kv-heads=8 framework=megatron tp=8 "

static void chunks_of_a_stage_may_differ(void **state)
{
	p4d_layout l;
	p4d_error err;

	(void)state;
	refuse(MODEL_405B "pp=8 vpp=8", 8, 8, P4D_E_LAYERS,
	       "pp=8 x vpp=8 does not divide the 126 layers; pp x vpp can be 1, 2, 3, 6, 7, 9, 14, 18, 21, "
	       "42, 63, 126",
	       "--p4d-account-for-embedding=on --p4d-account-for-loss=on");
	assert_int_equal(
	    build(MODEL_405B "pp=8 vpp=8 account-for-embedding=on account-for-loss=on", 8, 8, &l, &err), 0);
	for (uint32_t stage = 0; stage < 8; stage++)
		for (uint32_t chunk = 0; chunk < 8; chunk++)
			assert_int_equal(p4d_chunk_layers(&l, stage, chunk),
					 2 - (stage == 0 && chunk == 0) - (stage == 7 && chunk == 7));
	assert_int_equal(l.stage_layers[0], 15);
	assert_int_equal(l.stage_layers[1], 16);
	assert_int_equal(l.stage_layers[7], 15);
	/* only account-for-loss, without chunks */
	assert_int_equal(build(MODEL_405B "layers=31 pp=2 account-for-loss=on", 2, 8, &l, &err), 0);
	assert_int_equal(l.stage_layers[0], 16);
	assert_int_equal(l.stage_layers[1], 15);
	assert_false(l.uneven_chunks);
	/* as NVIDIA trains it, the first chunk has only the embedding, and the last one only the loss;
	 * with pp=8, these are whole stages */
	assert_int_equal(build(MODEL_405B "layers=30 pp=4 vpp=8 account-for-embedding=on account-for-loss=on",
			       8, 8, &l, &err),
			 0);
	assert_int_equal(p4d_chunk_layers(&l, 0, 0), 0);
	assert_int_equal(p4d_chunk_layers(&l, 0, 1), 1);
	assert_int_equal(p4d_chunk_layers(&l, 3, 7), 0);
	assert_int_equal(l.stage_layers[3], 7);
	assert_int_equal(
	    build(MODEL_405B "layers=6 pp=8 account-for-embedding=on account-for-loss=on", 8, 8, &l, &err),
	    0);
	assert_int_equal(l.stage_layers[0], 0);
	assert_int_equal(l.stage_layers[6], 1);
	assert_int_equal(l.stage_layers[7], 0);
	/* a pipeline of one stage is not split */
	assert_int_equal(build(MODEL_405B "layers=31 account-for-loss=on", 1, 8, &l, &err), 0);
	assert_int_equal(l.stage_layers[0], 31);
	/* pipeline-split may have any numbers, in the order of the model's layers */
	assert_int_equal(build(MODEL_405B "layers=11 pp=2 vpp=3 pipeline-split=1,2,2,2,3,1", 2, 8, &l, &err),
			 0);
	assert_int_equal(l.stage_layers[0], 6);
	assert_int_equal(l.stage_layers[1], 5);
	assert_int_equal(p4d_chunk_layers(&l, 0, 2), 3);
	assert_int_equal(p4d_chunk_layers(&l, 1, 2), 1);
	assert_int_equal(build(MODEL_405B "layers=12 pp=2 vpp=3 pipeline-split=2,2,2,2,2,2", 2, 8, &l, &err),
			 0);
	assert_false(l.uneven_chunks);
	assert_int_equal(p4d_chunk_layers(&l, 1, 2), 2);
}

static void uneven_chunks_that_do_not_work(void **state)
{
	(void)state;
	refuse(MODEL_405B "layers=11 pp=2 vpp=3", 2, 8, P4D_E_LAYERS,
	       "pp=2 x vpp=3 does not divide the 11 layers; pp x vpp can be 1, 11",
	       "--p4d-pipeline-split=2,2,2,2,2,1");
	refuse("framework=fsdp layers=11 pp=2 vpp=3", 2, 8, P4D_E_LAYERS,
	       "pp=2 x vpp=3 does not divide the 11 layers; pp x vpp can be 1, 11",
	       "--p4d-account-for-embedding=on --p4d-account-for-loss=on");
	refuse(
	    MODEL_405B "layers=11 pp=2 vpp=3 pipeline-split=1,2,2,2,2,3", 2, 8, P4D_E_SPLIT,
	    "pipeline-split=1,2,2,2,2,3 must be pp=2 numbers, each a multiple of vpp=3, that add up to the "
	    "11 layers, or one number for each of the pp x vpp chunks",
	    "--p4d-pipeline-split=2,2,2,2,2,1");
	refuse(MODEL_405B "layers=12 pp=2 pipeline-split=5,7 account-for-loss=on", 2, 8, P4D_E_SPLIT,
	       "account-for-embedding and account-for-loss cannot "
	       "be combined with pipeline-split, which gives the layers of all stages",
	       "--p4d-account-for-embedding=off --p4d-account-for-loss=off");
	refuse("framework=fsdp layers=16 tp=2 pp=4 vpp=8 account-for-embedding=on account-for-loss=on", 2, 8,
	       P4D_E_LAYERS,
	       "if the embedding or the loss counts as a layer, the model cannot be divided into pp x vpp = "
	       "32 chunks of 0 layers",
	       "--p4d-account-for-embedding=off --p4d-account-for-loss=off --p4d-vpp=1");
	/* p4d-train has chunks of one size */
	refuse(
	    "pp=2 vpp=3 pipeline-split=6,6,7,7,7,7", 1, 2, P4D_E_SPLIT,
	    "pipeline-split=6,6,7,7,7,7 must be pp=2 numbers, each a multiple of vpp=3, that add up to the "
	    "40 layers",
	    "");
}

/* PyTorch's interleaved schedule may have a single group, with fewer micro-batches than stages or with
 * more. torchtitan gives the first chunks one more layer if the layers do not divide evenly. */
static void uneven_groups(void **state)
{
	p4d_layout l;
	p4d_error err;
	const char *model = "framework=fsdp layers=61 tp=8 pp=8 vpp=2 schedule=interleaved micro-batch=1 "
			    "account-for-embedding=on account-for-loss=on";
	char text[512];

	(void)state;
	snprintf(text, sizeof(text), "%s global-batch=4", model);
	assert_int_equal(build(text, 8, 8, &l, &err), 0);
	assert_true(l.uneven_chunks);
	assert_int_equal(l.chunk_layers[0], 3);
	for (int i = 1; i < 15; i++)
		assert_int_equal(l.chunk_layers[i], 4);
	assert_int_equal(l.chunk_layers[15], 2);
	const p4d_schedule four = p4d_schedule_of(&l);
	assert_int_equal(p4d_schedule_slots(&four, 7).activation,
			 5); /* 4 + 1 micro-batches are in flight, not 8 + 1 */
	assert_int_equal(p4d_schedule_slots(&four, 0).activation, 8);
	snprintf(text, sizeof(text), "%s global-batch=10", model);
	assert_int_equal(build(text, 8, 8, &l, &err), 0);
	const p4d_schedule ten = p4d_schedule_of(&l);
	assert_int_equal(p4d_schedule_group(&ten), 10);
	assert_int_equal(p4d_schedule_slots(&ten, 7).activation, 11);
	snprintf(text, sizeof(text), "%s global-batch=17", model);
	refuse(text, 8, 8, P4D_E_SCHEDULE,
	       "schedule=interleaved needs a number of micro-batches that is a multiple of pp=8, not 17",
	       "--p4d-global-batch=24");
}

static void type_rule(void **state)
{
	(void)state;
	refuse("framework=megatron grad-dtype=fp16", 1, 8, P4D_E_VALUE,
	       "grad-dtype=fp16 cannot be combined with precision=bf16", "--p4d-grad-dtype=fp32");
	refuse("framework=megatron precision=fp32 grad-dtype=bf16", 1, 8, P4D_E_VALUE,
	       "grad-dtype=bf16 cannot be combined with precision=fp32", "--p4d-grad-dtype=fp32");
	refuse("framework=megatron optimizer-sharding=off optimizer-dtype=bf16", 1, 8, P4D_E_VALUE,
	       "optimizer-dtype and master-dtype below fp32 need optimizer-sharding=states and a 16-bit "
	       "precision",
	       "--p4d-optimizer-sharding=states");
	refuse("framework=megatron precision=fp32 master-dtype=fp16", 1, 8, P4D_E_VALUE,
	       "optimizer-dtype and master-dtype below fp32 need optimizer-sharding=states and a 16-bit "
	       "precision",
	       "--p4d-optimizer-dtype=fp32 --p4d-master-dtype=fp32");
	/* p4d-train supports bf16 moments with any precision and any sharding */
	p4d_layout l;
	p4d_error err;
	assert_int_equal(
	    build("framework=p4d precision=fp32 optimizer-sharding=off optimizer-dtype=bf16", 1, 8, &l, &err),
	    0);
	assert_true(l.half_moments);
	/* the fix is another framework, unless the user asked for p4d-train */
	refuse("grad-dtype=bf16", 1, 8, P4D_E_VALUE,
	       "grad-dtype=bf16: p4d-train accumulates gradients in fp32", "--p4d-framework=megatron");
	refuse("framework=p4d grad-dtype=bf16", 1, 8, P4D_E_VALUE,
	       "grad-dtype=bf16: p4d-train accumulates gradients in fp32", "--p4d-grad-dtype=fp32");
}

/* Only some frameworks support a shard degree, and sharding of more than optimizer states. */
static void sharding_rule(void **state)
{
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(build("framework=p4d optimizer-sharding=on", 1, 8, &l, &err), 0);
	assert_int_equal(l.zero_stage, P4D_SHARD_STATES);
	assert_int_equal(build("framework=megatron optimizer-sharding=states", 1, 8, &l, &err), 0);
	assert_int_equal(build("framework=p4d optimizer-sharding=parameters shard-degree=4", 1, 8, &l, &err),
			 0);
	assert_int_equal(l.zero_stage, P4D_SHARD_PARAMETERS);
	refuse("framework=megatron optimizer-sharding=gradients", 1, 8, P4D_E_VALUE,
	       "optimizer-sharding=gradients exists only in p4d-train; Megatron-LM's distributed optimizer "
	       "shards "
	       "states",
	       "--p4d-optimizer-sharding=states");
	refuse("framework=megatron shard-degree=4", 1, 8, P4D_E_VALUE,
	       "shard-degree=4: Megatron-LM shards the optimizer over all dp*cp ranks",
	       "leave out --p4d-shard-degree");
	refuse("framework=deepspeed optimizer-sharding=parameters", 1, 8, P4D_E_VALUE,
	       "optimizer-sharding=parameters: with DeepSpeed, use --zero-stage",
	       "leave out --p4d-optimizer-sharding");
	refuse("framework=p4d reshard-after-forward=off", 1, 8, P4D_E_VALUE,
	       "reshard-after-forward=off: with p4d-train, optimizer-sharding=gradients keeps parameters "
	       "gathered for a whole step",
	       "leave out --p4d-reshard-after-forward");
	refuse("framework=p4d optimizer-sharding=off shard-degree=4", 1, 8, P4D_E_VALUE,
	       "shard-degree=4 needs optimizer-sharding: without it, ranks do not shard anything",
	       "--p4d-optimizer-sharding=states");
	refuse("framework=p4d shard-degree=3", 1, 8, P4D_E_WORLD,
	       "shard-degree=3 does not divide dp*cp = 8*1", "--p4d-shard-degree=8");
}

static void world_rule(void **state)
{
	(void)state;
	refuse(
	    "tp=8 pp=2 pipeline-split=20,20", 3, 8, P4D_E_WORLD,
	    "24 GPUs are not a multiple of tp*cp*pp = 8*1*2 = 16; use 32 GPUs, or a product that divides 24",
	    "--nodes=4 --gpus-per-node=8");
	refuse("tp=2 pp=2", 1, 6, P4D_E_WORLD,
	       "6 GPUs are not a multiple of tp*cp*pp = 2*1*2 = 4; use 8 GPUs, or a product that divides 6",
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
	/* seq-len is below its minimum */
	refuse("tp=2 seq-len=1", 1, 8, P4D_E_SEQUENCE,
	       "seq-len=1 is not a multiple of 2 (cp=1, times tp); seq-len can be 2 or 4", "--p4d-seq-len=2");
}

static void batch_rule(void **state)
{
	(void)state;
	refuse("tp=2 global-batch=10", 1, 8, P4D_E_BATCH,
	       "global-batch=10 is not a multiple of micro-batch=1 x dp=4 = 4; global-batch can be 8 or 12",
	       "--p4d-global-batch=12");
	refuse("tp=2 global-batch=3", 1, 8, P4D_E_BATCH,
	       "global-batch=3 is not a multiple of micro-batch=1 x dp=4 = 4; global-batch can be 4 or 8",
	       "--p4d-global-batch=4");
	refuse("tp=2 global-batch=12 micro-batch=2", 1, 8, P4D_E_BATCH,
	       "global-batch=12 is not a multiple of micro-batch=2 x dp=4 = 8; global-batch can be 8 or 16",
	       "--p4d-micro-batch=1");
}

/* Losses of single stages: the user must name the stages, each of these stages has a head, and the
 * schedule must be 1F1B. */
static void local_loss_rule(void **state)
{
	p4d_layout l;
	p4d_error err;

	(void)state;
	assert_int_equal(build("pp=2", 1, 8, &l, &err), 0);
	assert_false(l.local_loss);
	assert_int_equal(build("pp=2 local-loss=off", 1, 8, &l, &err), 0);
	assert_false(l.local_loss);
	assert_int_equal(build("tp=2 pp=4 local-loss=stage", 1, 8, &l, &err), 0);
	assert_true(l.local_loss);
	refuse("local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage trains a different model for each division into stages, so pp and "
	       "pipeline-split must be given",
	       "--p4d-local-loss=off");
	refuse("pp=1 local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage needs pp > 1: a single stage has only the model's own loss",
	       "--p4d-local-loss=off");
	refuse("pp=2 vpp=2 local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage needs schedule=1f1b: a backward pass follows its forward pass",
	       "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=2 schedule=zb1p local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage needs schedule=1f1b: a backward pass follows its forward pass",
	       "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=2 schedule=v-half vpp=2 local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage needs schedule=1f1b: a backward pass follows its forward pass",
	       "--p4d-schedule=1f1b --p4d-vpp=1");
	refuse("pp=2 vocab-parallel=vocab-1 local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage gives every stage its own head, but vocab-parallel shards one head over all "
	       "stages",
	       "--p4d-vocab-parallel=off");
	refuse("pp=2 finetune=lora lora-rank=8 local-loss=stage", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage trains heads; finetune=lora trains only adapters", "--p4d-local-loss=off");
	refuse("pp=2 local-loss=stage optimizer-sharding=gradients", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage can shard optimizer states, but not gradients and parameters",
	       "--p4d-optimizer-sharding=states");
	refuse("pp=2 local-loss=stage token-slices=2", 1, 8, P4D_E_SCHEDULE,
	       "local-loss=stage runs whole micro-batches, not token-slices", "--p4d-token-slices=1");
	refuse("pp=2 framework=megatron local-loss=stage", 1, 8, P4D_E_VALUE,
	       "local-loss=stage: Megatron-LM has only one loss, on the last stage",
	       "leave out --p4d-local-loss");
	refuse("framework=fsdp local-loss=stage", 1, 8, P4D_E_VALUE,
	       "local-loss=stage: FSDP has only one loss, on the last stage", "leave out --p4d-local-loss");
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
	refuse("framework=p4d activation=relu2 glu=off", 1, 8, P4D_E_UNMODELLED,
	       "framework p4d trains models like Llama, GPT-2 and Gemma 2 (see p4d-train(1)), which "
	       "llama13b is not (activation=relu2)",
	       "--p4d-framework=megatron");
}

/* cp ranks share the heads of a tp rank, and groups of recomputed layers must fill a chunk. */
static void what_only_megatron_has(void **state)
{
	p4d_layout l;
	p4d_error err;

	(void)state;
	refuse("framework=megatron tp=4 cp=4 cp-comm=a2a heads=40 kv-heads=8", 2, 8, P4D_E_KV_HEADS,
	       "cp-comm=a2a: cp=4 must divide the kv-heads of a rank; with tp=4 these are 2",
	       "--p4d-cp-comm=p2p");
	assert_int_equal(
	    build("framework=megatron tp=4 cp=2 cp-comm=a2a heads=40 kv-heads=8", 1, 8, &l, &err), 0);
	assert_int_equal(l.cp_comm, P4D_CP_A2A);
	refuse("framework=megatron tp=2 cp=4 cp-heads=4 heads=40 kv-heads=8", 1, 8, P4D_E_VALUE,
	       "cp-heads=4 needs cp-comm=p2p; it must be above 1, below cp=4 and a divisor of it, and divide "
	       "the "
	       "4 kv-heads of a rank",
	       "");
	refuse("framework=megatron tp=2 cp=4 cp-heads=2 cp-comm=a2a heads=40 kv-heads=8", 1, 8, P4D_E_VALUE,
	       "cp-heads=2 needs cp-comm=p2p; it must be above 1, below cp=4 and a divisor of it, and divide "
	       "the "
	       "4 kv-heads of a rank",
	       "");
	assert_int_equal(build("framework=megatron tp=2 cp=4 cp-heads=2 heads=40 kv-heads=8", 1, 8, &l, &err),
			 0);
	assert_int_equal(l.megatron.cp_heads, 2);
	refuse("framework=p4d tp=4 cp=2 cp-comm=a2a", 1, 8, P4D_E_VALUE,
	       "cp-comm=a2a needs Megatron-LM; p4d-train exchanges keys and values", "--p4d-cp-comm=p2p");
	refuse("framework=megatron tp=4 pp=2 recompute=full recompute-layers=3", 1, 8, P4D_E_VALUE,
	       "recompute-layers=3 does not divide the 20 layers of a chunk", "--p4d-recompute-layers=1");
	assert_int_equal(build("framework=megatron tp=4 pp=2 recompute=full recompute-layers=3 "
			       "recompute-method=block",
			       1, 8, &l, &err),
			 0);
	refuse("framework=p4d tp=4 pp=2 recompute=full recompute-layers=2", 1, 8, P4D_E_VALUE,
	       "recompute-layers=2: p4d-train recomputes one layer at a time", "--p4d-recompute-layers=1");
}

static uint64_t batch_of(const char *flags, uint32_t published, uint64_t world)
{
	p4d_request r = {.gpu = ""};

	set_all(&r, MODEL_13B);
	set_all(&r, flags);
	p4d_request_complete(&r, published, world);
	assert_int_equal(r.origin[P4D_GLOBAL_BATCH], published ? P4D_BY_MODEL : P4D_BY_P4D);
	return (uint64_t)r.value[P4D_GLOBAL_BATCH];
}

/* The default global batch depends on the number of GPUs, not on the layout. */
static void default_batch(void **state)
{
	char text[96];
	p4d_request r = {.gpu = ""};

	(void)state;
	assert_int_equal(batch_of("seq-len=8192", 0, 64), 512);
	assert_int_equal(batch_of("seq-len=8192 tp=8 pp=4", 0, 64), 512);
	assert_int_equal(batch_of("seq-len=2048", 0, 8), 2048);
	assert_int_equal(batch_of("seq-len=8192", 0, 24), 504);
	assert_int_equal(batch_of("seq-len=131072", 0, 8), 32);
	/* the default has at least one sequence for each GPU */
	assert_int_equal(batch_of("seq-len=8192", 0, 4096), 4096);
	assert_int_equal(batch_of("seq-len=8192 device=cpu", 0, 4), 4);
	/* if the model has a batch of its own, the default is this batch, rounded down to a multiple that
	 * this number of GPUs needs */
	assert_int_equal(batch_of("tp=8", 2048, 8), 2048);
	assert_int_equal(batch_of("tp=8", 2048, 24), 2040);
	assert_int_equal(batch_of("tp=8 pp=16", 2048, 16384), 2048);
	/* the default is a multiple of the values that the user set */
	assert_int_equal(batch_of("", 512, 16384), 16384);
	assert_int_equal(batch_of("seq-len=8192 micro-batch=3", 0, 8), 528);
	assert_int_equal(batch_of("seq-len=8192 tp=8 pp=3 vpp=2", 0, 24), 504);
	assert_true(batch_of("seq-len=1 micro-batch=65536 pp=1024 tp=1", 0, UINT64_C(1) << 40) > 0);
	set_all(&r, MODEL_13B "seq-len=8192");
	p4d_request_complete(&r, 0, 64);
	assert_string_equal(p4d_defaults_batch_text(&r, "--", text, sizeof(text)),
			    "512 (assumed: 4.2M tokens a step; --global-batch sets it)");
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
	    cmocka_unit_test(derived_numbers),
	    cmocka_unit_test(tensor_rules),
	    cmocka_unit_test(pipeline_rules),
	    cmocka_unit_test(sharding_rule),
	    cmocka_unit_test(world_rule),
	    cmocka_unit_test(sequence_rule),
	    cmocka_unit_test(batch_rule),
	    cmocka_unit_test(chunks_of_a_stage_may_differ),
	    cmocka_unit_test(uneven_chunks_that_do_not_work),
	    cmocka_unit_test(uneven_groups),
	    cmocka_unit_test(type_rule),
	    cmocka_unit_test(local_loss_rule),
	    cmocka_unit_test(schedule_rule),
	    cmocka_unit_test(framework_rule),
	    cmocka_unit_test(what_only_megatron_has),
	    cmocka_unit_test(default_batch),
	    cmocka_unit_test(an_incomplete_request_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
