/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes of one transformer layer, operation by operation, for one micro-batch on one rank. Tensors move
 * through device memory once per kernel of the framework.
 */
#include "cost/cost_internal.h"

/*
 * Exposed share of a collective that is cut into pieces that overlap with matmuls: the first or the last
 * piece is exposed, and collectives and matmuls slow each other down. From H100 runs with tp 4 and 8.
 */
#define OVERLAPPED_EXPOSED 0.2

/* ---- the layer ---- */

/*
 * A matmul of a layer. deferred: from this value of recompute on, the gradient of its weight does not wait
 * for the second half of a split backward pass.
 */
typedef struct product {
	double tokens, in, out;
	int deferred; /* P4D_RECOMPUTE_*; 0: its operands never wait in the activation slot */
} product;

/*
 * Which pass computes the gradient of a weight. In schedules with a split backward pass, the second half
 * computes all weight gradients, or only those whose operands wait in the activation slot: qkv and gate_up,
 * unless they are recomputed (see runtime/layer_backward.c). If the backward pass is not split, only the sum
 * matters.
 */
static p4d_cost_share *weight_pass(const p4d_layout *l, int deferred, p4d_cost_part *y)
{
	const bool waits =
	    p4d_framework_of(l->framework)->cost.defers_weight_gradients || l->recompute < deferred;

	return waits ? &y->backward_weight : &y->backward_input;
}

static void add_products(const p4d_layout *l, const p4d_cost_rates *r, const product *p, size_t count,
			 p4d_cost_part *y)
{
	double e = r->element;

	for (const product *end = p + count; p < end; p++) {
		if (p->in <= 0 || p->out <= 0)
			continue;
		y->forward.gemm += p4d_cost__product_seconds(r, p->tokens, p->out, p->in, e);
		y->backward_input.gemm += p4d_cost__product_seconds(r, p->tokens, p->in, p->out, e);
		if (p4d_cost__freezes(l))
			continue;
		/* the gradient is summed in fp32, so it is read and written */
		weight_pass(l, p->deferred, y)->gemm +=
		    p4d_cost__product_seconds(r, p->out, p->in, p->tokens, 8);
	}
}

enum {
	QKV = P4D_RECOMPUTE_FULL,
	GATE_UP = P4D_RECOMPUTE_MLP
}; /* values of `deferred` for these two matmuls */

/*
 * Adds the matmuls of latent attention: down to the latent vectors (for this rank's tokens), from these up to
 * the heads of this rank, and of the output.
 */
static void latent_products(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			    p4d_cost_part *y)
{
	const double own = z->residual / z->h, heads = (double)l->heads / (double)l->tp;
	const double q_rank = (double)l->q_rank, kv_rank = (double)l->kv_rank;
	const double head = (double)l->head_dim, query = heads * (head + (double)l->rope_dim);
	const product all[] = {
	    {own, z->h, q_rank, QKV},
	    {z->n, q_rank > 0 ? q_rank : z->h, query, QKV},
	    {own, z->h, kv_rank + (double)l->rope_dim, QKV},
	    {z->n, kv_rank, heads * (head + (double)l->v_dim), QKV},
	    {z->n, heads * (double)l->v_dim, z->h, 0},
	};

	add_products(l, r, all, sizeof(all) / sizeof(*all), y);
}

static void attention_products(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			       p4d_cost_part *y)
{
	const product all[] = {{z->n, z->h, z->A + 2 * z->G, QKV}, {z->n, z->A, z->h, 0}};

	if (l->kv_rank)
		latent_products(l, r, z, y);
	else
		add_products(l, r, all, sizeof(all) / sizeof(*all), y);
}

/* Adds the matmuls of Mamba-2: the one before the scan, and the one of the output. */
static void state_products(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			   p4d_cost_part *y)
{
	const double tp = (double)l->tp, values = (double)l->state.heads * (double)l->state.head_dim / tp;
	const double others =
	    (2 * (double)l->state.groups * (double)l->state.size + (double)l->state.heads) / tp;
	const product all[] = {{z->n, z->h, 2 * values + others, QKV}, {z->n, values, z->h, 0}};

	add_products(l, r, all, sizeof(all) / sizeof(*all), y);
}

/* Adds the matmuls of a short convolution: one for gates and values, and one for the output. */
static void convolution_products(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
				 p4d_cost_part *y)
{
	const double wide = z->h / (double)l->tp;
	const product all[] = {{z->n, z->h, 3 * wide, QKV}, {z->n, wide, z->h, 0}};

	add_products(l, r, all, sizeof(all) / sizeof(*all), y);
}

static void ffn_products(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			 p4d_cost_part *y)
{
	const product all[] = {{z->n, z->h, z->up, GATE_UP}, {z->n, z->f, z->h, 0}};

	add_products(l, r, all, sizeof(all) / sizeof(*all), y);
}

/*
 * Adds the matmuls of LoRA: two narrow ones in each direction. The result between them is recomputed for
 * gradients.
 */
static void adapter_products(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			     p4d_cost_part *y)
{
	const double rank = (double)l->lora.rank, e = r->element, n = z->n;

	for (unsigned i = 0; p4d_cost__freezes(l) && i < P4D_ADAPTED_LAYERS; i++) {
		const p4d_adapted of = p4d_adapted_of(l, i);
		const double in = (double)of.in, out = (double)of.out;
		if (!p4d_is_adapted(l, i))
			continue;
		const double down = p4d_cost__product_seconds(r, n, rank, in, e),
			     back = p4d_cost__product_seconds(r, n, rank, out, e);
		if (l->lora.dropout > 0) { /* dropout reads and writes the input; in the backward pass, it
					      also adds to the gradient */
			y->forward.memory_bound += p4d_cost__memory_seconds(r, 2 * e * n * in);
			y->backward_input.memory_bound += p4d_cost__memory_seconds(r, 7 * e * n * in);
		}
		y->forward.gemm += down + p4d_cost__product_seconds(r, n, out, rank, e);
		y->backward_input.gemm += back + p4d_cost__product_seconds(r, n, in, rank, e);
		weight_pass(l,
			    of.split_in ? 0
			    : i < 3     ? QKV
					: GATE_UP,
			    y)
		    ->gemm += down + back + p4d_cost__product_seconds(r, out, rank, n, 8) +
			      p4d_cost__product_seconds(r, rank, in, n, 8);
	}
}

/*
 * Bytes that latent attention moves to concatenate, for queries and keys, the rotated part and the rest.
 * Kernels fuse this, except the ones for few tokens.
 */
static double rotary_bytes(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z)
{
	const double heads = (double)l->heads / (double)l->tp, rope = (double)l->rope_dim;

	if (!l->kv_rank)
		return 2 * r->element * z->n * (z->A + 2 * z->G);
	return 2 * r->element * z->n * heads *
	       (2 * ((double)l->head_dim + rope) + (double)l->v_dim + 4 * rope);
}

/*
 * Bytes per element that PyTorch's own kernels read and write. A norm: cast to fp32 (2 + 4), square (4 + 4),
 * mean (4), multiply by its inverse root (4 + 4), cast back (4 + 2), weight (2 + 2). Positions: cast to fp32
 * (2 + 4), product (4 + 4), cast back (4 + 2).
 */
enum { EAGER_NORM = 34, EAGER_ROTARY = 20 };

/* Elements that the kernels of the activation function read and write, per column of the matmul before it. */
typedef struct activation_moves {
	double forward, backward;
} activation_moves;

/*
 * Number of activations (of the feed-forward size) that the kernels of an activation function read and write.
 * If a gated activation is unfused, its halves are copied. Without fusion, relu2 consists of ReLU and pow. In
 * the forward pass, each of the two kernels reads one activation and writes one (2 + 2). In the backward pass
 * there are pow(x, 1), its product with 2, its product with the gradient (2 + 2 + 3), and ReLU's own gradient
 * (3).
 */
static activation_moves activation_of(const p4d_layout *l, bool fused)
{
	if (l->glu)
		return fused ? (activation_moves){3, 5} : (activation_moves){5, 8};
	return !fused && l->activation == P4D_RELU2 ? (activation_moves){4, 10} : (activation_moves){2, 3};
}

/*
 * Adds the time of norms, residuals, rotary positions or biases, and the activation function, from the bytes
 * that their kernels move.
 */
static void elementwise(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			p4d_layer_kind kind, p4d_cost_part *y)
{
	const double blocks = (kind.mixer != P4D_MIX_NONE) + (kind.feed != P4D_FEED_NONE);
	const bool turned = !l->positions && kind.mixer == P4D_MIX_ATTENTION;
	double e = r->element, mask = l->dropout ? 1 : 0;
	/* PyTorch's own kernels: a norm and the rotation run in fp32, with one kernel per term. With
	 * torch.compile each is one kernel, and so is the activation. */
	const bool eager = p4d_framework_of(l->framework)->cost.eager_modules && !l->torch.compile;
	const bool fused = l->fused_swiglu || l->torch.compile,
		   terms = eager && l->torch.model_code != P4D_MODEL_CODE_TORCHTITAN;
	const double norms = terms ? EAGER_NORM / (2 * e) : 1, angles = eager ? EAGER_ROTARY / (2 * e) : 1;
	double norm = norms * 2 * e * z->residual, residual = (3 * e + mask) * z->residual;
	const bool apart = turned && !l->kv_rank && p4d_framework_of(l->framework)->cost.rotates_apart;
	double rotary = turned ? angles * rotary_bytes(l, r, z) : 0, again = apart ? P4D_LAUNCH_SECONDS : 0,
	       f = kind.feed == P4D_FEED_DENSE ? z->f : 0;
	const activation_moves of = activation_of(l, fused);
	const p4d_cost_fp8_stored stored = p4d_cost__fp8_stored(l);
	double activation = stored.activation ? of.forward * e * z->n * f : 0,
	       activation_back = stored.gradient ? of.backward * e * z->n * f : 0;
	double dropout_back = l->dropout ? (2 * e + 1) * z->residual : 0;

	y->forward.memory_bound +=
	    blocks * p4d_cost__memory_seconds(r, norm) + blocks * p4d_cost__memory_seconds(r, residual) +
	    p4d_cost__memory_seconds(r, rotary) + p4d_cost__memory_seconds(r, activation) + again;
	y->backward_input.memory_bound +=
	    again + (apart ? p4d_cost__memory_seconds(r, 2 * e * z->n * (z->A + 2 * z->G)) : 0) +
	    blocks * p4d_cost__memory_seconds(r, norms * 3 * e * z->residual) + /* gradient, input, result */
	    blocks * p4d_cost__memory_seconds(r, 3 * e * z->residual) +         /* the gradients of the
										 * two branches are added */
	    blocks * p4d_cost__memory_seconds(r, dropout_back) + p4d_cost__memory_seconds(r, rotary) +
	    p4d_cost__memory_seconds(r, activation_back);
	if (p4d_framework_of(l->framework)->cost.saves_norms_and_products)
		return;
	/* the gradient of qkv is also copied into the activation slot */
	if (p4d_is_split(l->schedule) && l->recompute != P4D_RECOMPUTE_FULL)
		y->backward_input.memory_bound +=
		    p4d_cost__memory_seconds(r, 2 * e * z->n * (z->A + 2 * z->G));
	if (l->recompute == P4D_RECOMPUTE_KEEP)
		return;
	/* weight gradients read the outputs of norms and of the activation, which are recomputed; the kernel
	 * of the activation's gradient recomputes the activation */
	if (stored.activation)
		y->backward_input.memory_bound += e * z->n * f * r->hbm;
	weight_pass(l, QKV, y)->memory_bound += p4d_cost__memory_seconds(r, norm);
	weight_pass(l, GATE_UP, y)->memory_bound += p4d_cost__memory_seconds(r, norm);
}

/*
 * Tensor parallelism has four collectives in each direction. With sequence parallelism the inputs of the
 * sharded matrices are gathered again for their weight gradients. Megatron-LM overlaps that with the input
 * gradient, and the reduce-scatter of that gradient with the weight gradient (Korthikanti et al., arXiv
 * 2205.05198). Collectives and matmuls compete for the multiprocessors: overlap hides about half of the time
 * (according to that paper's backward time of a 22B layer, and to B200 runs). So four of six collectives are
 * exposed. With tp-comm-overlap all collectives are cut into pieces that overlap with pieces of the matmuls
 * (Transformer Engine's userbuffers); p4d-train uses halves instead.
 */
static void tensor_parallel(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			    p4d_layer_kind kind, p4d_cost_part *y)
{
	if (l->tp == 1)
		return;
	if (l->tp_comm_overlap && p4d_framework_of(l->framework)->cost.overlaps_halves) {
		p4d_cost__halves(l, r, z, weight_pass(l, QKV, y), weight_pass(l, GATE_UP, y), y);
		return;
	}
	const double exposed = l->tp_comm_overlap ? OVERLAPPED_EXPOSED : 1;
	double one = p4d_cost__boundary_seconds(l, r, z) * exposed;
	/*
	 * experts need no such collectives, because tokens stay sharded; shared experts need those of a layer
	 * without experts
	 */
	const double ffn =
	    kind.feed == P4D_FEED_NONE || (kind.feed == P4D_FEED_EXPERTS && !l->shared_ffn) ? 0 : 2;
	const double mixer = kind.mixer != P4D_MIX_NONE ? 2 : 0;

	/* tensors that are gathered in FP8 have half the bytes: two of four collectives, in the backward pass
	 * four of six. Userbuffers also send forward results in FP8. */
	const bool in_fp8 = l->precision == P4D_FP8 && l->sequence_parallel &&
			    !p4d_framework_of(l->framework)->cost.casts_each_product;
	const double fp8 = in_fp8 ? p4d_cost__cast_bytes(l) / 2 : 1;
	const double there = l->tp_comm_overlap ? fp8 : (1 + fp8) / 2, back = (1 + 2 * fp8) / 3;
	y->forward.tensor_comm += (mixer + ffn) * there * one;
	y->backward_input.tensor_comm += (mixer + ffn) * back * one;
	if (l->sequence_parallel && !p4d_framework_of(l->framework)->cost.overlaps_sequence_parallel) {
		weight_pass(l, QKV, y)->tensor_comm += one;
		weight_pass(l, GATE_UP, y)->tensor_comm += one;
	}
}

/*
 * Adds recomputation of single modules in layers with experts or latent attention. Cheap modules are left
 * out.
 */
static void recompute_modules(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
			      const p4d_cost_share *core, const p4d_cost_share *experts, bool sparse,
			      p4d_cost_part *y)
{
	const unsigned modules = l->megatron.recompute_modules;
	const double e = r->element,
		     routed = z->residual / z->h * (double)l->experts_per_token * l->imbalance;

	if (modules & P4D_MODULE_CORE_ATTENTION)
		p4d_cost_share_add(&y->recompute, core, 1);
	if (modules & P4D_MODULE_MOE && sparse)
		p4d_cost_share_add(&y->recompute, experts, 1);
	if (modules & P4D_MODULE_LAYERNORM)
		y->recompute.memory_bound +=
		    ((l->kv_rank > 0) + sparse) * p4d_cost__memory_seconds(r, 2 * e * z->residual);
	if (modules & P4D_MODULE_MOE_ACTIVATION && sparse)
		y->recompute.memory_bound +=
		    p4d_cost__memory_seconds(r, 3 * e * routed * (double)l->expert_ffn);
	if (modules & P4D_MODULE_MLA_UP) {
		const double heads = (double)l->heads / (double)l->tp, head = (double)l->head_dim;
		const double from = l->q_rank ? (double)l->q_rank : z->h;
		y->recompute.gemm +=
		    p4d_cost__gemm_seconds(r, 1, z->n, heads * (head + (double)l->rope_dim), from, e) +
		    p4d_cost__gemm_seconds(r, 1, z->n, heads * (head + (double)l->v_dim), (double)l->kv_rank,
					   e);
		y->recompute.memory_bound += p4d_cost__memory_seconds(r, rotary_bytes(l, r, z));
	}
	if (modules & P4D_MODULE_MLP && !sparse)
		y->recompute.gemm += p4d_cost__gemm_seconds(r, 1, z->n, z->up, z->h, e) +
				     p4d_cost__gemm_seconds(r, 1, z->n, z->h, z->f, e);
	if (modules & P4D_MODULE_SHARED_EXPERTS && sparse) {
		const double S = (double)l->shared_ffn / (double)l->tp;
		y->recompute.gemm += p4d_cost__gemm_seconds(r, 1, z->n, 2 * S, z->h, e) +
				     p4d_cost__gemm_seconds(r, 1, z->n, z->h, S, e);
	}
}

/*
 * Adds recomputation to the backward pass. core, experts: the parts of the forward pass that belong to
 * attention's core, and to the experts including the router.
 */
static void recompute(const p4d_layout *l, const p4d_cost_rates *r, const p4d_cost_sizes *z,
		      const p4d_cost_share *core, const p4d_cost_share *experts, bool sparse,
		      p4d_cost_part *y)
{
	const p4d_framework_cost *framework = &p4d_framework_of(l->framework)->cost;
	double e = r->element;

	if (l->megatron.recompute_modules) {
		recompute_modules(l, r, z, core, experts, sparse, y);
		return;
	}
	switch (l->recompute) {
	case P4D_RECOMPUTE_FULL:
		p4d_cost_share_add(&y->recompute, &y->forward, p4d_cost__recomputed_share(l));
		break;
	case P4D_RECOMPUTE_MLP:
		y->recompute.gemm += p4d_cost__product_seconds(r, z->n, z->up, z->h, e);
		y->recompute.tensor_comm += p4d_cost__features_seconds(l, r, e * z->n * z->up);
		if (!framework->recomputes_whole_mlp) /* these frameworks always recompute the activation, and
							 gather its input */
			break;
		y->recompute.gemm += p4d_cost__product_seconds(r, z->n, z->h, z->f, e);
		y->recompute.memory_bound +=
		    p4d_cost__memory_seconds(r, activation_of(l, l->fused_swiglu).forward * e * z->n * z->f);
		y->recompute.tensor_comm += l->tp > 1 ? 2 * p4d_cost__boundary_seconds(l, r, z) : 0;
		break;
	case P4D_RECOMPUTE_SELECTIVE:
		if (p4d_framework_of(l->framework)->selects_operations) {
			/* torchtitan keeps the results of attention and of every second matmul. It recomputes
			 * attention's output projection and `up` */
			y->recompute.gemm += p4d_cost__gemm_seconds(r, 1, z->n, z->h, z->A, e) +
					     p4d_cost__gemm_seconds(r, 1, z->n, z->f, z->h, e);
			y->recompute.memory_bound += y->forward.memory_bound;
		} else if (framework->recomputes_attention) {
			p4d_cost_share_add(&y->recompute, core, 1);
		}
		break;
	default:
		break;
	}
}

/*
 * If the host launches kernels more slowly than the GPU runs them, the difference is added, in equal parts to
 * both passes.
 */
static void launches(const p4d_layout *l, bool experts, p4d_cost_part *y)
{
	const p4d_framework_cost *framework = &p4d_framework_of(l->framework)->cost;
	const double busy = p4d_cost_share_seconds(&y->forward) + p4d_cost_share_seconds(&y->backward_input) +
			    p4d_cost_share_seconds(&y->backward_weight);
	const double host = framework->host_layer_seconds + (experts ? framework->host_experts_seconds : 0) +
			    (l->kv_rank ? framework->host_latent_seconds : 0);

	if (host <= busy)
		return;
	y->forward.host += (host - busy) / 2;
	y->backward_input.host += (host - busy) / 2;
}

static void layer(const p4d_layout *l, const p4d_cost_rates *r, p4d_layer_kind kind, p4d_cost_part *y)
{
	const bool experts = kind.feed == P4D_FEED_EXPERTS;
	p4d_cost_sizes z = p4d_cost__sizes_of(l);
	p4d_cost_share core = {0}, of_experts;
	double exchanged = 0; /* seconds in each pass during which tokens are exchanged */

	*y = (p4d_cost_part){0};
	if (experts)
		exchanged = p4d_cost__experts(l, r, &z, y);
	else if (kind.feed == P4D_FEED_MEMORY)
		p4d_cost__memory(l, r, &z, y);
	else if (kind.feed == P4D_FEED_DENSE)
		ffn_products(l, r, &z, y);
	of_experts = y->forward;
	if (kind.mixer == P4D_MIX_ATTENTION) {
		p4d_cost__attention(l, r, &z, &core, &y->backward_input);
		p4d_cost_share_add(&y->forward, &core, 1);
		attention_products(l, r, &z, y);
		adapter_products(l, r, &z, y);
		p4d_cost__expands(l, r, &z, y);
	} else if (kind.mixer == P4D_MIX_CONVOLUTION) {
		convolution_products(l, r, &z, y);
	} else if (kind.mixer == P4D_MIX_MAMBA2 || kind.mixer == P4D_MIX_DELTA_NET) {
		state_products(l, r, &z, y);
		p4d_cost__scan(l, r, &z, y);
	}
	elementwise(l, r, &z, kind, y);
	if (l->precision == P4D_FP8)
		p4d_cost__casts(l, r, &z, experts, &y->forward, &y->backward_input);
	y->backward_weight.gemm *= p4d_cost__weight_gradient_slowness(l);
	tensor_parallel(l, r, &z, kind, y);
	p4d_cost__grid(l, r, &z, y);
	if (p4d_cost__pairs(l))
		p4d_cost__overlap_exchange(r, exchanged, y);
	launches(l, experts, y);
	if (kind.feed != P4D_FEED_MEMORY) /* layers with a memory are never recomputed */
		recompute(l, r, &z, &core, &of_experts, experts, y);
}

void p4d_cost__add_part(p4d_cost_part *to, const p4d_cost_part *from, double times)
{
	p4d_cost_share_add(&to->forward, &from->forward, times);
	p4d_cost_share_add(&to->backward_input, &from->backward_input, times);
	p4d_cost_share_add(&to->backward_weight, &from->backward_weight, times);
	p4d_cost_share_add(&to->recompute, &from->recompute, times);
	to->alone += times * from->alone;
}

/* The mean over a pattern's layers, either those with experts or the others. */
static void mean(const p4d_layout *l, const p4d_cost_rates *r, bool experts, p4d_cost_part *y)
{
	const p4d_layer_counts counts = p4d_layers_count(l, 0, l->layers);
	const double with = p4d_cost__expert_layers(l), layers = experts ? with : (double)l->layers - with;

	*y = (p4d_cost_part){0};
	for (int m = 0; m < P4D_MIXERS; m++)
		for (int f = 0; f < P4D_FEEDS; f++) {
			p4d_cost_part one;
			if ((f == P4D_FEED_EXPERTS) != experts || !counts.of[m][f])
				continue;
			layer(l, r, (p4d_layer_kind){(p4d_mixer)m, (p4d_feed)f}, &one);
			p4d_cost__add_part(y, &one, (double)counts.of[m][f] / layers);
		}
}

void p4d_cost__layer(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	if (l->pattern_length)
		mean(l, r, false, y);
	else
		layer(l, r, (p4d_layer_kind){P4D_MIX_ATTENTION, P4D_FEED_DENSE}, y);
}

void p4d_cost__expert_layer(const p4d_layout *l, const p4d_cost_rates *r, p4d_cost_part *y)
{
	if (l->pattern_length)
		mean(l, r, true, y);
	else
		layer(l, r, (p4d_layer_kind){P4D_MIX_ATTENTION, P4D_FEED_EXPERTS}, y);
}
