/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "request/architecture.h"
#include "request/request.h"

enum { P4D_MAX_STAGES = 1024, P4D_MAX_UNEVEN_CHUNKS = 512, P4D_MAX_SLICES = 64 };

/*
 * Members that depend on one option. The tables declare them here and fill them in layout.c. HAS(type,
 * member, option): the option's value in the framework (p4d_framework_value). SET(type, member, option,
 * otherwise): the option's value; if it is unset `otherwise`, an expression that may use the layout l.
 */
#define P4D_LAYOUT_MODEL(SET) \
	SET(uint64_t, layers, LAYERS, 0) \
	SET(uint64_t, hidden, HIDDEN, 0) \
	SET(uint64_t, ffn, FFN, 0) \
	SET(uint64_t, heads, HEADS, 0) \
	SET(uint64_t, kv_heads, KV_HEADS, 0) \
	SET(uint64_t, layer_groups, LAYER_GROUPS, 0)     /* layers with parameters of their own; 0: all */ \
	SET(uint64_t, embedding_size, EMBEDDING_SIZE, 0) /* with layer_groups: features of an embedding */ \
	SET(uint64_t, head_dim, HEAD_DIM, 0) \
	/* padded to the framework's multiple times tp (tp*pp with vocabulary parallelism) */ \
	SET(uint64_t, vocab, VOCAB, 0) \
	SET(uint64_t, experts, EXPERTS, 0) \
	SET(uint64_t, mtp_layers, MTP_LAYERS, 0) /* layers of the last stage for multi-token prediction */ \
	SET(uint64_t, kv_rank, KV_LORA_RANK, 0)  /* rank of latent attention; 0: no latent attention */ \
	SET(bool, glu, GLU, 0) \
	SET(bool, tied, TIED, 0) \
	SET(int, bias, BIAS, 0) \
	SET(int, activation, ACTIVATION, 0) \
	SET(int, qk_norm, QK_NORM, 0) \
	/* tokens; 0: no window. architecture: which layers have it */ \
	SET(uint64_t, sliding_window, SLIDING_WINDOW, 0)

/* Sizes of latent attention; valid only if kv_rank is not 0. */
#define P4D_LAYOUT_LATENT(SET) \
	SET(uint64_t, q_rank, Q_LORA_RANK, 0) \
	SET(uint64_t, rope_dim, ROPE_HEAD_DIM, 0) \
	SET(uint64_t, v_dim, V_HEAD_DIM, l->head_dim)

/*
 * Sizes of layers with experts. After the first dense_layers, every Nth layer has experts (N is
 * expert_every). All sizes are 0 without experts.
 */
#define P4D_LAYOUT_EXPERTS(SET) \
	SET(uint64_t, experts_per_token, EXPERTS_PER_TOKEN, 1) \
	SET(uint64_t, expert_ffn, EXPERT_FFN, l->ffn) \
	SET(uint64_t, shared_ffn, SHARED_FFN, 0) \
	SET(uint64_t, dense_layers, DENSE_LAYERS, 0) \
	SET(uint64_t, expert_every, EXPERT_EVERY, 1)

/* Sizes of state-space layers, with a pattern. */
#define P4D_LAYOUT_STATES(SET) \
	SET(uint64_t, size, STATE_SIZE, 0) \
	SET(uint64_t, heads, STATE_HEADS, 0) \
	SET(uint64_t, head_dim, STATE_HEAD_DIM, 1) \
	SET(uint64_t, groups, STATE_GROUPS, 1) \
	SET(uint64_t, rank, STATE_RANK, 0) \
	SET(uint64_t, conv, STATE_CONV, 4) \
	SET(uint64_t, chunk, STATE_CHUNK, strchr(l->pattern, 'G') ? 64 : 128)

/* Sizes of memory layers (P4D_FEED_MEMORY); without such layers, the number of keys is 0. */
enum { P4D_MEMORY_TOP_DEFAULT = 32 };
#define P4D_LAYOUT_MEMORY(SET) \
	SET(uint64_t, keys, MEMORY_KEYS, 0) \
	SET(uint64_t, heads, MEMORY_HEADS, 4) \
	SET(uint64_t, top, MEMORY_TOP, P4D_MEMORY_TOP_DEFAULT) \
	SET(uint64_t, key_dim, MEMORY_KEY_DIM, (l->hidden + 3) / 4 * 2) \
	SET(uint64_t, parallel, MEMORY_PARALLEL, 1)

/* Members that are equal in all layouts of a search, in addition to the model. */
#define P4D_LAYOUT_TRAINING(HAS, SET) \
	SET(int, framework, FRAMEWORK, 0) \
	SET(int, precision, PRECISION, 0) \
	SET(int, device, DEVICE, 0) \
	SET(uint64_t, seq_len, SEQ_LEN, 0) \
	SET(uint64_t, global_batch, GLOBAL_BATCH, 0) \
	SET(uint64_t, expert_domains, EXPERT_DOMAINS, 1) /* number of data domains; the ranks of each domain \
							    have their own feed-forward layers (DEMix) */ \
	SET(uint64_t, document_len, DOCUMENT_LEN, 0)     /* mean length of documents; 0: a sequence is one \
							  * document */ \
	/* elements of gradients that DeepSpeed reduces together */ \
	SET(uint64_t, zero_bucket, ZERO_BUCKET, 500000000) \
	/* how many layers fit into the window of parameters on the GPU; 0: the default */ \
	SET(uint64_t, resident_layers, RESIDENT_LAYERS, 0) \
	/* ranks of dp*cp that together hold one copy of the parameters; 0: all ranks */ \
	HAS(uint64_t, shard_degree, SHARD_DEGREE) \
	HAS(int, optimizer, OPTIMIZER) /* P4D_ADAMW, ... */ \
	HAS(bool, fused_swiglu, SWIGLU) \
	HAS(int, flash_attention, ATTENTION) /* P4D_UNFUSED, which is 0, ... */ \
	HAS(bool, dropout, DROPOUT) \
	HAS(int, grad_dtype, GRAD_DTYPE) \
	HAS(int, fp8_recipe, FP8_RECIPE)        /* with precision P4D_FP8 */ \
	HAS(bool, fp8_params, FP8_PARAM_GATHER) /* linear layers' parameters are stored in FP8 */ \
	HAS(int, allocator, ALLOCATOR) \
	HAS(bool, overlap_dp, OVERLAP_DP) \
	HAS(bool, half_moments, OPTIMIZER_DTYPE) /* type of moments: 16 bits; else fp32 */

/* Only for Megatron-LM. */
#define P4D_LAYOUT_MEGATRON(HAS) \
	HAS(uint64_t, recompute_layers, RECOMPUTE_LAYERS) /* layers of a recomputed group, or recomputed \
							   * layers of each chunk */ \
	/* recompute the first layers of each chunk; else all layers, in groups */ \
	HAS(bool, recompute_block, RECOMPUTE_METHOD) \
	HAS(bool, half_master, MASTER_DTYPE) /* type of master weights: 16 bits; else fp32 */ \
	HAS(bool, fused_cross_entropy, CROSS_ENTROPY) \
	HAS(bool, te_wgrad, TE_WGRAD) \
	HAS(int, graphs, CUDA_GRAPHS) /* part of a layer that CUDA graphs capture, P4D_GRAPHS_NONE ... */

/* Only for programs with PyTorch's modules: torchtitan, and programs that train transformers' or litgpt's. */
#define P4D_LAYOUT_TORCH(HAS) \
	HAS(int, model_code, MODEL_CODE) /* whose modules, for frameworks that can train several */ \
	/* release of the library, in units of P4D_RELEASE_UNIT; 0: unknown */ \
	HAS(uint64_t, transformers, TRANSFORMERS) \
	HAS(bool, optimizer_foreach, OPTIMIZER_FOREACH) /* the update allocates a temporary of one moment */ \
	HAS(int, param_dtype, PARAM_DTYPE)              /* type of stored parameters, if it is not the \
							 * precision's */ \
	HAS(bool, compile, COMPILE) \
	HAS(bool, packing, PACKING) \
	HAS(bool, autocast, AUTOCAST) \
	HAS(int, chunked_loss, CHUNKED_LOSS) /* P4D_LOSS_* */

/* Numbers that differ between the layouts of a search. */
#define P4D_LAYOUT_CHOICES(HAS, SET) \
	HAS(uint64_t, cp, CP) \
	HAS(uint64_t, pp, PP) \
	SET(uint64_t, vpp, VPP, 0) \
	SET(uint64_t, micro_batch, MICRO_BATCH, 0) \
	SET(int, schedule, SCHEDULE, 0) \
	SET(int, vocab_parallel, VOCAB_PARALLEL, 0) \
	SET(int, recompute, RECOMPUTE, 0)

/*
 * A layout is a complete request turned into checked numbers: it satisfies every divisibility rule, and dp
 * and the number of micro-batches are derived. From here on, everything is arithmetic that can fail only by
 * overflow.
 */
typedef struct p4d_layout {
#define HAS(type, member, option) type member;
#define SET(type, member, option, otherwise) type member;
	P4D_LAYOUT_MODEL(SET)
	P4D_LAYOUT_LATENT(SET)
	P4D_LAYOUT_EXPERTS(SET)
	P4D_LAYOUT_TRAINING(HAS, SET)
	P4D_LAYOUT_CHOICES(HAS, SET)
	struct {
		P4D_LAYOUT_STATES(SET)
	} state;
	struct {
		P4D_LAYOUT_MEMORY(SET)
	} memory;
	struct {
		P4D_LAYOUT_MEGATRON(HAS)
		int dispatcher;         /* how tokens reach experts: P4D_ALL_TO_ALL ... */
		double expert_capacity; /* maximum tokens of an expert, divided by the mean; 0: no maximum.
					   pads_experts: every expert is padded to this many tokens */
		bool pads_experts;
		bool shared_overlap;  /* shared experts run concurrently with the exchange of tokens */
		bool expert_overlap;  /* passes of another micro-batch run concurrently with the exchange */
		uint64_t token_nodes; /* maximum number of nodes with experts of the same token; 0: any */
		/* modules to recompute, for models with experts or latent attention with
		 * recompute=selective or moe: mask of P4D_MODULE_* */
		unsigned recompute_modules;
		uint64_t cp_heads; /* with P4D_CP_P2P: number of ranks that exchange heads; 1: none */
		bool attention_mask;
		bool attention_dropout;             /* dropout on the probabilities of unfused attention */
		bool adam_copies, adam_copies_open; /* fp32 copies of 16-bit moments; open: nobody set
						     * this, so it is a default */
		bool overlap_p2p;                   /* with the interleaved schedule */
	} megatron;
	struct {
		P4D_LAYOUT_TORCH(HAS)
		const struct p4d_class_loss *class_loss; /* loss of the model's class; NULL: the usual loss */
	} torch;
	struct {
		bool keeps_gathered; /* parameters stay gathered after the forward pass */
		/* flat: FSDP1. flat_alone: use_orig_params is off. never_prefetches: gathers parameters
		 * only on use. prefetches_forward: gathers ahead in forward passes as well. */
		bool flat, flat_alone, never_prefetches, prefetches_forward;
	} fsdp;
	struct {
		uint64_t rank;    /* rank of adapters; 0 without */
		unsigned targets; /* linear layers with an adapter: mask of P4D_TARGET_* */
		bool fp32;        /* type of adapters is fp32; else bf16 */
		double dropout;   /* share of the input of adapters that is dropped */
	} lora;
#undef HAS
#undef SET
	/* the model's pattern: letters of layers.h, one per layer, repeated; length 0: all layers have
	 * attention */
	char pattern[P4D_PATTERN_SIZE];
	unsigned pattern_length;
	uint8_t experts_before[P4D_PATTERN_SIZE]; /* number of blocks of experts before letter i */
	uint64_t positions;                       /* rows of the learned position table, 0 with rope */
	unsigned norm_tensors;                    /* tensors of a norm: 1: scale; 2: scale and shift; 0:
						   * none */
	bool evaluates;  /* p4d-train --eval-only: only forward passes, so neither gradients nor optimizer */
	bool serves;     /* an inference engine, with kernels of its own */
	unsigned biased; /* linear layers with a bias: a mask of P4D_BIASED_* */
	/* Factors on the embedding's output, on the output of a block, on scores and on logits. */
	struct {
		double embedding, residual, attention, logit;
	} factor;
	const struct p4d_architecture *architecture; /* see architecture.h; never NULL */
	/* parallel degrees */
	uint64_t world, gpus_per_node, tp, dp;
	/* --tp-grid X,Y,Z (arXiv 2305.13525): tp is X, which splits heads and feed-forward columns. Y
	 * splits the hidden features. Z splits a layer's matrices and a micro-batch's sequences. Each is 1
	 * without a grid: see p4d_tp_ranks. */
	uint64_t tp_y, tp_z;
	uint64_t ep, etp;     /* parallel degrees of experts; 1 without experts */
	uint64_t expert_dp;   /* ranks that hold the same experts: dp*cp*tp / (ep*etp) */
	double imbalance;     /* tokens of the fullest rank's experts, divided by the mean */
	uint64_t link_domain; /* GPUs that NVLink connects: those of one node, or of several nodes */
	p4d_network network;  /* between nodes; only the cost model uses it */
	/* batch */
	uint64_t eval_micro_batch, micro_batches;
	double document_excess; /* by how much the attention of the slowest rank exceeds the mean, as in
				   p4d_cost_documents; 0 without documents */
	/*
	 * Slices of each sequence, which pass one after another; 1: whole sequences. slice_begin, slice_len:
	 * the tokens of a pass. In a layout they describe the longest slice, with slice_begin 0, for which
	 * buffers are planned. The cost model sets them to each slice in copies of the layout.
	 */
	uint64_t slices, slice_begin, slice_len;
	/* switches */
	bool local_loss; /* each stage has its own head and loss; no gradient crosses stages */
	int cp_comm;     /* P4D_CP_P2P also without context parallelism */
	bool sequence_parallel, optimizer_sharding;
	int zero_stage;   /* the dp*cp ranks shard nothing (0), optimizer states (1), also gradients (2), also
			     parameters (3) */
	unsigned offload; /* tensors in host memory: mask of P4D_OFFLOAD_* */
	bool pairs, reference; /* preference training: the loss needs pairs of sequences, and there is a
				* frozen copy of the model */
	int finetune, quant;   /* which parameters are trained; type of the layers' frozen weights */
	/* overlap of communication and computation, if the framework has a choice */
	bool tp_comm_overlap;
	bool embedding_counts, loss_counts;    /* embedding and loss count as one layer each, in
						* the split over stages */
	bool uneven_chunks;                    /* the chunks of a stage differ: see p4d_chunk_layers */
	uint32_t stage_layers[P4D_MAX_STAGES]; /* layers of each stage; only the first pp elements are used */
	uint16_t chunk_layers[P4D_MAX_UNEVEN_CHUNKS]; /* layers of each chunk in the order of the model,
						       * if chunks differ */
	uint32_t slice_tokens[P4D_MAX_SLICES];        /* tokens of each slice, if there are several */
} p4d_layout;

/* Tokens of a sequence in one pass, on all cp ranks together. */
static inline uint64_t p4d_pass_tokens(const p4d_layout *l)
{
	return l->slices > 1 ? l->slice_len : l->seq_len;
}

/* p4d chooses lengths of slices that are multiples of this. */
uint64_t p4d_layout_slice_step(const p4d_layout *layout);
/*
 * Stores other lengths, one per slice. They must be multiples of p4d_layout_slice_step and add up to the
 * sequence length.
 */
void p4d_layout_set_slices(p4d_layout *layout, const uint32_t *lengths);
/* Writes the lengths of slices as text. Returns buf. */
const char *p4d_layout_slices_text(const uint32_t *lengths, uint64_t slices, char *buf, size_t size);

/* Modules of --recompute-modules, as Megatron-LM has them. */
enum {
	P4D_MODULE_CORE_ATTENTION = 1,
	P4D_MODULE_LAYERNORM = 2,
	P4D_MODULE_MLA_UP = 4,
	P4D_MODULE_MLP = 8,
	P4D_MODULE_MOE = 16,
	P4D_MODULE_MOE_ACTIVATION = 32,
	P4D_MODULE_SHARED_EXPERTS = 64
};

/* Linear layers of --lora-targets. If several are one matrix, the bit of the first one counts (gate: the
 * bit of up). */
enum {
	P4D_TARGET_Q = 1,
	P4D_TARGET_K = 2,
	P4D_TARGET_V = 4,
	P4D_TARGET_O = 8,
	P4D_TARGET_GATE = 16,
	P4D_TARGET_UP = 32,
	P4D_TARGET_DOWN = 64,
	P4D_TARGET_ATTENTION = 15,
	P4D_TARGET_ALL = 127
};

/*
 * Key/value heads on a rank. If there are fewer than tp, several ranks have copies of a head (Megatron-Core).
 */
static inline uint64_t p4d_rank_kv_heads(const p4d_layout *l)
{
	return l->kv_heads < l->tp ? 1 : l->kv_heads / l->tp;
}

/* Position of a stage's chunk in the model. In V-shaped schedules, the second chunks run back. */
static inline uint64_t p4d_chunk_position(const p4d_layout *l, uint64_t stage, uint64_t chunk)
{
	return chunk == 1 && p4d_is_v_shaped(l->schedule) ? 2 * l->pp - 1 - stage : chunk * l->pp + stage;
}

static inline uint32_t p4d_chunk_layers(const p4d_layout *l, uint32_t stage, uint32_t chunk)
{
	return l->uneven_chunks ? l->chunk_layers[p4d_chunk_position(l, stage, chunk)]
				: l->stage_layers[stage] / (uint32_t)l->vpp;
}

/* Number of layers with experts among the first n layers of a pattern (layers.c). */
uint64_t p4d_layers_with_experts(const p4d_layout *layout, uint64_t n);

/* Number of layers with experts among the first n layers. */
static inline uint64_t p4d_expert_layers_before(const p4d_layout *l, uint64_t n)
{
	const uint64_t dense = n < l->dense_layers ? n : l->dense_layers;

	if (l->pattern_length)
		return p4d_layers_with_experts(l, n);
	return l->experts ? n / l->expert_every - dense / l->expert_every : 0;
}

/*
 * Attention window of a layer in tokens, counting the token itself; 0: the layer attends to all tokens of the
 * sequence.
 */
static inline uint64_t p4d_window_of(const p4d_layout *l, uint64_t layer)
{
	const unsigned every = l->architecture->full_attention_every;

	return l->sliding_window < l->seq_len && !(every && (layer + 1) % every == 0) ? l->sliding_window : 0;
}

/* Ranks that share the layers' matrices and the sequences of a micro-batch. */
static inline uint64_t p4d_tp_ranks(const p4d_layout *l)
{
	return l->tp * l->tp_y * l->tp_z;
}

/* X, Y and Z of --tp-grid. */
typedef struct p4d_tp_grid {
	uint64_t x, y, z;
} p4d_tp_grid;

static inline void p4d_layout_put_grid(p4d_layout *l, p4d_tp_grid grid)
{
	l->tp = grid.x;
	l->tp_y = grid.y;
	l->tp_z = grid.z;
}

/* layout_grid.c: tp as "8", or with a grid "8 (2,2,2)". Returns buf. */
enum { P4D_TP_TEXT = 96 };
const char *p4d_layout_tp_text(const p4d_layout *layout, char buf[P4D_TP_TEXT]);

/* The grid of a complete request, "2,2,2"; "8,1,1" if none is set. Returns buf. */
const char *p4d_layout_grid_text(const p4d_request *request, char *buf, size_t size);

/* Whether --tp-grid=auto leaves the grid open. A search then chooses it; p4d_layout_build refuses such a
 * request. */
bool p4d_layout_grid_is_open(const p4d_request *request);

/* Whether a grid divides the model's matrices and the micro-batch. */
bool p4d_layout_grid_works(const p4d_layout *layout, p4d_tp_grid grid);

/*
 * Adds a fix to *err: a grid of `ranks` ranks. It is the grid with the largest X among those that work and
 * stay on NVLink. If there is none, it is a grid of the largest number of ranks with which a grid works.
 * Returns -1.
 */
int p4d_layout_fix_grid(const p4d_layout *layout, uint64_t ranks, p4d_error *err);

/* Sequences of a micro-batch on a rank, and hidden features. */
static inline uint64_t p4d_rank_batch(const p4d_layout *l)
{
	return l->micro_batch / l->tp_z;
}

static inline uint64_t p4d_rank_hidden(const p4d_layout *l)
{
	return l->hidden / l->tp_y;
}

/* Whether tensor parallelism stays on NVLink: inside a node, or on whole nodes of an NVLink domain. */
static inline bool p4d_tp_is_linked(const p4d_layout *l, uint64_t tp)
{
	return l->gpus_per_node % tp == 0 || (l->link_domain % tp == 0 && tp % l->gpus_per_node == 0);
}

/* Like p4d_tp_is_linked, for a grid. Z may span whole nodes, because matrices are gathered one layer ahead
 * (AxoNN). */
static inline bool p4d_grid_is_linked(const p4d_layout *l, p4d_tp_grid g)
{
	const uint64_t ranks = g.x * g.y * g.z;

	return p4d_tp_is_linked(l, ranks) ||
	       (g.z > 1 && p4d_tp_is_linked(l, g.x * g.y) && ranks % l->gpus_per_node == 0);
}

/* Whether Megatron-LM's precision-aware optimizer keeps states in fewer bits. */
static inline bool p4d_precise_optimizer(const p4d_layout *l)
{
	return l->half_moments || l->megatron.half_master;
}

/*
 * The options that a search may choose, in the order they are printed. If the user does not set
 * eval-micro-batch, it stays unset and equals micro-batch. Unset token-slices are 1.
 */
enum { P4D_LAYOUT_OPTIONS = 13 };
extern const p4d_option p4d_layout_options[P4D_LAYOUT_OPTIONS];

/* Options of sharding. p4d chooses more sharding than the default only if nothing else fits, and prints
 * these options only then. */
enum { P4D_SHARING_OPTIONS = 2 };
extern const p4d_option p4d_sharing_options[P4D_SHARING_OPTIONS];
/* Whether p4d chose more sharding than the default for this option. */
bool p4d_layout_shares_more(const p4d_request *request, p4d_option option);
/* Appends the sharding options that p4d chose, "--p4d-optimizer-sharding=parameters" with the prefix
 * "--p4d-". */
void p4d_layout_add_sharing(const p4d_request *request, const char *prefix, p4d_text *text);
/* Whether the option's value is the default. */
bool p4d_layout_is_default(const p4d_request *request, p4d_option option);

/* Whether an option has no effect because the model has no experts. */
bool p4d_layout_lacks(const p4d_request *request, p4d_option option);

/*
 * Whether a framework can split kv_heads key/value heads over tp ranks, or give several ranks copies of a
 * head.
 */
bool p4d_layout_kv_heads_work(int framework, uint64_t kv_heads, uint64_t tp);

/*
 * Builds a layout for nodes * gpus_per_node GPUs (host processes with --device cpu). The request must have a
 * value for every plan option (see p4d_request_complete in defaults.h). Errors: the codes 20 to 29, each with
 * numbers that work.
 */
int p4d_layout_build(const p4d_request *request, uint64_t nodes, uint64_t gpus_per_node, p4d_layout *layout,
		     p4d_error *err);

/* The three steps of p4d_layout_build, for the search, which builds thousands of layouts for one request. */
int p4d_layout_check_complete(const p4d_request *request, p4d_error *err);
/* The step that cannot fail: copies the numbers of a complete request; checks and derives nothing. */
void p4d_layout_fill(const p4d_request *request, uint64_t nodes, uint64_t gpus_per_node, p4d_layout *layout);
/*
 * Derives and checks the rest of a layout. The layout was filled from this request, or from one that differs
 * only in what the search chooses (degrees, chunks, schedule, split, slices, cp-comm, vocabulary and sequence
 * parallelism, micro-batch, recompute). After an error these members are undefined.
 */
int p4d_layout_derive(const p4d_request *request, p4d_layout *layout, p4d_error *err);

/* A layout of the model on one rank, with vocabulary and positions as in the model's file. All other
 * members are 0. */
void p4d_layout_of_model(const p4d_request *request, p4d_layout *layout);
