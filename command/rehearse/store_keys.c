/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/store_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

static struct p4d_store_pair *pair_of(const p4d_store_keys *keys, p4d_bytes key)
{
	for (size_t i = 0; i < keys->count; i++) {
		const p4d_bytes *k = &keys->pair[i].key;
		if (k->length == key.length && !memcmp(k->at, key.at, key.length))
			return &keys->pair[i];
	}
	return NULL;
}

const p4d_bytes *p4d_store__find(const p4d_store_keys *keys, p4d_bytes key)
{
	struct p4d_store_pair *pair = pair_of(keys, key);

	return pair ? &pair->value : NULL;
}

/* A copy with a terminating zero, as strtoll needs. */
static bool copy(p4d_bytes *to, p4d_bytes from)
{
	char *at = malloc(from.length + 1);

	if (!at)
		return false;
	if (from.length)
		memcpy(at, from.at, from.length);
	at[from.length] = '\0';
	to->at = at;
	to->length = from.length;
	return true;
}

static struct p4d_store_pair *add(p4d_store_keys *keys, p4d_bytes key)
{
	if (!p4d_grow(&keys->pair, &keys->room, keys->count + 1, sizeof(*keys->pair)))
		return NULL;
	struct p4d_store_pair *pair = &keys->pair[keys->count];
	pair->value = (p4d_bytes){NULL, 0};
	if (!copy(&pair->key, key))
		return NULL;
	keys->count++;
	return pair;
}

bool p4d_store__set(p4d_store_keys *keys, p4d_bytes key, p4d_bytes value)
{
	struct p4d_store_pair *pair = pair_of(keys, key);
	p4d_bytes kept;

	if ((!pair && !(pair = add(keys, key))) || !copy(&kept, value))
		return false;
	free(pair->value.at);
	pair->value = kept;
	return true;
}

bool p4d_store__append(p4d_store_keys *keys, p4d_bytes key, p4d_bytes value)
{
	struct p4d_store_pair *pair = pair_of(keys, key);

	if (!pair)
		return p4d_store__set(keys, key, value);
	char *more = realloc(pair->value.at, pair->value.length + value.length + 1);
	if (!more)
		return false;
	memcpy(more + pair->value.length, value.at, value.length);
	more[pair->value.length + value.length] = '\0';
	pair->value.at = more;
	pair->value.length += value.length;
	return true;
}

bool p4d_store__delete(p4d_store_keys *keys, p4d_bytes key)
{
	struct p4d_store_pair *pair = pair_of(keys, key);

	if (!pair)
		return false;
	free(pair->key.at);
	free(pair->value.at);
	*pair = keys->pair[--keys->count];
	return true;
}
