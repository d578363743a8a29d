/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a script may start a program for which p4d.conf has a section: program "NAME" { ... }. For p4d.so,
 * which reads the file as text. True if some such name, without its folders, occurs in the script, or if
 * p4d.conf includes files.
 */
bool p4d_site_words_in(int argc, char **argv, const char *script, size_t length);
