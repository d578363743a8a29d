/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM with Transformer Engine: memory of PyTorch's allocator on one rank. Derived from the code of
 * Megatron-Core 0.16.1 and Transformer Engine 2.11, and compared with what that code allocates (tests/parity,
 * tests/data/megatron_memory.csv) and with published measurements (tests/data/measured_memory.csv).
 * Activation counts follow Korthikanti et al. (arXiv 2205.05198).
 *
 * Slots hold what layers save. The rows of a live point are memory in addition to the slots: for a backward
 * pass its peak, less what the layer has freed by then.
 */
#include "framework/megatron_memory.h"

/* ---- buffers that always exist ---- */

/*
 * Whether the optimizer's kernel reads gradients and parameters as they are (optimizer_config.py,
 * use_precision_aware_optimizer_no_fp8_or_ds_fp8). With FP8, it does so only with delayed scales; it treats
 * FP4 runs as such runs.
 */
static bool reads_as_they_are(const p4d_layout *l)
{
	return p4d_precise_optimizer(l) && (!p4d_megatron__fp8(l) || l->fp8_recipe == P4D_FP8_DELAYED ||
					    l->fp8_recipe == P4D_FP8_NVFP4 || l->megatron.half_master);
}

/*
 * Type of the fp32 master copy. The precision-aware optimizer keeps only the bits of it that a bf16 parameter
 * lacks.
 */
static p4d_dtype master_type(const p4d_layout *l)
{
	const bool remainder = l->half_moments && reads_as_they_are(l);

	return l->megatron.half_master || (remainder && p4d_dtype_of(l) == P4D_DT_BF16) ? p4d_dtype_of(l)
											: P4D_DT_FP32;
}

/*
 * Parameters in bf16 and, from the first step on, copies of weights in FP8: a module keeps the copy that it
 * casts for the first micro-batch (module/base.py, get_weight_workspace). With fp8-param-gather the copies
 * are the parameters.
 */
static void add_parameters(p4d_rows *rows, uint64_t elements)
{
	const p4d_layout *l = rows->layout;
	const p4d_wide weights = p4d_megatron__fp8_weights(rows);
	const uint64_t cast = weights < elements ? (uint64_t)weights : elements;
	const uint64_t bytes =
	    p4d_times(rows, p4d_megatron__fp8_copies(rows), p4d_megatron__fp8_bytes(l, cast));

	p4d_row(rows, "parameters", "tp pp", P4D_PART_PARAMS, p4d_dtype_of(l),
		elements - (l->fp8_params ? cast : 0), 0, 0);
	/* With MXFP8, 16-bit parameters are gathered in the buffer of the gradients. Parameters without a
	 * cast exist next to their gathered form (param_and_grad_buffer.py,
	 * reuse_grad_buf_for_mxfp8_param_ag). */
	if (l->fp8_params && l->fp8_recipe == P4D_FP8_MXFP8)
		p4d_row(rows, "parameters.gathered", "tp pp", P4D_PART_PARAMS, p4d_dtype_of(l),
			elements - cast, 0, 0);
	if (cast)
		p4d_row(rows, "parameters.fp8", "tp pp", P4D_PART_PARAMS, P4D_DT_BYTES, bytes, 0, 0)
		    ->at_first_step = !l->fp8_params;
}

/*
 * Transformer Engine's Adam copies all 16-bit states to fp32 together, updates the copies
 * (optimizers/fused_adam.py, get_unscaled_state), and then casts them back one by one. Since 2.14 its kernel
 * updates two bf16 moments directly (fuse_unscale). Parameters in FP8 are sharded separately from the others.
 */
static void add_unscaled(p4d_rows *rows, uint64_t elements, uint64_t group)
{
	const p4d_layout *l = rows->layout;
	const p4d_megatron_sizes z = p4d_framework__megatron_sizes(l, 1);
	const unsigned copies = 2 * (l->half_moments && l->megatron.adam_copies) +
				(l->megatron.half_master && reads_as_they_are(l));
	const p4d_wide cast = l->fp8_params ? p4d_megatron__fp8_weights(rows) : 0;
	const bool table = rows->first || rows->last;
	const p4d_wide largest =
	    table ? (p4d_wide)((l->vocab + l->tp - 1) / l->tp) * z.h : (p4d_wide)z.h * z.up;
	const p4d_wide part = (table ? elements - cast : cast ? cast : elements) / p4d_optimizer_shards(l);

	if (!copies)
		return;
	p4d_row_at(rows, 1u << P4D_AT_OPTIMIZER, "optimizer.copies", "tp pp dp cp", P4D_PART_OPTIMIZER,
		   P4D_DT_FP32, copies, group, 0);
	if (!l->experts) /* with experts, each matrix is small compared with its group, so this copy is not
			    counted */
		p4d_megatron_held(rows, P4D_AT_OPTIMIZER, "optimizer.cast", "tp pp dp cp", P4D_PART_OPTIMIZER,
				  largest < part ? largest : part);
}

/*
 * After the update with FP8, a rank casts its whole shard of the weights to 16 bits before they are quantized
 * (tensor/utils.py, cast_master_weights_to_fp8). Copies of moments are freed by then. With MXFP8 it gathers
 * 16-bit weights instead.
 */
static void add_cast(p4d_rows *rows, uint64_t group)
{
	const p4d_layout *l = rows->layout;
	const unsigned copies = l->half_moments && l->megatron.adam_copies ? 2 : 0;
	const p4d_wide cast = p4d_div_up(p4d_megatron__fp8_weights(rows), p4d_optimizer_shards(l));

	if (l->fp8_params && l->fp8_recipe != P4D_FP8_MXFP8 && cast > 2 * copies * (p4d_wide)group)
		p4d_megatron_held(rows, P4D_AT_OPTIMIZER, "optimizer.cast_weights", "tp pp dp cp",
				  P4D_PART_OPTIMIZER, cast - 2 * copies * (p4d_wide)group);
}

/* Types of the states. Every rank holds params and grads; the distributed optimizer shards the others. */
static void add_states(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	p4d_wide n = p4d_parameters_of_stage(l, &rows->schedule, rows->stage);
	p4d_wide share = p4d_div_up(n, p4d_optimizer_shards(l));
	const p4d_wide experts = p4d_parameters_of_experts(l, rows->stage);
	const bool half_grads = l->grad_dtype != P4D_GRAD_FP32;
	const p4d_wide experts_share = p4d_div_up(experts, p4d_expert_shards(l));

	if (experts) { /* experts' optimizer states are sharded over fewer ranks */
		n += experts;
		share += experts_share;
	}
	rows->overflow = rows->overflow || n >> 62;
	uint64_t N = rows->overflow ? 0 : (uint64_t)n, shard = rows->overflow ? 0 : (uint64_t)share;
	add_parameters(rows, N);
	p4d_row(rows, "gradients", "tp pp", P4D_PART_GRADS, half_grads ? p4d_dtype_of(l) : P4D_DT_FP32, N, 0,
		0);
	p4d_rows_of_states(rows, P4D_STATE_MASTER, P4D_STATE_MASTER + 1, master_type(l), shard);
	const p4d_wide group = share - experts_share > experts_share ? share - experts_share : experts_share;
	add_unscaled(rows, N, rows->overflow ? 0 : (uint64_t)group);
	add_cast(rows, rows->overflow ? 0 : (uint64_t)group);
	/* The update reads fp32 gradients. It makes an fp32 copy of others, except in the precision-aware
	 * optimizer. The copies stay until the next step's zero_grad(), so also during evaluation. */
	if (half_grads && !reads_as_they_are(l))
		p4d_row_at(rows, P4D_FREE_OF_SLOTS, "optimizer.gradients", "tp pp dp cp", P4D_PART_OPTIMIZER,
			   P4D_DT_FP32, shard, 0, 0);
	/* PyTorch's optimizers allocate all states except the master copy at their first step */
	for (p4d_tensor *row = p4d_rows_of_states(rows, P4D_STATE_MASTER + 1, P4D_MOST_STATES,
						  l->half_moments ? P4D_DT_BF16 : P4D_DT_FP32, shard);
	     row < &rows->plan->tensor[rows->plan->count]; row++)
		row->at_first_step = true;
}

/*
 * Workspaces of cuBLAS: for Transformer Engine's matmuls (cpp_extensions/gemm.py), and for PyTorch's matmuls
 * in the head, in routers of experts and in unfused attention (CUDABlas.cpp). Cosines and sines of RoPE
 * (RotaryEmbedding caches them per chunk). With sequence parallelism the head's input is gathered into its
 * own buffer (GlobalMemoryBuffer).
 */
static void add_persistent(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool before_hopper = rows->gpu && rows->gpu->sm && rows->gpu->sm < 90;

	const unsigned first = rows->plan->count;

	p4d_row(rows, "workspace", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
		before_hopper ? 4 << 20 : (32 << 20) + 1024, 0, 0);
	if (rows->last || p4d_parameters_expert_layers_of_stage(l, rows->stage) || !l->flash_attention)
		p4d_row(rows, "workspace.torch", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
			before_hopper ? (8 << 20) + (1 << 17) : 32 << 20, 0, 0);
	if (!l->positions && l->architecture->positions != P4D_NO_POSITIONS)
		p4d_row(rows, "rope", "cp", P4D_PART_LIBRARIES, P4D_DT_FP32, l->vpp, l->seq_len / l->cp,
			l->head_dim);
	if (!l->flash_attention && !p4d_megatron__scores(l, z, l->megatron.attention_dropout).kernel)
		p4d_row(rows, "attention.causal_mask", "", P4D_PART_ATTENTION, P4D_DT_BYTES, l->seq_len,
			l->seq_len, 0);
	p4d_megatron__libraries(rows, z);
	if (rows->last && z->gathers)
		p4d_row(rows, "head.gathered", "cp", P4D_PART_LOGITS, p4d_dtype_of(l), z->tokens, z->h, 0);
	for (unsigned i = first; i < rows->plan->count; i++)
		rows->plan->tensor[i].at_first_step = true;
}

/* ---- what layers save ---- */

static p4d_megatron_again recomputed(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const uint64_t all = rows->slot_layers,
		       n = l->megatron.recompute_layers < all ? l->megatron.recompute_layers : all;

	if (l->recompute != P4D_RECOMPUTE_FULL)
		return (p4d_megatron_again){0, 0, all};
	if (l->megatron.recompute_block) /* the chunk's first layers are recomputed; when the backward pass
					    reaches them, the other layers' tensors are already freed */
		return (p4d_megatron_again){n, n == all, all - n};
	return (p4d_megatron_again){n ? (all + n - 1) / n : 0, n, 0};
}

void p4d_framework__megatron_rows(p4d_rows *rows)
{
	p4d_megatron_sizes z = p4d_framework__megatron_sizes(rows->layout, rows->layout->micro_batch);
	const p4d_megatron_again r = recomputed(rows);

	p4d_megatron__size_ffn(rows, &z);
	p4d_megatron__size_experts(rows, &z);
	if (rows->layout->pattern_length)
		p4d_megatron__size_states(rows, &z);
	add_states(rows);
	add_persistent(rows, &z);
	if (rows->layout->pattern_length)
		p4d_megatron__state_layers(rows, &z);
	else
		p4d_megatron__layers(rows, &r, &z);
	p4d_megatron__graphs(rows, &z);
	p4d_framework__megatron_passes(rows, &r, &z);
}
