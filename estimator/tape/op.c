/* SPDX-License-Identifier: Apache-2.0 */
#include "tape/op.h"

p4d_tape_tensor p4d_op_made(p4d_tape_writer *w, uint64_t elements, unsigned element, bool needs)
{
	return (p4d_tape_tensor){p4d_tape__value(w->tape, elements * element, needs), (unsigned char)element,
				 elements};
}

bool p4d_op_needs(const p4d_tape_writer *w, p4d_tape_tensor x)
{
	return w->tape->value[x.value].needs;
}

p4d_tape_tensor p4d_op_begin(p4d_tape_writer *w, uint64_t columns, unsigned element, bool needs_gradient)
{
	w->tape->operations = w->tape->values = 0;
	w->tape->overflow = false;
	return p4d_op_made(w, w->tokens * columns, element, needs_gradient);
}

p4d_tape_tensor p4d_op_view(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements)
{
	return (p4d_tape_tensor){p4d_tape__view(w->tape, x.value, elements * x.element), x.element, elements};
}

/* An operation on one tensor that makes another. */
p4d_tape_operation *p4d_op_append(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor out,
				  p4d_tape_gradient gradient)
{
	p4d_tape_operation *o = p4d_tape_append(w->tape);

	o->in[0] = x.value;
	o->gradient[0] = gradient;
	o->out = out.value;
	return o;
}

p4d_tape_tensor p4d_op_cast(p4d_tape_writer *w, p4d_tape_tensor x, unsigned element)
{
	if (x.element == element)
		return x;
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, element, p4d_op_needs(w, x));
	p4d_op_append(w, x, out, P4D_NEW_GRADIENT);
	return out;
}

p4d_tape_tensor p4d_op_map(p4d_tape_writer *w, p4d_tape_tensor x, bool saves_input, bool saves_output)
{
	const p4d_tape_tensor out = p4d_op_made(w, x.elements, x.element, p4d_op_needs(w, x));
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	if (p4d_op_needs(w, x)) {
		o->saved[0] = saves_input ? x.value : -1;
		o->saved[1] = saves_output ? out.value : -1;
	}
	return out;
}

static unsigned wider(p4d_tape_tensor x, p4d_tape_tensor y)
{
	return x.element > y.element ? x.element : y.element;
}

p4d_tape_tensor p4d_op_times(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y)
{
	const p4d_tape_tensor out =
	    p4d_op_made(w, x.elements, wider(x, y), p4d_op_needs(w, x) || p4d_op_needs(w, y));
	p4d_tape_operation *o = p4d_op_append(w, x, out, P4D_NEW_GRADIENT);

	o->in[1] = y.value;
	o->gradient[1] = P4D_NEW_GRADIENT;
	o->saved[0] = p4d_op_needs(w, x) ? y.value : -1;
	o->saved[1] = p4d_op_needs(w, y) ? x.value : -1;
	return out;
}

p4d_tape_tensor p4d_op_plus(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y)
{
	const p4d_tape_tensor out =
	    p4d_op_made(w, x.elements, wider(x, y), p4d_op_needs(w, x) || p4d_op_needs(w, y));
	p4d_tape_operation *o =
	    p4d_op_append(w, x, out, x.element == out.element ? P4D_SAME_GRADIENT : P4D_NEW_GRADIENT);

	o->in[1] = y.value;
	o->gradient[1] = y.element == out.element ? P4D_SAME_GRADIENT : P4D_NEW_GRADIENT;
	return out;
}

uint64_t p4d_op_rows(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t columns)
{
	if (columns)
		return x.elements / columns;
	w->tape->overflow = true;
	return 0;
}

p4d_tape_tensor p4d_op_product(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t in, uint64_t out,
			       unsigned weight, bool trained)
{
	const uint64_t elements = in * out, rows = p4d_op_rows(w, x, in);
	const bool lowers = w->autocast && weight == 4;

	if (w->autocast)
		x = p4d_op_cast(w, x, 2);
	const p4d_tape_tensor y =
	    p4d_op_made(w, rows * out, w->autocast ? 2 : x.element, p4d_op_needs(w, x) || trained);
	p4d_tape_operation *o = p4d_op_append(w, x, y, P4D_NEW_GRADIENT);

	o->multiplies = true;
	o->saved[0] = trained || (w->keeps_frozen && p4d_op_needs(w, x)) ? x.value : -1;
	if (lowers && (p4d_op_needs(w, x) || trained)) {
		o->copy = elements * 2;
		o->cached = trained;
	} else if (lowers) {
		o->scratch = elements * 2;
	}
	o->weight = trained ? elements * weight : 0;
	o->lowered = trained && lowers ? elements * 2 : 0;
	return y;
}

p4d_tape_tensor p4d_op_slice(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t elements)
{
	const p4d_tape_tensor out = p4d_op_view(w, x, elements);
	p4d_op_append(w, x, out, P4D_NEW_GRADIENT);
	return out;
}

p4d_tape_tensor p4d_op_joined(p4d_tape_writer *w, p4d_tape_tensor x, p4d_tape_tensor y)
{
	const unsigned element = x.element > y.element ? x.element : y.element;
	const p4d_tape_tensor out =
	    p4d_op_made(w, x.elements + y.elements, element, p4d_op_needs(w, x) || p4d_op_needs(w, y));
	p4d_tape_operation *o =
	    p4d_op_append(w, x, out, x.element == element ? P4D_SAME_GRADIENT : P4D_NEW_GRADIENT);

	o->in[1] = y.value;
	o->gradient[1] = y.element == element ? P4D_SAME_GRADIENT : P4D_NEW_GRADIENT;
	return out;
}

void p4d_op_parted(p4d_tape_writer *w, p4d_tape_tensor x, uint64_t first, p4d_tape_tensor *a,
		   p4d_tape_tensor *b)
{
	*a = p4d_op_view(w, x, first);
	*b = p4d_op_view(w, x, x.elements - first);
	p4d_op_append(w, x, *a, P4D_NEW_GRADIENT)->others[0] = b->value;
}
