/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation with transformers' modules: forward passes in micro-batches of their own, under no_grad() and
 * without dropout, of models that keep no keys and values (prediction_step of transformers 5.23's Trainer,
 * whose --use_cache is off).
 */
#include "framework/torch.h"
#include "framework/transformers.h"

/* The layers' forward passes, of which nothing stays but the stream and what autocast has cast. */
static void play(p4d_transformers_step *s)
{
	p4d_tape tape;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;
	p4d_tape_pass of[2] = {{.cached = 0}}, pass;

	w->tape = &tape;
	for (int sparse = 0; sparse < 2; sparse++)
		if (p4d_transformers__has(l, sparse)) {
			w->sparse = sparse;
			p4d_transformers__layer(w, false);
			of[sparse] = p4d_tape_forward(&tape, false, false, false);
			/* results that the tape still has at its end are gone with the layer's function */
			of[sparse].end.live = of[sparse].cached + (int64_t)w->returned;
		}
	/* what goes to the layers, and what they are given anyway: masks and angles */
	const int64_t stream = (int64_t)(w->tokens * l->hidden * w->between),
		      ids = (int64_t)w->tokens * P4D_TRANSFORMERS_IDS;
	s->now.live = (int64_t)p4d_transformers__inputs(w) + stream;
	for (uint64_t i = 0; i < l->layers; i++) {
		pass = of[p4d_transformers__sparse(l, i)];
		p4d_transformers__go(s, &s->forward, pass);
		/* the model still has the embeddings, and of the other results of layers the last one's */
		s->now.live += i ? -(int64_t)w->returned : stream;
	}
	s->now.live -= (int64_t)w->returned;
	p4d_transformers__end(w);
	pass = p4d_tape_forward(&tape, false, false, false);
	/* neither they nor the last layer's result are there behind the last norm */
	s->now.live += ids - (int64_t)p4d_transformers__inputs(w) - stream - (int64_t)tape.value[0].bytes;
	p4d_transformers__go(s, &s->loss, pass);
}

void p4d_transformers__evaluation(p4d_rows *rows, p4d_gathered gathered, unsigned element)
{
	p4d_layout layout = *rows->layout;

	layout.micro_batch = layout.eval_micro_batch;
	layout.lora_dropout = false;
	if (!p4d_transformers__countable(&layout)) {
		rows->overflow = true;
		return;
	}
	p4d_transformers_step s = {.writer = p4d_transformers__writer(&layout, NULL)};
	play(&s);
	const p4d_wide before = (p4d_wide)gathered.before * element,
		       most = (p4d_wide)(s.forward.live > 0 ? s.forward.live : 0) +
			      (p4d_wide)gathered.layers * element,
		       layers = most > before ? most : before,
		       head =
			   (p4d_wide)(s.loss.live > 0 ? s.loss.live : 0) + (p4d_wide)gathered.head * element;
	p4d_torch_held(rows, 1u << P4D_AT_EVALUATION_LAYER, "evaluation.layer", "", P4D_PART_ACTIVATIONS,
		       layers);
	p4d_torch_held(rows, 1u << P4D_AT_EVALUATION_HEAD, "evaluation.logits", "", P4D_PART_LOGITS, head);
}
