/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "rehearse/rehearsed.h"
#include "site/site.h"

/* The GPUs on which a rehearsed rank fits. */

typedef enum p4d_rehearse_fit_state {
	P4D_REHEARSE_FITS,
	P4D_REHEARSE_FITS_NOT,
	P4D_REHEARSE_FITS_PERHAPS, /* allocated memory fits, reserved memory does not: only a rehearsal can
				      tell */
} p4d_rehearse_fit_state;

typedef struct p4d_rehearse_fit {
	const p4d_gpu *gpu;
	p4d_rehearse_fit_state state;
	uint64_t device;      /* bytes that the rank needs on this GPU, played or computed */
	bool rehearsed;       /* played on this GPU, not only compared */
	char partitions[128]; /* partitions of the site that have this GPU: "a,b"; as many as fit the text */
} p4d_rehearse_fit;

enum { P4D_REHEARSE_FITS_MOST = 32, P4D_REHEARSE_AGAIN = 2 };

typedef struct p4d_rehearse_fits {
	unsigned count;
	p4d_rehearse_fit fit[P4D_REHEARSE_FITS_MOST]; /* sorted by memory, including the rehearsal's GPU */
	/* The rank's memory on a GPU with room for everything; `text` is NULL if that was not played. */
	p4d_rehearsed roomy;
} p4d_rehearse_fits;

/*
 * Compares the rank with the GPUs of the site's partitions, or with common ones. p4d plays a rank that ran
 * out of memory once more with enough room, to find out how much is missing. It also plays a rank that took
 * less than half a minute on at most P4D_REHEARSE_AGAIN GPUs where it may fit. End with
 * p4d_rehearse_fits__free, also after an error. Errors: those of p4d_player__play.
 */
int p4d_rehearse_fits__find(p4d_rehearse_fits *fits, const p4d_player *player, const p4d_site *site,
			    const p4d_rehearsed *rank, p4d_error *err);
void p4d_rehearse_fits__free(p4d_rehearse_fits *fits);

/* The least bytes that the rank needs: without memory that its allocator reserved but did not use. */
uint64_t p4d_rehearse_fits__least(const p4d_rehearsed *rank);
