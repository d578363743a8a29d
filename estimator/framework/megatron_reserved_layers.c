/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of Megatron-LM's layers: feed-forward parts without experts, residuals and recomputation. */
#include "framework/megatron_reserved_layers.h"
#include "framework/megatron_reserved_attention.h"
#include "framework/megatron_reserved_experts.h"

static bool again(const p4d_megatron_step *p, unsigned module)
{
	return p4d_megatron__again(p->l, module);
}

/* ---- feed-forward parts ---- */

static p4d_wide columns(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * p->z.F;
}

static bool is_fused(const p4d_layout *l)
{
	return !l->glu || l->fused_swiglu;
}

static p4d_allocated forward_dense(p4d_megatron_step *p, p4d_allocated *kept, bool saves)
{
	kept[KEPT_SECOND_NORM] = take(p, p4d_megatron__narrow(p));
	p4d_allocated whole = p4d_megatron__gathered(p);
	kept[KEPT_UP] = p4d_megatron__matmul(p, (p4d_wide)p->z.tokens * p->z.up);
	give(p, &whole);
	if (!saves)
		give(p, &kept[KEPT_SECOND_NORM]);
	if (!is_fused(p->l)) {
		kept[KEPT_GATE] = take(p, columns(p));
		kept[KEPT_OTHER_HALF] = take(p, columns(p));
	}
	kept[KEPT_ACTIVATION] = take(p, columns(p));
	for (int i = KEPT_OTHER_HALF; !saves && i >= KEPT_UP; i--)
		give(p, &kept[i]);
	const p4d_allocated result = p4d_megatron__summed(p);
	if (!saves)
		give(p, &kept[KEPT_ACTIVATION]);
	return result;
}

/* gradient: of the activation function's result. Returns the gradient of its input. */
static p4d_allocated backward_activation(p4d_megatron_step *p, p4d_allocated *kept, p4d_allocated gradient)
{
	if (is_fused(p->l)) {
		replace(p, &gradient, (p4d_wide)p->z.tokens * p->z.up);
		give(p, &kept[KEPT_UP]);
		return gradient;
	}
	p4d_allocated of_other = take(p, columns(p)), of_gate = take(p, columns(p));
	give(p, &gradient);
	give(p, &kept[KEPT_OTHER_HALF]);
	give(p, &kept[KEPT_GATE]);
	replace(p, &of_gate, columns(p));
	give(p, &kept[KEPT_UP]);
	gradient = take(p, 2 * columns(p));
	give(p, &of_gate);
	give(p, &of_other);
	return gradient;
}

/* Returns the gradient of the norm's input. */
static p4d_allocated backward_dense(p4d_megatron_step *p, p4d_allocated *kept)
{
	const p4d_megatron_sizes *z = &p->z;
	p4d_allocated whole = p4d_megatron__gathered(p), gradient = p4d_megatron__matmul(p, columns(p));

	give(p, &whole);
	p4d_allocated of_weight = p4d_megatron__weight_gradient(p, "dummy.down", (p4d_wide)z->h * z->F);
	give(p, &kept[KEPT_ACTIVATION]);
	give(p, &of_weight);
	gradient = backward_activation(p, kept, gradient);
	return p4d_megatron__backward_norm(p, &kept[KEPT_SECOND_NORM], &gradient, "dummy.up",
					   (p4d_wide)z->up * z->h);
}

/*
 * Before experts, the norm is a module of its own. Before a dense matmul, it is part of the matmul's module.
 */
static p4d_allocated forward_routed(p4d_megatron_step *p, p4d_allocated *kept, bool saves)
{
	kept[KEPT_SECOND_NORM] = take(p, p4d_megatron__narrow(p));
	return p4d_megatron__forward_experts(p, kept, saves);
}

static p4d_allocated backward_routed(p4d_megatron_step *p, p4d_allocated *kept)
{
	p4d_allocated of_norm = p4d_megatron__backward_experts(p, kept);

	replace(p, &of_norm, p4d_megatron__narrow(p));
	return of_norm;
}

/*
 * A kind of feed-forward part. module: the module whose recomputation recomputes this part. again: the
 * forward pass of the recomputation, which leaves out the norm before experts.
 */
static const struct feed {
	unsigned module;
	p4d_allocated (*forward)(p4d_megatron_step *p, p4d_allocated *kept, bool saves);
	p4d_allocated (*again)(p4d_megatron_step *p, p4d_allocated *kept, bool saves);
	p4d_allocated (*backward)(p4d_megatron_step *p, p4d_allocated *kept);
} dense = {P4D_MODULE_MLP, forward_dense, forward_dense, backward_dense},
  routed = {P4D_MODULE_MOE, forward_routed, p4d_megatron__forward_experts, backward_routed};

static const struct feed *feed_of(const p4d_megatron_step *p, uint32_t chunk, uint32_t layer)
{
	return p->routed[chunk][layer] ? &routed : &dense;
}

/* ---- layers ---- */

static p4d_allocated forward_layer(p4d_megatron_step *p, const struct feed *feed, p4d_allocated *kept,
				   bool saves)
{
	p4d_megatron__forward_attention(p, kept, saves);
	if (saves && p->l->dropout)
		kept[KEPT_MASKS] = take_bytes(p, 2 * p4d_megatron__narrow(p));
	p4d_allocated sum = feed->forward(p, kept, saves && !again(p, feed->module));
	const p4d_allocated output = take(p, p4d_megatron__narrow(p));
	give(p, &sum);
	if (!saves) {
		give(p, &kept[KEPT_SECOND_NORM]);
		give(p, &kept[KEPT_MIDDLE]);
	}
	return output;
}

typedef struct gradient {
	p4d_allocated block;
	bool held; /* the caller of backward_layer frees the block */
} gradient;

/* recomputed: the layer is the first of a recomputed group, so its input belongs to the checkpoint. */
static gradient backward_layer(p4d_megatron_step *p, const struct feed *feed, p4d_allocated *kept,
			       gradient of_output, bool recomputed)
{
	p4d_allocated result = 0;

	if (again(p, feed->module))
		result = feed->again(p, kept, true);
	p4d_allocated of_norm = feed->backward(p, kept);
	give(p, &result);
	give(p, &kept[KEPT_MASKS]);
	give(p, &kept[KEPT_MIDDLE]);
	const p4d_allocated sum = take(p, p4d_megatron__narrow(p));
	if (!of_output.held)
		give(p, &of_output.block);
	give(p, &of_norm);
	return (gradient){p4d_megatron__backward_attention(p, kept, sum, recomputed), false};
}

/* ---- recomputation ---- */

/*
 * Returns the first layer after the recomputed group that begins with layer `i`, or `i` if that layer is not
 * recomputed.
 */
static uint32_t end_of_group(const p4d_megatron_step *p, uint32_t i)
{
	const p4d_layout *l = p->l;
	const uint64_t n = l->megatron.recompute_layers;

	if (l->recompute != P4D_RECOMPUTE_FULL || !n)
		return i;
	if (l->megatron.recompute_block) /* this chunk's share of the layers that a chunk of the whole model
					    recomputes */
		return i < P4D_LEAST(n, p->all_layers) * p->layers / p->all_layers ? i + 1 : i;
	return (uint32_t)P4D_LEAST(i - i % n + n, p->layers);
}

/* The first layer of the group with layer `i`. */
static uint32_t start_of_group(const p4d_megatron_step *p, uint32_t i)
{
	const uint64_t n = p->l->megatron.recompute_layers;

	return p->l->megatron.recompute_block ? i : (uint32_t)(i - i % n);
}

p4d_allocated p4d_megatron__forward(p4d_megatron_step *p, uint32_t chunk, unsigned slot, p4d_allocated state)
{
	for (uint32_t i = 0; i < p->layers;) {
		const uint32_t end = end_of_group(p, i), saved = i;
		p->kept[slot][i][KEPT_INPUT] = state;
		do {
			const p4d_allocated output =
			    forward_layer(p, feed_of(p, chunk, i), p->kept[slot][i], end == saved);
			if (i > saved)
				give(p, &state);
			state = output;
		} while (++i < end);
	}
	return state;
}

/* A checkpoint holds its result, its input and the gradient of its result until its backward pass ends. */
static gradient backward_group(p4d_megatron_step *p, uint32_t chunk, unsigned slot, uint32_t start,
			       uint32_t end, gradient of_output)
{
	p4d_allocated state = p->kept[slot][start][KEPT_INPUT];
	gradient g = {of_output.block, true};

	for (uint32_t i = start; i < end; i++) {
		p->kept[slot][i][KEPT_INPUT] = i > start ? state : 0;
		state = forward_layer(p, feed_of(p, chunk, i), p->kept[slot][i], true);
	}
	for (uint32_t i = end; i-- > start;)
		g = backward_layer(p, feed_of(p, chunk, i), p->kept[slot][i], g, i == start);
	give(p, &state);
	if (!of_output.held)
		give(p, &of_output.block);
	return g;
}

p4d_allocated p4d_megatron__backward(p4d_megatron_step *p, uint32_t chunk, unsigned slot,
				     p4d_allocated of_output, bool input_held, bool gradient_held)
{
	gradient g = {of_output, gradient_held};

	for (uint32_t i = p->layers; i > 0;) {
		p4d_allocated *kept = p->kept[slot][i - 1];
		const bool whole = end_of_group(p, i - 1) == i - 1;
		const uint32_t start = whole ? i - 1 : start_of_group(p, i - 1);
		p4d_allocated input = p->kept[slot][start][KEPT_INPUT];
		if (whole) {
			if (start == 0 && input_held)
				kept[KEPT_INPUT] = 0;
			g = backward_layer(p, feed_of(p, chunk, i - 1), kept, g, false);
		} else {
			g = backward_group(p, chunk, slot, start, i, g);
			if (start || !input_held)
				give(p, &input);
		}
		i = start;
	}
	return g.block;
}
