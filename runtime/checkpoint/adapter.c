/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the product of a trained adapter's factors, which is added to its matrix. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "checkpoint/huggingface_internal.h"

/*
 * Finds the name of the module that has A for a matrix. Linear layers that are fused to one matrix share one
 * A. p4d_adapted_of says which of them has it.
 */
static const char *holder_of_a(const p4d_layout *l, const char *matrix, char name[128])
{
	static const struct {
		unsigned part, holder;
	} joined[] = {{1, 0}, {2, 0}, {4, 5}};

	for (unsigned i = 0; i < sizeof(joined) / sizeof(*joined); i++) {
		const bool fused =
		    joined[i].holder ? l->architecture->fused_gate_up : l->architecture->fused_qkv;
		const char *part = strstr(matrix, p4d_weights_adapted_name(joined[i].part));
		if (!fused || !part)
			continue;
		snprintf(name, 128, "%.*s%s.weight", (int)(part - matrix), matrix,
			 p4d_weights_adapted_name(joined[i].holder));
		return name;
	}
	return matrix;
}

/* Reads a whole tensor of the checkpoint. NULL without an error: the checkpoint does not have this tensor. */
static float *read_tensor(p4d_checkpoint_reader *reader, const char *matrix, const char *half,
			  p4d_weight_slice *whole, p4d_error *err)
{
	char name[128];

	snprintf(name, sizeof(name), "base_model.model.%.*s.%s.weight",
		 (int)(strlen(matrix) - strlen(".weight")), matrix, half);
	const p4d_checkpoint_map_slice *first =
	    p4d_checkpoint_map__named(p4d_checkpoint_reader__map(reader), name);
	if (!first)
		return NULL;
	*whole = first->slice;
	whole->first_row = whole->first_column = whole->offset = 0;
	whole->rows = whole->tensor_rows;
	whole->columns = whole->tensor_columns;
	const uint64_t count = whole->rows * whole->columns;
	float *values = calloc(count, sizeof(*values));
	if (!values) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %.100s", name);
		return NULL;
	}
	if (p4d_checkpoint_reader__slice(reader, P4D_STATE_MASTER, whole, 0, count, values, err) == 0)
		return values;
	free(values);
	return NULL;
}

void p4d_adapter__close(p4d_adapter_values *adapter)
{
	free(adapter->a);
	free(adapter->b);
	*adapter = (p4d_adapter_values){.a = NULL};
}

static int load(p4d_adapter_values *adapter, p4d_checkpoint_reader *reader, const char *matrix,
		p4d_error *err)
{
	const size_t length = strlen(matrix), end = strlen(".weight");
	const p4d_layout *layout = &p4d_checkpoint_reader__map(reader)->layout;
	p4d_weight_slice whole;
	p4d_error why = {.code = P4D_OK};
	char with_a[128];

	p4d_adapter__close(adapter);
	snprintf(adapter->name, sizeof(adapter->name), "%s", matrix);
	if (length < end || strcmp(matrix + length - end, ".weight") != 0)
		return 0;
	adapter->b = read_tensor(reader, matrix, "lora_B", &whole, &why);
	if (adapter->b)
		adapter->a = read_tensor(reader, holder_of_a(layout, matrix, with_a), "lora_A", &whole, &why);
	adapter->rank = adapter->a ? whole.rows : 0;
	adapter->in = adapter->a ? whole.columns : 0;
	return why.code == P4D_OK ? 0 : p4d_fail(err, why.code, "%s", why.text);
}

P4D_CLONES static void add_scaled(float *to, float factor, const float *from, uint64_t count)
{
#pragma omp simd
	for (uint64_t i = 0; i < count; i++)
		to[i] += factor * from[i];
}

int p4d_adapter__add(p4d_adapter_values *adapter, p4d_checkpoint_reader *reader, double scale,
		     const p4d_weight_slice *whole, uint64_t at, uint64_t count, float *values,
		     p4d_error *err)
{
	if (strcmp(adapter->name, whole->name) != 0 && load(adapter, reader, whole->name, err) < 0)
		return -1;
	while (adapter->a && count) {
		const uint64_t row = at / adapter->in, column = at % adapter->in;
		const uint64_t left = adapter->in - column, some = count < left ? count : left;
		for (uint64_t k = 0; k < adapter->rank; k++)
			add_scaled(values, (float)scale * adapter->b[row * adapter->rank + k],
				   adapter->a + k * adapter->in + column, some);
		values += some;
		at += some;
		count -= some;
	}
	return 0;
}
