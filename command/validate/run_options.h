/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "request/request.h"

/*
 * The options of a run in the form of P4D_MEASURED_RUNS rows: "--framework=fsdp --model=llama3-8b ...".
 * Values that p4d chose are left out, because it will choose them again. shape: the sizes of the model
 * instead of its name. False: a value has blanks or quotes, or there is no room.
 */
bool p4d_run_options_write(const p4d_request *request, bool shape, char *buf, size_t size);
