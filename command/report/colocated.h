/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "line/line.h"
#include "serve/colocated.h"
#include "report/report.h"

/* Adds the memory of each model on a GPU, in bytes, as `p4d estimate --json` prints it. */
void p4d_colocated_json(const p4d_colocated *colocated, struct json_object *object);
/* Prints the memory of each model on a GPU in reinforcement learning. Returns the command's code, -1 on
 * errors. */
int p4d_colocated_report(p4d_subject *subject, bool json, p4d_error *err);
