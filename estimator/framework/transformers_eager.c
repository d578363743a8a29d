/* SPDX-License-Identifier: Apache-2.0 */
/* transformers' eager attention: scores in memory, and their softmax. */
#include "framework/transformers.h"

static p4d_tape_tensor repeated(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements)
{
	if (x.elements == elements && w->rows == 1)
		return x;
	const p4d_tape_tensor out =
	    p4d_op_made(w, elements, x.element, p4d_op_needs(w, x)); /* a view, or a contiguous copy */
	p4d_op_append(w, x, out, P4D_NEW_GRADIENT);
	return out;
}

/* A matmul of two activations. */
static p4d_tape_tensor matmul(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y, uint64_t elements)
{
	if (w->autocast) {
		x = p4d_op_cast(w, x, 2);
		y = p4d_op_cast(w, y, 2);
	}
	p4d_tape_tensor out = p4d_op_times(w, x, y);
	w->tape->value[out.value].bytes = elements * out.element;
	out.elements = elements;
	return out;
}

/* Softmax. Its backward pass on CUDA stores the elementwise product of gradient and result (SoftMax.cu). */
static p4d_tape_tensor softmax(p4d_tape_writer *w, p4d_tape_tensor x)
{
	const p4d_tape_tensor out = p4d_op_map(w, x, false, true);

	p4d_op_last(w)->back_scratch = out.elements * out.element;
	return out;
}

/* softmax(dtype=torch.float32): its kernel reads fp16 (SoftMax.cpp), while bf16 is cast before it. */
static p4d_tape_tensor softmax_in_fp32(p4d_tape_writer *w, p4d_tape_tensor x)
{
	if (w->layout->precision != P4D_FP16 || x.element == 4)
		return softmax(w, p4d_op_cast(w, x, 4));
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, 4, p4d_op_needs(w, x));
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->saved[0] = p4d_op_needs(w, x) ? out.value : -1;
	o->back_scratch = out.elements * out.element;
	return out;
}

/*
 * gpt-oss's eager_attention_forward: scores with a column of sinks, their softmax in the same type, and the
 * scores again. It first subtracts each row's maximum; torch.max keeps the index of the maximum, and its
 * backward pass makes a tensor that is zero everywhere else. named: further tensors that Python refers to
 * until attention ends.
 */
static p4d_tape_tensor softmax_with_sinks(p4d_tape_writer *w, p4d_tape_tensor s, uint64_t rows,
					  p4d_tape_tensor *named)
{
	const uint64_t all = s.elements + rows;
	const unsigned element = s.element > w->weight ? s.element : w->weight;
	const p4d_tape_tensor combined = p4d_op_made(w, all, element, p4d_op_needs(w, s) || w->trains);
	p4d_op_append(w, s, combined, element == s.element ? P4D_SAME_GRADIENT : P4D_NEW_GRADIENT);
	const p4d_tape_tensor most = p4d_op_made(w, rows, element, p4d_op_needs(w, combined));
	p4d_op_append(w, combined, most, P4D_NEW_GRADIENT)->kept = p4d_op_needs(w, combined) ? rows * 8 : 0;
	const p4d_tape_tensor below = p4d_op_made(w, all, element, p4d_op_needs(w, combined));
	p4d_tape_operation *o = p4d_op_append(w, combined, below, P4D_SAME_GRADIENT);
	o->in[1] = most.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	o->back_scratch = all * element; /* the negated gradient, before it is summed */
	*named = below;
	return p4d_op_slice(w, softmax(w, below), s.elements);
}

p4d_tape_tensor p4d_transformers__eager(p4d_tape_writer *w, p4d_tape_tensor q, p4d_tape_tensor k,
					p4d_tape_tensor v)
{
	const p4d_architecture *a = w->layout->architecture;
	const uint64_t scores = w->rows * w->layout->heads * w->length * w->length, queries = q.elements;
	const bool in_fp32 = a->scores_in_fp32;
	const unsigned values = v.element;
	p4d_tape_tensor named = q;

	k = repeated(w, k, queries);
	v = repeated(w, v, w->layout->kv_rank ? v.elements : queries);
	q = repeated(w, q, queries);
	if (in_fp32) {
		q = p4d_op_cast(w, q, 4);
		k = p4d_op_cast(w, k, 4);
	}
	p4d_tape_tensor s = matmul(w, q, k, scores);
	const p4d_tape_tensor raw = s;
	if (a->keeps_raw_scores)
		s = p4d_op_slice(w, s, scores); /* scales a slice in place */
	else if (a->positions != P4D_ALIBI || a->adds_alibi)
		s = p4d_op_map(w, s, false, false); /* multiplies by the scale */
	if (a->attention_cap > 0)
		s = p4d_op_map(w, p4d_op_map(w, p4d_op_map(w, s, false, false), false, true), false, false);
	if (a->adds_alibi) {
		s = p4d_op_map(w, s, false, false); /* adds ALiBi */
		p4d_op_last(w)->gradient[0] = P4D_SAME_GRADIENT;
	}
	const p4d_tape_tensor masked = p4d_op_made(w, scores,
						   s.element > w->stream && !in_fp32 ? s.element
						   : w->stream > s.element           ? w->stream
										     : s.element,
						   p4d_op_needs(w, s));
	p4d_op_append(w, s, masked, masked.element == s.element ? P4D_SAME_GRADIENT : P4D_NEW_GRADIENT);
	if (a->attention_sinks) {
		s = softmax_with_sinks(w, masked, scores / w->length, &named);
	} else {
		s = a->softmax_as_is && !w->autocast ? softmax(w, masked) : softmax_in_fp32(w, masked);
	}
	if (a->keeps_raw_scores) {
		p4d_op_hold(w, raw); /* Python's variable refers to the raw scores until it gets the result */
		w->returned = scores * s.element;
	}
	s = p4d_op_cast(w, s, values > q.element || in_fp32 || a->attention_sinks ? values : q.element);
	if (a->attention_sinks) /* Python's variable refers to the masked scores until it gets the result */
		p4d_op_hold(w, masked);
	if (a->drops_scores)
		s = p4d_transformers__dropped(w, s);
	if (a->adds_alibi) {
		w->returned = scores * s.element;
		p4d_op_hold(w, masked); /* masked and raw scores are separate Python variables */
	}
	p4d_tape_tensor out = matmul(w, s, v, v.elements);
	out = p4d_op_map(w, out, false, false); /* contiguous() */
	if (a->attention_sinks)
		p4d_op_hold(w, named);
	return out;
}
