/* SPDX-License-Identifier: Apache-2.0 */
#include "data/permutation.h"

enum { ROUNDS = sizeof(((p4d_permutation *)0)->round_key) / sizeof(uint64_t), SMALLEST_HALF = 4 };

void p4d_permutation__init(p4d_permutation *permutation, uint64_t size, uint64_t key)
{
	/* a network with halves of one or two bits reaches only few of the possible orders */
	permutation->half_bits = SMALLEST_HALF;
	while (permutation->half_bits < 31 && size > (uint64_t)1 << (2 * permutation->half_bits))
		permutation->half_bits++;
	permutation->size = size;
	for (int i = 0; i < ROUNDS; i++)
		permutation->round_key[i] = key = p4d_mix(key);
}

static uint64_t network(const p4d_permutation *permutation, uint64_t x)
{
	const uint64_t mask = ((uint64_t)1 << permutation->half_bits) - 1;
	uint64_t left = x >> permutation->half_bits, right = x & mask;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t next = left ^ (p4d_mix(right ^ permutation->round_key[i]) & mask);
		left = right;
		right = next;
	}
	return left << permutation->half_bits | right;
}

uint64_t p4d_permutation__apply(const p4d_permutation *permutation, uint64_t i)
{
	/* this loop ends, because the orbit of i returns to i, which is below size */
	do {
		i = network(permutation, i);
	} while (i >= permutation->size);
	return i;
}
