/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The lowest validation loss of a run, for --save-best and --stop-after-worse. With several validation sets,
 * only the first set's loss counts. All ranks have the same numbers. Checkpoints store them.
 */
typedef struct p4d_best_loss {
	double loss;
	uint64_t step;  /* 0: no validation had a loss yet */
	uint64_t worse; /* number of validations since `step` */
	bool lowest;    /* the last validation's loss was the lowest so far */
} p4d_best_loss;

/* Records a validation after a step. loss NAN: no token had a label. */
void p4d_best_loss_seen(p4d_best_loss *best, uint64_t step, double loss);
