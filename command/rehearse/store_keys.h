/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Keys and values of the store are bytes, which may be zero. */
typedef struct p4d_bytes {
	char *at;
	size_t length;
} p4d_bytes;

typedef struct p4d_store_keys {
	size_t count, room;
	struct p4d_store_pair {
		p4d_bytes key, value;
	} * pair;
} p4d_store_keys;

/* NULL: the key is not set. */
const p4d_bytes *p4d_store__find(const p4d_store_keys *keys, p4d_bytes key);

/* Sets a key to a copy of the value, or appends the value to it. False: no memory. */
bool p4d_store__set(p4d_store_keys *keys, p4d_bytes key, p4d_bytes value);
bool p4d_store__append(p4d_store_keys *keys, p4d_bytes key, p4d_bytes value);

/* False: the key is not set. */
bool p4d_store__delete(p4d_store_keys *keys, p4d_bytes key);
