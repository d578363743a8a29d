/* SPDX-License-Identifier: Apache-2.0 */
#include "loss_watch.h"

#include <inttypes.h>
#include <math.h>

enum { SETTLED = 16, NEW_LEVEL = 32 };
static const double weight = 1.0 / 32, deviations = 6, least_jump = 0.5;

static void remember(p4d_loss_watch *w, double loss)
{
	/* like a plain mean until the weight of a new loss has come down to that of the running one */
	double share = w->seen < 32 ? 1.0 / (double)(w->seen + 1) : weight, away = loss - w->mean;

	w->mean += share * away;
	w->variance = (1 - share) * (w->variance + share * away * away);
	w->seen++;
}

static int not_finite(p4d_loss_watch *w, uint64_t step, double loss, uint64_t nonfinite, p4d_error *err)
{
	w->skips++;
	w->all_skips++;
	if (w->skips <= w->skips_allowed)
		return 0;
	return p4d_fail(err, P4D_E_DIVERGED,
			"step %" PRIu64 ": loss %g, %" PRIu64
			" gradients are NaN or infinite, for the %" PRIu64 ". time in a row; --skips=%" PRIu64
			" are allowed",
			step, loss, nonfinite, w->skips, w->skips_allowed);
}

static int spike(p4d_loss_watch *w, uint64_t step, double loss, p4d_error *err)
{
	w->spikes++;
	w->all_spikes++;
	/* so many are no spike but the new level */
	if (w->spikes >= NEW_LEVEL) {
		w->seen = 0;
		w->mean = w->variance = 0;
		remember(w, loss);
	}
	if (!w->spikes_allowed || w->spikes <= w->spikes_allowed)
		return 0;
	return p4d_fail(err, P4D_E_DIVERGED,
			"step %" PRIu64 ": loss %g is far above %g, for the %" PRIu64
			". step in a row; --spikes=%" PRIu64 " are allowed",
			step, loss, w->mean, w->spikes, w->spikes_allowed);
}

int p4d_loss_seen(p4d_loss_watch *w, uint64_t step, double loss, uint64_t nonfinite, p4d_loss_kind *kind,
		  p4d_error *err)
{
	if (nonfinite || !isfinite(loss)) {
		*kind = P4D_LOSS_NOT_FINITE;
		return not_finite(w, step, loss, nonfinite, err);
	}
	w->skips = 0;
	double jump = loss - w->mean;
	if (w->seen >= SETTLED && jump > least_jump && jump > deviations * sqrt(w->variance)) {
		*kind = P4D_LOSS_SPIKE;
		return spike(w, step, loss, err);
	}
	w->spikes = 0;
	*kind = P4D_LOSS_FINE;
	remember(w, loss);
	return 0;
}
