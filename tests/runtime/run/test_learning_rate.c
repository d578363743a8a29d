/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates, and the losses that stop a run or skip a step. */
#include "support/support.h"

#include <math.h>

#include "run/learning_rate.h"
#include "run/loss_watch.h"

static void near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted))))
		fail_msg("%.17g instead of %.17g", got, wanted);
}

static void test_warmup(void **state)
{
	const p4d_rate rate = {.peak = 8, .least = 1, .warmup = 4, .steps = 100};

	(void)state;
	near(p4d_learning_rate(&rate, 1), 2);
	near(p4d_learning_rate(&rate, 3), 6);
	near(p4d_learning_rate(&rate, 4), 8);
	assert_true(p4d_learning_rate(&rate, 5) < 8);
	/* with a warmup of all steps there is no decay; without warmup, step 1 already decays */
	near(p4d_learning_rate(&(p4d_rate){.peak = 8, .least = 1, .warmup = 4, .steps = 4}, 4), 8);
	assert_true(p4d_learning_rate(&(p4d_rate){.peak = 8, .warmup = 0, .steps = 10}, 1) < 8);
}

static void test_cosine(void **state)
{
	const p4d_rate rate = {.peak = 3, .least = 1, .warmup = 10, .steps = 110};

	(void)state;
	near(p4d_learning_rate(&rate, 60), 2); /* half of the decay */
	near(p4d_learning_rate(&rate, 35), 2 + sqrt(0.5));
	near(p4d_learning_rate(&rate, 110), 1);
	near(p4d_learning_rate(&rate, 1000), 1);
	for (uint64_t i = 11; i <= 110; i++)
		assert_true(p4d_learning_rate(&rate, i) < p4d_learning_rate(&rate, i - 1));
}

static void test_wsd(void **state)
{
	const p4d_rate rate = {
	    .curve = P4D_WSD, .peak = 3, .least = 1, .warmup = 10, .steps = 110, .decay = 20};

	(void)state;
	for (uint64_t i = 10; i <= 90; i++)
		near(p4d_learning_rate(&rate, i), 3);
	near(p4d_learning_rate(&rate, 91), 2.9);
	near(p4d_learning_rate(&rate, 100), 2);
	near(p4d_learning_rate(&rate, 110), 1);
}

/* The loss of a step in a training that goes well, with some noise. */
static double usual_loss(uint64_t step)
{
	return 2 + 3 * exp(-(double)step / 40) + 0.05 * sin((double)step * 1.7);
}

static void test_usual_losses_are_fine(void **state)
{
	p4d_loss_watch watch = {.skips_allowed = 0, .spikes_allowed = 1};
	p4d_loss_kind kind;
	p4d_error err;

	(void)state;
	for (uint64_t i = 1; i <= 500; i++) {
		assert_int_equal(p4d_loss_seen(&watch, i, usual_loss(i), 0, &kind, &err), 0);
		assert_int_equal(kind, P4D_LOSS_FINE);
	}
}

static void test_not_finite(void **state)
{
	p4d_loss_watch watch = {.skips_allowed = 2};
	p4d_loss_kind kind;
	p4d_error err;

	(void)state;
	for (int round = 0; round < 3; round++) {
		assert_int_equal(p4d_loss_seen(&watch, 7, NAN, 0, &kind, &err), 0);
		assert_int_equal(kind, P4D_LOSS_NOT_FINITE);
		assert_int_equal(p4d_loss_seen(&watch, 8, 2.5, 3, &kind, &err), 0);
		assert_int_equal(kind, P4D_LOSS_NOT_FINITE);
		/* a step with a good loss restarts the count of bad steps */
		assert_int_equal(p4d_loss_seen(&watch, 9, 2.5, 0, &kind, &err), 0);
		assert_int_equal(kind, P4D_LOSS_FINE);
	}
	assert_int_equal(p4d_loss_seen(&watch, 10, INFINITY, 0, &kind, &err), 0);
	assert_int_equal(p4d_loss_seen(&watch, 11, 2, 1, &kind, &err), 0);
	assert_int_equal(p4d_loss_seen(&watch, 12, 2, 5, &kind, &err), -1);
	assert_int_equal(err.code, P4D_E_DIVERGED);
	assert_non_null(strstr(err.text, "step 12"));
	assert_non_null(strstr(err.text, "5 gradients"));
	assert_int_equal(watch.all_skips, 9);
}

static void test_named_curves(void **state)
{
	const p4d_rate linear = {P4D_LINEAR, 1, 0.2, 2, 10, 0}, constant = {P4D_CONSTANT, 1, 0.2, 2, 10, 0};

	(void)state;
	assert_true(p4d_learning_rate(&linear, 1) == 0.5 && p4d_learning_rate(&constant, 1) == 0.5);
	assert_true(p4d_learning_rate(&linear, 2) == 1);
	assert_true(fabs(p4d_learning_rate(&linear, 6) - 0.6) < 1e-12);
	assert_true(p4d_learning_rate(&linear, 10) == 0.2 && p4d_learning_rate(&linear, 11) == 0.2);
	for (uint64_t i = 2; i < 12; i++)
		assert_true(p4d_learning_rate(&constant, i) == 1);
}

/* A batch with only masked labels has no loss. If no batch has a label, the run ends with an error. */
static void test_no_label(void **state)
{
	p4d_loss_watch watch = {.skips_allowed = 2}, never = {.skips_allowed = 9};
	p4d_loss_kind kind;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_loss_none(&watch, 1, false, &kind, &err), 0);
	assert_int_equal(kind, P4D_LOSS_EMPTY);
	assert_int_equal(p4d_loss_seen(&watch, 2, 2.5, 0, &kind, &err), 0);
	assert_true(watch.mean == 2.5);
	assert_int_equal(p4d_loss_none(&watch, 3, false, &kind, &err), 0);
	assert_int_equal(p4d_loss_none(&watch, 4, true, &kind, &err), 0);
	assert_int_equal(p4d_loss_none(&watch, 5, false, &kind, &err), -1);
	assert_int_equal(err.code, P4D_E_DATA);
	assert_int_equal(p4d_loss_none(&never, 1, false, &kind, &err), 0);
	assert_int_equal(p4d_loss_none(&never, 2, true, &kind, &err), -1);
	assert_int_equal(err.code, P4D_E_DATA);
}

static void test_spikes(void **state)
{
	p4d_loss_watch watch = {.spikes_allowed = 2}, patient = {.spikes_allowed = 0};
	p4d_loss_kind kind;
	p4d_error err;

	(void)state;
	for (uint64_t i = 1; i <= 100; i++) {
		assert_int_equal(p4d_loss_seen(&watch, i, usual_loss(i), 0, &kind, &err), 0);
		assert_int_equal(p4d_loss_seen(&patient, i, usual_loss(i), 0, &kind, &err), 0);
	}
	assert_int_equal(p4d_loss_seen(&watch, 101, 7, 0, &kind, &err), 0);
	assert_int_equal(kind, P4D_LOSS_SPIKE);
	/* the usual loss does not change with the spike, so the same loss is again a spike */
	assert_int_equal(p4d_loss_seen(&watch, 102, 6.5, 0, &kind, &err), 0);
	assert_int_equal(kind, P4D_LOSS_SPIKE);
	assert_int_equal(p4d_loss_seen(&watch, 103, 6.4, 0, &kind, &err), -1);
	assert_int_equal(err.code, P4D_E_DIVERGED);

	/* if the loss stays high, it becomes the usual loss and is no spike any more */
	unsigned spikes = 0;
	for (uint64_t i = 101; i <= 200; i++) {
		assert_int_equal(p4d_loss_seen(&patient, i, 7, 0, &kind, &err), 0);
		spikes += kind == P4D_LOSS_SPIKE;
	}
	assert_int_equal(spikes, 32);
}

/* Tests --on-spike. Steps skipped for a spike and for a gradient that is not finite share one limit. */
static void test_on_spike(void **state)
{
	p4d_loss_watch skip = {.on_spike = P4D_SPIKE_SKIP, .skips_allowed = 3},
		       stop = {.on_spike = P4D_SPIKE_STOP};
	p4d_loss_watch report = {.on_spike = P4D_SPIKE_REPORT}, *all[] = {&skip, &stop, &report};
	p4d_loss_kind kind;
	p4d_error err;

	(void)state;
	for (uint64_t i = 1; i <= 100; i++)
		for (int k = 0; k < 3; k++) {
			/* as long as the usual loss is unknown, no loss is a spike */
			assert_true(i > 16 || p4d_loss_limit(all[k]) == INFINITY);
			assert_true(usual_loss(i) <= p4d_loss_limit(all[k]));
			assert_int_equal(p4d_loss_seen(all[k], i, usual_loss(i), 0, &kind, &err), 0);
		}
	const double limit = p4d_loss_limit(&skip);
	assert_true(limit > 2.5 && limit < 6.5);
	assert_true(p4d_loss_limit(&stop) == INFINITY && p4d_loss_limit(&report) == INFINITY);
	/* a loss equal to the limit is not a spike, and the step is applied */
	p4d_loss_watch at = skip;
	assert_int_equal(p4d_loss_seen(&at, 101, limit, 0, &kind, &err), 0);
	assert_int_equal(kind, P4D_LOSS_FINE);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(p4d_loss_seen(&skip, 101, 7, 0, &kind, &err), 0);
		assert_int_equal(kind, P4D_LOSS_SPIKE);
		assert_true(p4d_loss_limit(&skip) < 6.5);
		assert_int_equal(p4d_loss_seen(&skip, 102, NAN, 0, &kind, &err), 0);
		assert_int_equal(p4d_loss_seen(&skip, 103, 7, 0, &kind, &err), 0);
		if (round)
			break;
		assert_int_equal(p4d_loss_seen(&skip, 104, 2, 0, &kind, &err), 0);
		assert_int_equal(skip.skips, 0);
	}
	assert_int_equal(p4d_loss_seen(&skip, 104, 7, 0, &kind, &err), -1);
	assert_int_equal(err.code, P4D_E_DIVERGED);
	assert_non_null(strstr(err.text, "step 104: the loss 7 is far above"));
	assert_non_null(strstr(err.text, "4 consecutive steps skipped, more than --skips=3"));
	assert_int_equal(skip.all_skips, 7);
	assert_int_equal(skip.all_spikes, 5);

	assert_int_equal(p4d_loss_seen(&stop, 101, 7, 0, &kind, &err), -1);
	assert_int_equal(err.code, P4D_E_DIVERGED);
	assert_int_equal(p4d_loss_seen(&report, 101, 7, 0, &kind, &err), 0);
	assert_int_equal(report.all_skips, 0);
	assert_int_equal(report.all_spikes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_warmup),       cmocka_unit_test(test_cosine),
	    cmocka_unit_test(test_wsd),          cmocka_unit_test(test_usual_losses_are_fine),
	    cmocka_unit_test(test_not_finite),   cmocka_unit_test(test_no_label),
	    cmocka_unit_test(test_named_curves), cmocka_unit_test(test_spikes),
	    cmocka_unit_test(test_on_spike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
