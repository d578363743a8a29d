/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "rehearse/rehearse_answer.h"

/*
 * Estimated seconds of a rank's last rehearsed step on a real GPU, between low and high, from the work that
 * was counted. high is 0 if some work was not counted, or waits for ranks that did not run; low is then a
 * lower bound, and `why` has the reason. low is 0 if nothing is known.
 */
typedef struct p4d_rehearse_step {
	p4d_seconds seconds;
	char why[96]; /* "" if low and high are known */
} p4d_rehearse_step;

p4d_rehearse_step p4d_rehearse_step__of(const p4d_rehearsed *r, const p4d_gpu *gpu);

/* Prints a line about the rank's step, unless no step was rehearsed. */
void p4d_rehearse_step__print(const p4d_rehearse_answer *a, const p4d_rehearsed *r);

/* The same as JSON; NULL (null): no step was rehearsed, or no memory. */
struct json_object *p4d_rehearse_step__json(const p4d_rehearse_answer *a, const p4d_rehearsed *r);
