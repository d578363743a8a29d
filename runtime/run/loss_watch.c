/* SPDX-License-Identifier: Apache-2.0 */
#include "run/loss_watch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SETTLED = 16, NEW_LEVEL = 32 };
static const double weight = 1.0 / 32, deviations = 6, least_jump = 0.5;

static void remember(p4d_loss_watch *w, double loss)
{
	/*
	 * First w->mean is the mean of all losses so far. After 32 losses it is a running mean with a fixed
	 * weight.
	 */
	double share = w->seen < 32 ? 1.0 / (double)(w->seen + 1) : weight, away = loss - w->mean;

	w->mean += share * away;
	w->variance = (1 - share) * (w->variance + share * away * away);
	w->seen++;
}

/* Returns the loss above which a loss is a spike. */
static double usual_most(const p4d_loss_watch *w)
{
	const double away = deviations * sqrt(w->variance);

	return w->seen < SETTLED ? INFINITY : w->mean + (away > least_jump ? away : least_jump);
}

double p4d_loss_limit(const p4d_loss_watch *w)
{
	return w->on_spike == P4D_SPIKE_SKIP ? usual_most(w) : INFINITY;
}

/* Counts a skipped step. Returns false if too many steps in a row were skipped. */
static bool may_skip(p4d_loss_watch *w)
{
	w->skips++;
	w->all_skips++;
	return w->skips <= w->skips_allowed;
}

static int too_many_skips(const p4d_loss_watch *w, uint64_t step, const char *why, p4d_error *err)
{
	return p4d_fail(err, P4D_E_DIVERGED,
			"step %" PRIu64 ": %s; %" PRIu64
			" consecutive steps skipped, more than --skips=%" PRIu64,
			step, why, w->skips, w->skips_allowed);
}

static int not_finite(p4d_loss_watch *w, uint64_t step, double loss, uint64_t nonfinite, p4d_error *err)
{
	char why[96];

	if (may_skip(w))
		return 0;
	snprintf(why, sizeof(why), "the loss is %g, and %" PRIu64 " gradients are NaN or infinite", loss,
		 nonfinite);
	return too_many_skips(w, step, why, err);
}

static int spike(p4d_loss_watch *w, uint64_t step, double loss, p4d_error *err)
{
	char why[96];

	snprintf(why, sizeof(why), "the loss %g is far above the running mean %g", loss, w->mean);
	w->spikes++;
	w->all_spikes++;
	/* after so many spikes in a row, the loss has a new level, so the estimates start over */
	if (w->spikes >= NEW_LEVEL) {
		w->seen = 0;
		w->mean = w->variance = 0;
		remember(w, loss);
	}
	if (w->on_spike == P4D_SPIKE_SKIP)
		return may_skip(w) ? 0 : too_many_skips(w, step, why, err);
	w->skips = 0;
	if (w->on_spike == P4D_SPIKE_STOP)
		return p4d_fail(err, P4D_E_DIVERGED, "step %" PRIu64 ": %s", step, why);
	if (!w->spikes_allowed || w->spikes <= w->spikes_allowed)
		return 0;
	return p4d_fail(err, P4D_E_DIVERGED,
			"step %" PRIu64 ": %s; %" PRIu64 " consecutive spikes, more than --spikes=%" PRIu64,
			step, why, w->spikes, w->spikes_allowed);
}

int p4d_loss_seen(p4d_loss_watch *w, uint64_t step, double loss, uint64_t nonfinite, p4d_loss_kind *kind,
		  p4d_error *err)
{
	if (nonfinite || !isfinite(loss)) {
		*kind = P4D_LOSS_NOT_FINITE;
		return not_finite(w, step, loss, nonfinite, err);
	}
	if (loss > usual_most(w)) {
		*kind = P4D_LOSS_SPIKE;
		return spike(w, step, loss, err);
	}
	w->skips = 0;
	w->spikes = 0;
	*kind = P4D_LOSS_FINE;
	remember(w, loss);
	return 0;
}

int p4d_loss_none(p4d_loss_watch *w, uint64_t step, bool last, p4d_loss_kind *kind, p4d_error *err)
{
	*kind = P4D_LOSS_EMPTY;
	if (may_skip(w) && (w->seen || !last))
		return 0;
	p4d_fail(err, P4D_E_DATA,
		 "step %" PRIu64 ": no token has had a label for %" PRIu64
		 " steps in a row: documents have only one token, or the loss mask excludes all tokens",
		 step, w->skips);
	return p4d_fix(err, "a longer --seq-len, a larger --global-batch, or other --data");
}
