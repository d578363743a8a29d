/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether p4d needs to read a script: it contains a word that some reader requires, or starts another script.
 * Most scripts do neither.
 */
bool p4d_reader_may_train(const char *text, size_t length);
