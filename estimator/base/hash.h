/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits. It detects editing and truncation, but not malice. */
#define P4D_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* The FNV-1a step for one byte. */
static inline uint64_t p4d_hash_step(uint64_t hash, uint64_t unit)
{
	return (hash ^ unit) * UINT64_C(0x100000001b3);
}

static inline uint64_t p4d_hash_bytes(const char *bytes, size_t length)
{
	uint64_t hash = P4D_HASH_BEGIN;

	for (size_t i = 0; i < length; i++)
		hash = p4d_hash_step(hash, (unsigned char)bytes[i]);
	return hash;
}
