/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM: memory that the first step allocates and that stays: dummy gradients and, for layers with
 * experts, buffers for the exchange of tokens and workspaces. Sources as in megatron_experts.c.
 */
#include "framework/megatron_memory.h"
#include "request/routing.h"

/*
 * All-gather writes into a permanent buffer, which also serves for the head's input (GlobalMemoryBuffer).
 * DeepEP has buffers of its own, outside PyTorch's allocator (get_buffer of fused_a2a.py; DeepEP's
 * csrc/config.hpp). The NVLink buffer has room for 256 tokens per channel and rank of a node. Each of the two
 * RDMA buffers has room for 128 tokens per channel and node. For each token there is room for 128 experts'
 * numbers and weights, and for 128 scales of the token's data. A channel takes two multiprocessors, so
 * DeepEP's 20 are 10 channels.
 */
static void add_exchange(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	enum {
		CHANNELS = 10,
		NVLINK_TOKENS = 256,
		RDMA_TOKENS = 128,
		NVLINK_RANKS = 8,
		OF_TOKEN = 128 * 16 + 8
	};
	const p4d_layout *l = rows->layout;
	const p4d_routed t = p4d_routed_of(l, z->own);
	const uint64_t ranks = l->ep * l->etp, near = P4D_LEAST(ranks, NVLINK_RANKS),
		       nodes = ranks / NVLINK_RANKS;
	const p4d_wide token = 2 * z->h + OF_TOKEN;
	const p4d_wide head = rows->last && z->gathers ? (p4d_wide)z->tokens * z->h : 0;
	const p4d_wide gathered = t.received * z->h;

	if (l->megatron.dispatcher == P4D_ALL_GATHER && t.exchanged && gathered > head) {
		rows->overflow = rows->overflow || gathered >> 62;
		if (!rows->overflow)
			p4d_row(rows, "experts.gathered", ALONG, P4D_PART_WORKING_SET, p4d_dtype_of(l),
				(uint64_t)(gathered - head), 0, 0);
	}
	if (l->megatron.dispatcher == P4D_DEEPEP)
		p4d_row(rows, "deepep.buffers", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
			(uint64_t)(CHANNELS * token *
				   (near * NVLINK_TOKENS + (nodes > 1 ? 2 * nodes * RDMA_TOKENS : 0))),
			0, 0);
}

/*
 * If gradients are accumulated directly into the main gradient buffer, Transformer Engine returns dummy
 * weight gradients to autograd, one per distinct weight shape.
 */
static void add_weight_grad_buffers(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const uint32_t with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	bool dense = with < l->stage_layers[rows->stage], attends = true;
	p4d_megatron_widths state = {0};
	const uint64_t h = l->hidden, heads = l->heads / l->tp, up = l->glu ? 2 : 1, latent = l->kv_rank;
	const uint64_t query = (l->architecture->gated_attention ? 2 : 1) * heads * l->head_dim;

	if (l->pattern_length) {
		const p4d_layer_counts n = p4d_parameters_layers_of_stage(l, rows->stage);
		dense = p4d_layers_with_feed(&n, P4D_FEED_DENSE);
		attends = p4d_layers_with_mixer(&n, P4D_MIX_ATTENTION);
		if (p4d_layers_with_mixer(&n, P4D_MIX_MAMBA2) + p4d_layers_with_mixer(&n, P4D_MIX_DELTA_NET))
			state = p4d_megatron__widths(l);
	}
	const uint64_t F = dense ? l->ffn / l->tp : 0, E = with ? l->expert_ffn / l->etp : 0,
		       S = with ? l->shared_ffn / l->tp : 0;
	const uint64_t further = p4d_megatron__further(rows) ? h / l->tp : 0;
	const struct {
		const char *name;
		uint64_t rows, columns;
	} shape[] = {
	    {"dummy.qkv", latent || !attends ? 0 : query + 2 * l->kv_heads * l->head_dim / l->tp, h},
	    {"dummy.output", attends ? h : 0, heads * (latent ? l->v_dim : l->head_dim)},
	    {"dummy.up", up * F, h},
	    {"dummy.down", h, F},
	    {"dummy.head", rows->last ? (l->vocab + l->tp - 1) / l->tp : 0, h},
	    {"dummy.state_up", (uint64_t)state.all, h},
	    {"dummy.state_down", h, (uint64_t)state.values},
	    {"dummy.expert_up", up * E, h},
	    {"dummy.expert_down", h, E},
	    {"dummy.shared_up", up * S, h},
	    {"dummy.shared_down", h, S},
	    {"dummy.query_down", l->q_rank, h},
	    {"dummy.query_up", latent ? heads * (l->head_dim + l->rope_dim) : 0, l->q_rank ? l->q_rank : h},
	    {"dummy.key_value_down", latent ? l->kv_rank + l->rope_dim : 0, h},
	    {"dummy.key_value_up", heads * (l->head_dim + l->v_dim), l->kv_rank},
	    {"dummy.further", further, 2 * h},
	};

	for (size_t i = 0; l->megatron.te_wgrad && i < sizeof(shape) / sizeof(shape[0]); i++) {
		bool seen = !shape[i].rows || !shape[i].columns;
		for (size_t j = 0; j < i; j++)
			seen =
			    seen || (shape[j].rows == shape[i].rows && shape[j].columns == shape[i].columns);
		if (!seen)
			p4d_row(rows, shape[i].name, "tp", P4D_PART_WEIGHT_GRAD, p4d_dtype_of(l),
				shape[i].rows, shape[i].columns, 0);
	}
}

/*
 * Rows of everything that libraries allocate once. Grouped matmuls run on four streams, each with its own
 * workspace (get_cublas_workspace).
 */
void p4d_megatron__libraries(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const bool before_hopper = rows->gpu && rows->gpu->sm && rows->gpu->sm < 90;

	add_weight_grad_buffers(rows);
	if (!p4d_parameters_expert_layers_of_stage(rows->layout, rows->stage))
		return;
	add_exchange(rows, z);
	p4d_row(rows, "workspace.experts", "", P4D_PART_LIBRARIES, P4D_DT_BYTES, 4,
		before_hopper ? 4 << 20 : (32 << 20) + 1024, 0);
}
