/* SPDX-License-Identifier: Apache-2.0 */
#include "data/bpe_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* The mask for a table that is at most half full. */
static size_t mask_for(size_t count)
{
	size_t size = 16;

	while (size < 2 * count)
		size *= 2;
	return size - 1;
}

int p4d_bpe__tables_open(p4d_bpe_tables *tables, size_t names, size_t merges, p4d_error *err)
{
	tables->name_mask = mask_for(names);
	tables->merge_mask = mask_for(merges);
	tables->names = calloc(tables->name_mask + 1, sizeof(*tables->names));
	tables->merges = calloc(tables->merge_mask + 1, sizeof(*tables->merges));
	if (!tables->names || !tables->merges)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu tokens and %zu merges", names,
				merges);
	for (size_t i = 0; i <= tables->merge_mask; i++)
		tables->merges[i].pair = P4D_BPE_FREE;
	return 0;
}

void p4d_bpe__tables_close(p4d_bpe_tables *tables)
{
	for (size_t i = 0; tables->names && i <= tables->name_mask; i++)
		free(tables->names[i].text);
	free(tables->names);
	free(tables->merges);
}

/* Returns the entry that has the text, or the free entry where it would be inserted. */
static p4d_bpe_name *place_of_name(const p4d_bpe_tables *tables, const char *text, size_t length)
{
	size_t i = p4d_hash_bytes(text, length) & tables->name_mask;

	while (tables->names[i].text &&
	       (tables->names[i].length != length || memcmp(tables->names[i].text, text, length) != 0))
		i = (i + 1) & tables->name_mask;
	return &tables->names[i];
}

static p4d_bpe_merge *place_of_merge(const p4d_bpe_tables *tables, uint64_t pair)
{
	size_t i = (pair * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & tables->merge_mask;

	while (tables->merges[i].pair != P4D_BPE_FREE && tables->merges[i].pair != pair)
		i = (i + 1) & tables->merge_mask;
	return &tables->merges[i];
}

int p4d_bpe__add_name(p4d_bpe_tables *tables, const char *text, size_t length, int32_t token, p4d_error *err)
{
	p4d_bpe_name *name = place_of_name(tables, text, length);

	if (!name->text)
		*name = (p4d_bpe_name){strndup(text, length), length, token};
	name->token = token;
	return name->text ? 0 : p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the names of tokens");
}

void p4d_bpe__add_merge(p4d_bpe_tables *tables, p4d_bpe_merge merge)
{
	*place_of_merge(tables, merge.pair) = merge;
}

int32_t p4d_bpe__find_name(const p4d_bpe_tables *tables, const char *text, size_t length)
{
	const p4d_bpe_name *found = place_of_name(tables, text, length);

	return found->text ? found->token : -1;
}

const p4d_bpe_merge *p4d_bpe__find_merge(const p4d_bpe_tables *tables, uint64_t pair)
{
	const p4d_bpe_merge *found = place_of_merge(tables, pair);

	return found->pair == P4D_BPE_FREE ? NULL : found;
}
