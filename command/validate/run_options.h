/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "request/request.h"

/*
 * Writes the options of a run in the form of P4D_MEASURED_RUNS rows: "--framework=fsdp --model=llama3-8b
 * ...". It leaves out values that p4d chose, because p4d will choose them again. shape: write the sizes of
 * the model instead of its name. False: a value has blanks or quotes, or buf is too small.
 */
bool p4d_run_options_write(const p4d_request *request, bool shape, char *buf, size_t size);
