/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Lists of words with a separator, such as "none|selective|full". An option stores the index of a word. Case
 * is ignored. Returns -1 if the word is not in the list.
 */
int p4d_choice_index(const char *list, char separator, const char *word, size_t length);
int p4d_choice_find(const char *list, const char *word); /* list: "a|b|c" */

/* Copies word `index` of the list; beyond the end, the last word. buf may be truncated. */
const char *p4d_choice_name(const char *list, int index, char *buf, size_t size);
