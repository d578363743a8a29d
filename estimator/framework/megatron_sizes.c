/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of elements that a layer of Megatron-LM has on one rank. */
#include "framework/megatron_memory.h"

p4d_megatron_sizes p4d_framework__megatron_sizes(const p4d_layout *l, uint64_t micro_batch)
{
	p4d_megatron_sizes z = {
	    .tokens = l->seq_len / l->cp * micro_batch, .h = l->hidden, .gathers = l->sequence_parallel};

	z.own = z.gathers ? z.tokens / l->tp : z.tokens;
	z.A = l->heads / l->tp * l->head_dim;
	z.G = p4d_rank_kv_heads(l) * l->head_dim;
	z.F = l->ffn / l->tp;
	z.up = (l->glu ? 2 : 1) * z.F;
	/* without fusion, the activated gate and the other half are tensors of their own, in addition to
	 * their product */
	z.product = (l->glu && !l->fused_swiglu ? 3 : 1) * z.F;
	z.norm = z.h;
	/* a2a: the output before and after heads are exchanged back. all-gather: the outputs of both halves,
	 * and the whole output. */
	z.outputs =
	    (l->cp_comm == P4D_CP_P2P && l->megatron.cp_heads == 1) || p4d_megatron__fp8_saves_output(l) ? 1
													 : 2;
	/* the last F of these columns are kept in FP8, and both halves in 16 bits */
	if (p4d_megatron__fp8(l)) {
		z.product -= z.F - (p4d_megatron__fp8_bytes(l, z.F) + 1) / 2;
		z.norm = (p4d_megatron__fp8_bytes(l, z.h) + 1) / 2;
	}
	z.ffn = (p4d_wide)z.own * z.h;
	if (!p4d_megatron__again(l, P4D_MODULE_MLP))
		z.ffn += (p4d_wide)z.tokens * (z.up + z.product) + (p4d_wide)z.own * z.norm;
	return z;
}
