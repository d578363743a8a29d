/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * A random order of 0 .. size-1 without a table: A Feistel network permutes the numbers of an even number of
 * bits, the smallest that covers `size` (at least 2^8). It is applied again until the result is below size.
 * The order depends only on size and key, so it is the same on every machine. It is for shuffling, not for
 * cryptography.
 */
typedef struct p4d_permutation {
	uint64_t size;
	uint64_t round_key[6];
	unsigned half_bits;
} p4d_permutation;

/* size: at most 2^62 */
void p4d_permutation__init(p4d_permutation *permutation, uint64_t size, uint64_t key);
/* The new place of place `i` (below size). */
uint64_t p4d_permutation__apply(const p4d_permutation *permutation, uint64_t i);

/* Mixes the bits of x; a bijection. The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t p4d_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}
