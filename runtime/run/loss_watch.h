/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Detects a training run that has gone wrong. Gradients that are not finite are never applied; the step is
 * skipped. A loss far above the last ones is a spike. The user chooses the response: report it; report it and
 * skip the step; or stop. Too many skipped steps, or reported spikes, in a row stop the run, because a run
 * that goes on only moves away from its last good checkpoint. Decisions depend only on numbers that are equal
 * on all ranks, so all ranks decide alike.
 *
 * A spike is a loss above mean + 6*deviation of the last losses, and more than 0.5 above the mean. Mean and
 * deviation are running estimates with weight 1/32. There are no spikes in the first 16 steps. Spikes do not
 * change the estimates, but after 32 spikes in a row the estimates start over.
 */
/* EMPTY: no token of the step had a label. */
typedef enum p4d_loss_kind {
	P4D_LOSS_FINE,
	P4D_LOSS_SPIKE,
	P4D_LOSS_NOT_FINITE,
	P4D_LOSS_EMPTY
} p4d_loss_kind;

/* In the order of --on-spike. */
typedef enum p4d_on_spike { P4D_SPIKE_REPORT, P4D_SPIKE_SKIP, P4D_SPIKE_STOP } p4d_on_spike;

typedef struct p4d_loss_watch {
	p4d_on_spike on_spike;
	uint64_t skips_allowed;  /* skipped steps in a row, for any reason; 0: the first one stops the run */
	uint64_t spikes_allowed; /* reported spikes in a row; 0: they never stop the run */
	/* members below begin as 0 */
	double mean, variance;
	uint64_t seen, skips, spikes; /* seen: number of losses in the mean; skips, spikes: how many skipped
					 steps, and spikes, in a row so far */
	uint64_t all_skips, all_spikes;
} p4d_loss_watch;

/* For p4d_trainer_skip_above: a step whose loss is above this must not be applied. */
double p4d_loss_limit(const p4d_loss_watch *watch);

/*
 * Records the loss of a step. nonfinite: number of gradients that are NaN or infinite. Errors: DIVERGED if
 * the run has to stop, with the numbers.
 */
int p4d_loss_seen(p4d_loss_watch *watch, uint64_t step, double loss, uint64_t nonfinite, p4d_loss_kind *kind,
		  p4d_error *err);
/*
 * Like p4d_loss_seen, for a step in which no token had a label, and which was skipped for that reason. last:
 * no step follows. Errors: DATA if too many steps in a row were skipped, or no step of the run had a label.
 */
int p4d_loss_none(p4d_loss_watch *watch, uint64_t step, bool last, p4d_loss_kind *kind, p4d_error *err);
