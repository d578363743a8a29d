/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/serving.h"

#include <inttypes.h>
#include <string.h>
#include <stdio.h>

#include "request/architecture.h"
#include "request/model_size.h"
#include "serve/serving_internal.h"
#include "serve/serving_search.h"

enum {
	VOCAB_MULTIPLE = 64,
	ELEMENT = 2, /* bytes of an element that is not quantized */
	/* bytes per vocabulary entry when a row of logits is sampled: logits in 16 bits and in 32 bits, the
	 * most likely tokens, and probabilities */
	SAMPLED = ELEMENT + 4 + 4 + 4,
	LARGE_GPU_GIB =
	    70, /* a GPU with at least this much memory uses larger batches in vLLM, except an A100 */
	LARGEST_GPU_GIB = 160,
	CAPTURED = 512, /* maximum tokens of a CUDA graph; the largest graph has two tokens per sequence */
	RESTRICTED =
	    12800, /* bytes per sequence for lists of tokens that are allowed, biased or end the sequence */
	RESIDENT = 2, /* layers on the GPU with offloaded weights: one runs while the next one is copied */
	LORA_RANK = 16,
	FEW_SEQUENCES = 16,      /* up to this many sequences, vLLM has 7 graphs instead of 51 */
	EXPERT_TOKENS = 1 << 16, /* tokens that the experts process at a time (VLLM_FUSED_MOE_CHUNK_SIZE) */
};
#define UTILIZATION 0.92 /* vLLM 0.33's default for --gpu-memory-utilization */
#define UTILIZATION_SGLANG 0.9
#define GIB ((uint64_t)1 << 30)
/* memory that is in use before SGLang measures the GPU; its fraction applies to the remainder */
#define CONTEXT_BYTES (GIB / 2)
#define NCCL_BYTES GIB

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static bool offloads(const p4d_request *r)
{
	return p4d_is_set(r, P4D_OFFLOAD) && r->value[P4D_OFFLOAD] == P4D_OFFLOAD_WEIGHTS;
}

void p4d_serving_complete(p4d_request *r, const p4d_gpu *gpu)
{
	const bool largest = gpu && gpu->usable_bytes >= LARGEST_GPU_GIB * GIB;
	const bool large = largest || (gpu && gpu->usable_bytes >= LARGE_GPU_GIB * GIB &&
				       strncmp(gpu->name, "a100", 4) != 0);
	const int64_t longest = p4d_is_set(r, P4D_MAX_SEQ_LEN) ? r->value[P4D_MAX_SEQ_LEN] : 2048;

	p4d_request_default(r, P4D_PP, 1, P4D_BY_P4D);
	p4d_request_default(r, P4D_TP, 1, P4D_BY_P4D);
	p4d_request_default(r, P4D_SEQ_LEN, longest, P4D_BY_P4D);
	p4d_request_default(r, P4D_ENGINE, P4D_ENGINE_VLLM, P4D_BY_P4D);
	p4d_request_default(r, P4D_MAX_NUM_SEQS, large ? 1024 : 256, P4D_BY_P4D);
	p4d_request_default(r, P4D_MAX_BATCHED_TOKENS, largest ? 16384 : large ? 8192 : 2048, P4D_BY_P4D);
	p4d_request_default(r, P4D_KV_CACHE_DTYPE, P4D_KV_CACHE_AUTO, P4D_BY_P4D);
	p4d_request_default(r, P4D_STORED, P4D_STORED_FULL, P4D_BY_P4D);
	if (offloads(r))
		p4d_request_default(r, P4D_RESIDENT_LAYERS, RESIDENT, P4D_BY_P4D);
	if (p4d_is_set(r, P4D_MAX_LORAS))
		p4d_request_default(r, P4D_MAX_LORA_RANK, LORA_RANK, P4D_BY_P4D);
	if (!p4d_is_set(r, P4D_GPU_UTILIZATION))
		p4d_request_put_real(
		    r, P4D_GPU_UTILIZATION,
		    r->value[P4D_ENGINE] == P4D_ENGINE_SGLANG ? UTILIZATION_SGLANG : UTILIZATION, P4D_BY_P4D);
}

/*
 * Size of a linear layer's weight in thousandths of a byte, with scales: 16 bits per 128 weights and a zero
 * point (AWQ, GPTQ); 32 bits per row (8 bits); 8 bits per 64 weights (bitsandbytes' double quantization, the
 * form in which files are published); 8 bits per 32 weights (MXFP4).
 */
uint64_t p4d_serving__thousandths(int stored)
{
	static const uint16_t bytes[] = {[P4D_STORED_FULL] = 1000 * ELEMENT,
					 [P4D_STORED_FP8] = 1000,
					 [P4D_STORED_INT8] = 1000,
					 [P4D_STORED_INT4] = 520,
					 [P4D_STORED_NF4] = 516,
					 [P4D_STORED_FP4] = 532};
	return bytes[stored];
}

/* If there are fewer key/value heads than ranks, several ranks have copies. */
static uint64_t local_kv_heads(const p4d_layout *l)
{
	return l->kv_heads > l->tp ? l->kv_heads / l->tp : 1;
}

/* Matrices of attention on one rank. In latent attention, every rank has complete copies of the matrices
 * that make the latents. */
static p4d_wide matrices_of_attention(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, heads = (p4d_wide)l->heads / l->tp, query = l->head_dim + l->rope_dim;

	if (l->kv_rank)
		return (l->q_rank ? h * l->q_rank + l->q_rank * heads * query : h * heads * query) +
		       h * (l->kv_rank + l->rope_dim) + l->kv_rank * heads * (l->head_dim + l->v_dim) +
		       heads * l->v_dim * h;
	return l->architecture->attentions * 2 * h *
	       (heads * l->head_dim + (p4d_wide)local_kv_heads(l) * l->head_dim);
}

/* Elements of a layer's matrices on one rank that quantization stores in fewer bits. */
static p4d_wide matrices_of_layer(const p4d_layout *l)
{
	const p4d_wide h = l->hidden, f = div_up(l->ffn, l->tp);

	return matrices_of_attention(l) + l->architecture->mlps * (l->glu ? 3 : 2) * h * f;
}

/* Columns of each expert on this rank. ep: over all engines, or 1. */
static uint64_t local_expert_ffn(const p4d_layout *l)
{
	return l->ep > 1 ? l->expert_ffn : div_up(l->expert_ffn, l->tp * l->dp);
}

/* Like matrices_of_layer, for a layer with experts, without the router. */
static p4d_wide matrices_of_expert_layer(const p4d_layout *l)
{
	const p4d_wide inside =
	    (p4d_wide)div_up(l->experts, l->ep) * local_expert_ffn(l) + div_up(l->shared_ffn, l->tp);

	return matrices_of_attention(l) + (l->glu ? 3 : 2) * (p4d_wide)l->hidden * inside;
}

/*
 * Bytes of the weights on the fullest stage: it has the most layers of any stage, with embedding, head or
 * both.
 */
static p4d_wide weights_of(const p4d_layout *l, int stored, uint64_t layers)
{
	const p4d_wide h = l->hidden;
	const uint64_t all = p4d_expert_layers_before(l, l->layers), with = all < layers ? all : layers;
	const p4d_wide matrices =
	    (layers - with) * matrices_of_layer(l) + (with ? with * matrices_of_expert_layer(l) : 0);
	p4d_layout one = *l;
	one.tp = one.etp = one.ep = one.dp = 1;
	/* norms, biases and routers count as if no rank shared them */
	const p4d_wide rest =
	    (layers - with) * (p4d_size_of_layer(&one) - matrices_of_layer(&one)) +
	    (with ? with * (p4d_size_of_expert_layer(&one) + l->experts * p4d_size_of_expert(&one) -
			    matrices_of_expert_layer(&one))
		  : 0);
	const p4d_wide table = div_up(l->vocab, (uint64_t)VOCAB_MULTIPLE * l->tp) * VOCAB_MULTIPLE * h;
	const unsigned tables = l->pp == 1 && !l->tied && l->architecture->kind != P4D_VISION ? 2 : 1;
	/* MXFP4 files store only experts in MXFP4, and all else in 16 bits */
	const p4d_wide in_full =
	    stored == P4D_STORED_FP4 && l->experts ? layers * matrices_of_attention(l) : 0;
	p4d_wide bytes = (matrices - in_full) * p4d_serving__thousandths(stored) / 1000 + in_full * ELEMENT;

	bytes += rest * ELEMENT;
	bytes += (tables * table + p4d_size_of_begin(&one) + p4d_size_of_end(&one)) * ELEMENT;
	return bytes;
}

/*
 * Elements of the experts' workspace for these tokens, which vLLM keeps: the larger of two tensors (gate and
 * up projections; output), and the activation between them (vLLM's fused_moe).
 */
static p4d_wide workspace_of(const p4d_layout *l, uint64_t tokens)
{
	const p4d_wide h = l->hidden, part = local_expert_ffn(l), wide = 2 * part > h ? 2 * part : h;
	const p4d_wide gathered = (p4d_wide)tokens * l->dp,
		       chunk = gathered < EXPERT_TOKENS ? gathered : EXPERT_TOKENS;

	return l->experts ? chunk * l->experts_per_token * (wide + part) * ELEMENT : 0;
}

/*
 * Bytes at the peak of a forward pass with this many tokens: the wider block, and the hidden states before
 * and after it.
 */
static p4d_wide profile_of(const p4d_layout *l, uint64_t tokens, uint64_t sequences)
{
	const p4d_wide h = l->hidden, f = div_up(l->ffn, l->tp), A = (p4d_wide)l->heads / l->tp * l->head_dim,
		       G = (p4d_wide)local_kv_heads(l) * l->head_dim;
	const p4d_wide gathered = l->experts ? ((p4d_wide)tokens * l->dp - tokens) * 2 * h : 0;
	const p4d_wide dense = tokens * ((l->glu ? 3 : 2) * f), attention = tokens * (2 * A + 2 * G);
	const p4d_wide mlp = dense > gathered ? dense : gathered;
	const p4d_wide layer = ((mlp > attention ? mlp : attention) + tokens * 3 * h) * ELEMENT;
	const p4d_wide rows = sequences < tokens ? sequences : tokens;
	const p4d_wide sampled = rows * l->vocab * SAMPLED + tokens * h * ELEMENT;

	return layer > sampled ? layer : sampled;
}

/*
 * Bytes of the buffers of vLLM's runner: how often each token occurred (32 bits), whether the prompt contains
 * it (one bit), which tokens are allowed, and the workspace of the experts.
 */
static p4d_wide buffers_of(const p4d_layout *l, uint64_t tokens, uint64_t sequences)
{
	return sequences * ((p4d_wide)l->vocab * 4 + l->vocab / 8 + RESTRICTED) + workspace_of(l, tokens);
}

/*
 * Bytes of the memory pool that CUDA graphs share. It has the tensors that the pieces of each layer pass on:
 * query, keys and values, the result of attention, and hidden states.
 */
static p4d_wide graphs_of(const p4d_layout *l, uint64_t layers, uint64_t sequences)
{
	const uint64_t tokens = 2 * sequences < CAPTURED ? 2 * sequences : CAPTURED;
	const p4d_wide A = (p4d_wide)l->heads / l->tp * l->head_dim,
		       G = (p4d_wide)local_kv_heads(l) * l->head_dim;

	return tokens * layers * (2 * A + 2 * G + 3 * (p4d_wide)l->hidden) * ELEMENT;
}

/* Memory of one adapter of rank 1. For matrices split by columns, a rank has all inputs of each adapter;
 * for those split by rows, all outputs. Experts have no adapters. */
static p4d_wide adapter_of(const p4d_layout *l, uint64_t layers)
{
	const p4d_wide h = l->hidden, A = (p4d_wide)l->heads / l->tp * l->head_dim,
		       G = (p4d_wide)local_kv_heads(l) * l->head_dim, f = div_up(l->ffn, l->tp);
	const unsigned columns = l->glu ? 2 : 1;
	const p4d_wide attention = 3 * h + A + 2 * G + A + h, mlp = columns * (h + f) + f + h;
	const p4d_wide tables = 2 * ((p4d_wide)l->vocab + h);

	return layers * (attention + (l->experts ? 0 : mlp)) + (l->pp == 1 ? tables : tables / 2);
}

static int check(const p4d_layout *l, uint64_t engines, uint64_t world, p4d_error *err)
{
	if (l->architecture->kind != P4D_DECODER)
		return p4d_fail(err, P4D_E_VALUE,
				"p4d checks only decoders for serving, and %s is not a decoder",
				l->architecture->name);
	if (l->layer_groups)
		return p4d_fail(err, P4D_E_UNMODELLED,
				"layer-groups: p4d does not model serving of layers that share parameters");
	if (l->pattern_length)
		return p4d_fail(err, P4D_E_UNMODELLED, "%s: p4d does not model serving of models with %s",
				l->architecture->name,
				l->memory.keys ? "memory layers" : "state-space layers");
	if (p4d_serving__check_heads(l, err) < 0)
		return -1;
	if (l->pp > l->layers)
		return p4d_fail(err, P4D_E_VALUE, "pp=%" PRIu64 " is more than the %" PRIu64 " layers", l->pp,
				l->layers);
	if ((p4d_wide)l->tp * l->pp * engines <= world)
		return 0;
	if (engines == 1)
		p4d_fail(err, P4D_E_WORLD,
			 "the engine needs tp*pp = %" PRIu64 "*%" PRIu64 " GPUs, but there are %" PRIu64,
			 l->tp, l->pp, world);
	else
		p4d_fail(err, P4D_E_WORLD,
			 "%" PRIu64 " engines need tp*pp = %" PRIu64 "*%" PRIu64
			 " GPUs each, there are %" PRIu64,
			 engines, l->tp, l->pp, world);
	return p4d_fix(err, "--p4d-tp=1 --p4d-pp=1%s", engines == 1 ? "" : " --p4d-data-parallel-size=1");
}

/* Refuses options that have no effect alone, or with this model. */
static int check_options(const p4d_request *r, const p4d_layout *l, p4d_error *err)
{
	const bool offload = p4d_is_set(r, P4D_CPU_OFFLOAD) && p4d_request_real(r, P4D_CPU_OFFLOAD) > 0;

	if (offload && offloads(r))
		return p4d_fail(err, P4D_E_VALUE, "give only one of cpu-offload-gb and offload=weights");
	/* p4d accepts it from a script, because engines ignore it */
	if (r->origin[P4D_EXPERT_PARALLEL] == P4D_BY_USER && r->value[P4D_EXPERT_PARALLEL] && !l->experts)
		return p4d_fail(err, P4D_E_VALUE, "expert-parallel has no effect: the model has no experts");
	if (r->origin[P4D_HYBRID_CACHE] == P4D_BY_USER && !r->value[P4D_HYBRID_CACHE] &&
	    !p4d_serving__mixes_windows(l)) {
		p4d_fail(err, P4D_E_VALUE,
			 "hybrid-cache=off has no effect: the model does not mix layers with and without a "
			 "window");
		return p4d_fix(err, "leave out --p4d-hybrid-cache");
	}
	if (r->origin[P4D_MAX_LORA_RANK] == P4D_BY_USER && !p4d_is_set(r, P4D_MAX_LORAS)) {
		p4d_fail(err, P4D_E_VALUE, "max-lora-rank has no effect without max-loras");
		return p4d_fix(err, "--p4d-max-loras=1");
	}
	if (p4d_is_set(r, P4D_MAX_LORAS) && l->kv_rank)
		return p4d_fail(err, P4D_E_UNMODELLED, "p4d does not model adapters of latent attention");
	return 0;
}

/* How the linear layers' weights are stored on the GPU: as in the model's file, or as the engine quantizes
 * them while loading. */
int p4d_serving__stored_of(const p4d_request *r)
{
	const int stored = (int)r->value[P4D_STORED];

	/* for trainings, the option quant is about the trained model */
	if (stored != P4D_STORED_FULL || !p4d_is_set(r, P4D_QUANT) ||
	    r->value[P4D_WORKLOAD] != P4D_WORKLOAD_SERVE)
		return stored;
	return r->value[P4D_QUANT] == P4D_QUANT_FP8   ? P4D_STORED_FP8
	       : r->value[P4D_QUANT] == P4D_QUANT_NF4 ? P4D_STORED_NF4
						      : stored;
}

static int check_quant(const p4d_request *r, p4d_error *err)
{
	if (r->value[P4D_QUANT] >= P4D_QUANT_BCQ2 && r->value[P4D_WORKLOAD] == P4D_WORKLOAD_SERVE) {
		p4d_fail(err, P4D_E_VALUE, "quant: p4d knows no engine with kernels for binary codes");
		return p4d_fix(err, "--p4d-quant=nf4");
	}
	if (r->value[P4D_QUANT] != P4D_QUANT_INT8 || r->value[P4D_WORKLOAD] != P4D_WORKLOAD_SERVE ||
	    r->value[P4D_STORED] == P4D_STORED_INT8)
		return 0;
	p4d_fail(err, P4D_E_VALUE,
		 "quant=int8: engines can quantize to fp8 or nf4; int8 weights must be in the model's file");
	return p4d_fix(err, "--p4d-stored=int8");
}

/* An engine can offload only its weights. */
static int check_offload(const p4d_request *r, p4d_error *err)
{
	char value[48];

	if (p4d_is_stated(r, P4D_OFFLOAD) && r->value[P4D_OFFLOAD] && !offloads(r)) {
		p4d_fail(err, P4D_E_VALUE, "offload=%s: an inference engine can only offload weights",
			 p4d_request_value_text(r, P4D_OFFLOAD, value, sizeof(value)));
		return p4d_fix(err, "--p4d-offload=weights");
	}
	if (!p4d_is_stated(r, P4D_RESIDENT_LAYERS) || offloads(r))
		return 0;
	p4d_fail(err, P4D_E_VALUE, "resident-layers has no effect without offload=weights");
	return p4d_fix(err, "--p4d-offload=weights");
}

/* Divides the GPU's memory: the engine's share, the part of it for keys and values, and the remainder. */
static void divide(p4d_serving *s, const p4d_request *r, const p4d_layout *l)
{
	const bool outside = r->value[P4D_ENGINE] == P4D_ENGINE_SGLANG;
	const bool captures = !outside && !(p4d_is_set(r, P4D_CUDA_GRAPHS) && !r->value[P4D_CUDA_GRAPHS]);
	const uint64_t others = CONTEXT_BYTES + (l->tp * l->pp > 1 ? NCCL_BYTES : 0);
	const uint64_t before = outside ? others : 0;
	const uint64_t room = s->capacity_bytes > before ? s->capacity_bytes - before : 0;

	s->budget_bytes = (uint64_t)(p4d_request_real(r, P4D_GPU_UTILIZATION) * (double)room);
	const uint64_t rest = s->capacity_bytes - s->budget_bytes;
	s->outside_bytes = rest > others ? rest - others : 0;
	s->graphs = captures && s->max_num_seqs > FEW_SEQUENCES;
	s->graphs_bytes = captures ? (uint64_t)graphs_of(l, s->stage_layers, s->max_num_seqs) : 0;
	s->buffers_bytes = outside ? 0 : (uint64_t)buffers_of(l, s->max_batched_tokens, s->max_num_seqs);
	const uint64_t taken =
	    s->weights_bytes + (outside ? 0 : s->profile_bytes + s->buffers_bytes + s->graphs_bytes);
	s->available_bytes = taken < s->budget_bytes ? s->budget_bytes - taken : 0;
}

void p4d_serving__layout_of(const p4d_request *r, p4d_layout *l)
{
	const bool whole = p4d_is_set(r, P4D_EXPERT_PARALLEL) && r->value[P4D_EXPERT_PARALLEL];
	const bool shared = p4d_is_set(r, P4D_ENGINE_DP) && r->value[P4D_ENGINE] != P4D_ENGINE_SGLANG;

	p4d_layout_of_model(r, l);
	l->tp = (uint64_t)r->value[P4D_TP];
	l->pp = (uint64_t)r->value[P4D_PP];
	l->dp =
	    shared ? (uint64_t)r->value[P4D_ENGINE_DP] : 1; /* SGLang's data-parallel copies share nothing */
	l->ep = whole ? l->tp * l->dp : 1;
}

int p4d_serving_estimate(const p4d_request *r, const p4d_gpu *gpu, uint64_t world, p4d_serving *out,
			 p4d_error *err)
{
	p4d_serving s = {.capacity_bytes = gpu->usable_bytes};
	p4d_layout l;

	p4d_serving__layout_of(r, &l);
	const bool outside = r->value[P4D_ENGINE] == P4D_ENGINE_SGLANG;
	s.dp = p4d_is_set(r, P4D_ENGINE_DP) ? (uint64_t)r->value[P4D_ENGINE_DP] : 1;
	if (check(&l, s.dp, world, err) < 0 || check_offload(r, err) < 0 || check_options(r, &l, err) < 0 ||
	    check_quant(r, err) < 0)
		return -1;
	s.tp = l.tp;
	s.pp = l.pp;
	s.replicas = world / (l.tp * l.pp);
	s.max_model_len = (uint64_t)r->value[P4D_SEQ_LEN];
	s.max_num_seqs = (uint64_t)r->value[P4D_MAX_NUM_SEQS];
	s.max_batched_tokens = (uint64_t)r->value[P4D_MAX_BATCHED_TOKENS];
	const uint64_t layers = div_up(l.layers, l.pp);
	const uint64_t window = offloads(r) ? (uint64_t)r->value[P4D_RESIDENT_LAYERS] : layers;
	s.resident_layers = window < layers ? window : layers;
	s.streamed_window = window < layers ? window : 0;
	s.stage_layers = layers;
	const int stored = p4d_serving__stored_of(r);
	const p4d_wide all = weights_of(&l, stored, layers), inside = all - weights_of(&l, stored, 0),
		       wanted = p4d_is_set(r, P4D_CPU_OFFLOAD)
				    ? (p4d_wide)(p4d_request_real(r, P4D_CPU_OFFLOAD) * (double)GIB)
				    : 0,
		       away = wanted < inside ? wanted : inside;
	const p4d_wide adapters = p4d_is_set(r, P4D_MAX_LORAS)
				      ? adapter_of(&l, layers) * (p4d_wide)r->value[P4D_MAX_LORAS] *
					    (p4d_wide)r->value[P4D_MAX_LORA_RANK] * ELEMENT
				      : 0;
	const p4d_wide weights = weights_of(&l, stored, s.resident_layers) - away + adapters,
		       host = offloads(r) ? inside : away,
		       profile = profile_of(&l, s.max_batched_tokens, s.max_num_seqs);
	/* with latent attention, every rank caches the whole latent and the keys' rotated part */
	const uint64_t elements = l.kv_rank ? l.kv_rank + l.rope_dim : 2 * local_kv_heads(&l) * l.head_dim;
	p4d_serving_cache c = {
	    .token_bytes = elements * (r->value[P4D_KV_CACHE_DTYPE] == P4D_KV_CACHE_FP8 ? 1 : ELEMENT),
	    .windowed = p4d_serving__frees_windows(r, &l) ? p4d_serving__windowed_layers(&l, layers) : 0};
	c.full = layers - c.windowed;
	/* vLLM schedules a batch while another one runs, so a layer with a window holds more tokens */
	c.window = outside ? l.sliding_window + s.max_batched_tokens
			   : l.sliding_window - 1 + 2 * s.max_batched_tokens;
	const p4d_wide sequence = p4d_serving__sequence_bytes(&c, s.max_model_len);
	if ((all | profile | sequence * l.pp | adapters |
	     buffers_of(&l, s.max_batched_tokens, s.max_num_seqs) | graphs_of(&l, layers, s.max_num_seqs)) >>
	    62)
		return p4d_fail(err, P4D_E_OVERFLOW,
				"one GPU would hold more than 4 EiB; check the model's sizes");
	s.weights_bytes = (uint64_t)weights;
	s.loading_bytes =
	    stored == P4D_STORED_FP8 && r->value[P4D_STORED] == P4D_STORED_FULL && !away && !offloads(r)
		? (uint64_t)weights_of(&l, P4D_STORED_FULL, layers)
		: s.weights_bytes;
	s.host_bytes = (uint64_t)host;
	s.adapter_bytes = (uint64_t)adapters;
	s.profile_bytes = (uint64_t)profile;
	s.sequence_bytes = (uint64_t)sequence;
	s.token_bytes = c.full * c.token_bytes;
	s.windowed_bytes = c.windowed * c.token_bytes;
	s.unread_bytes = (p4d_serving__windowed_layers(&l, layers) - c.windowed) * c.token_bytes;
	s.window = s.windowed_bytes || s.unread_bytes ? l.sliding_window : 0;
	divide(&s, r, &l);
	const uint64_t windowed = c.windowed * l.pp < l.layers ? c.windowed * l.pp : l.layers;
	const p4d_serving_cache all_stages = {.token_bytes = c.token_bytes,
					      .full = l.layers - windowed,
					      .windowed = windowed,
					      .window = c.window};
	s.all_stages_bytes =
	    l.pp > 1 ? (uint64_t)p4d_serving__sequence_bytes(&all_stages, s.max_model_len) : 0;
	s.longest_in_all = p4d_serving__longest_within(&all_stages, s.available_bytes, s.max_model_len);
	s.sequences = s.available_bytes / s.sequence_bytes;
	s.tokens = (uint64_t)((double)s.available_bytes / (double)s.sequence_bytes * (double)s.max_model_len);
	s.longest = p4d_serving__longest_within(&c, s.available_bytes, s.max_model_len);
	*out = s;
	return 0;
}

int p4d_serving_check(const char *model, const p4d_gpu *gpu, const p4d_serving *s, p4d_error *err)
{
	const double gib = (double)GIB;

	if (s->sequences)
		return 0;
	if (!s->longest) {
		p4d_fail(
		    err, P4D_E_DOES_NOT_FIT,
		    "%s: weights take %.1f GiB, and the profile run, buffers and graphs %.1f GiB, of the "
		    "%.1f "
		    "GiB that the engine may use on %s: nothing is left for the KV cache with tp=%" PRIu64
		    " pp=%" PRIu64,
		    model, (double)s->weights_bytes / gib,
		    (double)(s->profile_bytes + s->buffers_bytes + s->graphs_bytes) / gib,
		    (double)s->budget_bytes / gib, gpu->name, s->tp, s->pp);
		return p4d_fix(err, "--p4d-tp=%" PRIu64, 2 * s->tp);
	}
	p4d_fail(err, P4D_E_DOES_NOT_FIT,
		 "%s: a sequence of %" PRIu64
		 " tokens needs %.1f GiB of KV cache on each %s, but only %.1f GiB are "
		 "left with tp=%" PRIu64 " pp=%" PRIu64 "; %" PRIu64 " tokens fit",
		 model, s->max_model_len, (double)s->sequence_bytes / gib, gpu->name,
		 (double)s->available_bytes / gib, s->tp, s->pp, s->longest);
	return p4d_fix(err, "--p4d-seq-len=%" PRIu64, s->longest);
}

int p4d_serving_check_start(const p4d_request *r, const p4d_gpu *gpu, const p4d_serving *s, p4d_error *err)
{
	const double gib = (double)GIB, utilization = p4d_request_real(r, P4D_GPU_UTILIZATION);

	if (s->loading_bytes > s->capacity_bytes) {
		p4d_fail(err, P4D_E_ABOVE_SAFE,
			 "quant=fp8: engines that quantize weights after loading first need %.1f of the %.1f "
			 "GiB of %s for 16-bit weights",
			 (double)s->loading_bytes / gib, (double)s->capacity_bytes / gib, gpu->name);
		return p4d_fix(err, "--p4d-tp=%" PRIu64, 2 * s->tp);
	}
	if (r->value[P4D_ENGINE] == P4D_ENGINE_VLLM && s->all_stages_bytes > s->available_bytes) {
		p4d_fail(err, P4D_E_ABOVE_SAFE,
			 "pp=%" PRIu64
			 ": vLLM 0.14 and 0.15 compare the KV cache of all stages, %.1f GiB for %" PRIu64
			 " tokens, with the %.1f GiB that one %s has for it; other releases compare the KV "
			 "cache of each stage",
			 s->pp, (double)s->all_stages_bytes / gib, s->max_model_len,
			 (double)s->available_bytes / gib, gpu->name);
		return s->longest_in_all ? p4d_fix(err, "--p4d-seq-len=%" PRIu64, s->longest_in_all) : -1;
	}
	if (!s->graphs || s->outside_bytes >= GIB)
		return 0;
	const double least = utilization - ((double)(GIB - s->outside_bytes) / (double)s->capacity_bytes);
	p4d_fail(err, P4D_E_ABOVE_SAFE,
		 "gpu-memory-utilization=%.3g leaves %.1f GiB of %s next to the CUDA context%s: vLLM before "
		 "0.21 puts CUDA graphs of 1 to 3 GiB there; with --enforce-eager it makes none",
		 utilization, (double)s->outside_bytes / gib, gpu->name,
		 s->tp * s->pp > 1 ? " and NCCL" : "");
	return p4d_fix(err, "--p4d-gpu-memory-utilization=%.2f", (double)(int)(100 * least) / 100);
}

/* Whether the engine starts with this tp on as many GPUs as it needs. */
static bool starts_with(const p4d_request *request, const p4d_gpu *gpu, uint64_t tp)
{
	p4d_request with = *request;
	p4d_serving s;

	p4d_request_put(&with, P4D_TP, (int64_t)tp, P4D_BY_USER);
	return p4d_serving_estimate(&with, gpu, UINT32_MAX, &s, NULL) == 0 &&
	       p4d_serving_check(request->model, gpu, &s, NULL) == 0;
}

void p4d_serving_fix_tp(const p4d_request *request, const p4d_gpu *gpu, uint64_t world,
			uint64_t gpus_per_node, p4d_error *err)
{
	enum { MOST = 256 };
	const uint64_t now = (uint64_t)request->value[P4D_TP], pp = (uint64_t)request->value[P4D_PP],
		       dp = p4d_is_set(request, P4D_ENGINE_DP) ? (uint64_t)request->value[P4D_ENGINE_DP] : 1;
	uint64_t tp = now + 1;

	if (!err || err->code != P4D_E_DOES_NOT_FIT)
		return;
	while (tp <= MOST && !starts_with(request, gpu, tp))
		tp++;
	const bool there =
	    tp <= MOST && tp * pp * dp <= world && (tp <= gpus_per_node || tp % gpus_per_node == 0);
	if (there) {
		p4d_fix(err, "--p4d-tp=%" PRIu64, tp);
		return;
	}
	const p4d_error inner = *err;
	if (tp <= MOST)
		p4d_fail(err, inner.code,
			 "%.380s; the model needs tp=%" PRIu64 ", %" PRIu64 " GPUs of this kind", inner.text,
			 tp, tp * pp * dp);
	else
		p4d_fail(err, inner.code, "%s", inner.text);
	if (strncmp(inner.fix, "--p4d-seq-len=", strlen("--p4d-seq-len=")) == 0)
		p4d_fix(err, "%s", inner.fix);
}

int p4d_serving_check_host(const p4d_serving *s, uint64_t gpus_per_node, uint64_t host_bytes, p4d_error *err)
{
	const p4d_wide need = (p4d_wide)s->host_bytes * gpus_per_node;

	if (!host_bytes || need <= host_bytes)
		return 0;
	p4d_fail(err, P4D_E_HOST_MEMORY,
		 "weights on the host take %.1f GiB on a node (%.1f GiB for each of %" PRIu64
		 " GPUs), which has %.1f GiB",
		 (double)need / (double)GIB, (double)s->host_bytes / (double)GIB, gpus_per_node,
		 (double)host_bytes / (double)GIB);
	return p4d_fix(err, "--mem=%" PRIu64 "G", (uint64_t)(need / GIB) + 1);
}
