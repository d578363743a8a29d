/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a script has a word without which no reader finds a training in it, or starts another script. Most
 * scripts have none, and p4d does not read them.
 */
bool p4d_reader_may_train(const char *text, size_t length);
