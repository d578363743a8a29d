/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "line/line.h"
#include "serve/serving.h"
#include "serve/serving_search.h"
#include "report/report.h"

/* Adds the engine's numbers, as `p4d estimate --json` prints them. */
void p4d_serving_json(const p4d_serving *serving, struct json_object *object);
/*
 * Formats tokens, requests and similar numbers: three digits of a small number, all digits of a large one.
 * Returns buf.
 */
const char *p4d_serving_amount(double amount, char buf[P4D_SIZE_TEXT]);
/* How fast the engine answers a load: member "speed" of `p4d estimate --json`. The caller owns it. */
struct json_object *p4d_serving_speed_json(const p4d_serving_load *load, const p4d_serving_speed *speed);
/*
 * Prints what an inference engine would report at its start; returns the command's exit status, -1 on errors.
 * longest: prints also the longest sequences that fit.
 */
int p4d_serving_report(p4d_subject *subject, bool longest, bool json, p4d_error *err);
/* One layout that p4d plan found, with its speed. The caller owns it. */
struct json_object *p4d_serving_layout_json(const p4d_serving_found *found, const p4d_serving_load *load);
