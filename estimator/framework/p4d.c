/* SPDX-License-Identifier: Apache-2.0 */
/* p4d-train: the buffers that it holds, and the table entry. */
#include <limits.h>

#include "framework/p4d_check.h"
#include "framework/p4d_fp8.h"
#include "framework/p4d_sizes.h"
#include "plan/muon.h"
#include "plan/nf4.h"
#include "plan/offload.h"
#include "plan/packed_documents.h"
#include "plan/parameters.h"
#include "plan/plan_rows.h"
#include "request/architecture.h"
#include "request/framework.h"

enum { PREFETCHED = 1 }; /* number of micro-batches whose tokens are read ahead */
#define CUBLASLT_WORKSPACE_BYTES ((uint64_t)32 << 20)
/* bytes for counters and losses */
#define SCALAR_BYTES ((uint64_t)64 << 10)

#define AT(moment) (1u << P4D_AT_##moment)
#define FORWARD_TWICE (AT(FORWARD) | AT(RECOMPUTE))
#define LAYER (FORWARD_TWICE | AT(BACKWARD_FFN) | AT(BACKWARD_ATTENTION))
/*
 * Live range of buffers that only some layouts use. They are at the bottom of the arena, below buffers with
 * shorter live ranges.
 */
#define THROUGHOUT (LAYER | AT(EMBED) | AT(HEAD) | AT(HEAD_SUM) | AT(WEIGHT))

/*
 * A layer's activations. Recomputation drops the groups from a certain one to the last. Operands are outputs
 * of norms and SwiGLU that are inputs of matmuls.
 */
typedef enum saved_group { GROUP_INPUT, GROUP_ATTENTION, GROUP_FFN, GROUP_OPERANDS } saved_group;

static const struct buffer {
	const char *name, *shard;
	p4d_memory_class part;
	p4d_lifetime lifetime;
	unsigned live_range;
} buffers[] = {
#define BUFFER(id, name, shard, part, lifetime, live_range) \
	[B_##id] = {name, shard, P4D_PART_##part, P4D_LIVES_##lifetime, live_range},
#include "plan/buffers.def"
};

static const struct activation {
	const char *name, *again, *shard; /* name of the row, and its name if the activation is recomputed */
	saved_group group;
	unsigned live_range;
} activations[] = {
#define ACTIVATION(id, name, shard, group, live_range) \
	[ACT_##id] = {"layer." name, "again." name, shard, group, live_range},
#include "plan/buffers.def"
};

/* Adds the row of a buffer. */
__attribute__((always_inline)) static inline p4d_tensor *add(p4d_rows *rows, p4d_buffer id, p4d_dtype dtype,
							     uint64_t x, uint64_t y, uint64_t z)
{
	const struct buffer *b = &buffers[id];
	p4d_tensor *row = p4d_row(rows, b->name, b->shard, b->part, dtype, x, y, z);

	row->id = id;
	row->lifetime = b->lifetime;
	row->live_range = b->live_range;
	if (b->lifetime == P4D_LIVES_IN_SLOT)
		row->slots = rows->plan->slots.activation;
	if (b->lifetime == P4D_LIVES_IN_VOCABULARY_SLOT)
		row->slots = rows->plan->slots.vocabulary;
	return row;
}

/* Whether this stage has a whole head, instead of a shard of a head that all stages share. */
static bool has_loss(const p4d_rows *rows)
{
	return rows->last || rows->layout->local_loss;
}

/* Adds a row with several copies, each aligned. */
static void add_copies(p4d_rows *rows, p4d_buffer id, p4d_dtype dtype, uint64_t copies, uint64_t y,
		       uint64_t z)
{
	const uint64_t elements = z ? p4d_times(rows, y, z) : y;

	add(rows, id, dtype, copies, y, z)->bytes =
	    p4d_times(rows, copies, p4d_row_bytes(rows, dtype, elements));
}

static uint64_t narrow(p4d_rows *rows, p4d_wide wide)
{
	rows->overflow = rows->overflow || wide >> 62;
	return rows->overflow ? 0 : (uint64_t)wide;
}

/* Adds the windows: places for a few whole layers, and for a table of the vocabulary. */
static void add_windows(p4d_rows *rows, p4d_buffer layers, p4d_buffer table, p4d_dtype dtype, bool all)
{
	const p4d_windows w = p4d_parameters_windows(rows->layout, &rows->schedule, rows->stage, all);
	const uint64_t on_stage = rows->layout->stage_layers[rows->stage];
	/* one gradient that a pass accumulates, and one in transfer */
	const uint64_t gradients = on_stage < P4D_WINDOW_LAYERS ? on_stage : P4D_WINDOW_LAYERS;

	add_copies(rows, layers, dtype, all ? p4d_offload_resident(rows->layout, rows->stage) : gradients,
		   narrow(rows, w.layer), 0);
	if (w.table)
		add(rows, table, dtype, narrow(rows, w.table), 0, 0);
}

/* Subgroups on the host pass through a few slots (offload.h). */
static void add_subgroups(p4d_rows *rows, const p4d_rank_sizes *z, uint64_t shard)
{
	const p4d_layout *l = rows->layout;
	const uint64_t n = p4d_offload_subgroup(shard), staged = p4d_offload_staged_bytes(l);

	if (l->offload & P4D_OFFLOAD_OPTIMIZER)
		add(rows, B_HOST_GRADIENTS, P4D_DT_FP32, n, 0, 0)->slots = P4D_OFFLOAD_SLOTS;
	if (l->offload & P4D_OFFLOAD_OPTIMIZER && !p4d_streams_parameters(l))
		add(rows, B_HOST_PARAMETERS, z->dtype, n, 0, 0)->slots = P4D_OFFLOAD_SLOTS;
	if (p4d_offload_split_of(l, rows->gpu).share)
		add_copies(rows, B_STAGED_STATES, P4D_DT_BYTES, P4D_OFFLOAD_SLOTS, p4d_times(rows, n, staged),
			   0);
}

/* All parameters of a stage, or shards of them; and the window for complete layers on the device. */
static void add_parameters(p4d_rows *rows, const p4d_rank_sizes *z, uint64_t elements)
{
	const p4d_layout *l = rows->layout;
	const uint64_t shards = p4d_shards_parameters(l) ? p4d_optimizer_shards(l) : 1;
	p4d_tensor *row = add(rows, B_PARAMETERS, z->dtype, elements / shards, 0, 0);

	if (p4d_stores_nf4(l))
		add(rows, B_QUANTIZED, P4D_DT_BYTES, l->stage_layers[rows->stage], p4d_nf4_layer_bytes(l), 0);
	if (p4d_streams_parameters(l))
		row->lifetime = P4D_LIVES_ON_HOST;
	if (p4d_windows_parameters(l))
		add_windows(rows, B_LAYER_WINDOW, B_TABLE_WINDOW, z->dtype, true);
}

/* Adds the buffers of 8-bit moments other than their codes. */
static void add_byte_moments(p4d_rows *rows, uint64_t shard)
{
	const p4d_byte_room room = p4d_byte_room_of(rows->layout, &rows->schedule, rows->stage, shard);
	const uint64_t borders = p4d_byte_borders(rows->layout, rows->stage);

	add(rows, B_SCALES, P4D_DT_FP32, 2, room.blocks, 0);
	if (room.small)
		add(rows, B_SMALL_MOMENTS, P4D_DT_FP32, 2, room.small, 0);
	if (borders)
		add(rows, B_BORDERS, P4D_DT_FP32, borders, 2, 0);
}

/* Adds the buffers of Muon other than the momentum. */
static void add_muon(p4d_rows *rows, p4d_dtype dtype)
{
	const p4d_muon_room room = p4d_muon_room_of(rows->layout, &rows->schedule, rows->stage);
	const uint64_t side = narrow(rows, room.side);

	if (room.second)
		add(rows, B_SECOND_MOMENTS, P4D_DT_FP32, narrow(rows, room.second), 0, 0);
	add_copies(rows, B_MUON_MATRICES, dtype, 2, narrow(rows, room.matrix), 0);
	add_copies(rows, B_MUON_GRAMS, dtype, 2, side, side);
	if (dtype != P4D_DT_FP32)
		add(rows, B_MUON_SUMS, P4D_DT_FP32, side, side, 0);
}

static void add_states(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const uint64_t n = narrow(rows, p4d_parameters_padded(rows->layout, &rows->schedule, rows->stage));
	const uint64_t frozen =
	    narrow(rows, p4d_parameters_frozen(rows->layout, &rows->schedule, rows->stage));

	const bool gradients = p4d_shards_gradients(rows->layout);
	const uint64_t shard = n / p4d_optimizer_shards(rows->layout);

	add_parameters(rows, z, n + frozen);
	if (rows->layout->evaluates)
		return;
	add(rows, B_GRADIENTS, P4D_DT_FP32, gradients ? shard : n, 0, 0);
	if (gradients)
		add_windows(rows, B_LAYER_GRADIENTS, B_TABLE_GRADIENTS, P4D_DT_FP32, false);
	const bool bytes = p4d_optimizer_of(rows->layout)->bits == 8;
	p4d_tensor *state =
	    p4d_rows_of_states(rows, P4D_STATE_MASTER, P4D_STATE_MASTER + 1, P4D_DT_FP32, shard);
	p4d_rows_of_states(rows, P4D_STATE_MASTER + 1, P4D_MOST_STATES,
			   bytes                        ? P4D_DT_BYTES
			   : rows->layout->half_moments ? P4D_DT_BF16
							: P4D_DT_FP32,
			   shard);
	if (bytes)
		add_byte_moments(rows, shard);
	if (rows->layout->optimizer == P4D_MUON)
		add_muon(rows, z->dtype);
	const bool away = rows->layout->offload & P4D_OFFLOAD_OPTIMIZER;
	for (; away && state < &rows->plan->tensor[rows->plan->count]; state++)
		state->lifetime = P4D_LIVES_ON_HOST;
	if (away || p4d_streams_parameters(rows->layout))
		add_subgroups(rows, z, shard);
}

/*
 * Number of token blocks whose positions and documents attention needs: the blocks of every context-parallel
 * rank. If keys are gathered, this rank's own block comes first, for the queries.
 */
static uint64_t context_blocks(const p4d_layout *l)
{
	return l->cp_comm == P4D_CP_ALL_GATHER ? 1 + l->cp : l->cp;
}

/* Maximum number of micro-batches in flight: each has a slot or, with slices, keys and values. */
static uint64_t in_flight(const p4d_slots *slots)
{
	return slots->sequences ? slots->sequences : slots->activation;
}

/*
 * The token buffers hold the micro-batches that may be in flight, and the one that is read ahead; with
 * slices, whole micro-batches. There is always room for the document numbers of tokens, because each run
 * decides whether to mask documents; with slices, there is room for those of queries and those of keys. With
 * learned positions, there is also room for the positions of the rank's tokens within their documents.
 */
static void add_data(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool everywhere = l->vocab_parallel;
	const p4d_slots slots =
	    everywhere && rows->stage ? p4d_schedule_slots(&rows->schedule, 0) : rows->plan->slots;
	const uint64_t copies = in_flight(&slots) + PREFETCHED;
	const uint64_t n = l->slices > 1 ? p4d_times(rows, l->seq_len, l->micro_batch) : z->n;

	if (rows->first || everywhere)
		add_copies(rows, B_TOKENS, P4D_DT_INT32, copies, n, 0);
	if (has_loss(rows) || everywhere)
		add_copies(rows, B_LABELS, P4D_DT_INT32, copies, n, 0);
	add_copies(rows, B_DOCUMENTS, P4D_DT_INT32, in_flight(&rows->plan->slots) + PREFETCHED,
		   (l->slices > 1 ? 2 : context_blocks(l)) + (l->positions ? 1 : 0), n);
	/* each token may be a document */
	const uint64_t documents = p4d_packed_documents(l, rows->gpu);
	if (documents)
		add_copies(rows, B_DOCUMENT_PLACES, P4D_DT_INT32, in_flight(&rows->plan->slots) + PREFETCHED,
			   p4d_times(rows, P4D_DOCUMENT_ROWS, (n + documents - 1) / documents),
			   documents + P4D_DOCUMENT_PADDING);
}

static void add_staging(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const bool vocabulary = rows->layout->vocab_parallel;
	const struct {
		bool there;
		p4d_buffer id[2];
	} pair[] = {
	    {rows->layout->pp > 1, {B_SEND_FORWARD, B_SEND_BACKWARD}},
	    {vocabulary && rows->first, {B_EMBEDDING_OUTPUT, B_EMBEDDING_GRADIENT}},
	    {vocabulary && rows->last, {B_HEAD_OUTPUT, B_HEAD_GRADIENT}},
	};

	for (int i = 0; i < 6; i++)
		if (pair[i / 2].there &&
		    !(pair[i / 2].id[i % 2] == B_SEND_BACKWARD && rows->layout->local_loss))
			add_copies(rows, pair[i / 2].id[i % 2], z->dtype, P4D_SEND_BUFFERS, z->ns, z->h);
}

static void add_persistent(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool on_gpu = p4d_on_gpu(l->device);

	add_states(rows, z);
	add_data(rows, z);
	add_staging(rows, z);
	add(rows, B_ROPE, P4D_DT_FP32, p4d_rope_tables(l) * (l->seq_len / l->cp), l->head_dim, 0);
	add(rows, B_POSITIONS, P4D_DT_INT32, context_blocks(l), l->seq_len / l->cp, 0);
	add(rows, B_SCALARS, P4D_DT_BYTES, SCALAR_BYTES, 0, 0);
	if (on_gpu || z->dtype != P4D_DT_FP32 || l->precision == P4D_FP8)
		add(rows, B_LIBRARY, P4D_DT_BYTES, on_gpu ? CUBLASLT_WORKSPACE_BYTES : P4D_CPU_PRODUCT_BYTES,
		    0, 0);
	if (!on_gpu)
		return;
	/* a partial sum of a head consists of a bias and a norm weight */
	const uint64_t widest = l->biased & P4D_BIASED_MLP && z->up > z->h ? z->up : z->h;
	const uint64_t columns = P4D_NORM_SUMS * widest, heads = P4D_HEAD_SUMS * 2 * z->columns;
	add(rows, B_REDUCTIONS, P4D_DT_FP32, columns > heads ? columns : heads, 0, 0);
}

static saved_group kept(int recompute)
{
	return recompute == P4D_RECOMPUTE_FULL   ? GROUP_INPUT
	       : recompute == P4D_RECOMPUTE_MLP  ? GROUP_ATTENTION
	       : recompute == P4D_RECOMPUTE_KEEP ? GROUP_OPERANDS
						 : GROUP_FFN;
}

/* Changes a row to have copies for a few layers (places), instead of for all layers of a slot. */
static void put_in_places(p4d_tensor *row)
{
	row->lifetime = P4D_LIVES_ALWAYS;
	row->layers = P4D_SWAP_PLACES;
	row->slots = 1;
}

/* Adds places on the device for activations of swapped layers, which are not recomputed. */
static void add_swapped(p4d_rows *rows, uint64_t bytes)
{
	const uint32_t layers =
	    p4d_offload_swapped(rows->layout, rows->gpu, (uint32_t)rows->slot_layers, bytes);

	if (!layers)
		return;
	p4d_tensor *row = add(rows, B_HOST_ACTIVATIONS, P4D_DT_BYTES, bytes, 0, 0);
	row->layers = layers;
	row->slots = rows->plan->slots.activation;
}

/*
 * Adds the rows of activations, which are saved until the layer's last gradient. In split schedules the
 * gradients of qkv and of gate and up take their place, and stay until the weight pass, which recomputes
 * everything else that it needs.
 */
static void add_activations(p4d_rows *rows, const p4d_rank_sizes *z, bool keep)
{
	const p4d_norm_place place = rows->layout->architecture->place;
	const bool before = place != P4D_NORMS_AFTER, behind = place != P4D_NORMS_BEFORE;
	const uint64_t norms =
	    rows->layout->qk_norm == P4D_QK_NORM_WIDE ? P4D_WIDE_NORMS : z->heads + z->kv_heads;
	/* LayerNorm also has a mean per row */
	const bool means = rows->layout->norm_tensors > 1;
	const uint64_t x = means ? 2 : z->ns, y = means ? z->ns : 0;
	const bool codes = keep && p4d_fp8_keeps_inputs(rows->layout);
	const bool of_norms = codes && p4d_fp8_keeps_norms(rows->layout);
	const struct {
		bool none; /* the model does not have this activation */
		p4d_dtype dtype;
		uint64_t x, y;
	} size[ACT_COUNT] = {
	    [ACT_INPUT] = {false, z->dtype, z->ns, z->h},
	    [ACT_INPUT_RSTD] = {!before, P4D_DT_FP32, x, y},
	    [ACT_QKV] = {false, z->dtype, z->n, z->columns},
	    [ACT_QK_RSTD] = {!rows->layout->qk_norm, P4D_DT_FP32, z->n, norms},
	    [ACT_ATTENTION] = {false, z->dtype, z->n, z->q},
	    [ACT_LSE] = {false, P4D_DT_FP32, z->heads, z->n},
	    [ACT_POST_ATTENTION] = {false, z->dtype, z->ns, z->h},
	    [ACT_POST_ATTENTION_RSTD] = {!before, P4D_DT_FP32, x, y},
	    [ACT_ATTENTION_OUTPUT] = {!behind, z->dtype, z->ns, z->h},
	    [ACT_ATTENTION_OUTPUT_RSTD] = {!behind, P4D_DT_FP32, x, y},
	    [ACT_GATE_UP] = {false, z->dtype, z->n, z->up},
	    [ACT_FFN_OUTPUT] = {!behind, z->dtype, z->ns, z->h},
	    [ACT_FFN_OUTPUT_RSTD] = {!behind, P4D_DT_FP32, x, y},
	    [ACT_INPUT_NORMED] = {!keep || !before || of_norms, z->dtype, z->ns, z->h},
	    [ACT_POST_ATTENTION_NORMED] = {!keep || !before || of_norms, z->dtype, z->ns, z->h},
	    [ACT_PRODUCT] = {!keep || codes, z->dtype, z->n, z->f},
	    [ACT_INPUT_CODES] = {!of_norms, P4D_DT_BYTES, p4d_framework__fp8_kept(rows, z->h), 0},
	    [ACT_ATTENTION_CODES] = {!codes, P4D_DT_BYTES, p4d_framework__fp8_kept(rows, z->q), 0},
	    [ACT_POST_ATTENTION_CODES] = {!of_norms, P4D_DT_BYTES, p4d_framework__fp8_kept(rows, z->h), 0},
	    [ACT_PRODUCT_CODES] = {!codes, P4D_DT_BYTES, p4d_framework__fp8_kept(rows, z->f), 0},
	};

	const saved_group last = kept(rows->layout->recompute);
	const bool swaps = keep && p4d_swaps_activations(rows->layout);
	uint64_t swapped = 0;

	for (int i = 0; i < ACT_COUNT; i++) {
		const struct activation *a = &activations[i];
		if (size[i].none || keep != (a->group <= last))
			continue;
		const p4d_dtype dtype = size[i].dtype;
		p4d_tensor *row = keep ? p4d_row_in_slot(rows, a->name, a->shard, dtype, size[i].x, size[i].y)
				       : p4d_row_at(rows, a->live_range, a->again, a->shard,
						    P4D_PART_WORKING_SET, dtype, size[i].x, size[i].y, 0);
		row->id = (p4d_buffer)(B_ACTIVATION + i);
		if (swaps && a->group > GROUP_INPUT) {
			put_in_places(row);
			swapped += row->bytes; /* the rows are checked below */
		}
	}
	if (swaps)
		add_swapped(rows, swapped);
}

/* Adds the buffers of the head, which processes the tokens in chunks. */
static void add_head(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const p4d_layout *l = rows->layout;

	if (!has_loss(rows) && !l->vocab_parallel)
		return;
	add(rows, B_LOGITS, z->dtype, p4d_logits_tokens(l), p4d_logits_columns(l), 0);
	if (l->pairs) {
		add(rows, B_PAIR_SUMS, P4D_DT_FP64, z->batch, P4D_PAIR_NUMBERS, 0);
		add(rows, B_PAIR_FACTORS, P4D_DT_FP32, z->n, 0, 0);
	}
	if (!l->vocab_parallel) {
		add(rows, B_SOFTMAX, P4D_DT_FP32, P4D_TOKEN_STATISTICS, z->n, 0);
		return;
	}
	add(rows, B_VOCABULARY_HIDDEN, z->dtype, z->ns, z->h, 0);
	add(rows, B_VOCABULARY_STATISTICS, P4D_DT_FP32, P4D_TOKEN_STATISTICS, z->n, 0);
	add(rows, B_VOCABULARY_HIDDEN_GRADIENT, P4D_DT_FP32, z->ns, z->h, 0);
}

/* Adds buffers that matmuls read and write, shared by all layers. */
static void add_working_set(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const p4d_layout *l = rows->layout;

	add(rows, B_HIDDEN, z->dtype, z->ns, z->h, 0);
	add(rows, B_NORM_OUT, z->dtype, z->ns, z->h, 0);
	add(rows, B_NORM_OUT_GRADIENT, z->dtype, z->ns, z->h, 0);
	if (l->tp_y > 1) /* with a tp-grid: rows whose features are spread over several ranks */
		add(rows, B_NORM_DOTS, P4D_DT_FP32, z->ns, 0, 0);
	if (l->tp > 1) /* result of a row-parallel matmul before it is summed over tp */
		add(rows, B_PARTIAL, z->dtype, z->n, z->h, 0);
	if (l->sequence_parallel) {
		add(rows, B_GATHERED, z->dtype, z->n, z->h, 0);
		add(rows, B_GATHERED_GRADIENT, z->dtype, z->n, z->h, 0);
	}
	if (l->tp_z > 1) {
		const uint64_t matrices = narrow(rows, p4d_layer_matrices(z));
		add(rows, B_GRID_MATRICES, z->dtype, P4D_DEPTH_PLACES, matrices, 0);
		add(rows, B_GRID_GRADIENTS, P4D_DT_FP32, P4D_DEPTH_PLACES, matrices, 0);
	}
	if (kept(l->recompute) < GROUP_OPERANDS || p4d_fp8_keeps_inputs(l))
		add(rows, B_FFN_ACT, z->dtype, z->n, z->f, 0);
	add(rows, B_FFN_ACT_GRADIENT, z->dtype, z->n, z->f, 0);
	add(rows, B_ATTENTION_GRADIENT, z->dtype, z->n, z->q, 0);
	add(rows, B_QKV_GRADIENT, z->dtype, z->n, z->columns, 0);
	if (l->qk_norm == P4D_QK_NORM_WIDE)
		add(rows, B_QK_DOTS, P4D_DT_FP32, z->n, P4D_WIDE_NORMS, 0);
	if (l->finetune != P4D_TUNE_FULL)
		add(rows, B_ADAPTER, z->dtype, z->n, l->lora.rank, 0);
	if (l->lora.dropout > 0 && !l->evaluates)
		add(rows, B_ADAPTER_INPUT, z->dtype, z->n, p4d_framework__widest_adapter(l), 0);
	if (p4d_stores_nf4(l))
		add(rows, B_DEQUANTIZED, z->dtype, p4d_framework__largest_matrix(rows, z), 0, 0);
}

static void add_attention(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const uint64_t forward = p4d_framework__attention_workspace(rows, z, false),
		       backward = p4d_framework__attention_workspace(rows, z, true);

	if (forward)
		add(rows, B_FORWARD_WORKSPACE, P4D_DT_BYTES, forward, 0, 0);
	if (backward)
		add(rows, B_BACKWARD_WORKSPACE, P4D_DT_BYTES, backward, 0, 0);
	add(rows, B_ROW_SUMS, P4D_DT_FP32, z->heads, z->n, 0);
	/* The cpu device, the ring and slices sum gradients in fp32 and then round them. If activations are
	 * fp32, the sum is already the gradient of qkv. */
	const bool in_parts = rows->layout->cp > 1 || rows->layout->slices > 1;
	if ((!p4d_on_gpu(rows->layout->device) || in_parts) && z->dtype != P4D_DT_FP32)
		add(rows, B_QKV_SUMS, P4D_DT_FP32, z->n, z->columns, 0);
}

/*
 * Buffers for keys and values of other ranks. Ring: received and sent ones, and the partial output to merge;
 * in the backward pass also their gradients. All-gather: keys and values of all ranks; in the backward pass
 * their gradients.
 */
static void add_context(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const uint64_t cp = rows->layout->cp;

	if (cp == 1)
		return;
	if (rows->layout->cp_comm == P4D_CP_ALL_GATHER) {
		add(rows, B_GATHERED_KEYS_VALUES, z->dtype, cp, z->n, 2 * z->kv);
		add(rows, B_GATHERED_BACK_KEYS_VALUES, z->dtype, cp, z->n, 2 * z->kv);
		add(rows, B_GATHERED_BACK_GRADIENTS, P4D_DT_FP32, cp, z->n, 2 * z->kv);
		return;
	}
	add(rows, B_RING_KEYS_VALUES, z->dtype, 2, z->n, 2 * z->kv);
	add(rows, B_RING_OUTPUT, P4D_DT_FP32, z->n, z->q, 0);
	add(rows, B_RING_LSE, P4D_DT_FP32, z->heads, z->n, 0);
	add(rows, B_RING_BACK_KEYS_VALUES, z->dtype, 2, z->n, 2 * z->kv);
	/* three copies: gradients that are sent, received, and computed */
	add(rows, B_RING_BACK_GRADIENTS, P4D_DT_FP32, 3, z->n, 2 * z->kv);
}

/* Adds buffers that only slices need: keys and values of whole sequences, for all layers. */
static void add_slices(p4d_rows *rows, const p4d_rank_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t tokens = p4d_times(rows, l->seq_len, l->micro_batch);

	if (l->slices == 1)
		return;
	add_copies(rows, B_SLICE_KEYS_VALUES, z->dtype,
		   p4d_times(rows, rows->plan->slots.sequences, rows->slot_layers), tokens, 2 * z->kv);
	if (!l->evaluates)
		add_copies(rows, B_SLICE_GRADIENTS, P4D_DT_FP32, rows->slot_layers, tokens, 2 * z->kv);
}

static void add_fp8(p4d_rows *rows)
{
	const p4d_fp8_room room = p4d_framework__fp8_room(rows);

	add(rows, B_FP8_LEFT, P4D_DT_BYTES, room.left.codes, 0, 0);
	add(rows, B_FP8_LEFT_SCALES, P4D_DT_BYTES, room.left.scales, 0, 0);
	add(rows, B_FP8_RIGHT, P4D_DT_BYTES, room.right.codes, 0, 0);
	add(rows, B_FP8_RIGHT_SCALES, P4D_DT_BYTES, room.right.scales, 0, 0);
	if (rows->layout->evaluates)
		return;
	add(rows, B_FP8_TURNED, P4D_DT_BYTES, room.turned.codes, 0, 0);
	add(rows, B_FP8_TURNED_SCALES, P4D_DT_BYTES, room.turned.scales, 0, 0);
	const uint64_t weights = p4d_framework__fp8_weights(rows->layout);
	if (weights)
		add(rows, B_FP8_WEIGHTS, P4D_DT_BYTES, rows->layout->stage_layers[rows->stage], weights, 0);
}

static void write_rows(p4d_rows *rows)
{
	const p4d_rank_sizes z = p4d_rank_sizes_of(rows->layout);
	const bool means = rows->layout->norm_tensors > 1;

	add_persistent(rows, &z);
	add_activations(rows, &z, true);
	if (has_loss(rows)) {
		add(rows, B_HEAD_INPUT, z.dtype, z.ns, z.h, 0);
		add(rows, B_HEAD_RSTD, P4D_DT_FP32, means ? 2 : z.ns, means ? z.ns : 0, 0);
	}
	add_activations(rows, &z, false);
	add_head(rows, &z);
	add_working_set(rows, &z);
	add_attention(rows, &z);
	add_context(rows, &z);
	add_slices(rows, &z);
	if (rows->layout->precision == P4D_FP8)
		add_fp8(rows);
}

/* ---- the entry ---- */

static const p4d_framework_choice defaults[] = {{P4D_FP8_RECIPE, P4D_FP8_BLOCKWISE}, {P4D_OPTIONS, 0}};

static const char *const script_words[] = {"p4d-train", NULL};

const p4d_framework p4d_framework__p4d = {
    .name = "p4d",
    .program = "p4d-train",
    .plans_transfers = true,
    .names_layers = true,
    .passes_to = P4D_FRAMEWORK_MEGATRON,
    .check_model = p4d_framework__p4d_model,
    .check_layout = p4d_framework__p4d_layout,
    .schedules = UINT_MAX,
    .no_a2a = "needs Megatron-LM; p4d-train exchanges keys and values",
    .defaults = defaults,
    .recomputes = ~(1u << P4D_RECOMPUTE_MOE),
    .no_recompute = "needs Megatron-LM",
    .chooses_cp_comm = true,
    .fuses_cross_entropy = true,
    .vocab_multiple = 1,
    .write_rows = write_rows,
    .groups_bytes = p4d_framework__p4d_groups_bytes,
    .alignment = P4D_ARENA_ALIGNMENT,
    .allocates_plan = true,
    /* evaluation runs training's forward passes in training's buffers */
    .evaluation = AT(EMBED) | AT(FORWARD) | AT(HEAD),
    .checkpoints_are_modelled = true,
    .limit = 0.97, /* may be high, because only the CUDA context and NCCL are estimated */
    .script_words = script_words,
    .task_per_gpu = true,
    .takes_job_key = true,
    .rounds_moments = true,
    .cost = {.step_seconds = 1e-3,
	     .collective_blocks = 8, /* runtime/model/parallel.c */
	     .overlaps_pipeline = true,
	     .overlaps_halves = true,
	     .chunks_head = true,
	     .sums_keys_in_fp32 = true,
	     .attends_alone = true,
	     .orthogonalizes = true,
	     .casts_each_product = true,
	     .freezes_weights = true},
};
