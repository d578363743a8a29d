/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory in reinforcement learning, compared with sums by hand of the models' plans. */
#include "support/support.h"

#include "model/model.h"
#include "serve/colocated.h"
#include "request/defaults.h"

#define LIMIT 0.97
static const p4d_gpu h100 = {.name = "h100-80gb", .usable_bytes = UINT64_C(84932978278), .sm = 90};

typedef struct trial {
	p4d_request request;
	p4d_layout layout;
	p4d_colocated colocated;
	p4d_estimate actor;
	p4d_error err;
	bool fits;
} trial;

static trial learn(const char *flags)
{
	const p4d_capacity capacity = {.gpu = &h100};
	trial t = {.request = {.model = ""}};

	set_all(&t.request, "workload=rl model=qwen2.5-7b seq-len=4096 recompute=full");
	set_all(&t.request, flags);
	if (p4d_model_resolve(&t.request, NULL, NULL, &t.err) < 0)
		fail_msg("%s: %s", flags, t.err.text);
	p4d_colocated_complete(&t.request, 8);
	p4d_request_complete(&t.request, 0, 8);
	if (p4d_layout_build(&t.request, 1, 8, &t.layout, &t.err) < 0 ||
	    p4d_memory_estimate(&t.layout, P4D_METHOD_PLAN, &capacity, &t.actor, &t.err) < 0 ||
	    p4d_colocated_estimate(&t.request, &t.layout, &h100, &t.colocated, &t.err) < 0)
		fail_msg("%s: %s", flags, t.err.text);
	t.fits = p4d_colocated_check(&t.request, &t.layout, &h100, &t.colocated, LIMIT, &t.err) == 0;
	return t;
}

#define FSDP "framework=fsdp model-code=transformers "

/* Qwen 2.5 7B has 7,615,616,512 parameters. Each GPU has an eighth of them: the actor's in fp32 with two
 * moments, the reference's in 16 bits. */
static void parts_stand_beside_each_other(void **state)
{
	const trial t = learn(FSDP "gpu-memory-utilization=0.5");
	const p4d_colocated *c = &t.colocated;
	const uint64_t share = UINT64_C(7615616512) / 8;

	(void)state;
	assert_true(t.fits);
	assert_int_equal(t.layout.micro_batches, 1);
	assert_int_equal(c->generating.actor, share * 12 + t.actor.peak.part[P4D_PART_CONTEXT]);
	assert_int_equal(c->generating.reference, share * 2);
	assert_int_equal(c->training.reference, share * 2);
	assert_int_equal(c->generating.engine, (uint64_t)(0.5 * 84932978278.0));
	assert_int_equal(c->training.engine, 0);
	assert_int_equal(c->training.actor, t.actor.peak.device_bytes);
	assert_int_equal(c->generating.critic + c->training.critic, 0);
	assert_int_equal(c->generating.sum,
			 c->generating.actor + c->generating.reference + c->generating.engine);
	assert_int_equal(c->training.sum, c->training.actor + c->training.reference);
}

static void what_is_swapped_is_on_the_host(void **state)
{
	const trial t = learn(FSDP "swap=optimizer,params reference=host gpu-memory-utilization=0.8");
	const p4d_colocated *c = &t.colocated;

	(void)state;
	assert_int_equal(c->generating.actor, t.actor.peak.part[P4D_PART_CONTEXT]);
	assert_int_equal(c->host_bytes, UINT64_C(7615616512) / 8 * 12);
	assert_int_equal(c->generating.reference, 0);
	assert_int_equal(learn(FSDP "swap=optimizer").colocated.host_bytes, UINT64_C(7615616512) / 8 * 8);
}

/* With packing, the loss works in place: 24,000 x 152,064 logits exist once, in 16 bits. The actor needs
 * at least as much as with a chunked loss. */
static void losses_in_place(void **state)
{
	const trial t = learn(FSDP "packing=on global-batch=8 seq-len=24000"),
		    none = learn(FSDP "packing=on global-batch=8 seq-len=24000 chunked-loss=on"),
		    padded = learn(FSDP "packing=off global-batch=8 seq-len=24000"),
		    few = learn(FSDP "packing=on global-batch=8 seq-len=24000 vocab=8000"),
		    few_none =
			learn(FSDP "packing=on global-batch=8 seq-len=24000 vocab=8000 chunked-loss=on");

	(void)state;
	assert_int_equal(t.actor.peak.device_bytes - t.colocated.training.actor,
			 t.actor.peak.part[P4D_PART_LOGITS] - UINT64_C(24000) * 152064 * 2);
	assert_int_equal(none.colocated.training.actor, none.actor.peak.device_bytes);
	assert_true(none.colocated.training.actor < t.colocated.training.actor);
	assert_int_equal(padded.colocated.training.actor, padded.actor.peak.device_bytes);
	assert_true(few.colocated.training.actor >= few_none.colocated.training.actor);
}

/* A pipeline has at least one micro-batch per stage, even if it has chunks. */
static void pipelines_are_full(void **state)
{
	(void)state;
	assert_int_equal(learn("framework=megatron tp=2 pp=2").layout.micro_batches, 2);
	assert_int_equal(learn("framework=megatron tp=2 pp=4 vpp=7 micro-batch=2").layout.micro_batches, 4);
}

/* A critic has the same states as the actor. The actor's peak is higher, because a critic has no logits. */
static void critics_keep_as_much(void **state)
{
	const trial t = learn(FSDP "critic=on gpu-memory-utilization=0.5");

	(void)state;
	assert_int_equal(t.colocated.training.critic, UINT64_C(7615616512) / 8 * 12);
	assert_int_equal(t.colocated.generating.critic, t.colocated.training.critic);
	assert_int_equal(t.colocated.training.actor, t.actor.peak.device_bytes);
}

/* The reference is a frozen copy of the model. Each GPU has the whole copy if parameters are not sharded.
 * With adapters there is no copy, because the base model is the reference. */
static void references(void **state)
{
	(void)state;
	assert_int_equal(learn("framework=deepspeed zero-stage=2").colocated.generating.reference,
			 UINT64_C(7615616512) * 2);
	assert_int_equal(learn("framework=deepspeed zero-stage=3").colocated.generating.reference,
			 UINT64_C(7615616512) / 8 * 2);
	assert_int_equal(learn("framework=ddp finetune=lora lora-rank=16").colocated.generating.reference, 0);
	assert_int_equal(learn(FSDP "reference=off").colocated.generating.reference, 0);
}

/* With the fix, the layout fits. */
static void fixes(void **state)
{
	trial t = learn(FSDP "engine-sleep=off gpu-memory-utilization=0.7");

	(void)state;
	assert_false(t.fits);
	assert_non_null(strstr(t.err.text, "while it trains: actor"));
	assert_string_equal(t.err.fix, "--p4d-engine-sleep=on");
	assert_true(learn(FSDP "engine-sleep=on gpu-memory-utilization=0.7").fits);
	t = learn("framework=deepspeed zero-stage=2 gpu-memory-utilization=0.5");
	assert_non_null(strstr(t.err.text, "while it generates: actor"));
	assert_string_equal(t.err.fix, "--p4d-gpu-memory-utilization=0.45");
	assert_true(learn("framework=deepspeed zero-stage=2 gpu-memory-utilization=0.45").fits);
	t = learn(FSDP "engine-sleep=off critic=on gpu-memory-utilization=0.8 micro-batch=2");
	assert_string_equal(t.err.fix, "--p4d-engine-sleep=on --p4d-swap=optimizer,params");
	assert_true(
	    learn(FSDP "swap=optimizer,params critic=on gpu-memory-utilization=0.8 micro-batch=2").fits);
	/* an engine on other GPUs needs no memory here */
	assert_true(learn(FSDP "colocate=off").fits);
	assert_int_equal(learn(FSDP "colocate=off").colocated.generating.engine, 0);
}

/* DPO: a pass processes two sequences for each pair. The reference has the policy's type. Nothing is
 * generated. */
static void pairs(void **state)
{
	const p4d_capacity capacity = {.gpu = &h100};
	const uint64_t share = UINT64_C(7615616512) / 8;
	trial t = learn("workload=preference micro-batch=1 " FSDP);
	const trial twice = learn("workload=train micro-batch=2 " FSDP),
		    zero = learn("workload=preference framework=deepspeed"),
		    lora = learn("workload=preference finetune=lora " FSDP),
		    alone = learn("workload=preference reference=off " FSDP),
		    big = learn("workload=preference micro-batch=16 seq-len=8192 " FSDP);
	p4d_error err = {.code = P4D_OK};
	p4d_estimate e;

	(void)state;
	assert_int_equal(p4d_memory_estimate(&twice.layout, P4D_METHOD_PLAN, &capacity, &e, &err), 0);
	assert_int_equal(t.layout.micro_batches, 1);
	assert_true(t.fits && t.colocated.pairs);
	assert_int_equal(t.colocated.training.actor, e.peak.device_bytes);
	assert_int_equal(t.colocated.training.reference, share * 4);
	assert_int_equal(t.colocated.training.sum, e.peak.device_bytes + share * 4);
	assert_int_equal(t.colocated.generating.sum, 0);
	assert_int_equal(zero.colocated.training.reference, share * 2);
	assert_int_equal(lora.colocated.training.reference, 0);
	assert_int_equal(alone.colocated.training.sum, t.colocated.training.actor);
	assert_false(big.fits);
	assert_non_null(strstr(big.err.text, "with 16 pairs"));
	assert_string_equal(big.err.fix, "--p4d-micro-batch=1");
	/* p4d refuses an option that has no effect on this workload */
	p4d_request_put(&t.request, P4D_CRITIC, 1, P4D_BY_USER);
	assert_int_equal(p4d_colocated_estimate(&t.request, &t.layout, &h100, &t.colocated, &err), -1);
	assert_string_equal(err.fix, "leave out --p4d-critic");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_stand_beside_each_other),
	    cmocka_unit_test(pairs),
	    cmocka_unit_test(what_is_swapped_is_on_the_host),
	    cmocka_unit_test(losses_in_place),
	    cmocka_unit_test(pipelines_are_full),
	    cmocka_unit_test(critics_keep_as_much),
	    cmocka_unit_test(references),
	    cmocka_unit_test(fixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
