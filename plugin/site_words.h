/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a script may start a program that p4d.conf has a section for: program "NAME" { ... }. For p4d.so,
 * which reads the file as text: true if a name, without its folders, stands in the script, or if p4d.conf
 * includes files.
 */
bool p4d_site_words_in(int argc, char **argv, const char *script, size_t length);
