/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job.h"

/* Applies a fix. It has options and, after each "; ", a change of a line of the script. Returns false if
 * there is nothing to apply. */
bool paste(job *fixed, const char *fix);
