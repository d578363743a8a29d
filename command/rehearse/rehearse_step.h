/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

#include "rehearse/rehearse_answer.h"

/* Prints a line about the rank's step, unless no step was rehearsed. */
void p4d_rehearse_step__print(const p4d_rehearse_answer *a, const p4d_rehearsed *r);

/* The same as JSON; NULL (null): no step was rehearsed, or no memory. */
struct json_object *p4d_rehearse_step__json(const p4d_rehearse_answer *a, const p4d_rehearsed *r);
