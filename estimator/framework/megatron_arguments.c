/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a plan as arguments of Megatron-LM. */
#include "framework/megatron_arguments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "request/architecture.h"
#include "request/framework.h"

/* Appends an argument. An argument that does not fit into the buffer is left out as a whole. */
#define add(a, ...) p4d_text_entry(a, " ", __VA_ARGS__)

/*
 * Writes --pipeline-model-parallel-layout: E for the embedding, t for a layer, L for the loss, | between
 * stages.
 */
static void add_pipeline_layout(p4d_text *a, const p4d_layout *l)
{
	char picture[1024];
	p4d_text text = p4d_text_in(picture, sizeof(picture));

	for (uint64_t i = 0; i < l->pp * l->vpp && !text.truncated; i++)
		p4d_text_print(&text, "%st*%" PRIu32 "%s", i ? "|" : "E",
			       p4d_chunk_layers(l, (uint32_t)(i % l->pp), (uint32_t)(i / l->pp)),
			       i == l->pp * l->vpp - 1 ? "L" : "");
	if (!text.truncated)
		add(a, "--pipeline-model-parallel-layout %s", picture);
}

/* Whether all stages between the first and the last have equally many layers. */
static bool middle_is_even(const p4d_layout *l)
{
	for (uint64_t i = 2; i + 1 < l->pp; i++)
		if (l->stage_layers[i] != l->stage_layers[1])
			return false;
	return true;
}

/*
 * Writes the layers of a hybrid model's first and last stage. Either the stages between them are equal, or
 * the pattern has bars between stages.
 */
static void add_ends(p4d_text *a, const p4d_layout *l)
{
	const uint64_t last = l->pp - 1;

	if (l->pp < 2 || !middle_is_even(l))
		return;
	if (l->stage_layers[0] != l->layers / l->pp)
		add(a, "--decoder-first-pipeline-num-layers %" PRIu32, l->stage_layers[0]);
	if (l->stage_layers[last] != l->layers / l->pp)
		add(a, "--decoder-last-pipeline-num-layers %" PRIu32, l->stage_layers[last]);
}

/*
 * Writes the global batch of evaluation, which must be a multiple of the evaluation's micro-batch times dp.
 * Otherwise Megatron-LM stops.
 */
static void add_evaluation_batch(p4d_text *a, const p4d_layout *l)
{
	const uint64_t unit = l->eval_micro_batch * l->dp;

	add(a, "--eval-micro-batch-size %" PRIu64, l->eval_micro_batch);
	if (l->global_batch % unit)
		add(a, "--eval-global-batch-size %" PRIu64, (l->global_batch / unit + 1) * unit);
}

static void add_parallelism(p4d_text *a, const p4d_request *r, const p4d_layout *l)
{
	add(a, "--tensor-model-parallel-size %" PRIu64, l->tp);
	add(a, "--pipeline-model-parallel-size %" PRIu64, l->pp);
	add(a, "--context-parallel-size %" PRIu64, l->cp);
	if (l->megatron.cp_heads > 1)
		add(a, "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes %" PRIu64 " %" PRIu64,
		    l->megatron.cp_heads, l->cp / l->megatron.cp_heads);
	else if (l->cp_comm != P4D_CP_P2P) /* p2p is Megatron-LM's default */
		add(a, "--cp-comm-type %s", l->cp_comm == P4D_CP_A2A ? "a2a" : "all_gather");
	if (l->pattern_length)
		add_ends(a, l);
	else if (p4d_is_set(r, P4D_PIPELINE_SPLIT) && l->pp > 1)
		add_pipeline_layout(a, l);
	else if (l->vpp > 1 && (l->embedding_counts || l->loss_counts))
		add(a, "--num-virtual-stages-per-pipeline-rank %" PRIu64, l->vpp);
	else if (l->vpp > 1)
		add(a, "--num-layers-per-virtual-pipeline-stage %" PRIu64, l->layers / (l->pp * l->vpp));
	if (l->embedding_counts)
		add(a, "--account-for-embedding-in-pipeline-split");
	if (l->loss_counts)
		add(a, "--account-for-loss-in-pipeline-split");
	if (l->sequence_parallel)
		add(a, "--sequence-parallel");
	if (l->optimizer_sharding)
		add(a, "--use-distributed-optimizer");
	if (l->tp_comm_overlap)
		add(a, "--tp-comm-overlap");
	if (l->schedule == P4D_INTERLEAVED && !l->megatron.overlap_p2p)
		add(a, "--no-overlap-p2p-communication");
	if (l->overlap_dp) /* the second argument needs the distributed optimizer */
		add(a, l->optimizer_sharding ? "--overlap-grad-reduce --overlap-param-gather"
					     : "--overlap-grad-reduce");
	add(a, "--micro-batch-size %" PRIu64, l->micro_batch);
	add(a, "--global-batch-size %" PRIu64, l->global_batch);
	if (l->eval_micro_batch != l->micro_batch) /* supported since Megatron Core 0.18 */
		add_evaluation_batch(a, l);
}

static void add_latent(p4d_text *a, const p4d_layout *l)
{
	add(a, "--multi-latent-attention --kv-lora-rank %" PRIu64, l->kv_rank);
	if (l->q_rank)
		add(a, "--q-lora-rank %" PRIu64, l->q_rank);
	add(a, "--qk-head-dim %" PRIu64 " --qk-pos-emb-head-dim %" PRIu64 " --v-head-dim %" PRIu64,
	    l->head_dim, l->rope_dim, l->v_dim);
	add(a, "--no-rope-fusion");
}

/* Arguments of experts. p4d models grouped matmuls, so --moe-grouped-gemm is set. */
static void add_experts(p4d_text *a, const p4d_layout *l)
{
	static const char *const dispatcher[] = {[P4D_ALL_TO_ALL] = "alltoall",
						 [P4D_ALL_GATHER] = "allgather",
						 [P4D_DEEPEP] = "flex --moe-flex-dispatcher-backend deepep"};

	add(a, "--num-experts %" PRIu64 " --moe-router-topk %" PRIu64 " --moe-ffn-hidden-size %" PRIu64,
	    l->experts, l->experts_per_token, l->expert_ffn);
	if (l->shared_ffn)
		add(a, "--moe-shared-expert-intermediate-size %" PRIu64, l->shared_ffn);
	if (l->megatron.shared_overlap)
		add(a, "--moe-shared-expert-overlap");
	if (l->megatron.expert_overlap)
		add(a, "--overlap-moe-expert-parallel-comm");
	if (l->expert_every > 1) /* then the number of dense layers is a multiple of expert_every */
		add(a, "--moe-layer-freq ([0]*%" PRIu64 "+([0]*%" PRIu64 "+[1])*%" PRIu64 ")",
		    l->dense_layers / l->expert_every * l->expert_every, l->expert_every - 1,
		    p4d_expert_layers_before(l, l->layers));
	else if (l->dense_layers)
		add(a, "--moe-layer-freq ([0]*%" PRIu64 "+[1]*%" PRIu64 ")", l->dense_layers,
		    l->layers - (l->dense_layers < l->layers ? l->dense_layers : l->layers));
	add(a, "--expert-model-parallel-size %" PRIu64 " --expert-tensor-parallel-size %" PRIu64, l->ep,
	    l->etp);
	add(a, "--moe-grouped-gemm --moe-token-dispatcher-type %s", dispatcher[l->megatron.dispatcher]);
	if (l->megatron.expert_capacity > 0)
		add(a, "--moe-expert-capacity-factor %.15g", l->megatron.expert_capacity);
	if (l->megatron.pads_experts)
		add(a, "--moe-pad-expert-input-to-capacity");
	if (l->mtp_layers)
		add(a, "--mtp-num-layers %" PRIu64, l->mtp_layers);
}

/*
 * Arguments of gated delta nets in GPTModel with Qwen3-Next's gates. The list of layers has 1 for each gated
 * delta net.
 */
static void add_delta_nets(p4d_text *a, const p4d_layout *l)
{
	char letters[512];
	p4d_text list = p4d_text_in(letters, sizeof(letters));

	for (unsigned i = 0; i < l->pattern_length; i++)
		p4d_text_entry(&list, ",", "%d", l->pattern[i] == 'G');
	add(a, "--experimental-attention-variant gated_delta_net --linear-attention-freq ([%s]*%" PRIu64 ")",
	    letters, l->layers / l->pattern_length);
	add(a,
	    "--linear-key-head-dim %" PRIu64 " --linear-value-head-dim %" PRIu64
	    " --linear-num-key-heads %" PRIu64 " --linear-num-value-heads %" PRIu64
	    " --linear-conv-kernel-dim %" PRIu64,
	    l->state.size, l->state.head_dim, l->state.groups, l->state.heads, l->state.conv);
	add(a, "--attention-output-gate --moe-shared-expert-gate --rotary-percent 0.25");
}

/* Arguments of a hybrid model, whose pattern has one letter per layer. */
static void add_states(p4d_text *a, const p4d_layout *l)
{
	char letters[1024];
	p4d_text pattern = p4d_text_in(letters, sizeof(letters));
	uint64_t layer = 0;

	for (uint64_t stage = 0; stage < l->pp && !pattern.truncated; stage++) {
		if (stage && !middle_is_even(l))
			p4d_text_add(&pattern, "|");
		for (uint64_t end = layer + l->stage_layers[stage]; layer < end && !pattern.truncated;
		     layer++)
			p4d_text_print(&pattern, "%c", l->pattern[layer % l->pattern_length]);
	}
	if (!l->architecture->single_blocks) {
		add_delta_nets(a, l);
		return;
	}
	/*
	 * only newer releases of Megatron-LM have bars between stages. They have another name for the option,
	 * and treat any model with a pattern as hybrid
	 */
	if (middle_is_even(l))
		add(a, "--is-hybrid-model --hybrid-override-pattern %s", letters);
	else
		add(a, "--hybrid-layer-pattern %s", letters);
	add(a,
	    "--mamba-state-dim %" PRIu64 " --mamba-head-dim %" PRIu64 " --mamba-num-groups %" PRIu64
	    " --mamba-num-heads %" PRIu64,
	    l->state.size, l->state.head_dim, l->state.groups, l->state.heads);
}

static void add_model(p4d_text *a, const p4d_request *r, const p4d_layout *l)
{
	static const char *const activation[] = {[P4D_SWIGLU_ACTIVATION] = "--swiglu",
						 /* the only gated GELU of Megatron-LM; it uses a sigmoid
						  * instead of erf */
						 [P4D_GEGLU] = "--quick-geglu",
						 [P4D_GELU] = NULL, /* Megatron-LM's default */
						 [P4D_RELU2] = "--squared-relu",
						 [P4D_RELU] = NULL /* check_model refuses it */};

	add(a, "--num-layers %" PRIu64, l->layers);
	add(a, "--hidden-size %" PRIu64, l->hidden);
	add(a, "--ffn-hidden-size %" PRIu64, l->ffn);
	add(a, "--num-attention-heads %" PRIu64, l->heads);
	if (l->kv_heads != l->heads)
		add(a, "--group-query-attention --num-query-groups %" PRIu64, l->kv_heads);
	add(a, "--kv-channels %" PRIu64, l->head_dim);
	add(a, "--seq-length %" PRIu64, l->seq_len);
	add(a, "--max-position-embeddings %" PRIu64, l->positions ? l->positions : l->seq_len);
	add(a, "--position-embedding-type %s",
	    l->positions                                  ? "learned_absolute"
	    : r->value[P4D_POSITIONS] == P4D_NO_POSITIONS ? "none"
							  : "rope");
	add(a, "--normalization %s", r->value[P4D_NORM] == P4D_RMSNORM ? "RMSNorm" : "LayerNorm");
	if (activation[l->activation])
		add(a, "%s", activation[l->activation]);
	if (!l->tied)
		add(a, "--untie-embeddings-and-output-weights");
	if (l->bias != P4D_BIAS_ALL)
		add(a, "--disable-bias-linear");
	if (l->bias == P4D_BIAS_QKV)
		add(a, "--add-qkv-bias");
	if (l->qk_norm || l->kv_rank)
		add(a, "--qk-layernorm");
	if (l->kv_rank)
		add_latent(a, l);
	if (l->experts)
		add_experts(a, l);
	if (l->pattern_length)
		add_states(a, l);
}

static void add_optimizer(p4d_text *a, const p4d_layout *l)
{
	if (l->grad_dtype == P4D_GRAD_BF16)
		add(a, "--grad-reduce-in-bf16");
	else if (l->grad_dtype == P4D_GRAD_FP32 && l->precision == P4D_FP16)
		add(a, "--accumulate-allreduce-grads-in-fp32");
	if (!p4d_precise_optimizer(l))
		return;
	add(a, "--use-precision-aware-optimizer");
	if (l->grad_dtype == P4D_GRAD_BF16)
		add(a, "--main-grads-dtype bf16");
	if (l->megatron.half_master)
		add(a, "--main-params-dtype fp16");
	if (l->half_moments)
		add(a, "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
}

/* Arguments of an FP8 recipe, with the number format that Transformer Engine uses by default for this
 * recipe. */
static void add_fp8(p4d_text *a, const p4d_layout *l)
{
	static const char *const recipe[] = {[P4D_FP8_DELAYED] = "delayed",
					     [P4D_FP8_CURRENT] = "tensorwise",
					     [P4D_FP8_BLOCKWISE] = "blockwise",
					     [P4D_FP8_MXFP8] = "mxfp8"};
	const bool by_tensor = l->fp8_recipe <= P4D_FP8_CURRENT;

	if (l->fp8_recipe == P4D_FP8_NVFP4) {
		add(a, "--fp4-format e2m1 --fp4-recipe nvfp4");
		return;
	}
	add(a, "--fp8-format %s --fp8-recipe %s", by_tensor ? "hybrid" : "e4m3", recipe[l->fp8_recipe]);
	if (!l->fp8_params)
		return;
	add(a, "--fp8-param-gather");
	if (l->fp8_recipe == P4D_FP8_MXFP8)
		add(a, "--reuse-grad-buf-for-mxfp8-param-ag");
}

/* Writes a comma-separated list as separate words. */
static void add_modules(p4d_text *a, const char *list)
{
	char words[96];

	snprintf(words, sizeof(words), "%s", list);
	for (char *at = words; *at; at++)
		*at = *at == ',' || *at == '+' ? ' ' : *at;
	add(a, "--recompute-granularity selective --recompute-modules %s", words);
}

static void add_graphs(p4d_text *a, const p4d_layout *l)
{
	static const char *const scope[] = {[P4D_GRAPHS_ATTENTION] = " --cuda-graph-scope attn",
					    [P4D_GRAPHS_MLP] = " --cuda-graph-scope mlp",
					    [P4D_GRAPHS_LAYERS] = ""};

	if (l->megatron.graphs != P4D_GRAPHS_NONE)
		add(a, "--cuda-graph-impl transformer_engine%s --te-rng-tracker", scope[l->megatron.graphs]);
}

/*
 * The attention backend whose rate p4d's step time assumes. `fused` is cuDNN's attention. `flash` turns it
 * off, and on Hopper FlashAttention 2 would then run at half of cuDNN's rate. On Ampere cuDNN supports no
 * heads above 128, so Transformer Engine has to choose the backend.
 */
static const char *backend_of(const p4d_layout *l)
{
	const bool wide = l->kv_rank || l->head_dim > 128;

	if (l->flash_attention == P4D_FLASH2)
		return "flash";
	return !l->flash_attention ? "unfused" : wide ? "auto" : "fused";
}

static void add_memory(p4d_text *a, const p4d_request *r, const p4d_layout *l)
{
	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		add(a, "--recompute-granularity full --recompute-method %s --recompute-num-layers %" PRIu64,
		    l->megatron.recompute_block ? "block" : "uniform", l->megatron.recompute_layers);
		break;
	case P4D_RECOMPUTE_SELECTIVE:
		add_modules(a, *r->recompute_modules ? r->recompute_modules : "core_attn");
		break;
	case P4D_RECOMPUTE_MOE:
		add_modules(a, "moe");
		break;
	case P4D_RECOMPUTE_MLP:
		add_modules(a, "mlp");
		break;
	}
	add(a, "--attention-backend %s", backend_of(l));
	if (l->megatron.fused_cross_entropy)
		add(a, "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te");
	if (l->glu && !l->fused_swiglu)
		add(a, "--no-bias-swiglu-fusion");
	if (!l->megatron.attention_mask)
		add(a, "--no-create-attention-mask-in-dataloader");
	if (!l->megatron.te_wgrad)
		add(a, "--no-gradient-accumulation-fusion");
	if (!l->dropout)
		add(a, "--hidden-dropout 0.0");
	if (!l->megatron.attention_dropout)
		add(a, "--attention-dropout 0.0");
	if (l->precision != P4D_FP32)
		add(a, l->precision == P4D_FP16 ? "--fp16" : "--bf16");
	if (l->precision == P4D_FP8)
		add_fp8(a, l);
	add_optimizer(a, l);
	add_graphs(a, l);
}

static void write_arguments(const p4d_request *request, const p4d_layout *layout, char *buf, size_t size)
{
	p4d_text a = p4d_text_in(buf, size);

	add_parallelism(&a, request, layout);
	add_model(&a, request, layout);
	add_memory(&a, request, layout);
}

enum { OF_EXPERTS = 4 }; /* number of flags at the end of the list that belong to experts */

static size_t flags_of(const p4d_layout *l, p4d_framework_flag flags[P4D_FRAMEWORK_FLAGS])
{
	const p4d_framework_flag all[] = {
	    {"--tensor-model-parallel-size", l->tp},
	    {"--pipeline-model-parallel-size", l->pp},
	    {"--context-parallel-size", l->cp},
	    {"--num-virtual-stages-per-pipeline-rank", l->vpp},
	    {"--num-layers-per-virtual-pipeline-stage",
	     (l->layers + l->embedding_counts + l->loss_counts) / (l->pp * l->vpp)},
	    {"--micro-batch-size", l->micro_batch},
	    {"--eval-micro-batch-size", l->eval_micro_batch},
	    {"--global-batch-size", l->global_batch},
	    {"--seq-length", l->seq_len},
	    {"--num-layers", l->layers},
	    {"--hidden-size", l->hidden},
	    {"--ffn-hidden-size", l->ffn},
	    {"--num-attention-heads", l->heads},
	    {"--num-query-groups", l->kv_heads},
	    {"--num-experts", l->experts},
	    {"--moe-router-topk", l->experts_per_token},
	    {"--expert-model-parallel-size", l->ep},
	    {"--expert-tensor-parallel-size", l->etp},
	};

	const size_t count = sizeof(all) / sizeof(*all) - (l->experts ? 0 : OF_EXPERTS);

	memcpy(flags, all, sizeof(all));
	_Static_assert(sizeof(all) <= P4D_FRAMEWORK_FLAGS * sizeof(*all), "room for all flags");
	return count;
}

static const char *lacks(const p4d_request *r, const p4d_layout *l)
{
	const unsigned schedules = p4d_framework_of(P4D_FRAMEWORK_MEGATRON)->schedules;
	const struct {
		bool has;
		const char *what;
	} all[] = {
	    {l->tp_y > 1 || l->tp_z > 1, "tp-grid"},
	    {l->slices > 1, "token-slices"},
	    {!(schedules >> l->schedule & 1), "schedules except gpipe, 1f1b and interleaved"},
	    {p4d_is_v_shaped(l->schedule), "DualPipeV of its own; MindSpeed adds it"},
	    {l->vocab_parallel != P4D_VOCAB_OFF, "vocab-parallel"},
	    {l->zero_stage > P4D_SHARD_STATES, "sharding of gradients and parameters"},
	    {l->shard_degree != 0, "shard-degree"},
	    {l->local_loss, "local losses"},
	    {l->offload != 0, "offload that p4d models"},
	    {l->finetune != P4D_TUNE_FULL, "adapters that p4d models"},
	    {p4d_architecture_block_difference(r) != NULL, "model like this one that p4d knows"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].has)
			return all[i].what;
	return NULL;
}

const p4d_framework_arguments p4d_megatron__arguments = {
    .variable = "P4D_MEGATRON_ARGS",
    .program = "pretrain_gpt.py",
    .write = write_arguments,
    .flags = flags_of,
    .lacks = lacks,
};
