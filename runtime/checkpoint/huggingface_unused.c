/* SPDX-License-Identifier: Apache-2.0 */
/* Finds tensors in released weights that a model does not have. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/huggingface_internal.h"
#include "checkpoint/huggingface_names.h"

/*
 * Whether a tensor is expected although the model does not have it. It is a constant that older releases of
 * the transformers library stored, or a head that equals the embedding.
 */
static bool is_known(const p4d_layout *layout, const char *name)
{
	static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
	const size_t length = strlen(name);

	if (layout->tied && !strcmp(name, "lm_head.weight"))
		return true;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (length > strlen(ends[i]) && !strcmp(name + length - strlen(ends[i]), ends[i]))
			return true;
	return false;
}

/* Marks the tensors in the files that the model uses. */
static void mark(const p4d_huggingface_weights *in, const p4d_checkpoint_map *map, bool *used)
{
	for (size_t i = 0; i < map->count; i++) {
		p4d_weight_slice stored = map->slice[i].slice;
		if (p4d_weights_is_local(stored.name))
			continue;
		const char *name = p4d_checkpoint__tensor_name(&map->layout, stored.name);
		memmove(stored.name, name, strlen(name) + 1);
		const p4d_file_tensor file = p4d_huggingface__file_tensor(&map->layout, &stored);
		const p4d_safetensors_tensor *from = p4d_huggingface__tensor(in, file.name);
		if (from)
			used[from - p4d_safetensors__at(in->files, 0)] = true;
	}
}

int p4d_huggingface_unused(const char *path, const char *plan, char *names, size_t size, uint64_t *count,
			   p4d_error *err)
{
	p4d_text text = p4d_text_in(names, size);
	p4d_huggingface_weights in;
	p4d_checkpoint_map map;

	*count = 0;
	if (p4d_checkpoint_map__open(&map, plan, true, err) < 0)
		return -1;
	if (p4d_huggingface__open(&in, path, &map.layout, err) < 0) {
		p4d_checkpoint_map__close(&map);
		return -1;
	}
	/* mark() needs a flag for each tensor; nothing else uses in.verified here */
	mark(&in, &map, in.verified);
	for (size_t i = 0; i < p4d_safetensors__count(in.files); i++) {
		const char *name = p4d_safetensors__at(in.files, i)->name;
		if (in.verified[i] || is_known(&map.layout, name))
			continue;
		if (++*count <= 2)
			p4d_text_entry(&text, ", ", "%.95s", name);
	}
	p4d_huggingface__close(&in);
	p4d_checkpoint_map__close(&map);
	return 0;
}
