/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unfused attention in Megatron-LM, as Transformer Engine runs it (backends.py, UnfusedDotProductAttention):
 * a matmul stores the scores of all query-key pairs; then follow softmax, dropout and another matmul.
 */
#include "framework/megatron_memory.h"

/* Whether Transformer Engine's softmax kernel supports the shape (softmax.py, is_kernel_available). */
static bool has_kernel(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const uint64_t length = l->seq_len, sequences = z->tokens * l->cp / length;

	return l->precision != P4D_FP32 && length > 16 && length < 16384 && length % 8 == 0 &&
	       l->heads / l->tp * sequences % 4 == 0;
}

/*
 * Transformer Engine's softmax kernel replaces the gradient in place. For other shapes, PyTorch's softmax
 * runs in fp32, and 16-bit scores are cast to fp32 and back. The backward pass of PyTorch's softmax holds the
 * softmax, the gradients of its result and of its input, and the product of result and gradient (SoftMax.cu).
 */
p4d_megatron_scores p4d_megatron__scores(const p4d_layout *l, const p4d_megatron_sizes *z, bool dropout)
{
	enum { SAVED, FORWARD, BACKWARD, FIGURES };
	static const unsigned char bytes[][2][FIGURES] = {/* rows: without dropout, with dropout */
							  {{2, 2, 2}, {5, 2, 2}},
							  {{6, 6, 10}, {7, 5, 9}},
							  {{4, 4, 12}, {9, 4, 7}}};
	const bool kernel = has_kernel(l, z);
	const unsigned char *pair = bytes[kernel ? 0 : l->precision == P4D_FP32 ? 2 : 1][dropout];

	return (p4d_megatron_scores){.saved = pair[SAVED],
				     .forward = pair[FORWARD],
				     .backward = pair[BACKWARD],
				     .pairs = (p4d_wide)(l->heads / l->tp) * z->tokens * l->seq_len,
				     .mask = (p4d_wide)l->seq_len * l->seq_len,
				     .kernel = kernel};
}

/* Number of elements of a tensor with this many bytes. */
static p4d_wide elements(const p4d_layout *l, p4d_wide bytes)
{
	const unsigned element = l->precision == P4D_FP32 ? 4 : 2;

	return (bytes + element - 1) / element;
}

/* Columns of keys and values in the matmuls, where they are copied for all query heads. */
static p4d_wide repeated(const p4d_megatron_sizes *z)
{
	return 2 * z->A;
}

/*
 * Memory on top of what the layer saves. Forward: scores and their mask, the first matmul's result with
 * queries, keys and values, the result before its heads are reordered and, with grouped queries, the copies
 * from which keys and values are repeated. Backward: gradients of scores, of the result and of values.
 */
static p4d_wide forward_beside(const p4d_layout *l, const p4d_megatron_sizes *z, bool product)
{
	const p4d_megatron_scores s = p4d_megatron__scores(l, z, l->megatron.attention_dropout);
	const bool grouped = z->G < z->A;

	return elements(l, s.forward * s.pairs + s.mask) +
	       (p4d_wide)z->tokens * (z->A + (product ? z->A + 2 * z->G : 0) + (grouped ? 2 * z->G : 0) +
				      (grouped && product ? z->A : 0));
}

static p4d_wide backward_beside(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_megatron_scores s = p4d_megatron__scores(l, z, l->megatron.attention_dropout);

	return elements(l, s.backward * s.pairs) + (p4d_wide)z->tokens * 2 * z->A;
}

/* Tensors that attention saves between the matmul before it and the matmul after it. */
static p4d_wide saved_by_matmuls(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_megatron_scores s = p4d_megatron__scores(l, z, l->megatron.attention_dropout);

	return elements(l, s.saved * s.pairs + (s.kernel ? 0 : s.mask)) + (p4d_wide)z->tokens * repeated(z);
}

p4d_wide p4d_megatron__unfused_forward(const p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;

	if (l->flash_attention)
		return 0;
	if (l->recompute == P4D_RECOMPUTE_SELECTIVE)
		return p4d_beyond(saved_by_matmuls(l, z) + forward_beside(l, z, false), z->ffn);
	return p4d_beyond(forward_beside(l, z, true), z->ffn);
}

p4d_wide p4d_megatron__unfused_backward(const p4d_rows *rows, const p4d_megatron_again *r,
					const p4d_megatron_sizes *z, uint64_t inputs)
{
	const p4d_layout *l = rows->layout;
	const bool layers = r->groups && r->layers, again = layers || l->recompute == P4D_RECOMPUTE_SELECTIVE;
	const p4d_wide narrow = (p4d_wide)z->own * z->h;
	p4d_wide held = backward_beside(l, z);

	if (l->flash_attention)
		return 0;
	if (again)
		held = P4D_MOST(held, forward_beside(l, z, layers));
	if (layers)
		held += z->again;
	else if (again)
		held += saved_by_matmuls(l, z) + (p4d_wide)z->tokens * z->A;
	return p4d_beyond(held, z->ffn + (layers ? narrow : 0)) + (1 + inputs) * narrow;
}
