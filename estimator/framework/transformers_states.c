/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State-space layers in transformers 5.23 if mamba-ssm, causal-conv1d and flash-linear-attention are
 * installed; the modeling files then use their functions (use_kernel_func_from_hub_with_fallback):
 * mamba-ssm's MambaSplitConv1dScanCombinedFn (ops/triton/ssd_combined.py), flash-linear-attention's
 * ChunkGatedDeltaRuleFunction (ops/gated_delta_rule/chunk.py). Without these libraries transformers uses
 * PyTorch's operations, which need far more memory; nobody trains so.
 */
#include "framework/transformers.h"

enum { STATE = P4D_TRANSFORMERS_STATE };

/* Parameters of a mixer outside of linear layers. Their gradients count with the next operation on the
 * tape. */
static p4d_tape_tensor with_weights(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_view(w, x, x.elements);

	p4d_op_append(w, x, out, P4D_SAME_GRADIENT)->weight = w->trains ? elements * w->weight : 0;
	return out;
}

/*
 * Mamba-2: one autograd function from the convolution to the last matmul. Saved: the result of the first
 * matmul, and the scan's result before its gate. Forward: the convolution's result; states in fp32; in
 * addition either 16-bit states, as passed from chunk to chunk, or the gated and normed result. Backward:
 * both results of the convolution again, with a gradient; gradients of the scan before and after the gate,
 * and its result; states with their gradients; scores and steps in fp32 (megatron_states.c).
 */
static p4d_tape_tensor mamba2(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, values = l->state.heads * l->state.head_dim, t = w->tokens;
	const uint64_t mixed = values + 2 * l->state.groups * l->state.size,
		       states = (values * l->state.size + l->state.chunk - 1) / l->state.chunk;
	const bool lowers = w->autocast && w->weight == 4;

	const p4d_tape_tensor product =
	    p4d_transformers__linear(w, x, h, mixed + values + l->state.heads, STATE);
	const p4d_tape_tensor in =
	    with_weights(w, product, values * h + mixed * (l->state.conv + 1) + values);
	const p4d_tape_tensor out = p4d_op_made(w, t * h, w->autocast ? 2 : in.element, true);
	p4d_tape_operation *o = p4d_op_append(w, in, out, P4D_NEW_GRADIENT);
	const uint64_t passed = t * states * in.element, scan = t * values * in.element;
	o->saved[0] = in.value;
	o->kept = scan + t * l->state.groups * 4;
	o->copy = lowers ? values * h * 2 : 0;
	o->scratch = t * mixed * in.element + t * l->state.heads * 8 + passed +
		     (t * states * 4 > 2 * scan ? t * states * 4 - scan : scan);
	o->back_scratch =
	    t * in.element *
	    (2 * mixed + 3 * values + 6 * states + 2 * l->state.groups * l->state.chunk + 9 * l->state.heads);
	if (!w->trains) /* input of the last matmul, which the function always allocates; an adapter of that
			   matmul has no such input */
		o->back_scratch += values * h * w->weight;
	p4d_op_hold(w, x);
	p4d_op_hold(w, product);
	return out;
}

/*
 * Mamba as in Jamba (JambaMambaMixer): gates are half of the first matmul's result. The scan (mamba-ssm's
 * SelectiveScanFn) saves contiguous copies of its values and gates, the steps, its result before the gates,
 * and an fp32 state per 2,048 tokens.
 */
static p4d_tape_tensor mamba(p4d_tape_writer *w, p4d_tape_tensor x)
{
	enum { CHUNK = 2048 };
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, t = w->tokens, inner = l->state.heads * l->state.head_dim;
	const uint64_t rank = l->state.rank, states = l->state.size, of_steps = rank + 2 * states;

	const p4d_tape_tensor all = p4d_transformers__linear(w, x, h, 2 * inner, STATE);
	const p4d_tape_tensor values = p4d_op_view(w, all, t * inner), gates = p4d_op_view(w, all, t * inner);
	p4d_op_append(w, all, values, P4D_NEW_GRADIENT)->others[0] = gates.value;
	const p4d_tape_tensor convolved =
	    p4d_op_map(w, with_weights(w, values, inner * (l->state.conv + 1 + states + 2)), true, false);
	const p4d_tape_tensor three = p4d_transformers__linear(w, convolved, inner, of_steps, STATE);
	p4d_tape_tensor step = p4d_op_view(w, three, t * rank), b = p4d_op_view(w, three, t * states), c = b;
	p4d_tape_operation *o = p4d_op_append(w, three, step, P4D_NEW_GRADIENT);
	o->others[0] = b.value;
	step = p4d_transformers__norm(w, step, rank);
	b = p4d_transformers__norm(w, b, states);
	c = p4d_transformers__norm(w, p4d_op_view(w, three, t * states), states);
	step = p4d_op_product(w, step, rank, inner, w->weight, w->trains);

	const p4d_tape_tensor scanned = p4d_op_made(w, t * inner, step.element, true);
	const uint64_t piece = t * inner * step.element;
	o = p4d_op_append(w, convolved, scanned, P4D_NEW_GRADIENT);
	o->in[1] = step.value;
	o->in[2] = gates.value;
	o->gradient[1] = o->gradient[2] = P4D_NEW_GRADIENT;
	o->saved[0] = step.value;
	o->saved[1] = b.value;
	o->saved[2] = c.value;
	o->kept = 3 * piece + w->rows * inner * ((w->length + CHUNK - 1) / CHUNK) * states * 2 * 4;
	o->back_scratch =
	    piece +
	    2 * t * states * 4; /* the gradient, copied to be contiguous; the fp32 gradients of B and C */
	/* the last matmul reads a transpose of the result, copied to be contiguous */
	const p4d_tape_tensor whole = p4d_op_made(w, t * inner, scanned.element, true);
	p4d_op_append(w, scanned, whole, P4D_SAME_GRADIENT);
	const p4d_tape_tensor y = p4d_transformers__linear(w, whole, inner, h, STATE);
	const p4d_tape_tensor named[] = {x, all, convolved, step, b, c, scanned};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return y;
}

/* Steps of each head in fp32: the decay's logarithm, from a. */
static p4d_tape_tensor decays(p4d_tape_writer *w, p4d_tape_tensor a)
{
	const p4d_tape_tensor sum = p4d_op_map(w, p4d_op_cast(w, a, 4), false, false);

	return p4d_op_map(w, p4d_op_map(w, sum, true, false), true, false);
}

/*
 * The gated delta rule. Saved: normed queries and keys, and one statistic of the norm for each token and
 * group; contiguous values; an inverted matrix and sums of decays for each chunk and head. Forward: queries
 * and keys, contiguous; products of keys and of values with that inverse; states; values minus the states'
 * prediction. Backward: the same tensors again, gradients of all of them, and second gradients of keys and
 * values.
 */
static p4d_tape_tensor delta_rule(p4d_tape_writer *w, p4d_tape_tensor in, p4d_tape_tensor decay,
				  p4d_tape_tensor strength)
{
	enum { CHUNK = 64 };
	const p4d_layout *l = w->layout;
	const uint64_t t = w->tokens, heads = l->state.heads, values = heads * l->state.head_dim;
	const uint64_t keys = l->state.groups * l->state.size, each = heads * l->state.size;
	const uint64_t states = heads * l->state.size * l->state.head_dim / CHUNK;
	const p4d_tape_tensor out = p4d_op_made(w, t * values, in.element, true);
	p4d_tape_operation *o = p4d_op_append(w, in, out, P4D_NEW_GRADIENT);

	o->in[1] = decay.value;
	o->in[2] = strength.value;
	o->gradient[1] = o->gradient[2] = P4D_NEW_GRADIENT;
	o->saved[0] = strength.value;
	o->kept = t * ((2 * keys + values + heads * CHUNK) * in.element + 8 * l->state.groups + 4 * heads);
	o->scratch = t * (2 * keys + each + 2 * values + states) * in.element;
	o->back_scratch = t * (5 * each + 3 * values + 2 * states - 2 * keys) * in.element;
	return out;
}

/*
 * A gated delta net (Qwen3-Next's GatedDeltaNet). Queries, keys, values and gates from one matmul are split
 * and copied; all except the gates are concatenated for the convolution. Its result passes the rule and a
 * norm per head, and is multiplied by the gates in fp32.
 */
static p4d_tape_tensor delta_net(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, t = w->tokens, heads = l->state.heads,
		       values = heads * l->state.head_dim;
	const uint64_t mixed = values + 2 * l->state.groups * l->state.size;

	const p4d_tape_tensor all = p4d_transformers__linear(w, x, h, mixed + values, STATE),
			      both = p4d_transformers__linear(w, x, h, 2 * heads, STATE);
	const p4d_tape_tensor parts = p4d_op_view(w, all, t * mixed), gates = p4d_op_view(w, all, t * values);
	p4d_op_append(w, all, parts, P4D_NEW_GRADIENT)->others[0] = gates.value;
	const p4d_tape_tensor strengths = p4d_op_view(w, both, t * heads),
			      steps = p4d_op_view(w, both, t * heads);
	p4d_op_append(w, both, strengths, P4D_NEW_GRADIENT)->others[0] = steps.value;
	const p4d_tape_tensor apart = p4d_op_made(w, t * mixed, all.element, true);
	p4d_op_append(w, parts, apart, P4D_SAME_GRADIENT);
	const p4d_tape_tensor gate = p4d_op_made(w, t * values, all.element, true);
	p4d_op_append(w, gates, gate, P4D_SAME_GRADIENT);
	const p4d_tape_tensor together = p4d_op_made(w, t * mixed, all.element, true);
	p4d_op_append(w, apart, together, P4D_SAME_GRADIENT);
	const p4d_tape_tensor in = with_weights(w, together, mixed * l->state.conv);
	const p4d_tape_tensor convolved = p4d_op_map(w, in, true, false);
	p4d_op_hold(w, apart);
	const p4d_tape_tensor split = p4d_op_slice(w, convolved, t * mixed);
	const p4d_tape_tensor strength = p4d_op_map(w, strengths, false, true), decay = decays(w, steps);
	p4d_tape_tensor y = delta_rule(w, split, decay, strength);
	y = p4d_transformers__norm_by(w, y, l->state.head_dim, P4D_NORM_LLAMA);
	y = p4d_op_times(w, y, p4d_op_map(w, p4d_op_cast(w, gate, 4), true, false));
	y = p4d_transformers__linear(w, p4d_op_cast(w, y, split.element), values, h, STATE);
	const p4d_tape_tensor named[] = {x, all, both, gate, convolved, strength, decay};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return y;
}

/* LFM2's short convolution (Lfm2ShortConv), with PyTorch's own convolution: two gates and the values are
 * thirds of one matmul's result. */
static p4d_tape_tensor convolution(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_layout *l = w->layout;
	const uint64_t h = l->hidden, third = w->tokens * h;
	const p4d_tape_tensor all = p4d_transformers__linear(w, x, h, 3 * h, STATE);
	const p4d_tape_tensor before = p4d_op_view(w, all, third), after = p4d_op_view(w, all, third),
			      values = p4d_op_view(w, all, third);
	p4d_tape_operation *o = p4d_op_append(w, all, before, P4D_NEW_GRADIENT);

	o->others[0] = after.value;
	o->others[1] = values.value;
	const p4d_tape_tensor gated = p4d_op_times(w, before, values);
	const p4d_tape_tensor lowered = w->autocast ? p4d_op_cast(w, gated, 2) : gated;
	const p4d_tape_tensor convolved =
	    p4d_op_map(w, with_weights(w, lowered, h * l->state.conv), true, false);
	p4d_op_hold(w, gated);
	const p4d_tape_tensor y = p4d_op_times(w, after, convolved);
	const p4d_tape_tensor out = p4d_transformers__linear(w, y, h, h, STATE);
	const p4d_tape_tensor named[] = {x, all, convolved, y};
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		p4d_op_hold(w, named[i]);
	return out;
}

p4d_tape_tensor p4d_transformers__state(p4d_tape_writer *w, p4d_tape_tensor x, p4d_mixer mixer)
{
	return mixer == P4D_MIX_DELTA_NET     ? delta_net(w, x)
	       : mixer == P4D_MIX_CONVOLUTION ? convolution(w, x)
	       : mixer == P4D_MIX_MAMBA       ? mamba(w, x)
					      : mamba2(w, x);
}
