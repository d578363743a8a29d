/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The fractional parts of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned bits)
{
	return word >> bits | word << (32 - bits);
}

/* The 16 words of a block, and 48 words derived from them. */
static void expand(const uint8_t block[64], uint32_t word[64])
{
	for (int i = 0; i < 16; i++)
		word[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
			  (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		const uint32_t near = word[i - 2], far = word[i - 15];
		word[i] = word[i - 16] + word[i - 7] + (rotate(far, 7) ^ rotate(far, 18) ^ far >> 3) +
			  (rotate(near, 17) ^ rotate(near, 19) ^ near >> 10);
	}
}

static void compress(p4d_digest *digest)
{
	uint32_t word[64], s[8];

	expand(digest->block, word);
	memcpy(s, digest->state, sizeof(s));
	for (int i = 0; i < 64; i++) {
		const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
		const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
		const uint32_t first = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
				       choice + rounds[i] + word[i];
		const uint32_t second = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;
		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += first;
		s[0] = first + second;
	}
	for (int i = 0; i < 8; i++)
		digest->state[i] += s[i];
}

p4d_digest p4d_digest_begin(void)
{
	/* the fractional parts of the square roots of the first 8 primes */
	return (p4d_digest){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
				      0x1f83d9ab, 0x5be0cd19}};
}

void p4d_digest_add(p4d_digest *digest, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length--) {
		digest->block[digest->bytes++ % 64] = *at++;
		if (digest->bytes % 64 == 0)
			compress(digest);
	}
}

void p4d_digest_text(p4d_digest *digest, char text[P4D_DIGEST_TEXT])
{
	const uint64_t bits = 8 * digest->bytes;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	p4d_digest_add(digest, "\x80", 1);
	while (digest->bytes % 64 != 56)
		p4d_digest_add(digest, "", 1);
	p4d_digest_add(digest, length, sizeof(length));
	for (int i = 0; i < 4; i++)
		snprintf(text + 8 * i, 9, "%08" PRIx32, digest->state[i]);
}
