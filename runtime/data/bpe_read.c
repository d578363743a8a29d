/* SPDX-License-Identifier: Apache-2.0 */
/* The "model" of a tokenizer.json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/bpe_internal.h"

static bool flag(struct json_object *model, const char *name)
{
	return json_object_get_boolean(json_object_object_get(model, name));
}

/* Refuses properties that would change the tokens, and that no current language model has. */
static int check_model(struct json_object *model, p4d_error *err)
{
	static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	const char *type = json_object_get_string(json_object_object_get(model, "type"));

	/* old files do not have the type */
	if (type && strcmp(type, "BPE") != 0)
		return p4d_fail(err, P4D_E_VALUE,
				"the tokenizer's model is of type %.40s: only BPE is supported", type);
	for (size_t i = 0; i < 2; i++) {
		struct json_object *affix = json_object_object_get(model, affixes[i]);
		if (affix && json_object_get_string_len(affix))
			return p4d_fail(err, P4D_E_VALUE,
					"the tokenizer's model has a %s, which is not supported", affixes[i]);
	}
	if (json_object_get_double(json_object_object_get(model, "dropout")) > 0)
		return p4d_fail(err, P4D_E_VALUE,
				"the tokenizer's model has dropout, which makes tokens random");
	if (!json_object_is_type(json_object_object_get(model, "vocab"), json_type_object) ||
	    !json_object_is_type(json_object_object_get(model, "merges"), json_type_array))
		return p4d_fail(err, P4D_E_VALUE, "the tokenizer's model lacks vocab or merges");
	return 0;
}

static int add_names(p4d_bpe *bpe, struct json_object *vocabulary, p4d_error *err)
{
	json_object_object_foreach(vocabulary, text, number)
	{
		const int64_t token =
		    json_object_is_type(number, json_type_int) ? json_object_get_int64(number) : -1;
		if (token < 0 || token >= INT32_MAX)
			return p4d_fail(err, P4D_E_VALUE, "vocab: \"%.60s\" has no token", text);
		if (p4d_bpe__add_name(&bpe->tables, text, strlen(text), (int32_t)token, err) < 0)
			return -1;
		if (token >= bpe->vocabulary)
			bpe->vocabulary = (int32_t)token + 1;
	}
	return 0;
}

/*
 * Splits an entry of `merges` into its two texts. An entry is a list of two texts, or one text with a blank
 * between them.
 */
static bool halves(struct json_object *entry, const char *half[2], size_t length[2])
{
	if (json_object_is_type(entry, json_type_array) && json_object_array_length(entry) == 2) {
		for (size_t i = 0; i < 2; i++) {
			struct json_object *text = json_object_array_get_idx(entry, i);
			if (!json_object_is_type(text, json_type_string))
				return false;
			half[i] = json_object_get_string(text);
			length[i] = (size_t)json_object_get_string_len(text);
		}
		return true;
	}
	if (!json_object_is_type(entry, json_type_string))
		return false;
	half[0] = json_object_get_string(entry);
	const char *blank = strchr(half[0], ' ');
	if (!blank || strchr(blank + 1, ' '))
		return false;
	length[0] = (size_t)(blank - half[0]);
	half[1] = blank + 1;
	length[1] = strlen(half[1]);
	return true;
}

/* Whether the text has a blank after another character. */
static bool has_blank_behind(const char *text, size_t length)
{
	size_t i = 0;

	while (p4d_bpe_is_blank(text + i, length - i))
		i += P4D_BPE_BLANK_BYTES;
	for (; i < length; i++)
		if (p4d_bpe_is_blank(text + i, length - i))
			return true;
	return false;
}

static int add_merge(p4d_bpe *bpe, struct json_object *entry, uint32_t rank, p4d_error *err)
{
	const char *half[2];
	size_t length[2];
	char both[1024];
	int32_t token[3];

	if (!halves(entry, half, length))
		return p4d_fail(err, P4D_E_VALUE, "merges: entry %" PRIu32 " is not a pair", rank);
	const size_t all = length[0] + length[1];
	if (all > sizeof(both))
		return p4d_fail(err, P4D_E_VALUE, "merges: entry %" PRIu32 " has %zu bytes, more than %zu",
				rank, all, sizeof(both));
	memcpy(both, half[0], length[0]);
	memcpy(both + length[0], half[1], length[1]);
	token[0] = p4d_bpe__find_name(&bpe->tables, half[0], length[0]);
	token[1] = p4d_bpe__find_name(&bpe->tables, half[1], length[1]);
	token[2] = p4d_bpe__find_name(&bpe->tables, both, all);
	if (token[0] < 0 || token[1] < 0 || token[2] < 0)
		return p4d_fail(err, P4D_E_VALUE, "merges: entry %" PRIu32 " (%.*s) has tokens not in vocab",
				rank, all < 60 ? (int)all : 60, both);
	bpe->blanks_begin = bpe->blanks_begin && !has_blank_behind(both, all);
	p4d_bpe__add_merge(&bpe->tables, (p4d_bpe_merge){p4d_bpe_pair(token[0], token[1]), rank, token[2]});
	return 0;
}

static void find_bytes(p4d_bpe *bpe)
{
	char name[8];

	for (unsigned i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "<0x%02X>", i);
		bpe->byte[i] = p4d_bpe__token(bpe, name);
	}
}

static int fill(p4d_bpe *bpe, struct json_object *model, p4d_error *err)
{
	struct json_object *vocabulary = json_object_object_get(model, "vocab");
	struct json_object *merges = json_object_object_get(model, "merges");
	struct json_object *unknown = json_object_object_get(model, "unk_token");
	const size_t count = json_object_array_length(merges);

	bpe->cache = calloc(P4D_BPE_CACHED_WORDS, sizeof(*bpe->cache));
	if (!bpe->cache)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a tokenizer");
	if (count >= UINT32_MAX)
		return p4d_fail(err, P4D_E_VALUE, "merges: %zu entries", count);
	if (p4d_bpe__tables_open(&bpe->tables, (size_t)json_object_object_length(vocabulary), count, err) <
		0 ||
	    add_names(bpe, vocabulary, err) < 0)
		return -1;
	bpe->blanks_begin =
	    !bpe->byte_level && !bpe->ignore_merges && p4d_bpe__token(bpe, P4D_BPE_BLANK) >= 0;
	for (size_t i = 0; i < count; i++)
		if (add_merge(bpe, json_object_array_get_idx(merges, i), (uint32_t)i, err) < 0)
			return -1;
	find_bytes(bpe);
	bpe->unknown = unknown ? p4d_bpe__token(bpe, json_object_get_string(unknown)) : -1;
	if (unknown && bpe->unknown < 0)
		return p4d_fail(err, P4D_E_VALUE, "unk_token %.60s is not in vocab",
				json_object_get_string(unknown));
	return 0;
}

int p4d_bpe__open(p4d_bpe **opened, struct json_object *model, bool byte_level, p4d_error *err)
{
	if (check_model(model, err) < 0)
		return -1;
	p4d_bpe *bpe = calloc(1, sizeof(*bpe));
	if (!bpe)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a tokenizer");
	bpe->byte_level = byte_level;
	bpe->bytes = flag(model, "byte_fallback");
	bpe->ignore_merges = flag(model, "ignore_merges");
	bpe->fuse_unknown = flag(model, "fuse_unk");
	if (fill(bpe, model, err) < 0) {
		p4d_bpe__close(bpe);
		return -1;
	}
	*opened = bpe;
	return 0;
}

void p4d_bpe__close(p4d_bpe *bpe)
{
	if (!bpe)
		return;
	p4d_bpe__tables_close(&bpe->tables);
	p4d_bpe__symbols_free(&bpe->symbols);
	free(bpe->cache);
	free(bpe->written);
	free(bpe);
}
