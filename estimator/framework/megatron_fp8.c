/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM in FP8, derived from the code of Transformer Engine 2.11 (pytorch/module/linear.py,
 * layernorm_linear.py, tensor/) and Megatron-Core 0.16.1 (fp8_utils.py, distributed/param_and_grad_buffer.py,
 * optimizer/), and compared with what that code allocates (tests/data/megatron_fp8.csv). Its quantizers are
 * compiled code, so tests/parity/te_quantizers.py allocates what they would.
 */
#include "framework/megatron_memory.h"
#include "request/fp8.h"

bool p4d_megatron__fp8(const p4d_layout *l)
{
	return l->precision == P4D_FP8;
}

static bool by_block(const p4d_layout *l)
{
	return p4d_fp8_recipes[l->fp8_recipe].block > 0;
}

bool p4d_megatron__fp8_saves_output(const p4d_layout *l)
{
	return p4d_megatron__fp8(l) && l->fp8_recipe == P4D_FP8_DELAYED;
}

/* Bytes including block scales (tensor/nvfp4_tensor.py, get_scale_shape, and similar files). */
static p4d_wide bytes_of(const p4d_layout *l, p4d_wide elements)
{
	const p4d_fp8_recipe *recipe = &p4d_fp8_recipes[l->fp8_recipe];

	return elements / (8 / recipe->bits) +
	       (by_block(l) ? elements / (recipe->block / recipe->scale_bytes) : 0);
}

uint64_t p4d_megatron__fp8_bytes(const p4d_layout *l, uint64_t elements)
{
	return (uint64_t)bytes_of(l, elements);
}

p4d_wide p4d_megatron__fp8_kept(const p4d_layout *l, p4d_wide elements)
{
	return p4d_megatron__fp8(l) ? (bytes_of(l, elements) + 1) / 2 : elements;
}

/* Number of FP8 copies of a weight (Transformer Engine's utils.py, is_non_tn_fp8_gemm_supported). */
unsigned p4d_megatron__fp8_copies(const p4d_rows *rows)
{
	const int sm = rows->gpu ? rows->gpu->sm : 0;

	return !by_block(rows->layout) && sm >= 100 && sm < 120 ? 1 : 2;
}

unsigned p4d_megatron__fp8_gathered(const p4d_rows *rows)
{
	const int recipe = rows->layout->fp8_recipe;

	return recipe == P4D_FP8_MXFP8 || recipe == P4D_FP8_NVFP4 ? 1 : p4d_megatron__fp8_copies(rows);
}

/*
 * Weights of latent attention in Megatron-Core: from the hidden state down to the latent vectors, from these
 * up to the heads, and of the output.
 */
static p4d_wide attention_weights(const p4d_layout *l, const p4d_megatron_sizes *z)
{
	const p4d_wide heads = l->heads / l->tp, query = heads * (l->head_dim + l->rope_dim);

	if (!l->kv_rank)
		return (p4d_wide)z->h * 2 * (z->A + l->kv_heads * l->head_dim / l->tp);
	return (l->q_rank ? (p4d_wide)l->q_rank * (z->h + query) : z->h * query) +
	       (p4d_wide)z->h * (l->kv_rank + l->rope_dim) + l->kv_rank * heads * (l->head_dim + l->v_dim) +
	       (p4d_wide)z->h * heads * l->v_dim;
}

p4d_wide p4d_megatron__fp8_weights(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_megatron_sizes z = p4d_framework__megatron_sizes(l, 1);
	const p4d_wide layers = l->stage_layers[rows->stage],
		       with = p4d_parameters_expert_layers_of_stage(l, rows->stage);

	if (!p4d_megatron__fp8(l))
		return 0;
	return layers * attention_weights(l, &z) + (layers - with) * z.h * (z.up + z.F) +
	       with * z.h * (l->glu ? 3 : 2) * (l->shared_ffn / l->tp) +
	       p4d_parameters_of_experts(l, rows->stage);
}
