/* SPDX-License-Identifier: Apache-2.0 */
/* Operations and small modules that transformers' layers consist of. */
#include "framework/transformers.h"

bool p4d_transformers__gates_shared(const p4d_layout *l)
{
	return l->experts && l->shared_ffn && !l->kv_rank &&
	       (l->architecture->shared_gate || (l->biased & P4D_BIASED_QKV && !l->qk_norm));
}

/* ---- norms ---- */

/* A number for each row of x, such as its mean. The number's gradient is expanded over the row. */
static p4d_tape_tensor mean(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t rows)
{
	const p4d_tape_tensor out = p4d_op_made(w, rows, 4, p4d_op_needs(w, x));
	p4d_op_append(w, x, out, P4D_NEW_GRADIENT);
	return out;
}

/*
 * Multiplies each row of x by a number. In the backward pass, that number's gradient is as large as x before
 * it is summed.
 */
static p4d_tape_tensor scaled(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor rows)
{
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, x.element, p4d_op_needs(w, x));
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->in[1] = rows.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	if (p4d_op_needs(w, x)) {
		o->saved[0] = x.value;
		o->saved[1] = rows.value;
		o->back_scratch = x.elements * x.element;
	}
	return out;
}

/* Multiplies by a weight of the row's width, in the wider of both types. */
static p4d_tape_tensor weighted(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns, unsigned weight)
{
	const unsigned element = x.element > weight ? x.element : weight;
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, element, p4d_op_needs(w, x) || w->trains);
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	if (w->trains) {
		o->saved[0] = x.value;
		o->weight = columns * w->weight;
		o->back_scratch = x.elements * element;
	}
	return out;
}

/* x / sqrt(mean(x^2)), for x in fp32. The backward pass of the square (pow_backward) makes two tensors. */
static p4d_tape_tensor root_mean_square(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t rows)
{
	const p4d_tape_tensor square = p4d_op_map(w, x, true, false);
	p4d_op_last(w)->back_scratch = 2 * x.elements * x.element;
	const p4d_tape_tensor root = p4d_op_map(w, mean(w, square, rows), false, true);
	return scaled(w, x, root);
}

static p4d_tape_tensor layer_norm(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns, uint64_t rows)
{
	const p4d_tape_tensor in = x;
	const p4d_tape_tensor out = p4d_op_made(w, in.elements, in.element, p4d_op_needs(w, in) || w->trains);
	p4d_tape_operation *o = p4d_op_append(w, in, out, P4D_NEW_GRADIENT);

	if (p4d_op_needs(w, out)) {
		o->saved[0] = in.value;
		o->kept = 2 * rows * 4;
	}
	o->weight = w->trains ? columns * w->weight * w->layout->norm_tensors : 0;
	return out;
}

static p4d_tape_tensor minus_mean(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t rows)
{
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, x.element, p4d_op_needs(w, x));
	const p4d_tape_tensor of_rows = mean(w, x, rows);
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_SAME_GRADIENT);

	o->in[1] = of_rows.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	o->back_scratch = x.elements * x.element; /* the negated gradient, before it is summed */
	return out;
}

p4d_tape_tensor p4d_transformers__norm(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns)
{
	const p4d_layout *l = w->layout;
	const p4d_architecture *a = l->architecture;
	const bool layer = l->norm_tensors == 2 || a->norm == P4D_LAYERNORM_SCALE;

	return p4d_transformers__norm_by(w, x, columns,
					 a->norm_code != P4D_NORM_USUAL ? a->norm_code
					 : layer                        ? P4D_NORM_LAYER
									: P4D_NORM_LLAMA);
}

p4d_tape_tensor p4d_transformers__norm_by(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns,
					  p4d_norm_code code)
{
	const uint64_t rows = x.elements / columns;
	const unsigned given = x.element;
	p4d_tape_tensor y;

	switch (code) {
	case P4D_NORM_LAYER:
		return layer_norm(w, w->autocast ? p4d_op_cast(w, x, 4) : x, columns, rows);
	case P4D_NORM_NEMOTRON:
		return layer_norm(w, w->autocast ? p4d_op_cast(w, x, 2) : x, columns, rows);
	case P4D_NORM_OLMO:
		y = layer_norm(w, p4d_op_cast(w, x, 4), columns, rows);
		return p4d_op_cast(w, y, given);
	case P4D_NORM_COHERE:
		x = p4d_op_cast(w, x, 4);
		y = minus_mean(w, x, rows);
		y = p4d_op_map(w, y, true, false);
		p4d_op_last(w)->back_scratch = 2 * y.elements * y.element;
		y = p4d_op_map(w, mean(w, y, rows), false, true);
		y = scaled(w, minus_mean(w, x, rows), y);
		p4d_op_hold(w, x);
		y = weighted(w, y, columns, 4);
		return p4d_op_cast(w, y, given);
	case P4D_NORM_GEMMA:
	case P4D_NORM_OLMO2:
		y = root_mean_square(w, p4d_op_cast(w, x, 4), rows);
		y = weighted(w, y, columns, 4);
		return p4d_op_cast(w, y, given);
	default:
		x = root_mean_square(w, p4d_op_cast(w, x, 4), rows);
		y = weighted(w, p4d_op_cast(w, x, given), columns, w->weight);
		p4d_op_hold(w, x);
		return y;
	}
}

/* ---- linear layers ---- */

/* bitsandbytes' Linear4bit, which unpacks the weight for each matmul. */
static p4d_tape_tensor quantized(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out)
{
	const unsigned given = x.element;

	x = p4d_op_cast(w, x, 2);
	const p4d_tape_tensor y = p4d_op_made(w, p4d_op_rows(w, x, in) * out, 2, p4d_op_needs(w, x));
	p4d_tape_operation *o = p4d_op_append(w, x, y, P4D_NEW_GRADIENT);
	o->multiplies = true;
	o->scratch = o->back_scratch = in * out * 2 + in * out / 64 * 4;
	return p4d_op_cast(w, y, given);
}

/*
 * A weight in binary codes, which is expanded for each matmul. The gradient of a scale is a sum over its row
 * of the weight's gradient times the code, so the input is kept. Not compared with the authors' code, which
 * was not available.
 */
static p4d_tape_tensor coded(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out)
{
	const p4d_tape_tensor y = p4d_op_product(w, x, in, out, x.element, false);
	p4d_tape_operation *o = p4d_op_last(w);
	const uint64_t whole = in * out * x.element;

	o->saved[0] = x.value;
	o->weight = out * 4;
	o->scratch += whole;
	o->back_scratch += 2 * whole;
	return y;
}

/* In models with experts, PEFT's names for a feed-forward part mean only the experts, except in Qwen 2
 * (its table in transformers_weight_conversion.py lacks Qwen 2). */
bool p4d_transformers__adapts(const p4d_layout *l, unsigned target)
{
	const bool experts = l->experts && !p4d_transformers__gates_shared(l) &&
			     target & (P4D_TARGET_GATE | P4D_TARGET_UP | P4D_TARGET_DOWN);

	if (target == P4D_TRANSFORMERS_STATE)
		return l->finetune != P4D_TUNE_FULL && l->lora.targets == P4D_TARGET_ALL;
	return l->finetune != P4D_TUNE_FULL && l->lora.targets & target && !experts;
}

static bool has_bias(const p4d_layout *l, unsigned target)
{
	const unsigned of_qkv = P4D_TARGET_Q | P4D_TARGET_K | P4D_TARGET_V,
		       of_mlp = P4D_TARGET_GATE | P4D_TARGET_UP | P4D_TARGET_DOWN;

	return (target & of_qkv && l->biased & P4D_BIASED_QKV) ||
	       (target & P4D_TARGET_O && l->biased & P4D_BIASED_OUTPUT) ||
	       (target & of_mlp && l->biased & P4D_BIASED_MLP);
}

p4d_tape_tensor p4d_transformers__linear(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
					 unsigned target)
{
	const p4d_layout *l = w->layout;
	const bool four_bits = l->quant != P4D_QUANT_NONE && target;

	if (l->finetune == P4D_TUNE_ALPHA && target)
		return coded(w, x, in, out);
	p4d_tape_tensor y =
	    four_bits ? quantized(w, x, in, out) : p4d_op_product(w, x, in, out, w->weight, w->trains);

	p4d_op_last(w)->biased = !four_bits && has_bias(l, target);
	if (w->gathers_again && target)
		p4d_op_last(w)->back_scratch += in * out * w->weight;
	if (!p4d_transformers__adapts(l, target))
		return y;
	/* PEFT: the input in the adapter's type (in Linear4bit, unless autocast does that), two matmuls, a
	 * sum */
	const unsigned adapter = p4d_framework_shares(l, P4D_SHARES_UNITS) ? 2
				 : l->lora.fp32                            ? 4
									   : 2,
		       given = y.element;
	const unsigned stored = l->lora.fp32 ? 4 : 2;
	/* parameters outside FSDP1's flat ones are still sharded when PEFT asks for their type */
	const bool shards = l->fsdp.flat && !l->fsdp.flat_alone;
	const unsigned cast = shards || stored < adapter ? stored : adapter;
	if (four_bits) {
		const p4d_tape_tensor base = y;
		y = p4d_op_map(w, base, false, false); /* clone */
		p4d_op_last(w)->gradient[0] = P4D_NEW_GRADIENT;
	}
	const p4d_tape_tensor in_adapter = four_bits && w->autocast ? x : p4d_op_cast(w, x, cast);
	p4d_tape_tensor a = in_adapter;
	if (l->lora.dropout > 0) { /* native_dropout: its result, and a mask of a byte each */
		const bool needs = p4d_op_needs(w, a);
		a = p4d_op_map(w, a, false, false);
		p4d_op_last(w)->kept = needs ? a.elements : 0;
	}
	a = p4d_op_product(w, a, in, l->lora.rank, adapter, true);
	a = p4d_op_product(w, a, l->lora.rank, out, adapter, true);
	a = p4d_op_map(w, a, false, false); /* multiplied by the adapter's scale */
	if (four_bits && !w->autocast)
		a = p4d_op_cast(w, a, given);
	y = p4d_op_plus(w, y, a);
	p4d_op_hold(w, in_adapter);
	return four_bits ? y : p4d_op_cast(w, y, given);
}

/* ---- feed-forward ---- */

/*
 * XIELUActivation in Python: alpha_p x^2 + beta x for positive x, else (expm1(min(x, eps)) - x) alpha_n +
 * beta x. The two alphas are trained and beta is not. Autocast computes the alphas and expm1 in fp32.
 */
static p4d_tape_tensor xielu(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const unsigned alpha = w->autocast ? 4 : x.element;
	const p4d_tape_tensor is_positive = p4d_op_made(w, x.elements, 1, false);
	p4d_op_append(w, x, is_positive, P4D_NEW_GRADIENT);
	p4d_tape_tensor positive = p4d_op_times(w, weighted(w, x, 1, alpha), x);
	positive = p4d_op_plus(w, positive, p4d_op_map(w, x, false, false));
	p4d_tape_tensor negative = p4d_op_map(w, x, true, false);
	p4d_op_last(w)->back_scratch = x.elements;
	negative = p4d_op_map(w, p4d_op_cast(w, negative, alpha), false, true);
	p4d_op_last(w)->back_scratch = negative.elements * negative.element; /* the result + 1 */
	negative = p4d_op_plus(w, negative, x);
	p4d_op_last(w)->gradient[1] = P4D_NEW_GRADIENT;
	negative = weighted(w, negative, 1, alpha);
	negative = p4d_op_plus(w, negative, p4d_op_map(w, x, false, false));
	const p4d_tape_tensor y = p4d_op_plus(w, positive, negative);
	p4d_tape_operation *o = p4d_op_last(w);
	o->gradient[0] = o->gradient[1] = P4D_NEW_GRADIENT;
	o->saved[0] = p4d_op_needs(w, y) ? is_positive.value : -1;
	p4d_op_hold(w, is_positive);
	p4d_op_hold(w, positive);
	return y;
}

p4d_tape_tensor p4d_transformers__activated(p4d_tape_writer *w, p4d_tape_tensor x)
{
	if (w->layout->activation == P4D_XIELU)
		return xielu(w, x);
	if (w->layout->activation == P4D_RELU)
		return p4d_op_map(w, x, false, true);
	if (w->layout->activation == P4D_RELU2) {
		const p4d_tape_tensor y = p4d_op_map(w, p4d_op_map(w, x, false, true), true, false);
		p4d_op_last(w)->back_scratch = 2 * x.elements * x.element;
		return y;
	}
	if (!w->layout->architecture->gelu_in_python)
		return p4d_op_map(w, x, true, false);
	const p4d_tape_tensor half = p4d_op_map(w, x, false, false);
	p4d_tape_tensor cube = p4d_op_map(w, w->autocast ? p4d_op_cast(w, x, 4) : x, true, false);
	p4d_op_last(w)->back_scratch = 2 * cube.elements * cube.element;
	p4d_tape_tensor y = p4d_op_plus(w, x, p4d_op_map(w, cube, false, false));
	y = p4d_op_map(w, y, false, false);
	y = p4d_op_map(w, y, false, true); /* tanh */
	y = p4d_op_map(w, y, false, false);
	p4d_op_last(w)->gradient[0] = P4D_SAME_GRADIENT; /* adds 1 */
	return p4d_op_times(w, half, y);
}

p4d_tape_tensor p4d_transformers__mlp(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t ffn)
{
	const p4d_layout *l = w->layout;
	p4d_tape_tensor y;

	if (!l->glu) {
		y = p4d_transformers__linear(w, x, l->hidden, ffn, P4D_TARGET_UP);
		y = p4d_transformers__activated(w, y);
	} else if (p4d_transformers__joins_gate_up(l)) {
		const p4d_tape_tensor both =
		    p4d_transformers__linear(w, x, l->hidden, 2 * ffn, P4D_TARGET_UP);
		const p4d_tape_tensor gate = p4d_op_view(w, both, both.elements / 2),
				      up = p4d_op_view(w, both, both.elements / 2);
		p4d_op_append(w, both, gate, P4D_NEW_GRADIENT)->others[0] = up.value; /* chunk() */
		y = p4d_op_times(w, up, p4d_transformers__activated(w, gate));
	} else {
		const p4d_tape_tensor gate = p4d_transformers__activated(
		    w, p4d_transformers__linear(w, x, l->hidden, ffn, P4D_TARGET_GATE));
		y = p4d_op_times(w, gate, p4d_transformers__linear(w, x, l->hidden, ffn, P4D_TARGET_UP));
	}
	y = p4d_transformers__linear(w, y, ffn, l->hidden, P4D_TARGET_DOWN);
	p4d_op_hold(w, x);
	return y;
}

p4d_tape_tensor p4d_transformers__dropped(p4d_tape_writer *w, p4d_tape_tensor x)
{
	if (!w->layout->architecture->always_drops)
		return x;
	const p4d_tape_tensor out = p4d_op_map(w, x, false, false);
	p4d_op_last(w)->kept = p4d_op_needs(w, x) ? x.elements : 0;
	return out;
}
