/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "template/value.h"

/*
 * Reads a UTF-8 character and returns its length in bytes; 0 at the end. A byte that begins no valid
 * character counts as a character.
 */
size_t p4d_template__character(const char *at, size_t length, uint32_t *code);
size_t p4d_template__characters(p4d_string text);
/*
 * Returns the byte at which a character begins. If there are fewer characters, returns the length of the
 * text.
 */
size_t p4d_template__place(p4d_string text, size_t character);
bool p4d_template__is_ascii(p4d_string text);

/* Python's str.isspace, which is also \s in regular expressions. */
bool p4d_template__is_space(uint32_t code);
/* Number of bytes of white space at the beginning and at the end of a text. */
size_t p4d_template__leading_space(p4d_string text);
size_t p4d_template__trailing_space(p4d_string text);
