/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (FIPS 180-4), for texts that somebody could forge. For all others, hash.h is enough. */
typedef struct p4d_digest {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[64];
} p4d_digest;

p4d_digest p4d_digest_begin(void);
void p4d_digest_add(p4d_digest *digest, const void *bytes, size_t length);

/* The first 128 bits of the digest, in hexadecimal. */
enum { P4D_DIGEST_TEXT = 33 };
void p4d_digest_text(p4d_digest *digest, char text[P4D_DIGEST_TEXT]);
