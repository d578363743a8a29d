/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "rehearse/rehearsed.h"
#include "site/site.h"

/* The GPUs on which a rehearsed rank fits. */

typedef enum p4d_rehearse_fit_state {
	P4D_REHEARSE_FITS,
	P4D_REHEARSE_FITS_NOT,
	P4D_REHEARSE_FITS_PERHAPS, /* its allocated memory fits, but not its reserved memory; only a
				    * rehearsal on this GPU can tell */
} p4d_rehearse_fit_state;

typedef struct p4d_rehearse_fit {
	const p4d_gpu *gpu;
	p4d_rehearse_fit_state state;
	uint64_t device;      /* bytes that the rank needs on this GPU, from a rehearsal or computed */
	bool rehearsed;       /* true: rehearsed on this GPU; false: only compared with its size */
	char partitions[128]; /* partitions of the site that have this GPU: "a,b"; as many as fit the text */
} p4d_rehearse_fit;

enum { P4D_REHEARSE_FITS_MOST = 32, P4D_REHEARSE_AGAIN = 2 };

typedef struct p4d_rehearse_fits {
	unsigned count;
	p4d_rehearse_fit fit[P4D_REHEARSE_FITS_MOST]; /* sorted by memory, including the rehearsal's GPU */
	/* The rank's memory on a GPU with enough memory; `text` is NULL if this was not rehearsed. */
	p4d_rehearsed roomy;
} p4d_rehearse_fits;

/*
 * Compares the rank with the GPUs of the site's partitions, or with common ones. If the rank ran out of
 * memory, p4d rehearses it once more with enough memory, to find out how much is missing. If the rehearsal
 * took less than half a minute, p4d repeats it on at most P4D_REHEARSE_AGAIN GPUs on which the rank may
 * fit. The caller calls p4d_rehearse_fits__free, also after an error. Errors: those of p4d_player__play.
 */
int p4d_rehearse_fits__find(p4d_rehearse_fits *fits, const p4d_player *player, const p4d_site *site,
			    const p4d_rehearsed *rank, p4d_error *err);
void p4d_rehearse_fits__free(p4d_rehearse_fits *fits);

/* The least bytes that the rank needs: without memory that PyTorch's allocator reserved but did not use. */
uint64_t p4d_rehearse_fits__least(const p4d_rehearsed *rank);
