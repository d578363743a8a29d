/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA graphs of parts of layers (Megatron-Core's TECudaGraphHelper, Transformer Engine's
 * make_graphed_callables). There is one graph for each pass of each layer and micro-batch. The graphs are
 * captured in the order of the schedule, into one memory pool. Everything that a captured pass allocates
 * keeps its place in that pool as long as the graph exists: saved tensors, for all micro-batches in flight;
 * results; and working memory. Nothing else can use the pool, neither the update nor evaluation, which runs
 * without graphs. The allocator does not count the pool as allocated, so the peak that PyTorch reports is
 * lower than the memory in use (class graphs). Inputs are copied to the graph's own tensors. Compared with
 * the published runs of tests/data/graphs_memory.csv.
 */
#include "framework/megatron_memory.h"

/*
 * A graph of attention copies its input, and its result is the middle of the layer. A graph of the
 * feed-forward part copies the middle, and its result is the next layer's input.
 */
static bool is_captured(int graphs, p4d_megatron_group group)
{
	switch (graphs) {
	case P4D_GRAPHS_ATTENTION:
		return group != FFN;
	case P4D_GRAPHS_MLP:
		return group == MIDDLE || group == FFN || group == INPUT;
	default:
		return graphs == P4D_GRAPHS_LAYERS;
	}
}

/* Graphs stay once they are captured, after a few steps. Their inputs are tensors outside of the pool. */
void p4d_megatron__captured(p4d_rows *rows, p4d_megatron_group group, p4d_tensor *row)
{
	const int graphs = rows->layout->megatron.graphs;
	const bool is_input = group == (graphs == P4D_GRAPHS_MLP ? MIDDLE : INPUT);

	if (!is_captured(graphs, group))
		return;
	row->bytes = p4d_times(rows, row->bytes, (uint64_t)row->layers * row->slots);
	row->dtype = P4D_DT_BYTES;
	row->dims = 1;
	row->shape[0] = row->bytes;
	row->layers = row->slots = 1;
	row->lifetime = P4D_LIVES_ALWAYS;
	row->part = is_input ? P4D_PART_ACTIVATIONS : P4D_PART_GRAPHS;
	row->at_first_step = true;
}

static void add(p4d_rows *rows, const char *name, const char *shard, p4d_wide elements)
{
	rows->overflow = rows->overflow || elements >> 62;
	if (rows->overflow)
		return;
	p4d_tensor *row =
	    p4d_row(rows, name, shard, P4D_PART_GRAPHS, p4d_dtype_of(rows->layout), (uint64_t)elements, 0, 0);
	row->at_first_step = true;
}

/*
 * Peaks of captured backward passes, which share the free memory of the pool. A graph of the feed-forward
 * part needs the peak of this part. A graph of attention needs the gradients of attention's result, of
 * queries, keys and values, and fp32 sums of the queries' gradients. Added to this are the gradients that
 * graphs receive and return.
 */
static p4d_wide widest(const p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const int graphs = rows->layout->megatron.graphs;
	const p4d_wide attention = (p4d_wide)z->tokens * (4 * z->A + 2 * z->G), ffn = z->ffn_backward;

	return graphs == P4D_GRAPHS_ATTENTION || (graphs == P4D_GRAPHS_LAYERS && attention > ffn) ? attention
												  : ffn;
}

void p4d_megatron__graphs(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;

	if (l->megatron.graphs == P4D_GRAPHS_NONE)
		return;
	add(rows, "graphs.passes", ACROSS, widest(rows, z) + 2 * narrow);
	if (l->megatron.graphs ==
	    P4D_GRAPHS_LAYERS) /* the graph's result is copied into the next layer's input tensor */
		add(rows, "graphs.outputs", ALONG, narrow * rows->slots * rows->slot_layers);
	else if (l->megatron.graphs ==
		 P4D_GRAPHS_MLP) /* the input of a chunk's first layer, which no graph has made */
		p4d_row_in_slot(rows, "chunk.input", ALONG, p4d_dtype_of(l), z->own, z->h)->layers = 1;
}
