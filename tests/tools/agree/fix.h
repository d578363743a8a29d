/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job.h"

/* Pastes a fix: options, and lines of the script to change, each after "; ". False: nothing to paste. */
bool paste(job *fixed, const char *fix);
