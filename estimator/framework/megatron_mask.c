/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM's attention mask. Its data loader makes a mask of micro-batch x 1 x seq-len x seq-len bytes
 * (bool), unless it has --no-create-attention-mask-in-dataloader. The mask goes to the GPUs of the first and
 * the last stage, for the chunks with the embedding and the loss. A context-parallel rank then keeps the rows
 * of its tokens (get_batch_on_this_cp_rank). Attention kernels with a causal mask do not read it. But the
 * caller of the model refers to it until the forward pass ends, and checkpoints of layers or of core
 * attention save it for the backward pass.
 */
#include "framework/megatron_memory.h"

#define IN_PASSES \
	(1u << P4D_AT_FORWARD | 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD | 1u << P4D_AT_BACKWARD_FFN | \
	 1u << P4D_AT_BACKWARD_ATTENTION | 1u << P4D_AT_BATCH)
#define IN_FORWARD (1u << P4D_AT_FORWARD | 1u << P4D_AT_LOSS)
#define IN_EVALUATION \
	(1u << P4D_AT_EVALUATION_LAYER | 1u << P4D_AT_EVALUATION_HEAD | 1u << P4D_AT_EVALUATION_BATCH)

/* The chunk of this stage that uses the mask: it has the embedding or the loss. */
static uint32_t chunk_of(const p4d_rows *rows)
{
	return rows->first ? 0 : (uint32_t)rows->layout->vpp - 1;
}

/* Whether the backward pass needs the mask. */
static bool is_kept(const p4d_rows *rows, const p4d_megatron_again *r)
{
	const p4d_layout *l = rows->layout;

	if (l->recompute == P4D_RECOMPUTE_FULL)
		return r->groups && p4d_chunk_layers(l, rows->stage, chunk_of(rows));
	return !l->pattern_length && p4d_megatron__again(l, P4D_MODULE_CORE_ATTENTION);
}

/* Maximum number of that chunk's micro-batches that are still to run backward. */
static uint64_t in_flight(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	uint16_t chunks[P4D_MAX_UNEVEN_CHUNKS] = {0};

	if (l->vpp == 1 || l->pp * l->vpp > P4D_MAX_UNEVEN_CHUNKS)
		return rows->plan->slots.activation;
	chunks[chunk_of(rows) * l->pp + rows->stage] = 1;
	return p4d_schedule_layers_alive(&rows->schedule, rows->stage, chunks);
}

static void add(p4d_rows *rows, unsigned points, const char *name, p4d_wide bytes)
{
	rows->overflow = rows->overflow || bytes >> 62;
	if (bytes && !rows->overflow)
		p4d_row_at(rows, points, name, "cp", P4D_PART_WORKING_SET, P4D_DT_BYTES, (uint64_t)bytes, 0,
			   0);
}

/* Bytes of the rows of the mask that a rank keeps, for this many sequences. */
static p4d_wide slice(const p4d_layout *l, uint64_t micro_batch)
{
	return (p4d_wide)micro_batch * (l->seq_len / l->cp) * l->seq_len;
}

void p4d_megatron__mask(p4d_rows *rows, const p4d_megatron_again *r, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide mask = slice(l, l->micro_batch), evaluated = slice(l, l->eval_micro_batch);
	const bool kept = is_kept(rows, r), ring = l->cp > 1;
	const unsigned element = p4d_dtype_of(l) == P4D_DT_FP32 ? 4 : 2;
	const p4d_wide inputs = (p4d_wide)p4d_megatron__inputs_held(rows) * z->own * z->h * element;
	/* when the mask is made, the micro-batch's slot is still empty, and its bytes are free */
	const p4d_wide room = p4d_megatron__slot_bytes(rows, z);
	const p4d_wide whole = (ring ? mask * l->cp : 0) + (kept ? 0 : mask) + inputs;

	if (!l->megatron.attention_mask || !(rows->first || rows->last))
		return;
	if (kept)
		add(rows, IN_PASSES, "mask", mask * in_flight(rows));
	else
		add(rows, IN_FORWARD, "mask", mask);
	if (kept)
		add(rows, 1u << P4D_AT_EMBED, "mask.others", mask * (in_flight(rows) - 1));
	add(rows, 1u << P4D_AT_BATCH, "mask.whole", whole > room ? whole - room : 0);
	add(rows, IN_EVALUATION, "evaluation.mask", evaluated);
	add(rows, 1u << P4D_AT_EVALUATION_BATCH, "evaluation.whole_mask", ring ? evaluated * l->cp : 0);
}
