/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gpu/gpu.h"

struct json_object;

/* For p4d conf: the margins of p4d.conf and p4d's own constants. The first function prints one line for
 * each margin. The second function returns them as a list. */
void p4d_margins_print(const p4d_gpu_margins *all);
struct json_object *p4d_margins_json(const p4d_gpu_margins *all);
