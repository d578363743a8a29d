/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the weights that adapters were trained with, from released weights: quantizes them and expands
 * them again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "checkpoint/huggingface_internal.h"
#include "model/nf4.h"

/* The linear layer of p4d_adapted_of that a weight belongs to; P4D_ADAPTED_LAYERS: none. */
static unsigned layer_of(const char *name)
{
	char end[64];

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const int length = snprintf(end, sizeof(end), ".%s.weight", p4d_weights_adapted_name(i));
		const size_t all = strlen(name);
		if (all > (size_t)length && !strcmp(name + all - (size_t)length, end))
			return i;
	}
	return P4D_ADAPTED_LAYERS;
}

/* The slices of the model that are quantized as one tensor, one after the other. */
typedef struct whole_tensor {
	const p4d_checkpoint_map_slice *part[3];
	unsigned count;
	uint64_t elements, before; /* elements: number of elements of all parts; before: number of elements of
				      the parts before the requested one */
} whole_tensor;

static whole_tensor tensor_of(const p4d_checkpoint_map *model, const char *name, unsigned layer)
{
	const p4d_architecture *a = model->layout.architecture;
	/* whether query, key and value, or gate and up, are one matrix */
	const bool first = layer < 3 && a->fused_qkv, second = (layer == 4 || layer == 5) && a->fused_gate_up;
	const int stem = (int)(strlen(name) - strlen(p4d_weights_adapted_name(layer)) - strlen(".weight"));
	const unsigned begin = first ? 0 : second ? 4 : layer;
	whole_tensor y = {.count = first ? 3 : second ? 2 : 1};
	char part[128];

	for (unsigned i = 0; i < y.count; i++) {
		const unsigned number = begin + i;
		snprintf(part, sizeof(part), "%.*s%s.weight", stem, name, p4d_weights_adapted_name(number));
		y.part[i] = p4d_checkpoint_map__named(model, part);
		if (number == layer)
			y.before = y.elements;
		y.elements += y.part[i]->slice.tensor_rows * y.part[i]->slice.tensor_columns;
	}
	return y;
}

static void round_to_bf16(float *numbers, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		numbers[i] = p4d_from_bf16(p4d_to_bf16(numbers[i]));
}

/* Reads a tensor. Quantizes it as p4d_quantized_put does, and expands it as a matmul does. */
static int load(p4d_quantized_base *base, p4d_huggingface_weights *from, const p4d_layout *layout,
		const whole_tensor *t, p4d_error *err)
{
	const bool halves = p4d_dtype_of(layout) == P4D_DT_BF16;
	uint64_t at = 0;

	free(base->values);
	base->values = malloc(t->elements * sizeof(*base->values));
	if (!base->values)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory to quantize %.95s", base->name);
	for (unsigned i = 0; i < t->count; i++) {
		p4d_weight_slice whole = t->part[i]->slice;
		whole.first_row = whole.first_column = whole.offset = 0;
		whole.rows = whole.tensor_rows;
		whole.columns = whole.tensor_columns;
		const uint64_t count = whole.rows * whole.columns;
		if (p4d_huggingface__fetch(from, P4D_STATE_MASTER, &whole, 0, count, base->values + at, err) <
		    0)
			return -1;
		at += count;
	}
	if (halves)
		round_to_bf16(base->values, t->elements);
	if (p4d_nf4_round(base->values, t->elements, err) < 0)
		return -1;
	if (halves)
		round_to_bf16(base->values, t->elements);
	return 0;
}

int p4d_quantized_base__fetch(p4d_quantized_base *base, p4d_huggingface_weights *from,
			      const p4d_checkpoint_map *model, const p4d_layout *trained,
			      const p4d_weight_slice *whole, uint64_t at, uint64_t count, float *to,
			      p4d_error *err)
{
	const unsigned layer = p4d_stores_nf4(trained) ? layer_of(whole->name) : P4D_ADAPTED_LAYERS;

	if (layer == P4D_ADAPTED_LAYERS)
		return p4d_huggingface__fetch(from, P4D_STATE_MASTER, whole, at, count, to, err);
	const whole_tensor t = tensor_of(model, whole->name, layer);
	if (strcmp(base->name, t.part[0]->slice.name) != 0) {
		snprintf(base->name, sizeof(base->name), "%s", t.part[0]->slice.name);
		if (load(base, from, trained, &t, err) < 0)
			return -1;
	}
	memcpy(to, base->values + t.before + at, count * sizeof(*to));
	return 0;
}

void p4d_quantized_base__close(p4d_quantized_base *base)
{
	free(base->values);
	*base = (p4d_quantized_base){.values = NULL};
}
