/* SPDX-License-Identifier: Apache-2.0 */
/* The head of torchtitan's models, and the loss (components/loss.py), eager or compiled. */
#include "framework/torchtitan.h"

#define ALONG "sp cp"
#define ACROSS "tp cp"

/*
 * Rows of the head: while the loss is computed, and while its gradient is computed. If the loss is chunked,
 * gradients of chunks are summed in the type of the reduction.
 */
static void add_head(p4d_rows *rows, const p4d_torchtitan_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide table = z->table * z->element;

	if (!z->together)
		p4d_torch_held(rows, 1u << P4D_AT_LOSS | (l->torch.chunked_loss ? 1u << P4D_AT_HEAD : 0),
			       "gathered.head", "tp", P4D_PART_WORKING_SET, table);
	if (l->torch.chunked_loss) {
		p4d_torch_held(rows, 1u << P4D_AT_LOSS, "head.sum", "tp", P4D_PART_WORKING_SET,
			       z->whole_table * z->reduced);
		p4d_torch_held(rows, 1u << P4D_AT_HEAD, "head.sums", "tp", P4D_PART_WORKING_SET,
			       2 * z->whole_table * z->reduced + z->whole_table * z->element);
	} else /* at this time FSDP gathers the last layer and no longer the head */
		p4d_torch_held(rows, 1u << P4D_AT_HEAD, "head.gradient", "tp", P4D_PART_WORKING_SET,
			       z->gathered + z->whole_table * z->element +
				   (z->together ? 0 : z->table * z->reduced));
}

/*
 * The head of a pipeline whose loss is computed in chunks. It holds its gradient, summed over the chunks. It
 * also holds the copy from which FSDP reduces the gradient of the previous micro-batch: FSDP frees that copy
 * when the next unit reduces, and no other unit does so before the step ends. The head's gradient and the
 * result of the second micro-batch's reduction each have the size of a shard. The last norm has no gradient
 * before this reduction; its gradient then becomes a view of the result. With HSDP, the sum over replicas has
 * that size as well. The schedule still refers to the stage's output, which is the input of the loss.
 */
static void add_chunked_head(p4d_rows *rows, const p4d_torchtitan_sizes *z)
{
	enum { BEFORE = 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD };
	const p4d_layout *l = rows->layout;
	const p4d_wide table = z->table * z->element, head = z->table * z->reduced;
	const uint64_t most = z->shards < l->dp * l->cp ? 3 : 2, passes = l->micro_batches;
	const p4d_wide shard = head / z->shards, earlier = passes > 1 ? head : 0;

	p4d_torch_held(rows, BEFORE, "head.sum", "tp", P4D_PART_WORKING_SET,
		       head + earlier + (passes - 1 < most ? passes - 1 : most) * shard);
	p4d_torch_held(rows, 1u << P4D_AT_HEAD, "head.gradient", "tp", P4D_PART_WORKING_SET, head + table);
	p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING & ~(unsigned)BEFORE, "head.reduced", "tp",
		       P4D_PART_WORKING_SET, head + (passes < most ? passes : most) * shard);
	p4d_torch_held(rows, P4D_TORCHTITAN_TRAINING & ~(unsigned)BEFORE, "output", ALONG, P4D_PART_STAGING,
		       (p4d_wide)z->tokens * z->h * z->element);
}

/*
 * The loss, with the hidden state before and after the last norm. Unchunked: logits in fp32, their
 * log-softmax and its gradient; a sharded vocabulary needs one more tensor. In chunks: the same tensors for
 * an eighth of the sequence, the logits of this eighth in the type of activations, the fp32 sum of the hidden
 * state's gradients and, if a micro-batch has several sequences, copies of the chunks.
 */
static void write_loss(p4d_rows *rows, const p4d_torchtitan_sizes *z)
{
	enum { CHUNKS = 8 };
	const p4d_layout *l = rows->layout;
	const p4d_wide own = (p4d_wide)z->own * z->h, wide = (p4d_wide)z->tokens * z->h;
	const p4d_wide logits = (p4d_wide)z->tokens * z->V;
	/* compiled, one kernel in each direction: logits and their gradient in the type of activations;
	 * with a sharded vocabulary also two tensors in fp32 */
	const p4d_wide both = l->sequence_parallel ? 8 + z->element : 2 * z->element;
	const p4d_wide passes = !l->torch.compile       ? (l->sequence_parallel ? 16 : 12)
				: l->torch.chunked_loss ? both - z->element
							: both;
	p4d_wide hidden = (own + wide) * z->element;

	if (l->torch.chunked_loss)
		hidden += wide * 4 + (l->micro_batch > 1 ? wide * z->element : 0);
	p4d_torch_held(rows, 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD, "loss.hidden", ALONG, P4D_PART_LOGITS,
		       hidden);
	p4d_torch_held(rows, 1u << P4D_AT_LOSS, "loss.logits", ACROSS, P4D_PART_LOGITS,
		       l->torch.chunked_loss ? logits / CHUNKS * (z->element + passes) : logits * passes);
	/* with a chunked loss, the head's gradient is summed over the chunks */
	if (l->torch.chunked_loss)
		p4d_torch_held(rows, 1u << P4D_AT_HEAD, "loss.chunk", ACROSS, P4D_PART_LOGITS,
			       (logits + wide) / CHUNKS * z->element);
}

void p4d_torchtitan__head_rows(p4d_rows *rows, const p4d_torchtitan_sizes *z)
{
	write_loss(rows, z);
	if (rows->layout->pp == 1)
		add_head(rows, z);
	else if (rows->layout->torch.chunked_loss)
		add_chunked_head(rows, z);
}
