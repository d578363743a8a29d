/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "template/value.h"

/* Characters of UTF-8. A byte that begins none is taken for one. */
size_t p4d_template__character(const char *at, size_t length, uint32_t *code); /* bytes; 0 at the end */
size_t p4d_template__characters(p4d_string text);
/* The byte where a character begins; the length where there are fewer. */
size_t p4d_template__place(p4d_string text, size_t character);
bool p4d_template__is_ascii(p4d_string text);

/* What str.isspace says; \s of regular expressions, too. */
bool p4d_template__is_space(uint32_t code);
/* Bytes of the white space that a text begins and ends with. */
size_t p4d_template__leading_space(p4d_string text);
size_t p4d_template__trailing_space(p4d_string text);
