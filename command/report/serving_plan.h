/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "line/line.h"
#include "report/table.h"
#include "serve/serving_speed.h"

/* `p4d plan --workload serve`: prints the layouts of an engine, lowest cost per token first. Returns the
 * command's exit status, -1 on errors. top: number of layouts. */
int p4d_serving_plan(p4d_subject *subject, uint32_t top, bool json, p4d_error *err);

/*
 * Like p4d_serving_plan, with --partitions: the best layout in each of these partitions, lowest cost per
 * token first.
 */
int p4d_serving_places(p4d_subject *subject, const p4d_line *line, p4d_error *err);

/*
 * Adds cells to a table: requests in flight, tokens/s, cost, time to the first token, and time between
 * tokens.
 */
void p4d_serving_plan_cells(p4d_table *table, const p4d_serving_speed *speed, double cost);
