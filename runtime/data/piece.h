/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Writes the bytes of a piece of the vocabulary to buf, and returns their number. In a piece, U+2581 stands
 * for a blank and <0x41> for a byte.
 */
size_t p4d_piece__text(const char *piece, char *buf, size_t size);
