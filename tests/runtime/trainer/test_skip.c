/* SPDX-License-Identifier: Apache-2.0 */
/* Skipped steps change no bit of weights and moments, on each rank of each layout. The run continues as if
 * the batch had not existed. */
#include "support/support.h"

#include <math.h>

#include "support/forked.h"
#include "support/training.h"

enum { STEPS = 6, BAD = 4, VOCAB = 203, SEED = 3 };

#define MODEL \
	"model=custom layers=4 hidden=32 ffn=64 heads=4 kv-heads=2 head-dim=8 vocab=203 seq-len=32 tied=on " \
	"bias=qkv qk-norm=on global-batch=8 micro-batch=1 "

/* The reason to skip a step: its loss is above the limit, or its gradients are not finite. */
typedef enum fault { HIGH_LOSS, NOT_FINITE } fault;

static struct {
	const char *options;
	fault fault;
} test;

typedef struct rank_state {
	uint64_t elements;
	float *values; /* (P4D_MOST_STATES, elements): the shards of this rank, one after another */
} rank_state;

static void read_state(p4d_trainer *t, rank_state *to)
{
	const p4d_weights *w = p4d_trainer_weights(t);
	uint64_t first, count, at = 0;

	to->elements = w->elements;
	to->values = calloc(P4D_MOST_STATES * w->elements, sizeof(*to->values));
	for (p4d_state state = 0; state < P4D_MOST_STATES; state++)
		for (uint32_t i = 0; i < w->segments; i++) {
			p4d_trainer_shard(t, i, &first, &count);
			CHECK(p4d_trainer_read(t, i, state, to->values + at, NULL) == 0);
			at += count;
		}
}

/* Sets one weight on one rank to infinity, or back to its old value. All tokens pass this weight, which
 * belongs to the first norm. */
static void damage(p4d_trainer *t, bool wrong, float *saved)
{
	const p4d_weight *norm = p4d_weights__find(p4d_trainer_weights(t), P4D_W_ATTENTION_NORM, 0);
	uint64_t first, count;

	if (test.fault != NOT_FINITE || !norm || p4d_trainer_place(t).tp)
		return;
	p4d_trainer_shard(t, 0, &first, &count);
	if (norm->offset < first || norm->offset >= first + count)
		return;
	float *values = calloc(count, sizeof(*values)), *weight = values + (norm->offset - first);
	CHECK(p4d_trainer_read(t, 0, P4D_STATE_MASTER, values, NULL) == 0);
	if (wrong)
		*saved = *weight;
	*weight = wrong ? INFINITY : *saved;
	CHECK(p4d_trainer_write(t, 0, P4D_STATE_MASTER, values, NULL) == 0);
	free(values);
}

/* Trains STEPS steps; if `skipped` is true, without step BAD. *end: the state after the last step. */
static int train(p4d_world *world, uint32_t size, bool skipped, rank_state *end, p4d_error *err)
{
	p4d_step_result result;
	p4d_layout layout;
	p4d_device device;
	p4d_trainer *t;
	float saved = 0;

	TRY(training_layout(test.options, size, &layout, err));
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&t, &settings, err));
	TRY(p4d_trainer_initialize(t, SEED, err));
	training_text text = {&layout, p4d_trainer_place(t), VOCAB, .documents = false};
	for (uint64_t step = 1; step <= STEPS; step++) {
		rank_state before = {.elements = 0}, after = {.elements = 0};
		const bool bad = step == BAD;
		if (bad && skipped)
			continue;
		p4d_trainer_skip_above(t, bad && test.fault == HIGH_LOSS ? 1 : INFINITY);
		if (bad) {
			damage(t, true, &saved);
			TRY(p4d_trainer_restore(t, err));
			read_state(t, &before);
		}
		TRY(p4d_trainer_step(t, step, 0.003f, training_source, &text, &result, err));
		CHECK(result.applied == !bad);
		if (!bad)
			continue;
		CHECK(test.fault == HIGH_LOSS ? result.loss > 1 && !result.nonfinite : result.nonfinite > 0);
		read_state(t, &after);
		CHECK(
		    !memcmp(before.values, after.values, P4D_MOST_STATES * before.elements * sizeof(float)));
		free(before.values);
		free(after.values);
		damage(t, false, &saved);
		TRY(p4d_trainer_restore(t, err));
	}
	read_state(t, end);
	p4d_trainer_close(t);
	device.close(&device);
	return 0;
}

static int with_and_without(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	rank_state skipped, never;

	(void)rank;
	TRY(train(world, size, false, &skipped, err));
	TRY(train(world, size, true, &never, err));
	CHECK(!memcmp(skipped.values, never.values, P4D_MOST_STATES * never.elements * sizeof(float)));
	free(skipped.values);
	free(never.values);
	return 0;
}

static void run(uint32_t ranks, const char *options, fault which)
{
	char all[512];
	forked f;

	snprintf(all, sizeof(all), MODEL "%s", options);
	test.options = all;
	test.fault = which;
	forked_init(&f, ranks, NULL);
	forked_start(&f, with_and_without);
	const bool in_time = forked_finish(&f, 300);
	if (!forked_all_well(&f) || !in_time)
		fail_msg("%u ranks, %s, fault %d", ranks, options, which);
}

static void skipped_steps_leave_no_trace(void **state)
{
	static const struct {
		uint32_t ranks;
		const char *options;
	} cases[] = {
	    {1, "tp=1 cp=1 pp=1 vpp=1 precision=fp32"},
	    {2, "tp=1 cp=1 pp=1 vpp=1 precision=bf16"},
	    {2, "tp=1 cp=1 pp=2 vpp=1 precision=fp32 schedule=1f1b"},
	    {4, "tp=2 cp=1 pp=2 vpp=1 precision=bf16 schedule=1f1b"},
	    {4, "tp=1 cp=2 pp=2 vpp=2 precision=fp32 schedule=zbv"},
	    {4, "tp=2 cp=1 pp=1 vpp=1 precision=fp32 optimizer-sharding=off"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		run(cases[i].ranks, cases[i].options, HIGH_LOSS);
		run(cases[i].ranks, cases[i].options, NOT_FINITE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(skipped_steps_leave_no_trace)};

	return cmocka_run_group_tests_name("skip", tests, NULL, NULL);
}
