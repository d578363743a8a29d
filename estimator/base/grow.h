/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes room for `needed` elements of `bytes` bytes each in an array allocated by malloc. array: the address
 * of the pointer. The array doubles, so that adding elements one by one takes linear time. False: no memory;
 * the array is unchanged.
 */
static inline bool p4d_grow(void *array, size_t *room, size_t needed, size_t bytes)
{
	const size_t wanted = needed > 2 * *room ? needed : 2 * *room, least = 8;
	void *old, *grown;

	if (needed <= *room)
		return true;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, wanted > least ? wanted : least, bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*room = wanted > least ? wanted : least;
	/* cppcheck-suppress memleak ; the array has it */
	return true;
}
