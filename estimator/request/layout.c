/* SPDX-License-Identifier: Apache-2.0 */
#include "request/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/wide.h"
#include "request/architecture.h"
#include "request/class_loss.h"
#include "request/framework.h"
#include "request/layers.h"
#include "request/layout_internal.h"

const p4d_option p4d_layout_options[P4D_LAYOUT_OPTIONS] = {
    P4D_TP,          P4D_CP,          P4D_CP_COMM,        P4D_PP,
    P4D_SCHEDULE,    P4D_VPP,         P4D_VOCAB_PARALLEL, P4D_EP,
    P4D_ETP,         P4D_MICRO_BATCH, P4D_RECOMPUTE,      P4D_EVAL_MICRO_BATCH,
    P4D_TOKEN_SLICES};

const p4d_option p4d_sharing_options[P4D_SHARING_OPTIONS] = {P4D_OPTIMIZER_SHARDING, P4D_SHARD_DEGREE};

bool p4d_layout_shares_more(const p4d_request *r, p4d_option option)
{
	const bool implied = p4d_is_set(r, P4D_OFFLOAD) && r->value[P4D_OFFLOAD] & P4D_OFFLOAD_PARAMS;

	if (r->origin[option] != P4D_BY_P4D ||
	    !p4d_framework_of((int)r->value[P4D_FRAMEWORK])->plans_transfers)
		return false;
	return option != P4D_OPTIMIZER_SHARDING || (r->value[option] > P4D_SHARD_STATES && !implied);
}

void p4d_layout_add_sharing(const p4d_request *r, const char *prefix, p4d_text *text)
{
	char value[64];

	for (size_t i = 0; i < P4D_SHARING_OPTIONS; i++) {
		const p4d_option option = p4d_sharing_options[i];
		if (p4d_layout_shares_more(r, option))
			p4d_text_entry(text, " ", "%s%s=%s", prefix, p4d_request_option_info(option)->name,
				       p4d_request_value_text(r, option, value, sizeof(value)));
	}
}

bool p4d_layout_is_default(const p4d_request *request, p4d_option option)
{
	const int64_t otherwise = p4d_request_option_info(option)->number;

	if (option == P4D_EVAL_MICRO_BATCH)
		return !p4d_is_set(request, option);
	if (option == P4D_EP || option == P4D_ETP || option == P4D_TOKEN_SLICES)
		return !p4d_is_set(request, option) || request->value[option] == 1;
	if (p4d_framework_fixed_of(request, option)) /* the framework has no choice */
		return true;
	/* both are set together, to 1f1b with one chunk */
	if (option == P4D_SCHEDULE || option == P4D_VPP)
		return request->value[option] == (option == P4D_VPP ? 1 : P4D_SCHEDULE_DEFAULT);
	return request->value[option] == otherwise;
}

/* The value of an option; `otherwise` if it is unset. */
static uint64_t optional(const p4d_request *r, p4d_option option, uint64_t otherwise)
{
	return p4d_is_set(r, option) ? (uint64_t)r->value[option] : otherwise;
}

/* Expand the tables of layout.h to assignments. */
#define HAS(type, member, option) l->member = (type)p4d_framework_value(r, P4D_##option);
#define SET(type, member, option, otherwise) l->member = (type)optional(r, P4D_##option, otherwise);
#define HAS_MEGATRON(type, member, option) HAS(type, megatron.member, option)
#define HAS_TORCH(type, member, option) HAS(type, torch.member, option)
#define SET_STATE(type, member, option, otherwise) SET(type, state.member, option, otherwise)
#define SET_MEMORY(type, member, option, otherwise) SET(type, memory.member, option, otherwise)

static void fill_experts(const p4d_request *r, p4d_layout *l)
{
	P4D_LAYOUT_EXPERTS(SET)
	l->megatron.dispatcher = (int)optional(r, P4D_TOKEN_DISPATCHER, P4D_ALL_TO_ALL);
	l->megatron.shared_overlap = l->shared_ffn && optional(r, P4D_SHARED_OVERLAP, 0);
	l->megatron.expert_overlap = l->experts && optional(r, P4D_EXPERT_OVERLAP, 0);
	l->megatron.token_nodes = l->experts ? optional(r, P4D_TOKEN_NODES, 0) : 0;
	l->megatron.expert_capacity =
	    p4d_is_set(r, P4D_EXPERT_CAPACITY) ? p4d_request_real(r, P4D_EXPERT_CAPACITY) : 0;
	l->megatron.pads_experts = l->megatron.expert_capacity > 0 && optional(r, P4D_PAD_EXPERTS, 0);
}

static void fill_states(const p4d_request *r, p4d_layout *l)
{
	if (!p4d_is_set(r, P4D_LAYER_PATTERN))
		return;
	memcpy(l->pattern, r->layer_pattern, sizeof(l->pattern));
	l->pattern_length = (unsigned)strlen(l->pattern);
	for (unsigned i = 0; i < l->pattern_length; i++)
		l->experts_before[i + 1] = (uint8_t)(l->experts_before[i] + (l->pattern[i] == 'E'));
	P4D_LAYOUT_STATES(SET_STATE)
	if (p4d_is_set(r, P4D_MEMORY_KEYS)) {
		P4D_LAYOUT_MEMORY(SET_MEMORY)
	}
}

static double real_or(const p4d_request *r, p4d_option option, double otherwise)
{
	return p4d_is_set(r, option) ? p4d_request_real(r, option) : otherwise;
}

static void fill_factors(const p4d_request *r, p4d_layout *l)
{
	l->factor.embedding =
	    real_or(r, P4D_EMBEDDING_SCALE, l->architecture->scaled_embedding ? sqrt((double)l->hidden) : 1);
	l->factor.residual = real_or(r, P4D_RESIDUAL_SCALE, 1);
	l->factor.attention =
	    real_or(r, P4D_ATTENTION_SCALE, l->head_dim ? 1 / sqrt((double)l->head_dim) : 1);
	l->factor.logit = real_or(r, P4D_LOGIT_SCALE, 1);
}

static void fill_model(const p4d_request *r, p4d_layout *l)
{
	l->architecture = p4d_architecture_of(r);
	P4D_LAYOUT_MODEL(SET)
	if (l->kv_rank) {
		P4D_LAYOUT_LATENT(SET)
	}
	if (l->experts)
		fill_experts(r, l);
	fill_states(r, l);
	l->norm_tensors = p4d_norm_tensors((int)r->value[P4D_NORM]);
	l->biased = p4d_biased(l->bias);
	fill_factors(r, l);
	if (r->value[P4D_POSITIONS] == P4D_LEARNED) {
		const uint64_t rows = optional(r, P4D_MAX_SEQ_LEN, 0);
		l->positions = (rows > l->seq_len ? rows : l->seq_len) + l->architecture->position_offset;
	}
}

static void pad_vocabulary(p4d_layout *l)
{
	const uint64_t rows = p4d_framework_of(l->framework)->vocab_multiple * l->tp;

	l->vocab = p4d_round_up(l->vocab, l->vocab_parallel ? rows * l->pp : rows);
}

void p4d_layout_of_model(const p4d_request *request, p4d_layout *layout)
{
	memset(layout, 0, offsetof(p4d_layout, stage_layers));
	layout->tp = layout->tp_y = layout->tp_z = layout->pp = layout->ep = layout->etp = 1;
	fill_model(request, layout);
}

/* Fills the members that differ between the layouts of a search; all others are already filled. */
static void fill_choices(const p4d_request *r, p4d_layout *l)
{
	P4D_LAYOUT_CHOICES(HAS, SET)
	p4d_layout__grid(r, l);
	l->ep = l->etp = 1;
	l->imbalance = 1;
	if (p4d_is_set(r, P4D_EXPERTS)) {
		l->ep = p4d_framework_fixed_of(r, P4D_EP) ? 1 : optional(r, P4D_EP, 1);
		l->etp = p4d_framework_fixed_of(r, P4D_ETP) ? 1 : optional(r, P4D_ETP, 1);
		if (l->ep > 1 && p4d_is_set(r, P4D_IMBALANCE))
			l->imbalance = p4d_request_real(r, P4D_IMBALANCE);
	}
	l->slices = p4d_framework_has(r, P4D_TOKEN_SLICES) ? optional(r, P4D_TOKEN_SLICES, 1) : 1;
	const bool own = p4d_is_set(r, P4D_EVAL_MICRO_BATCH) && p4d_framework_evaluates(r);
	l->eval_micro_batch = own ? (uint64_t)r->value[P4D_EVAL_MICRO_BATCH] : l->micro_batch;
	l->local_loss = p4d_is_stated(r, P4D_LOCAL_LOSS) && r->value[P4D_LOCAL_LOSS] == P4D_LOCAL_STAGE;
	l->megatron.recompute_modules = p4d_layout__modules(r, l);
	l->cp_comm = l->cp > 1 ? (int)p4d_framework_value(r, P4D_CP_COMM) : P4D_CP_P2P;
	l->megatron.cp_heads = l->cp > 1 && l->cp_comm == P4D_CP_P2P && p4d_framework_has(r, P4D_CP_HEADS)
				   ? optional(r, P4D_CP_HEADS, 1)
				   : 1;
	l->document_excess = 0;
	if (l->cp_comm == P4D_CP_A2A &&
	    p4d_framework_of(l->framework)
		->no_a2a) /* a site's default may be a2a although the framework does not support it */
		l->cp_comm = P4D_CP_P2P;
	l->sequence_parallel = r->value[P4D_SEQUENCE_PARALLEL] && l->tp > 1;
	/* only if tensor parallelism communicates */
	l->tp_comm_overlap = l->tp > 1 && p4d_framework_value(r, P4D_TP_COMM_OVERLAP);
	l->megatron.overlap_p2p = l->schedule == P4D_INTERLEAVED && p4d_framework_value(r, P4D_OVERLAP_P2P);
	/* embedding and loss count as layers only if the layers are split over stages */
	l->embedding_counts = l->pp > 1 && p4d_framework_value(r, P4D_ACCOUNT_FOR_EMBEDDING);
	l->loss_counts = l->pp > 1 && p4d_framework_value(r, P4D_ACCOUNT_FOR_LOSS);
	l->vocab = (uint64_t)r->value[P4D_VOCAB];
	pad_vocabulary(l);
}

/* The ZeRO stage: DeepSpeed's and p4d's options have different names for it. */
static int zero_stage_of(const p4d_request *r)
{
	const int64_t asked = r->value[P4D_OPTIMIZER_SHARDING];

	if (p4d_framework_has(r, P4D_ZERO_STAGE))
		return (int)p4d_framework_value(r, P4D_ZERO_STAGE);
	return p4d_framework_of((int)r->value[P4D_FRAMEWORK])->states_only && asked > P4D_SHARD_STATES
		   ? P4D_SHARD_STATES
		   : (int)asked;
}

static void fill_training(const p4d_request *r, uint64_t nodes, uint64_t gpus_per_node, p4d_layout *l)
{
	P4D_LAYOUT_TRAINING(HAS, SET)
	P4D_LAYOUT_MEGATRON(HAS_MEGATRON)
	P4D_LAYOUT_TORCH(HAS_TORCH)
	l->world = nodes * gpus_per_node;
	l->gpus_per_node = gpus_per_node;
	const uint64_t domain = optional(r, P4D_NVLINK_DOMAIN, 0);
	l->link_domain = domain > gpus_per_node ? domain : gpus_per_node;
	l->network = r->network;
	l->zero_stage = zero_stage_of(r);
	l->optimizer_sharding = l->zero_stage > 0;
	l->fsdp.flat = p4d_framework_value(r, P4D_FSDP_VERSION) == 1;
	l->fsdp.keeps_gathered = p4d_is_set(r, P4D_RESHARD) && !r->value[P4D_RESHARD];
	l->fsdp.flat_alone = l->fsdp.flat && p4d_is_set(r, P4D_ORIG_PARAMS) && !r->value[P4D_ORIG_PARAMS];
	l->fsdp.never_prefetches = p4d_is_set(r, P4D_BACKWARD_PREFETCH) && !r->value[P4D_BACKWARD_PREFETCH];
	l->fsdp.prefetches_forward = optional(r, P4D_FORWARD_PREFETCH, 0);
	l->offload = p4d_layout__offload(r);
	l->torch.class_loss = p4d_class_loss_of(r);
	l->pairs = p4d_framework_trains_pairs(r);
	p4d_layout__adapters(r, l);
	l->megatron.attention_mask =
	    p4d_framework_has(r, P4D_ATTENTION_MASK) && optional(r, P4D_ATTENTION_MASK, 1);
	l->megatron.attention_dropout =
	    p4d_framework_has(r, P4D_ATTENTION_DROPOUT) && optional(r, P4D_ATTENTION_DROPOUT, l->dropout);
	l->megatron.adam_copies_open = !p4d_is_set(r, P4D_ADAM_COPIES);
	l->megatron.adam_copies = l->megatron.adam_copies_open || p4d_framework_value(r, P4D_ADAM_COPIES);
}

void p4d_layout_fill(const p4d_request *request, uint64_t nodes, uint64_t gpus_per_node, p4d_layout *layout)
{
	memset(layout, 0, offsetof(p4d_layout, stage_layers));
	fill_training(request, nodes, gpus_per_node, layout);
	fill_model(request, layout);
	layout->zero_bucket = layout->zero_bucket ? layout->zero_bucket : layout->hidden * layout->hidden;
	fill_choices(request, layout);
}

/* Refuses a request with an unset option, because its value would be read as 0. */
int p4d_layout_check_complete(const p4d_request *r, p4d_error *err)
{
	for (int i = 0; i < P4D_OPTIONS; i++) {
		const p4d_option_info *info = p4d_request_option_info((p4d_option)i);
		if (info->kind != P4D_INTEGER_KIND && info->kind != P4D_CHOICE_KIND)
			continue;
		if (!(info->where & P4D_WHERE_PLAN) || info->where & P4D_WHERE_OPTIONAL)
			continue;
		if (!p4d_is_set(r, (p4d_option)i))
			return p4d_fail(
			    err, info->where & P4D_WHERE_MODEL ? P4D_E_INCOMPLETE_MODEL : P4D_E_PLAN_SYNTAX,
			    "%s is not set", info->name);
	}
	return p4d_layers_check(
	    r, err); /* the check is repeated, because a user may have written the plan by hand */
}

int p4d_layout_derive(const p4d_request *request, p4d_layout *l, p4d_error *err)
{
	if (p4d_framework_check(request, err) < 0)
		return -1;
	if (p4d_layout__check_adapters(request, err) < 0 || p4d_layout__check_offload(request, err) < 0)
		return -1;
	fill_choices(request, l);
	return p4d_layout__check(request, l, err);
}

int p4d_layout_build(const p4d_request *request, uint64_t nodes, uint64_t gpus_per_node, p4d_layout *layout,
		     p4d_error *err)
{
	p4d_layout l;

	if (p4d_layout_check_complete(request, err) < 0 || p4d_framework_check(request, err) < 0)
		return -1;
	if (nodes == 0 || gpus_per_node == 0 || nodes > UINT32_MAX || gpus_per_node > UINT32_MAX)
		return p4d_fail(err, P4D_E_GEOMETRY, "%" PRIu64 " nodes of %" PRIu64 " GPUs", nodes,
				gpus_per_node);
	p4d_layout_fill(request, nodes, gpus_per_node, &l);
	if (p4d_layout_derive(request, &l, err) < 0)
		return -1;
	/* copies only the stages in use */
	memcpy(layout, &l, offsetof(p4d_layout, stage_layers) + l.pp * sizeof(l.stage_layers[0]));
	if (l.uneven_chunks)
		memcpy(layout->chunk_layers, l.chunk_layers, l.pp * l.vpp * sizeof(l.chunk_layers[0]));
	if (l.slices > 1)
		memcpy(layout->slice_tokens, l.slice_tokens, l.slices * sizeof(l.slice_tokens[0]));
	return 0;
}
