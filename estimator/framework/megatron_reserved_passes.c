/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of embedding, head and hidden states while a stage of Megatron-LM runs its schedule
 * (pipeline_parallel/schedules.py, p2p_communication.py). Python's references decide how long hidden states
 * live. An input lives until its backward pass is over and the model has its next input. The gradient of an
 * input lives until it was sent and the next gradient exists.
 */
#include "framework/megatron_reserved_passes.h"
#include "framework/megatron_reserved_layers.h"
#include "framework/megatron_reserved_states.h"

/* ---- hidden states ---- */

static unsigned hold(p4d_megatron_step *p, p4d_allocated block)
{
	for (unsigned i = 1; i < P4D_MEGATRON_STATES; i++)
		if (!p->passes.state[i].references) {
			p->passes.state[i] = (p4d_megatron_state){block, 1, 0};
			return i;
		}
	p->main.overflow = true;
	return 0;
}

static unsigned share(p4d_megatron_step *p, unsigned i)
{
	p->passes.state[i].references += i > 0;
	return i;
}

static void drop(p4d_megatron_step *p, unsigned *i)
{
	p4d_megatron_state *state = &p->passes.state[*i];

	if (*i && --state->references == 0) {
		give(p, &state->block);
		drop(p, &state->gradient);
	}
	*i = 0;
}

/* Moves a reference to another state. */
static void refer(p4d_megatron_step *p, unsigned *from, unsigned to)
{
	drop(p, from);
	*from = to;
}

static unsigned receive(p4d_megatron_step *p)
{
	return hold(p, take(p, p4d_megatron__narrow(p)));
}

static void push(p4d_megatron_step *p, p4d_megatron_queue *q, unsigned value)
{
	if (q->count < P4D_MEGATRON_STATES)
		q->of[(q->first + q->count++) % P4D_MEGATRON_STATES] = value;
	else
		p->main.overflow = true;
}

static unsigned pop(p4d_megatron_queue *q)
{
	const unsigned value = q->of[q->first];

	if (!q->count)
		return 0;
	q->count--;
	q->first = (q->first + 1) % P4D_MEGATRON_STATES;
	return value;
}

/* ---- embedding and head ---- */

static p4d_allocated forward_embedding(p4d_megatron_step *p)
{
	p4d_allocated state = take(p, p4d_megatron__wide(p));

	if (p->l->micro_batch > 1) /* a copy with tokens as the first dimension and sequences as the second */
		replace(p, &state, p4d_megatron__wide(p));
	for (unsigned i = 0; p->z.gathers && i < 2; i++) /* the rank's tokens, and a copy of them */
		replace(p, &state, p4d_megatron__narrow(p));
	return state;
}

/* PyTorch sums the gradient of a table in fp32, in groups of 10 tokens, and for each distinct word. It has
 * another kernel for few tokens (Embedding.cu). */
static void sum_words(p4d_megatron_step *p)
{
	enum { FEW = 3072, GROUP = 10 };
	const uint64_t tokens = p->z.tokens, words = p->l->vocab / p->l->tp;

	if (tokens <= FEW)
		return;
	p4d_allocated sums =
	    take_bytes(p, (p4d_wide)(tokens / GROUP + P4D_LEAST(tokens, words)) * p->z.h * 4);
	give(p, &sums);
}

static void backward_embedding(p4d_megatron_step *p, p4d_allocated gradient)
{
	const p4d_wide wide = p4d_megatron__wide(p);

	if (p->z.gathers)
		replace(p, &gradient, wide);
	/* a copy with zeros for words of other ranks, or in another order of dimensions */
	if (p->l->tp > 1 || p->l->micro_batch > 1)
		replace(p, &gradient, wide);
	p4d_allocated table = take(p, p4d_megatron__table(p));
	sum_words(p);
	give(p, &gradient);
	if (p->l->tied && p->last) /* the head's gradient is added */
		replace(p, &table, p4d_megatron__table(p));
	give(p, &table);
}

static p4d_wide logits_of(const p4d_megatron_step *p)
{
	return (p4d_wide)p->z.tokens * ((p->l->vocab + p->l->tp - 1) / p->l->tp);
}

/* The head keeps the layers' result. An unfused loss works on a copy of the logits in fp32. */
static void forward_head(p4d_megatron_step *p, p4d_allocated state)
{
	p->head_input = state;
	p->head_norm = take(p, p4d_megatron__narrow(p));
	p4d_megatron__once(p, "head.gathered");
	p4d_megatron__once(p, "workspace.torch");
	p->logits = p4d_megatron__matmul(p, logits_of(p));
	if (!p->l->megatron.fused_cross_entropy)
		replace(p, &p->logits, logits_of(p) * 4 / p->element);
}

static p4d_allocated backward_head(p4d_megatron_step *p)
{
	if (!p->l->megatron.fused_cross_entropy)
		replace(p, &p->logits, logits_of(p));
	p4d_allocated of_input = p4d_megatron__matmul(p, p4d_megatron__wide(p));
	p4d_allocated own = p->z.gathers ? take(p, p4d_megatron__narrow(p)) : 0;
	p4d_allocated of_weight = p4d_megatron__weight_gradient(p, "dummy.head", p4d_megatron__table(p));
	if (own)
		give(p, &of_input);
	give(p, &p->logits);
	give(p, &p->head_norm);
	give(p, &of_weight);
	const p4d_allocated of_norm = take(p, p4d_megatron__narrow(p));
	give(p, &of_input);
	give(p, &own);
	give(p, &p->head_input);
	return of_norm;
}

/* ---- a chunk ---- */

/* Allocates the data loader's mask. A context-parallel rank keeps its part of it. */
static p4d_allocated take_mask(p4d_megatron_step *p, bool first, bool last)
{
	const p4d_layout *l = p->l;
	const p4d_wide whole = (p4d_wide)l->micro_batch * l->seq_len * l->seq_len;

	if (!l->megatron.attention_mask || !(first || last))
		return 0;
	p4d_allocated mask = take_bytes(p, whole);
	if (l->cp > 1) {
		const p4d_allocated part = take_bytes(p, whole / l->cp);
		give(p, &mask);
		mask = part;
	}
	return mask;
}

static bool keeps_mask(const p4d_layout *l)
{
	return l->recompute == P4D_RECOMPUTE_FULL || p4d_megatron__again(l, P4D_MODULE_CORE_ATTENTION);
}

static unsigned free_slot(p4d_megatron_step *p)
{
	unsigned slot = 0;

	while (slot < P4D_MEGATRON_PLAYED_SLOTS && p->passes.used >> slot & 1)
		slot++;
	if (slot < P4D_MEGATRON_PLAYED_SLOTS)
		p->passes.used |= 1u << slot;
	else
		p->main.overflow = true;
	return slot < P4D_MEGATRON_PLAYED_SLOTS ? slot : 0;
}

/* Each chunk keeps its angles of RoPE from its first pass on. A context-parallel rank keeps a part of them.
 */
static void make_angles(p4d_megatron_step *p, uint32_t chunk)
{
	const p4d_wide part = p4d_megatron__named(p, "rope") / p->chunks, all = part * p->l->cp;

	if (p->passes.has_angles[chunk])
		return;
	p->passes.has_angles[chunk] = true;
	p4d_allocated half = take_bytes(p, all / 2), whole = take_bytes(p, all);
	give(p, &half);
	if (p->l->cp == 1)
		return;
	take_bytes(p, part);
	give(p, &whole);
}

/*
 * input: the state that is the chunk's input; 0: the chunk begins with the embedding. Returns the output; 0:
 * the chunk ends with the loss.
 */
static p4d_allocated forward_chunk(p4d_megatron_step *p, uint32_t chunk, unsigned input)
{
	p4d_megatron_stage *s = &p->passes;
	const bool first = p->first && !chunk, last = p->last && chunk + 1 == p->chunks;
	const unsigned slot = free_slot(p);

	push(p, &s->slots[chunk], slot);
	s->input_of[slot] = input;
	refer(p, &s->last_input[chunk], share(p, input));
	s->mask_of[slot] = take_mask(p, first, last);
	const p4d_allocated state = first ? forward_embedding(p) : s->state[input].block;
	make_angles(p, chunk);
	const p4d_allocated output = p4d_megatron__forward(p, chunk, slot, state);
	if (!keeps_mask(p->l))
		give(p, &s->mask_of[slot]);
	if (!last)
		return output;
	forward_head(p, output);
	return 0;
}

/*
 * of_output: the received gradient of the chunk's output; 0: the chunk ends with the loss. Returns the
 * gradient of the chunk's input; 0: the chunk begins with the embedding.
 */
static unsigned backward_chunk(p4d_megatron_step *p, uint32_t chunk, unsigned of_output)
{
	p4d_megatron_stage *s = &p->passes;
	const unsigned slot = pop(&s->slots[chunk]);
	unsigned input = s->input_of[slot], gradient = 0;
	const bool last = p->last && chunk + 1 == p->chunks;
	const p4d_allocated from = last ? backward_head(p) : s->state[of_output].block;
	const p4d_allocated of_input = p4d_megatron__backward(p, chunk, slot, from, input, of_output);

	if (input) {
		gradient = hold(p, of_input);
		s->state[input].gradient = share(p, gradient);
	} else {
		backward_embedding(p, of_input);
	}
	give(p, &s->mask_of[slot]);
	drop(p, &input);
	s->used &= ~(1u << slot);
	return gradient;
}

/* ---- interleaved ---- */

static uint32_t chunk_of(const p4d_megatron_step *p, uint32_t pass, bool forward)
{
	const uint32_t chunk = pass / (uint32_t)p->l->pp % p->chunks;

	return forward ? chunk : p->chunks - 1 - chunk;
}

/* The chunk for which a stage receives while it runs a pass (recv_tensor_from_previous_stage); -1: none. */
static int receiver(const p4d_megatron_step *p, uint32_t pass, bool forward)
{
	const uint32_t pp = (uint32_t)p->l->pp, end = forward ? p->chunks - 1 : 0;

	if (forward ? !p->first : !p->last)
		return (int)chunk_of(p, pass + 1, forward);
	if (pass < pp - 1 || chunk_of(p, pass - (pp - 1), forward) == end)
		return -1;
	return (int)chunk_of(p, pass - (pp - 1), forward) + (forward ? 1 : -1);
}

/* Returns the state that the stage receives during a pass; 0: none. */
static unsigned receive_for(p4d_megatron_step *p, p4d_megatron_queue *queues, uint32_t pass, uint32_t passes,
			    bool forward)
{
	const int chunk = pass + 1 < passes ? receiver(p, pass, forward) : -1;
	const unsigned received = chunk >= 0 ? receive(p) : 0;

	if (received)
		push(p, &queues[chunk], received);
	return received;
}

/*
 * A forward pass, whose output is sent during the next passes. While the pipeline fills, the stage sends the
 * output before it continues, and the schedule's variable `input` refers to the state received last. It still
 * does so afterwards.
 */
static void forward_interleaved(p4d_megatron_step *p, uint32_t pass, uint32_t passes, bool fills)
{
	p4d_megatron_stage *s = &p->passes;
	const uint32_t chunk = chunk_of(p, pass, true);

	give(p, &s->output);
	s->output = forward_chunk(p, chunk, pop(&s->inputs[chunk]));
	const unsigned received = receive_for(p, s->inputs, pass, passes, true);
	if (!fills)
		return;
	refer(p, &s->input, share(p, received));
	give(p, &s->output);
}

/*
 * A backward pass. Its gradient is sent during the next passes. The transfer refers to this gradient until
 * the stage has received the next one. While the pipeline empties, the stage waits for each transfer, but a
 * variable still refers to the gradient sent before.
 */
static void backward_interleaved(p4d_megatron_step *p, uint32_t pass, uint32_t passes, bool empties)
{
	p4d_megatron_stage *s = &p->passes;
	const uint32_t chunk = chunk_of(p, pass, false);
	unsigned of_output = pop(&s->gradients[chunk]);
	const unsigned of_input = backward_chunk(p, chunk, of_output);

	drop(p, &of_output);
	if (empties)
		refer(p, &s->waited_for, of_input);
	const unsigned received = receive_for(p, s->gradients, pass, passes, false);
	refer(p, &s->of_output, empties ? share(p, received) : 0);
	if (!empties)
		refer(p, &s->of_input, of_input);
}

static void run_interleaved(p4d_megatron_step *p)
{
	p4d_megatron_stage *s = &p->passes;
	const uint32_t pp = (uint32_t)p->l->pp, all = (uint32_t)P4D_LEAST(p->l->micro_batches, 3 * pp);
	const uint32_t passes = all * p->chunks, warm_up = 2 * (pp - 1 - p->stage) + (p->chunks - 1) * pp;
	const uint32_t ahead = warm_up < passes ? warm_up : passes;

	if (!p->first)
		push(p, &s->inputs[0], receive(p));
	for (uint32_t k = 0; k < passes + ahead && !p4d_megatron__ends(p); k++) {
		if (k < passes)
			forward_interleaved(p, k, passes, k < ahead);
		else
			give(p, &s->output);
		if (k + 1 == ahead && !p->last) {
			const unsigned received = receive(p);
			push(p, &s->gradients[p->chunks - 1], received);
			s->of_output = ahead < passes ? share(p, received) : 0;
		}
		if (k >= ahead)
			backward_interleaved(p, k - ahead, passes, k >= passes);
	}
	drop(p, &s->input);
	drop(p, &s->of_output);
	drop(p, &s->of_input);
	drop(p, &s->waited_for);
}

/* ---- one chunk per stage ---- */

/* Lets a variable of the schedule refer to a state that is received, or to none. */
static void receive_into(p4d_megatron_step *p, unsigned *variable, bool receives)
{
	refer(p, variable, receives ? receive(p) : 0);
}

/*
 * The forward passes that fill the pipeline, then forward and backward passes in turn. graph: the input to
 * which the autograd graph of the last output refers. The variable of this output gets the next output after
 * the next forward pass.
 */
static void run_in_turn(p4d_megatron_step *p)
{
	const uint32_t after = (uint32_t)p->l->pp - 1 - p->stage;
	const uint32_t all = (uint32_t)P4D_LEAST(p->l->micro_batches, after + 3);
	const uint32_t ahead = after < all ? after : all;
	unsigned input = 0, of_output = 0, of_input = 0, graph = 0;

	for (uint32_t k = 0; k < all + ahead && !p4d_megatron__ends(p); k++) {
		p4d_allocated output = 0;
		if (k < all) {
			receive_into(p, &input, !p->first);
			output = forward_chunk(p, 0, share(p, input));
		}
		drop(p, &graph);
		if (k >= ahead)
			receive_into(p, &of_output, !p->last);
		give(p, &output);
		if (k < ahead)
			continue;
		const p4d_megatron_queue *q = &p->passes.slots[0];
		refer(p, &input, share(p, p->passes.input_of[q->of[q->first]]));
		refer(p, &of_input, backward_chunk(p, 0, of_output));
		graph = share(p, input);
	}
	drop(p, &input);
	drop(p, &of_output);
	drop(p, &of_input);
	drop(p, &graph);
}

void p4d_megatron__passes(p4d_megatron_step *p)
{
	if (p->chunks > 1)
		run_interleaved(p);
	else
		run_in_turn(p);
}
