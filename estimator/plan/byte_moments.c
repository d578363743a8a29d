/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/byte_moments.h"

#include "plan/parameters.h"
#include "request/architecture.h"

/*
 * A tensor of the model: its elements, the elements on a rank, and how many of the latter are contiguous in
 * the whole tensor.
 */
typedef struct tensor {
	uint64_t whole, here, run;
} tensor;

/*
 * MOST: maximum number of tensors in a layer: for each linear layer, A and up to three parts of B. UP: the
 * index of `up` in p4d_adapted_of.
 */
enum { MOST = 4 * P4D_ADAPTED_LAYERS, UP = 5 };
typedef struct tensors {
	unsigned count;
	tensor at[MOST];
} tensors;

/* Adds a tensor whose rows are divided over `parts` ranks. rows: those of this rank. */
static void add_rows(tensors *to, uint64_t rows, uint64_t columns, uint64_t parts)
{
	const uint64_t here = rows * columns;

	if (here)
		to->at[to->count++] = (tensor){here * parts, here, here};
}

static void add_columns(tensors *to, uint64_t rows, uint64_t columns, uint64_t parts)
{
	to->at[to->count++] = (tensor){rows * columns * parts, rows * columns, columns};
}

static void add_adapters(tensors *to, const p4d_layout *l)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const uint64_t rank = l->lora.rank;

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted of = p4d_adapted_of(l, i);
		const uint64_t parts = of.split_in ? 1 : l->tp;
		if (!p4d_is_adapted(l, i))
			continue;
		if (of.split_in)
			add_columns(to, rank, of.in, l->tp);
		else
			add_rows(to, rank, of.in, 1);
		if (i == 0 && l->architecture->fused_qkv) {
			add_rows(to, z.q, rank, parts);
			add_rows(to, z.kv, rank, parts);
			add_rows(to, z.kv, rank, parts);
		} else if (i == UP && l->architecture->fused_gate_up) {
			add_rows(to, z.f, rank, parts);
			add_rows(to, z.f, rank, parts);
		} else {
			add_rows(to, of.out, rank, parts);
		}
	}
}

static void add_vectors(tensors *to, const p4d_layout *l)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	const bool wide = l->qk_norm == P4D_QK_NORM_WIDE;

	for (unsigned i = 0; i < l->architecture->norms * l->norm_tensors; i++)
		add_rows(to, z.h, 1, 1);
	if (l->qk_norm) {
		add_rows(to, wide ? z.q : l->head_dim, 1, wide ? l->tp : 1);
		add_rows(to, wide ? z.kv : l->head_dim, 1, wide ? l->tp : 1);
	}
	if (l->biased & P4D_BIASED_QKV) {
		add_rows(to, z.q, 1, l->tp);
		add_rows(to, z.kv, 1, l->tp);
		add_rows(to, z.kv, 1, l->tp);
	}
	if (l->biased & P4D_BIASED_OUTPUT)
		add_rows(to, z.h, 1, 1);
	if (l->biased & P4D_BIASED_MLP) {
		add_rows(to, z.f, 1, l->tp);
		add_rows(to, l->glu ? z.f : 0, 1, l->tp);
		add_rows(to, z.h, 1, 1);
	}
}

static tensors of_layer(const p4d_layout *l)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(l);
	tensors all = {0};

	if (l->finetune != P4D_TUNE_FULL) {
		add_adapters(&all, l);
		return all;
	}
	add_rows(&all, z.q, z.h, l->tp);
	add_rows(&all, z.kv, z.h, l->tp);
	add_rows(&all, z.kv, z.h, l->tp);
	add_columns(&all, z.h, z.q, l->tp);
	add_rows(&all, l->glu ? z.f : 0, z.h, l->tp);
	add_rows(&all, z.f, z.h, l->tp);
	add_columns(&all, z.h, z.f, l->tp);
	add_vectors(&all, l);
	return all;
}

/* Elements of the norms at the end of the model, or before a stage's own loss. */
static uint64_t small_of_end(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage)
{
	const bool ends = p4d_schedule_is_last(schedule, stage) || l->local_loss;

	return ends && l->finetune == P4D_TUNE_FULL && l->hidden < P4D_BYTE_LEAST
		   ? (uint64_t)p4d_size_of_end(l)
		   : 0;
}

static uint64_t most_segments(const p4d_layout *l, uint32_t stage)
{
	enum { OF_TABLES = 2 };

	return l->vpp * p4d_chunk_segments(l, stage) + OF_TABLES;
}

p4d_byte_room p4d_byte_room_of(const p4d_layout *l, const p4d_schedule *schedule, uint32_t stage,
			       uint64_t shard)
{
	enum { AT_ENDS = 6 }; /* AT_ENDS: embedding, positions, head, and norms */
	const uint64_t layers = l->stage_layers[stage];
	const tensors layer = of_layer(l);
	/* in each segment, the shard may begin in the middle of a block */
	const uint64_t cut = p4d_optimizer_shards(l) > 1 ? most_segments(l, stage) : 0;
	uint64_t small = 0, large = 0;

	for (unsigned i = 0; i < layer.count; i++) {
		const bool is_small = layer.at[i].whole < P4D_BYTE_LEAST;
		small += is_small ? layer.at[i].here : 0;
		large += !is_small;
	}
	small = layers * small + small_of_end(l, schedule, stage);
	return (p4d_byte_room){shard / P4D_BYTE_BLOCK + layers * large + AT_ENDS + cut,
			       small < shard ? small : shard};
}

uint64_t p4d_byte_borders(const p4d_layout *l, uint32_t stage)
{
	return (p4d_optimizer_shards(l) - 1) * most_segments(l, stage);
}

bool p4d_byte_blocks_are_whole(const p4d_layout *l)
{
	const uint64_t parts = l->tp * (l->vocab_parallel ? l->pp : 1);
	const tensors layer = of_layer(l);

	if (l->finetune == P4D_TUNE_FULL && parts > 1 && l->vocab / parts * l->hidden % P4D_BYTE_BLOCK)
		return false;
	for (unsigned i = 0; i < layer.count; i++) {
		const tensor *t = &layer.at[i];
		if (t->here < t->whole && t->whole >= P4D_BYTE_LEAST && t->run % P4D_BYTE_BLOCK)
			return false;
	}
	return true;
}
