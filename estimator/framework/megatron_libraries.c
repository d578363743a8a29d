/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Megatron-LM: memory that the first step allocates for layers with experts or latent attention, and that
 * stays: buffers for the exchange of tokens, workspaces, dummy gradients. Sources as in megatron_experts.c.
 */
#include "framework/megatron_memory.h"
#include "request/routing.h"

/* Number of layers for multi-token prediction on this stage. */
static bool has_further(const p4d_rows *rows)
{
	return rows->last && rows->layout->mtp_layers;
}

/*
 * All-gather writes into a buffer that stays, the same as for the head's input (GlobalMemoryBuffer). DeepEP
 * has buffers of its own, outside PyTorch's allocator (get_buffer of fused_a2a.py; DeepEP's csrc/config.hpp).
 * For NVLink there is one for 256 tokens per channel and rank of a node; for RDMA there are two for 128
 * tokens per channel and node. Each token has room for the numbers of 128 experts, their weights and scales.
 * 20 multiprocessors are 10 channels.
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
 * Grouped matmuls run on four streams, each with its own workspace (get_cublas_workspace). Dummy weight
 * gradients: one for each shape that dense layers do not have.
 */
void p4d_megatron__expert_libraries(p4d_rows *rows, const p4d_megatron_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const uint64_t F = l->experts ? l->expert_ffn / l->etp : 0, S = l->shared_ffn / l->tp, h = l->hidden;
	const uint64_t heads = l->heads / l->tp, up = l->glu ? 2 : 1;
	const bool with = p4d_parameters_expert_layers_of_stage(l, rows->stage);
	const bool before_hopper = rows->gpu && rows->gpu->sm && rows->gpu->sm < 90;
	const struct {
		const char *name;
		uint64_t rows, columns;
	} shape[] = {
	    {"dummy.expert_up", with ? up * F : 0, h},
	    {"dummy.expert_down", h, with ? F : 0},
	    {"dummy.shared_up", with ? up * S : 0, h},
	    {"dummy.shared_down", h, with ? S : 0},
	    {"dummy.query_down", l->q_rank, h},
	    {"dummy.query_up", l->kv_rank ? heads * (l->head_dim + l->rope_dim) : 0,
	     l->q_rank ? l->q_rank : h},
	    {"dummy.key_value_down", l->kv_rank ? l->kv_rank + l->rope_dim : 0, h},
	    {"dummy.further", has_further(rows) ? h / l->tp : 0, 2 * h},
	    {"dummy.key_value_up", heads * (l->head_dim + l->v_dim), l->kv_rank},
	};

	if (with)
		add_exchange(rows, z);
	if (with)
		p4d_row(rows, "workspace.experts", "", P4D_PART_LIBRARIES, P4D_DT_BYTES, 4,
			before_hopper ? 4 << 20 : (32 << 20) + 1024, 0);
	for (size_t i = 0; l->megatron.te_wgrad && i < sizeof(shape) / sizeof(shape[0]); i++)
		if (shape[i].rows && shape[i].columns)
			p4d_row(rows, shape[i].name, "tp", P4D_PART_WEIGHT_GRAD, p4d_dtype_of(l),
				shape[i].rows, shape[i].columns, 0);
}
