/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of one of transformers' layers, and the peak of a step. */
#include "framework/transformers.h"

void p4d_transformers__look(p4d_transformers_step *s, p4d_transformers_moment *most, p4d_tape_moment m)
{
	const p4d_transformers_moment at = {s->now.live + m.live, s->now.gradients + m.weights};

	if (at.live + at.gradients > most->live + most->gradients)
		*most = at;
}

void p4d_transformers__go(p4d_transformers_step *s, p4d_transformers_moment *most, p4d_tape_pass pass)
{
	p4d_transformers__look(s, most, pass.most);
	s->now.live += pass.end.live;
	s->now.gradients += pass.end.weights;
	p4d_transformers__look(s, most, (p4d_tape_moment){0, 0});
}

/* Tokens, labels, positions, angles, and the mask that all layers read. */
uint64_t p4d_transformers__inputs(const p4d_tape_writer *w)
{
	const p4d_layout *l = w->layout;
	const uint64_t angles = w->length * l->head_dim * 2 * w->stream;
	uint64_t mask = 0;

	if (!l->flash_attention || l->architecture->attention_cap > 0)
		mask =
		    w->rows * w->length * w->length * w->stream *
		    (l->architecture->attention_sinks ? 2
						      : 1); /* gpt-oss also has a mask for sliding windows */
	else if (w->masked)
		mask = w->rows * w->length * w->length;
	if (l->architecture->patch_elements) /* pixels in fp32, and in the type of the first matmul's input */
		return w->rows * l->seq_len * l->architecture->patch_elements *
			   (w->weight < 4 || w->autocast ? 6 : 4) +
		       angles;
	return w->tokens * P4D_TRANSFORMERS_IDS + angles + mask;
}

p4d_transformers_passes p4d_transformers__passes_of(p4d_transformers_step *s, unsigned kind)
{
	p4d_tape_writer *w = &s->writer;

	w->kind = kind;
	p4d_transformers__layer(w, true);
	return (p4d_transformers_passes){.forward = p4d_tape_forward(w->tape, !s->again, false, s->again),
					 .again = p4d_tape_forward(w->tape, true, true, true),
					 .back = p4d_tape_backward(w->tape, s->reduced, s->again)};
}
