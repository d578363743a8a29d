/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation with transformers' modules: forward passes in micro-batches of their own, under no_grad() and
 * without dropout, in models without a KV cache (prediction_step of transformers 5.23's Trainer, with
 * --use_cache off).
 */
#include "framework/torch.h"
#include "framework/transformers.h"

/* Simulates the layers' forward passes. They keep nothing except the residual stream and autocast's cache. */
static void play(p4d_transformers_step *s)
{
	p4d_tape tape;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;
	p4d_tape_pass of[P4D_TRANSFORMERS_KINDS] = {{.cached = 0}}, pass;
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);

	w->tape = &tape;
	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++)
		if (kinds.layers[kind]) {
			w->kind = kind;
			p4d_transformers__layer(w, false);
			of[kind] = p4d_tape_forward(&tape, false, false, false);
			/* results that are on the tape at its end are freed with the layer's function */
			of[kind].end.live = of[kind].cached + (int64_t)w->returned;
		}
	/* the layers' input, and tensors that live during the whole pass: masks, cosines and sines */
	const int64_t stream = (int64_t)(w->tokens * l->hidden * w->between),
		      ids = (int64_t)w->tokens * P4D_TRANSFORMERS_IDS;
	s->now.live = (int64_t)p4d_transformers__inputs(w) + stream;
	for (uint64_t i = 0; i < l->layers; i++) {
		pass = of[p4d_transformers__kind_of(l, i)];
		p4d_transformers__go(s, &s->forward, pass);
		/* the model still holds the embeddings and, of the layers' other results, those of the
		 * last layer */
		s->now.live += i ? -(int64_t)w->returned : stream;
	}
	s->now.live -= (int64_t)w->returned;
	p4d_transformers__end(w);
	pass = p4d_tape_forward(&tape, false, false, false);
	/* after the last norm, neither these tensors nor the last layer's result exist */
	s->now.live += ids - (int64_t)p4d_transformers__inputs(w) - stream - (int64_t)tape.value[0].bytes;
	p4d_transformers__go(s, &s->loss, pass);
}

/*
 * Parameters that ZeRO-3 has gathered in the forward pass of an evaluation. It treats this forward pass like
 * one of training (partitioned_param_coordinator.py): parameters that a backward pass would need stay
 * gathered, up to LIVE. They still exist when the next forward pass gathers as many for the first layers,
 * because ZeRO-3 does not count them then. While a parameter exists, it is not gathered again. So at the
 * head, only parameters are gathered that were released before. In a model below LIVE all parameters stay,
 * except those that no backward pass uses: without recomputation, adapters begin without a gradient, so the
 * backward pass ends after the table and after the layers that read the first layer's input; and the table is
 * released if its backward pass is beyond the reuse distance.
 */
p4d_gathered p4d_transformers__gathered(const p4d_layout *l, uint64_t all)
{
	p4d_transformers_linear linears[P4D_TRANSFORMERS_LINEARS];
	const unsigned attention = P4D_TARGET_Q | P4D_TARGET_K | P4D_TARGET_V;
	const unsigned first = attention | (l->architecture->parallel ? P4D_TARGET_GATE | P4D_TARGET_UP : 0);
	const uint64_t LIVE = P4D_ZERO_LIVE, table = l->tied ? 0 : l->vocab * l->hidden,
		       layers = all - 2 * table;
	const bool again = l->recompute == P4D_RECOMPUTE_FULL;
	const bool begins = l->finetune == P4D_TUNE_FULL || again;
	uint64_t kept = all;

	if (all - table >= LIVE)
		return (p4d_gathered){.layers = P4D_LEAST(all, 2 * LIVE),
				      .head = all < 2 * LIVE ? LIVE : P4D_LEAST(all - LIVE, 2 * LIVE)};
	if (!begins || (again ? 3 : 2) * layers + 2 * table >= LIVE)
		kept -= table;
	for (size_t i = begins ? 0 : p4d_transformers__linears(l, false, linears); i-- > 0;)
		if (linears[i].target & first && linears[i].in == l->hidden)
			kept -= linears[i].in * linears[i].out;
	return (p4d_gathered){.before = all, .layers = kept, .head = kept};
}

void p4d_transformers__evaluation(p4d_rows *rows, p4d_gathered gathered, unsigned element)
{
	p4d_layout layout = *rows->layout;

	layout.micro_batch = layout.eval_micro_batch;
	layout.lora.dropout = 0;
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
