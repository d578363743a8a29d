/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of a step: those of the model, and those that the hardware executes. */
#include <math.h>

#include "cost/cost_internal.h"

/* Share of a sequence's attention scores that layers with a window compute. */
static double window_share(const p4d_layout *l)
{
	const double reach = (double)l->sliding_window / (double)l->seq_len;
	double every, full;

	if (!l->sliding_window || reach >= 1)
		return 1;
	every = l->architecture->full_attention_every;
	full = every > 0 ? 1 / every : 0;
	/* the first queries of a sequence have fewer keys than the window */
	return full + (1 - full) * reach * (2 - reach);
}

/*
 * Documents end at random and independently. If their mean length is m in a sequence of length s, the sum of
 * their squared lengths is on average this share of s^2.
 */
static double share_of_documents(const p4d_layout *l)
{
	const double x = (double)l->document_len / (double)l->seq_len;

	return l->document_len ? 2 * x - 2 * x * x * (1 - exp(-1 / x)) : 1;
}

/*
 * Fused attention works on tiles of 128 queries and keys. Where the causal mask or the end of a document cuts
 * a tile, it computes all of it. If documents have random lengths, with mean m, and x = 128 / m, the tiles of
 * a document have (x / (1 - e^-x))^2 times the scores that the document needs. The GPU's rates already
 * include this loss for a sequence that is one document.
 */
#define ATTENTION_TILE 128.0

double p4d_cost__tile_excess(const p4d_layout *l)
{
	const double x = ATTENTION_TILE / (double)l->document_len, ratio = x / (1 - exp(-x));

	return l->document_len ? fmax(1, ratio * ratio / (1 + ATTENTION_TILE / (double)l->seq_len)) : 1;
}

double p4d_cost__scores_share(const p4d_layout *l)
{
	return fmin(window_share(l), share_of_documents(l));
}

/*
 * The share of share_of_documents, and by how much the attention of the busiest data-parallel rank exceeds
 * the mean over the ranks. A rank's attention is proportional to the sum of the squared lengths of its
 * documents. The relative standard deviation of this sum for one sequence is sqrt(2 m / s) if documents are
 * many (a renewal process), and 0 if there is one document. This formula is within a fifth of simulated
 * values.
 */
p4d_cost_of_documents p4d_cost_documents(const p4d_layout *l)
{
	const double share = share_of_documents(l), ranks = (double)l->dp;
	const double sequences = (double)l->micro_batch * (double)l->micro_batches;
	const double deviation =
	    sqrt(2 * (double)l->document_len / (double)l->seq_len) * (1 - share) / sqrt(sequences);

	return (p4d_cost_of_documents){share, deviation * sqrt(2 * log(ranks))};
}

static double up_matrices(const p4d_layout *l)
{
	return (l->glu ? 2.0 : 1.0) * (double)l->hidden * (double)l->ffn;
}

/*
 * Elements of the matrices of latent attention: down to the latent vectors, up from the latent vectors, and
 * of the output.
 */
static double attention_matrices(const p4d_layout *l)
{
	const double h = (double)l->hidden, heads = (double)l->heads, d = (double)l->head_dim;
	const double query = heads * (d + (double)l->rope_dim), v = (double)l->v_dim;
	const double q_rank = (double)l->q_rank, kv_rank = (double)l->kv_rank;

	if (!l->kv_rank)
		return (l->architecture->gated_attention ? 3 : 2) * h * d * heads +
		       2 * h * d * (double)l->kv_heads;
	return (q_rank > 0 ? (h + query) * q_rank : h * query) + h * (kv_rank + (double)l->rope_dim) +
	       kv_rank * heads * (d + v) + heads * v * h;
}

static double dense_matrices(const p4d_layout *l)
{
	return up_matrices(l) + (double)l->ffn * (double)l->hidden;
}

/* Elements of the matrices of the router and the shared experts. */
static double beside_experts(const p4d_layout *l)
{
	const double shared = (l->glu ? 3.0 : 2.0) * (double)l->shared_ffn;

	return (double)l->hidden * ((double)l->experts + shared);
}

static p4d_layer_counts all_layers(const p4d_layout *l)
{
	return p4d_layers_count(l, 0, l->layers);
}

/* The mean number of elements over a pattern's layers, either those with experts or the others. */
static double mean_matrices(const p4d_layout *l, bool experts)
{
	const p4d_layer_counts counts = all_layers(l);
	double sum = 0, layers = 0;

	for (int m = 0; m < P4D_MIXERS; m++)
		for (int f = 0; f < P4D_FEEDS; f++) {
			const double n = (f == P4D_FEED_EXPERTS) == experts ? (double)counts.of[m][f] : 0;
			sum += n *
			       ((m == P4D_MIX_ATTENTION     ? attention_matrices(l)
				 : m == P4D_MIX_CONVOLUTION ? 4 * (double)l->hidden * (double)l->hidden
				 : m == P4D_MIX_MAMBA2 || m == P4D_MIX_DELTA_NET ? p4d_cost__state_matrices(l)
										 : 0) +
				(f == P4D_FEED_DENSE     ? dense_matrices(l)
				 : f == P4D_FEED_EXPERTS ? beside_experts(l)
				 : f == P4D_FEED_MEMORY  ? p4d_cost__memory_matrices(l)
							 : 0));
			layers += n;
		}
	return layers > 0 ? sum / layers : 0;
}

double p4d_cost__layer_matrices(const p4d_layout *l)
{
	return l->pattern_length ? mean_matrices(l, false) : attention_matrices(l) + dense_matrices(l);
}

double p4d_cost__expert_layer_matrices(const p4d_layout *l)
{
	return l->pattern_length ? mean_matrices(l, true) : attention_matrices(l) + beside_experts(l);
}

/* Number of layers with attention. */
static double attending(const p4d_layout *l)
{
	const p4d_layer_counts counts = l->pattern_length ? all_layers(l) : (p4d_layer_counts){0};

	return l->pattern_length ? (double)p4d_layers_with_mixer(&counts, P4D_MIX_ATTENTION)
				 : (double)(l->layers + l->mtp_layers);
}

/* FLOPs per token of the forward scans of all state-space layers. */
static double scans(const p4d_layout *l)
{
	if (!l->pattern_length)
		return 0;
	const p4d_layer_counts counts = all_layers(l);
	return (double)(p4d_layers_with_mixer(&counts, P4D_MIX_MAMBA2) +
			p4d_layers_with_mixer(&counts, P4D_MIX_DELTA_NET)) *
	       p4d_cost__scan_flops(l);
}

double p4d_cost__expert_matrices(const p4d_layout *l)
{
	return (l->glu ? 3.0 : 2.0) * (double)l->hidden * (double)l->expert_ffn;
}

double p4d_cost__expert_layers(const p4d_layout *l)
{
	return (double)p4d_expert_layers_before(l, l->layers);
}

/* Elements of the matrices that process a token in a layer, without or with experts. */
static double passed(const p4d_layout *l, bool experts)
{
	if (!experts)
		return p4d_cost__layer_matrices(l);
	return p4d_cost__expert_layer_matrices(l) +
	       (double)l->experts_per_token * p4d_cost__expert_matrices(l);
}

/*
 * The sum over all layers: `dense` for each layer without experts and `sparse` for each layer with experts.
 */
static double over_layers(const p4d_layout *l, double dense, double sparse)
{
	const double with = p4d_cost__expert_layers(l);

	return ((double)l->layers - with) * dense + (with + (double)l->mtp_layers) * sparse;
}

static double passed_by_all(const p4d_layout *l)
{
	return over_layers(l, passed(l, false), passed(l, true));
}

/*
 * Elements of the heads, for the next token and for multi-token prediction. A layer of multi-token prediction
 * has one more matmul before it.
 */
static double heads(const p4d_layout *l)
{
	const double h = (double)l->hidden, further = (double)l->mtp_layers;

	return (1 + further) * (double)l->vocab * h + further * 2 * h * h;
}

static double tokens(const p4d_layout *l)
{
	return (double)l->global_batch * (double)l->seq_len;
}

double p4d_cost__adapters(const p4d_layout *l)
{
	double sum = 0;

	for (unsigned i = 0; i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted matrix = p4d_adapted_of(l, i);
		if (p4d_is_adapted(l, i))
			sum += (double)(l->lora.rank * (matrix.split_in ? matrix.in * l->tp + matrix.out
									: matrix.in + matrix.out * l->tp));
	}
	return sum;
}

/* FLOPs of matrices per token and element: two in the forward pass, two for the gradient of the input, and
 * two for the weight's gradient, if it has one. */
static double matrix_flops(const p4d_layout *l)
{
	const double matrices = passed_by_all(l) + heads(l);

	return p4d_cost__freezes(l) ? 4 * matrices + 6 * (double)l->layers * p4d_cost__adapters(l)
				    : 6 * matrices;
}

double p4d_cost_model_flops(const p4d_layout *l)
{
	double L = attending(l), s = (double)l->seq_len;

	return tokens(l) * (matrix_flops(l) + 3 * scans(l) +
			    6 * L * p4d_cost__query_width(l) * s * p4d_cost__scores_share(l));
}

double p4d_cost__recomputed_share(const p4d_layout *l)
{
	const double chunk = (double)l->layers / (double)(l->pp * l->vpp),
		     n = (double)l->megatron.recompute_layers;

	return l->megatron.recompute_block && n < chunk ? n / chunk : 1;
}

/*
 * FLOPs of attention per token and layer in the forward pass, for the two matmuls and all keys, not counting
 * causality.
 */
static double scores_flops(const p4d_layout *l)
{
	return 4 * p4d_cost__query_width(l) * (double)l->seq_len * p4d_cost__scores_share(l);
}

/*
 * FLOPs per token and layer that the backward pass recomputes, for layers that keep or swap their
 * activations.
 */
static double recomputed_of_kept(const p4d_layout *l, bool experts)
{
	const double scores = scores_flops(l);
	const p4d_framework_cost *framework = &p4d_framework_of(l->framework)->cost;

	if (l->megatron.recompute_modules) /* counts only modules with many FLOPs */
		return (l->megatron.recompute_modules & P4D_MODULE_CORE_ATTENTION ? scores : 0) +
		       (l->megatron.recompute_modules & P4D_MODULE_MOE && experts
			    ? 2 * (passed(l, true) - attention_matrices(l))
			    : 0);
	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		return p4d_cost__recomputed_share(l) * (2 * passed(l, experts) + scores);
	case P4D_RECOMPUTE_MLP:
		return 2 * (up_matrices(l) +
			    (framework->recomputes_whole_mlp ? (double)l->ffn * (double)l->hidden : 0));
	case P4D_RECOMPUTE_SELECTIVE:
		return framework->recomputes_attention ? scores : 0;
	default:
		return 0;
	}
}

/*
 * FLOPs per token that the backward pass recomputes, over all layers. Layers whose swaps cannot be hidden
 * drop their activations, and are recomputed from their inputs.
 */
static double recomputed_flops(const p4d_layout *l, double dropped, bool experts)
{
	return dropped * (2 * passed(l, experts) + scores_flops(l)) +
	       (1 - dropped) * recomputed_of_kept(l, experts);
}

double p4d_cost_hardware_flops(const p4d_layout *l, const p4d_gpu *gpu)
{
	const double dropped = p4d_cost__dropped_share(l, gpu);
	/* vocabulary parallelism and preference learning compute the logits again for their gradients */
	const double again = l->vocab_parallel || l->pairs ? 2 * heads(l) : 0;
	/* with --local-loss stage, each stage except the last one has a head of its own in addition */
	const double local = l->local_loss ? 6 * (double)(l->pp - 1) * heads(l) : 0;

	return tokens(l) *
	       (matrix_flops(l) + 4 * scans(l) + 3 * attending(l) * scores_flops(l) +
		over_layers(l, recomputed_flops(l, dropped, false), recomputed_flops(l, dropped, true)) +
		again + local);
}
