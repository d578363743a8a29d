/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "rehearse/rehearse_answer.h"

/*
 * Seconds of a rank's last rehearsed step on the GPU, from its counted work. high is 0 if some of the work
 * was not counted, or waits for ranks that were not played: low is then a lower bound, and `why` says why.
 * low is 0 if nothing is known.
 */
typedef struct p4d_rehearse_step {
	p4d_seconds seconds;
	char why[96]; /* "" if both are known */
} p4d_rehearse_step;

p4d_rehearse_step p4d_rehearse_step__of(const p4d_rehearsed *r, const p4d_gpu *gpu);

/* Prints a line about the rank's step; none if no step was rehearsed. */
void p4d_rehearse_step__print(const p4d_rehearse_answer *a, const p4d_rehearsed *r);

/* The same; NULL (null): no step was rehearsed, or no memory. */
struct json_object *p4d_rehearse_step__json(const p4d_rehearse_answer *a, const p4d_rehearsed *r);
