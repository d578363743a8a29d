/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job.h"

/*
 * Applies a fix: options, and changes of the script's lines, each after "; ". False: there is nothing to
 * apply.
 */
bool paste(job *fixed, const char *fix);
