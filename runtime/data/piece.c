/* SPDX-License-Identifier: Apache-2.0 */
#include "data/piece.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t p4d_piece__text(const char *piece, char *buf, size_t size)
{
	static const char blank[] = "\xe2\x96\x81";
	unsigned byte;
	int end = 0;
	size_t used = 0;

	if (size && sscanf(piece, "<0x%2X>%n", &byte, &end) == 1 && end == 6 && !piece[6]) {
		buf[0] = (char)byte;
		return 1;
	}
	while (*piece && used < size) {
		const bool is_blank = !strncmp(piece, blank, sizeof(blank) - 1);
		buf[used++] = is_blank ? ' ' : *piece;
		piece += is_blank ? sizeof(blank) - 1 : 1;
	}
	return used;
}
