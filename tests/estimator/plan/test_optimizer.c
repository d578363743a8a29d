/* SPDX-License-Identifier: Apache-2.0 */
/* Plans have the states of the optimizer's table entry, and each buffer of buffers.def is in some plan. */
#include "support/support.h"

#include "support/plan_layouts.h"

static const char *const layouts[] = {
    "framework=p4d precision=bf16",      "framework=p4d precision=fp32",
    "framework=p4d device=cpu",          "framework=megatron",
    "framework=megatron precision=fp32", "framework=megatron precision=fp16",
    "framework=p4d offload=optimizer",
};

static void plan_of(const char *text, p4d_layout *l, p4d_plan *plan)
{
	p4d_request r = {.model = "custom"};

	set_all(&r, "model=custom layers=8 hidden=256 ffn=512 heads=8 kv-heads=8 head-dim=32 vocab=1024 "
		    "max-seq-len=512 norm=rmsnorm glu=on positions=rope bias=none tied=off qk-norm=off tp=2 "
		    "te-wgrad=off");
	set_all(&r, text);
	p4d_request_complete(&r, 0, 8);
	assert_int_equal(p4d_layout_build(&r, 1, 8, l, NULL), 0);
	assert_int_equal(p4d_plan_build(l, &h100, 0, plan, NULL), 0);
}

/* Bytes that PyTorch and its libraries allocate in the first step and keep, without the states. */
static uint64_t first_used(const p4d_plan *plan)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < plan->count; i++) {
		const p4d_tensor *row = &plan->tensor[i];
		if (row->lifetime == P4D_LIVES_ALWAYS && row->part > P4D_PART_OPTIMIZER)
			bytes += row->bytes;
	}
	return bytes;
}

/* A plan has each state once, under its name, with 4 bytes for each parameter of the shard. It has a
 * master copy unless parameters are fp32. */
static void plans_have_the_states_of_the_entry(void **state)
{
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		plan_of(layouts[i], &l, &plan);
		const p4d_optimizer *optimizer = p4d_optimizer_of(&l);
		uint64_t lazy = 0, moments = 0;
		for (p4d_state s = 0; s < P4D_MOST_STATES; s++) {
			const p4d_tensor *row = p4d_plan_find(&plan, (p4d_buffer)(B_STATE + s));
			const bool there =
			    s < optimizer->states && (s != P4D_STATE_MASTER || l.precision != P4D_FP32);
			assert_int_equal(row != NULL, there);
			if (!row)
				continue;
			assert_string_equal(row->name, optimizer->row[s]);
			assert_int_equal(row->part, P4D_PART_OPTIMIZER);
			assert_int_equal(row->dtype, P4D_DT_FP32);
			assert_int_equal(row->shape[0], plan.tensor[0].shape[0] / 4); /* a dp rank has a
										       * quarter */
			const bool away = l.offload & P4D_OFFLOAD_OPTIMIZER;
			assert_int_equal(row->lifetime, away ? P4D_LIVES_ON_HOST : P4D_LIVES_ALWAYS);
			moments += s != P4D_STATE_MASTER ? row->bytes : 0;
		}
		if (l.framework == P4D_FRAMEWORK_MEGATRON)
			lazy = moments + first_used(&plan);
		assert_int_equal(plan.phase_bytes[P4D_INIT], plan.persistent_bytes - lazy);
	}
}

/* All names in plans and checkpoints differ. The first state is the master copy. */
static void entries_are_whole(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_OPTIMIZERS; i++) {
		const p4d_optimizer *o = &p4d_optimizers[i];
		assert_true(o->name && o->states > P4D_STATE_MASTER && o->states <= P4D_MOST_STATES);
		assert_true(!o->stored[0] || !strcmp(o->stored[P4D_STATE_MASTER], "master"));
		for (p4d_state s = 0; s < o->states; s++)
			for (p4d_state t = 0; t < s; t++)
				assert_string_not_equal(o->row[s], o->row[t]);
		for (p4d_state s = 0; s < p4d_optimizer_stored(o); s++)
			for (p4d_state t = 0; t < s; t++)
				assert_string_not_equal(o->stored[s], o->stored[t]);
	}
}

static void take_names(const char *name[B_BUFFERS], const p4d_plan *plan)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (!strncmp(plan->tensor[i].name, "again.", 6))
			assert_int_equal(plan->tensor[i].lifetime, P4D_LIVES_IN_RANGE);
		else
			name[plan->tensor[i].id] = plan->tensor[i].name;
}

/* Each buffer number has a row of buffers.def, and no two rows have the same name. Each name occurs in the
 * plan of some random layout. Most of these layouts are of models like Llama. */
static void every_buffer_is_in_some_plan(void **state)
{
	static const char *const others[] = {
	    "framework=p4d device=cpu architecture=gemma2 activation=geglu glu=on",
	    "framework=p4d device=cpu precision=fp8",
	    "framework=p4d device=cpu precision=fp8 recompute=keep tp=1",
	    "framework=p4d finetune=qlora lora-rank=8",
	    "framework=p4d tp=1 optimizer=adamw-8bit",
	    "framework=p4d optimizer=muon",
	    "framework=p4d qk-norm=wide",
	    "framework=p4d offload=optimizer",
	    "framework=p4d offload=activations",
	    "framework=p4d seq-len=8192 document-len=512",
	    "framework=p4d tp=4 tp-grid=2,1,2 micro-batch=2 global-batch=8",
	    "framework=p4d tp=4 tp-grid=2,2,1",
	    "framework=p4d device=cpu architecture=gpt2 norm=layernorm activation=gelu glu=off "
	    "positions=learned "
	    "bias=all"};
	const char *name[B_BUFFERS] = {"", NULL};
	static p4d_layout l;
	static p4d_plan plan;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		plan_of(others[i], &l, &plan);
		take_names(name, &plan);
	}
	for (unsigned count = 0; count < 4000;) {
		if (!random_layout(&l, -1))
			continue;
		count++;
		assert_int_equal(p4d_plan_build(&l, &h100, (uint32_t)draw(l.pp), &plan, NULL), 0);
		take_names(name, &plan);
	}
	for (int i = 0; i < B_BUFFERS; i++) {
		if (!name[i] && i < B_STATE + (int)p4d_optimizer_of(&l)->states)
			fail_msg("no plan has buffer %d", i);
		if (!name[i]) /* the optimizer has no such state */
			continue;
		for (int j = 0; j < i; j++)
			if (name[j])
				assert_string_not_equal(name[i], name[j]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plans_have_the_states_of_the_entry),
	    cmocka_unit_test(entries_are_whole),
	    cmocka_unit_test(every_buffer_is_in_some_plan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
