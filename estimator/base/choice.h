/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Lists of words with a separator between. In options, "none|selective|full", words stand for their index.
 * Case is ignored. -1: not in the list.
 */
int p4d_choice_index(const char *list, char separator, const char *word, size_t length);
int p4d_choice_find(const char *list, const char *word); /* list: "a|b|c" */

/* Beyond the end: the last. buf may be truncated. */
const char *p4d_choice_name(const char *list, int index, char *buf, size_t size);
