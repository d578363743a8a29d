/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers with a memory, as the authors of arXiv 2412.09764 train them with FSDP2 (facebookresearch/memory,
 * lingua/product_key). The table of values is in bf16, whatever other parameters are. Its columns are sharded
 * over --memory-parallel ranks; FSDP shards each rank's columns over the ranks that have the same columns,
 * and keeps them gathered from the first memory layer's pass to the last one's. Nobody compared these bytes
 * with that code.
 */
#include "framework/torchtitan.h"

enum { INDEX = 8, VALUE = 2 }; /* bytes */

/* torch.topk: the largest elements of each row. Autograd keeps their indices. */
static p4d_tape_tensor largest(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_made(w, elements, x.element, true);

	p4d_op_append(w, x, out, P4D_NEW_GRADIENT)->kept = elements * INDEX;
	return out;
}

/* Scores both halves of the keys, and selects the best pairs among the best of each half. */
static p4d_tape_tensor selected(p4d_tape_writer *w, p4d_tape_tensor queries, uint64_t rows)
{
	const p4d_layout *l = w->layout;
	const uint64_t top = l->memory.top, keys = l->memory.keys;
	const p4d_tape_tensor scores = p4d_op_made(w, rows * 2 * keys, queries.element, true);
	p4d_tape_operation *o = p4d_op_append(w, queries, scores, P4D_NEW_GRADIENT);

	o->saved[0] = queries.value;
	o->weight = l->memory.heads * keys * l->memory.key_dim * w->weight;
	const p4d_tape_tensor best = largest(w, scores, rows * 2 * top);
	const p4d_tape_tensor pairs = p4d_op_made(w, rows * top * top, queries.element, true);
	p4d_op_append(w, best, pairs, P4D_NEW_GRADIENT)->scratch = rows * top * top * INDEX;
	return largest(w, pairs, rows * top);
}

/* The weighted sum of the values; each rank has the indices and weights of all ranks' tokens. */
static p4d_tape_tensor looked_up(p4d_tape_writer *w, p4d_tape_tensor weights, uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_made(w, elements, weights.element, true);
	p4d_tape_operation *o = p4d_op_append(w, weights, out, P4D_NEW_GRADIENT);

	o->kept = w->layout->memory.parallel * weights.elements * (INDEX + weights.element);
	o->scratch = o->back_scratch = w->layout->memory.parallel > 1 ? elements * weights.element : 0;
	return out;
}

p4d_tape_tensor p4d_torchtitan__memory(p4d_torchtitan_writer *t, p4d_tape_tensor x)
{
	p4d_tape_writer *w = &t->w;
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, rows = x.elements / h * l->memory.heads;
	const p4d_tape_tensor queries =
	    p4d_op_product(w, x, h, l->memory.heads * l->memory.key_dim, w->weight, true);
	const p4d_tape_tensor best = p4d_op_cast(w, selected(w, queries, rows), 4);
	const p4d_tape_tensor weights = p4d_op_cast(w, p4d_op_map(w, best, false, true), x.element);
	const p4d_tape_tensor y = looked_up(w, weights, x.elements);
	const p4d_tape_tensor gate = p4d_op_map(w, p4d_op_product(w, x, h, h, w->weight, true), true, false);
	const p4d_tape_tensor out = p4d_op_product(w, p4d_op_times(w, y, gate), h, h, w->weight, true);

	p4d_op_hold(w, x);
	return out;
}

/*
 * Rows of the table of values: its gathered copies, and gradients of all columns (one that is summed, one of
 * the current layer).
 */
static void add_passes(p4d_rows *rows, p4d_wide columns, p4d_wide share)
{
	const p4d_layout *l = rows->layout;
	const unsigned backward = 1u << P4D_AT_BACKWARD_FFN | 1u << P4D_AT_BACKWARD_ATTENTION;
	const p4d_wide layers = p4d_layers_with_memory(l, l->layers);

	if (share < columns)
		p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING, "memory.gathered", "", P4D_PART_WORKING_SET,
			       columns * VALUE);
	if (l->memory.parallel >
	    1) /* with several memory-parallel ranks, the code scales the values to average the gradients */
		p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING & ~(1u << P4D_AT_EMBED), "memory.scaled", "",
			       P4D_PART_ACTIVATIONS, layers * columns * VALUE);
	p4d_torch_held(rows, backward, "memory.gradients", "", P4D_PART_GRADS,
		       (layers > 1 ? 2 : 1) * columns * VALUE);
}

void p4d_torchtitan__memory_rows(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;

	if (!l->memory.keys)
		return;
	const p4d_wide columns = p4d_size_of_values(l) / l->memory.parallel,
		       share = p4d_div_up(columns, l->dp * l->cp / l->memory.parallel);

	p4d_torchtitan__always(rows, "memory.values", P4D_PART_PARAMS, share * VALUE, false);
	p4d_torchtitan__always(rows, "memory.moments", P4D_PART_OPTIMIZER,
			       p4d_torchtitan__moments(l, share, VALUE), true);
	p4d_torch_held(rows, 1u << P4D_AT_OPTIMIZER, "memory.reduced", "dp cp", P4D_PART_GRADS,
		       share * VALUE);
	add_passes(rows, columns, share);
}
