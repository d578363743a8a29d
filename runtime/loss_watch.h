/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_LOSS_WATCH_H
#define P4D_LOSS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

/*
 * When a training goes wrong. Gradients that are not finite are never applied; the step is skipped. A loss
 * far above the last ones is a spike. Both are said; so many of them in a row stop the run, because from
 * there on every step makes the last good checkpoint older. What is decided follows from numbers that are the
 * same on all ranks, so all decide the same.
 *
 * A spike is a loss above mean + 6*deviation of the last losses, and at least 0.5 above the mean: running
 * estimates with weight 1/32, after 16 steps. Spikes do not enter the estimates, but after 32 in a row
 * these begin anew.
 */
typedef enum p4d_loss_kind { P4D_LOSS_FINE, P4D_LOSS_SPIKE, P4D_LOSS_NOT_FINITE } p4d_loss_kind;

typedef struct p4d_loss_watch {
	uint64_t skips_allowed;  /* in a row; 0: the first stops */
	uint64_t spikes_allowed; /* in a row; 0: they never stop the run */
	/* begins as 0 */
	double mean, variance;
	uint64_t seen, skips, spikes; /* in a row, of the last two */
	uint64_t all_skips, all_spikes;
} p4d_loss_watch;

/*
 * Takes the loss of a step; nonfinite: how many gradients were. Errors: DIVERGED when the run has to stop,
 * with the numbers.
 */
int p4d_loss_seen(p4d_loss_watch *watch, uint64_t step, double loss, uint64_t nonfinite, p4d_loss_kind *kind,
		  p4d_error *err);

#endif
