/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The bytes of a piece of a vocabulary of characters, in buf; returns how many: U+2581 is a blank, <0x41> a
 * byte.
 */
size_t p4d_piece__text(const char *piece, char *buf, size_t size);
