/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a training step with transformers' modules: one copy of the model (the HF Trainer, DDP),
 * DeepSpeed's ZeRO, or FSDP2 as accelerate sets it up; for full fine-tuning and PEFT's adapters. Derived from
 * the code of transformers 5.23, PEFT, accelerate, bitsandbytes and DeepSpeed 0.19, and compared with what
 * that code allocates (tests/parity, tests/data/transformers_memory.csv).
 */
#include "framework/transformers.h"

#include <string.h>

#include "framework/torch.h"
#include "plan/optimizer.h"

typedef p4d_transformers_moment moment;
typedef p4d_transformers_step step;

/*
 * Bytes of the frozen matrices of a recomputed layer. ZeRO-3 releases them as soon as the layer is
 * recomputed, and gathers each of them again for its backward pass (partitioned_param_coordinator.py,
 * recompute parameters).
 */
static int64_t frozen_matrices(const p4d_tape_writer *w, unsigned kind)
{
	p4d_transformers_linear linear[P4D_TRANSFORMERS_LINEARS];
	const size_t n = w->gathers_again ? p4d_transformers__linears(w->layout, kind, linear) : 0;
	uint64_t elements = 0;

	for (size_t i = 0; i < n; i++)
		elements += linear[i].in * linear[i].out;
	return (int64_t)(elements * w->weight);
}

/* The backward passes of layers and embedding. table: bytes of the gradient of the embedding's table. */
static void play_layers_back(step *s, const p4d_transformers_passes *of, p4d_tape_pass first, bool all_need,
			     int64_t table)
{
	const p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;

	for (uint64_t i = l->layers; i-- > 0;) {
		const unsigned kind = p4d_transformers__kind_of(l, i);
		if (!i && !all_need) {
			s->now.live = 0;
			break; /* the first layer's backward pass needs less memory than that of later layers
				*/
		}
		if (i < l->layers - 1)
			p4d_transformers__bring_back(s, i ? of[kind].forward : first);
		if (s->again)
			p4d_transformers__go(s, &s->backward, of[kind].again);
		s->now.live -= frozen_matrices(w, kind);
		p4d_transformers__reduce(s, P4D_ZERO_FEED);
		p4d_transformers__go(s, &s->backward, of[kind].back);
		p4d_transformers__reduce(s, P4D_ZERO_MIXER);
	}
	if (!w->trains)
		return;
	/* Tied embeddings have three tensors of the table's size: the head's gradient, the embedding's
	 * gradient and their sum. Autograd cannot add into the head's gradient, because it is a view of a
	 * matmul's result. */
	p4d_transformers__look(s, &s->backward,
			       (p4d_tape_moment){(int64_t)w->tokens * 32, (l->tied ? 2 : 1) * table});
	s->now.gradients -= l->tied && s->reduced ? table : 0;
	s->now.gradients += s->reduced ? 0 : table;
	p4d_transformers__look(s, &s->backward, (p4d_tape_moment){0, 0});
	p4d_transformers__reduce(s, P4D_ZERO_BEGIN);
}

static void play(step *s)
{
	p4d_tape tape;
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;
	const bool all_need = w->trains || s->again;
	int64_t cached = 0;
	const p4d_transformers_kinds kinds = p4d_transformers__kinds(l);
	p4d_tape_pass first, pass;
	p4d_transformers_passes of[P4D_TRANSFORMERS_KINDS] = {0};

	w->tape = &tape;
	s->now.live += (int64_t)p4d_transformers__inputs(w) + (int64_t)(w->tokens * l->hidden * w->between);
	if (l->architecture->kind ==
	    P4D_ENCODER) /* an encoder's embedding saves a norm's input, a dropout mask and dropout's input */
		s->now.live += (int64_t)(w->tokens * l->hidden * (w->between + 1));
	for (unsigned kind = 0; kind < P4D_TRANSFORMERS_KINDS; kind++)
		if (kinds.layers[kind])
			of[kind] = p4d_transformers__passes_of(s, kind);
	w->kind = p4d_transformers__kind_of(l, 0);
	p4d_transformers__layer(w, all_need);
	first = p4d_tape_forward(&tape, !s->again, false, s->again);
	pass = first;
	for (uint64_t i = 0; i < l->layers; i++) {
		const p4d_tape_pass before = pass;
		pass = i ? of[p4d_transformers__kind_of(l, i)].forward : first;
		p4d_transformers__go(s, &s->forward, pass);
		if (i)
			p4d_transformers__send_away(s, before);
		s->now.live += i == 0 && s->again ? (int64_t)w->returned : 0;
		cached += pass.cached;
	}
	s->now.live -= s->again ? (int64_t)w->returned : 0;
	s->saved = s->now.live;
	p4d_transformers__end(w);
	pass = p4d_tape_forward(&tape, true, false, false);
	p4d_transformers__go(s, &s->loss, pass);
	s->now.live -= cached;
	pass = p4d_tape_backward(&tape, s->reduced, false);
	p4d_transformers__go(s, &s->head, pass);
	s->now.live -= s->head_leaves;
	const int64_t table = (int64_t)(l->vocab * l->hidden * w->weight);
	s->now.gradients +=
	    l->tied && w->trains && s->reduced
		? table
		: 0; /* a tied table's gradient exists until the embedding's gradient exists */
	p4d_transformers__reduce(s, P4D_ZERO_END);
	play_layers_back(s, of, first, all_need, table);
}

static void held(p4d_rows *rows, p4d_live_point point, const char *gradients, const char *name,
		 p4d_memory_class part, moment m)
{
	p4d_torch_held(rows, 1u << point, gradients, "", P4D_PART_GRADS,
		       (p4d_wide)(m.gradients > 0 ? m.gradients : 0));
	p4d_torch_held(rows, 1u << point, name, "", part, (p4d_wide)(m.live > 0 ? m.live : 0));
}

/* Adds rows for head and loss, and for the activations that the layers saved for their backward passes. */
static void held_of_end(p4d_rows *rows, p4d_live_point point, const char *gradients, const char *layers,
			const char *name, moment m, int64_t saved)
{
	const int64_t of_layers = saved < 0 ? 0 : saved < m.live ? saved : m.live > 0 ? m.live : 0;

	p4d_torch_held(rows, 1u << point, layers, "", P4D_PART_ACTIVATIONS, (p4d_wide)of_layers);
	m.live -= of_layers;
	held(rows, point, gradients, name, P4D_PART_LOGITS, m);
}

static void always(p4d_rows *rows, const char *name, p4d_memory_class part, uint64_t bytes, bool later)
{
	if (bytes)
		p4d_row(rows, name, "", part, P4D_DT_BYTES, bytes, 0, 0)->at_first_step = later;
}

/*
 * Memory that sharding adds to one copy of the model: permanent bytes, and bytes during passes. For ZeRO
 * (DeepSpeed's stage_1_and_2.py, stage3.py, bf16_optimizer.py, with its default sizes) and for FSDP2 as
 * accelerate sets it up.
 */
typedef struct sharding {
	uint64_t parameters, master, moments, buckets;
	uint64_t forward, loss, backward; /* gathered parameters, and gradients while they are reduced */
	p4d_gathered evaluation;
	uint64_t step,
	    gradients;       /* memory during the update, with gradients in two types; memory of gradients */
	uint64_t host;       /* memory on the host instead of the GPU */
	uint64_t on_its_way; /* elements of the largest gradient that is being copied to the host */
} sharding;

/*
 * Bytes of moments. The HF Trainer keeps the moments of embeddings in fp32 (bitsandbytes'
 * GlobalOptimManager).
 */
static uint64_t moments_beside_embeddings(const p4d_layout *l, uint64_t trained, unsigned element)
{
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const uint64_t embedded = (l->vocab + l->positions) * l->hidden;

	if (o->bits != 8 || o->paged || l->finetune != P4D_TUNE_FULL || embedded > trained ||
	    l->torch.model_code != P4D_MODEL_CODE_TRANSFORMERS)
		return p4d_transformers__moment_bytes(l, trained, element);
	return p4d_transformers__moment_bytes(l, trained - embedded, element) +
	       (o->states - 1) * embedded * 4;
}

static sharding of_one_copy(const p4d_layout *l, uint64_t trained, unsigned element, uint64_t parameters)
{
	return (sharding){.parameters = parameters,
			  .moments = moments_beside_embeddings(l, trained, element),
			  .buckets = l->dp > 1 ? trained * element
					       : 0, /* DDP's buckets of gradients (PyTorch's reducer.cpp) */
			  .step = p4d_transformers__update_bytes(l, trained, element),
			  .gradients = trained * element};
}

/*
 * Peak number of parameters that ZeRO-3 has gathered in a model with experts. The experts of a layer are one
 * module, which is gathered completely (partitioned_param_coordinator.py). Their matmuls are no linear
 * layers, so DeepSpeed does not prevent autograd from holding their weights. Without recomputation, autograd
 * holds the weights of all layers. It still holds frozen weights while they are gathered again. While a
 * module is gathered, one of its parameters exists twice.
 */
static uint64_t live_with_experts(const p4d_layout *l, uint64_t live)
{
	const uint64_t up = p4d_transformers__experts_up(l), down = up / (l->glu ? 2 : 1), both = up + down;
	const uint64_t table = l->vocab * l->hidden;

	const bool adapted = p4d_transformers__expert_adapters(l) > 0;

	if (l->recompute == P4D_RECOMPUTE_NONE && !adapted)
		return p4d_expert_layers_before(l, l->layers) * both + up + table;
	if (both < live)
		return live + down;
	const uint64_t attention = (uint64_t)p4d_size_of_expert_layer(l) -
				   (l->glu ? 3 : 2) * l->hidden * l->shared_ffn - l->hidden * l->experts;
	return l->finetune == P4D_TUNE_FULL || adapted ? both + P4D_MOST(down + attention, table)
						       : 2 * both + up;
}

/*
 * Sharding with ZeRO. trained: number of trained parameters; all: number of all parameters, including frozen
 * ones; held: bytes of all parameters without sharding.
 */
static sharding of_zero(const p4d_layout *l, uint64_t trained, uint64_t all, uint64_t held, unsigned element)
{
	/* defaults of DeepSpeed's stage3_max_live_parameters and sub_group_size */
	const uint64_t LIVE = P4D_ZERO_LIVE, GROUP = 1000000000;
	const uint64_t share = (trained + l->dp - 1) / l->dp, table = l->vocab * l->hidden;
	const uint64_t up = p4d_transformers__experts_up(l);
	const uint64_t largest = P4D_MOST(P4D_MOST(table, l->hidden * l->ffn), up);
	const bool on_host = l->offload & P4D_OFFLOAD_OPTIMIZER;
	/*
	 * torch's unfused AdamW allocates another moment of the tensor that it updates, after the 16-bit
	 * gradients are freed. Stages 1 and 2 need as much while those gradients exist.
	 */
	const uint64_t unfused = l->torch.optimizer_foreach ? 4 : 0;
	/* the largest gradient that is copied to the host: one side of an adapter, or a parameter */
	const uint64_t on_its_way =
	    l->finetune == P4D_TUNE_FULL ? largest : l->lora.rank * P4D_MOST(l->hidden, l->ffn);
	sharding z = {.parameters = held,
		      .master = on_host ? 0 : 4 * share,
		      .moments = on_host ? 0 : p4d_transformers__moment_bytes(l, share, 4),
		      .on_its_way = on_its_way};

	/* Pinned: master copy and moments of DeepSpeedCPUAdam, and the fp32 gradients that it reads.
	 * ZeRO-3 also has gradients in the type of the parameters (stage3.py,
	 * grad_partitions_flat_buffer). Stages 1 and 2 have the updated parameters in that type, and a
	 * gradient in transit (stage_1_and_2.py, param_buffer_of_bit16_for_cpu_offload_groups and
	 * temp_grad_buffer_for_cpu_offload). Stage 2 also has gradients of earlier micro-batches
	 * (accumulated_grads_in_cpu). */
	if (on_host)
		z.host = share * (4 + 4 + element) + p4d_transformers__moment_bytes(l, share, 4) +
			 (l->zero_stage < 3 ? element * on_its_way : 0) +
			 (l->zero_stage == 2 && l->micro_batches > 1 ? element * share : 0);
	if (l->offload & P4D_OFFLOAD_PARAMS)
		z.host += (held + l->dp - 1) / l->dp;
	switch (l->zero_stage) {
	case 0:
		z.master = element < 4 ? 4 * trained : 0;
		z.moments = p4d_transformers__moment_bytes(l, trained, 4);
		z.step = (element < 4 ? 4 * trained : 0) + unfused * trained;
		z.gradients = element * trained;
		break;
	case 3:
		z.parameters = l->offload & P4D_OFFLOAD_PARAMS ? 0 : (held + l->dp - 1) / l->dp;
		z.buckets = element * (l->zero_bucket + (on_host ? 0 : share));
		/*
		 * if fewer parameters than LIVE are gathered, the next parameter is gathered completely, even
		 * if it is a table or matrix of more than LIVE elements
		 */
		z.forward = z.loss = z.backward = element * (p4d_transformers__zero_keeps_all(l, all) ? all
							     : l->experts ? live_with_experts(l, LIVE)
									  : P4D_MOST(LIVE, largest));
		if (p4d_transformers__gathers_experts(l)) {
			z.forward = z.backward =
			    element * up; /* gathered ahead; other gathered parameters count in the passes */
			z.loss = element * (table + up);
		}
		z.evaluation = p4d_transformers__gathered(l, all);
		if (l->experts)
			z.evaluation = (p4d_gathered){0, z.forward / element, z.loss / element};
		else if (l->eval_micro_batch <= l->micro_batch) /* no more gathered parameters than in
								   training: the job may not evaluate */
			z.evaluation = (p4d_gathered){0, P4D_LEAST(z.evaluation.layers, z.forward / element),
						      P4D_LEAST(z.evaluation.head, z.loss / element)};
		/* for each group of parameters: its gradients as one tensor, and the same tensor in fp32 */
		z.step = on_host ? 0 : (4 + (unfused ? unfused : element)) * (share < GROUP ? share : GROUP);
		break;
	default:
		/* buffer for a gradient that is being copied to the host */
		z.buckets = on_host ? element * on_its_way : 0;
		/* one bucket is filled while the other is reduced */
		z.backward = (l->overlap_dp ? 2 : 1) * element * l->zero_bucket;
		if (l->zero_stage == 1 &&
		    l->micro_batches > 1) /* gradients exist from the first micro-batch to the last */
			z.forward = z.loss = z.backward;
		z.step = on_host ? 0 : 8 * share;
	}
	return z;
}

/*
 * FSDP2: memory of the sharded parameters. transformers_fsdp.c computes all other memory. stored: bytes of a
 * frozen parameter.
 */
static sharding of_fsdp(const p4d_layout *l, uint64_t trained, uint64_t frozen, uint64_t shards,
			unsigned element, unsigned stored)
{
	/* experts are not cut: each rank has whole experts, or none */
	const uint64_t more = l->experts && !l->fsdp.flat
				  ? (uint64_t)(p4d_expert_layers_before(l, l->layers) *
					       (p4d_transformers__layer_size(l, true, shards) -
						p4d_transformers__layer_size(l, true, 1)))
				  : 0;
	const bool full = l->finetune == P4D_TUNE_FULL;
	const uint64_t share = (trained + (full ? more : 0) + shards - 1) / shards;
	const uint64_t kept = full ? 0 : (frozen + more * stored + shards - 1) / shards;

	if (l->offload &
	    P4D_OFFLOAD_PARAMS) /* with --offload=params, gradients and the update are also on the host */
		return (sharding){.host = 2 * element * share + kept +
					  p4d_transformers__moment_bytes(l, share, element)};
	return (sharding){.parameters = element * share + kept,
			  .moments = p4d_transformers__moment_bytes(l, share, element),
			  .step = l->torch.optimizer_foreach ? element * share : 0,
			  .gradients = element * share};
}

/*
 * Runs the micro-batches between the first and the last, which reduce no gradients. The last one reduces them
 * during its backward pass.
 */
static void play_between(step *s)
{
	const step begun = *s;

	s->zero.now.list = NULL;
	play(s);
	s->now = begun.now;
	s->away = begun.away;
	s->zero = begun.zero;
}

/*
 * If ZeRO-3 keeps all parameters gathered: the parameters that it releases, or gathers again, in the backward
 * pass.
 */
static void let_go(step *s, uint64_t all)
{
	p4d_tape_writer *w = &s->writer;
	const p4d_layout *l = w->layout;

	if (!p4d_framework_shares(l, P4D_SHARES_BY_STAGE) || !p4d_transformers__zero_keeps_all(l, all) ||
	    l->experts || l->pattern_length)
		return;
	s->head_leaves = l->tied ? 0 : (int64_t)(l->vocab * l->hidden * w->weight);
	w->gathers_again =
	    l->finetune != P4D_TUNE_FULL && s->again && w->keeps_frozen && l->quant == P4D_QUANT_NONE;
}

void p4d_transformers__write(p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	const p4d_torch_types z = p4d_torch__types(l);
	const bool full = l->finetune == P4D_TUNE_FULL, fsdp = p4d_framework_shares(l, P4D_SHARES_UNITS);
	const bool zero = p4d_framework_shares(l, P4D_SHARES_BY_STAGE);
	step s = {.writer = p4d_transformers__writer(l, NULL), .again = l->recompute == P4D_RECOMPUTE_FULL};
	const unsigned element = full ? z.param : l->lora.fp32 ? 4 : 2;

	if (!p4d_transformers__countable(l)) {
		rows->overflow = true;
		return;
	}
	const uint64_t second = s.writer.code->unties && l->tied ? l->vocab * l->hidden : 0;
	const uint64_t all = (uint64_t)p4d_size_of_model(l) + second,
		       trained = full ? all : p4d_transformers__adapters(l);
	/* with mixed precision, accelerate keeps trained parameters in fp32; with FSDP2, --param-dtype
	 * decides */
	const unsigned of_trained = full && !(l->fsdp.flat && s.writer.autocast) ? z.param : 4;
	const uint64_t shards = l->shard_degree ? l->shard_degree : l->dp;
	const uint64_t unsharded =
	    p4d_transformers__parameter_bytes(l, zero ? z.element : z.param) + second * z.param;
	p4d_transformers__zero_start(&s.zero, l, trained, z.element);
	const sharding h =
	    zero   ? of_zero(l, trained, all, unsharded, z.element)
	    : fsdp ? of_fsdp(l, trained, unsharded - p4d_transformers__adapters(l) * (l->lora.fp32 ? 4 : 2),
			     shards, of_trained, z.param)
		   : of_one_copy(l, trained, element, unsharded);
	const bool grows = zero && p4d_transformers__zero_grows(l);
	let_go(&s, all);
	s.reduced = (zero && l->zero_stage >= 2) || l->micro_batches > 1 || grows;
	/* stage 1 reduces and releases the gradients of all micro-batches during or after the last one */
	const uint64_t kept = zero && l->zero_stage == 1 ? trained * z.element : h.gradients;
	s.now.gradients = s.reduced && !grows ? (int64_t)kept : 0;
	s.now.gradients += (int64_t)p4d_transformers__zero_left(&s.zero);
	if (zero && l->zero_stage == 1 && l->overlap_dp && l->micro_batches > 2)
		play_between(&s);
	if (fsdp && l->fsdp.flat)
		p4d_transformers__play_flat(&s, shards, of_trained, z.param);
	else if (fsdp)
		p4d_transformers__play_fsdp(&s, shards);
	else
		play(&s);
	s.forward.live += (int64_t)h.forward;
	s.loss.live += (int64_t)h.loss;
	s.head.live += (int64_t)h.loss; /* gradients are not reduced yet, except for one bucket */
	s.backward.live += (int64_t)h.backward;
	const uint64_t step_bytes = P4D_MOST(h.step, s.zero.ahead.update);
	rows->plan->host =
	    p4d_transformers__host(l, &(p4d_transformers_host){.parameters = all,
							       .trained = trained,
							       .parameter_bytes = unsharded,
							       .largest = h.on_its_way,
							       .shards = shards,
							       .element = zero ? z.element : of_trained,
							       .stored = z.param});
	rows->plan->host_bytes = h.host + (uint64_t)(s.away > 0 ? s.away : 0);
	always(rows, "parameters", P4D_PART_PARAMS, h.parameters, false);
	always(rows, "optimizer.master", P4D_PART_OPTIMIZER, h.master, false);
	always(rows, "optimizer.moments", P4D_PART_OPTIMIZER, h.moments, true);
	always(rows, "reducer.buckets", P4D_PART_GRADS, h.buckets, true);
	held(rows, P4D_AT_FORWARD, "forward.gradients", "forward.activations", P4D_PART_ACTIVATIONS,
	     s.forward);
	held_of_end(rows, P4D_AT_LOSS, "loss.gradients", "loss.activations", "loss.logits", s.loss, s.saved);
	held_of_end(rows, P4D_AT_HEAD, "head.gradients", "head.activations", "head.logits", s.head, s.saved);
	held(rows, P4D_AT_BACKWARD_FFN, "backward.gradients", "backward.activations", P4D_PART_ACTIVATIONS,
	     s.backward);
	/* FSDP's sharded experts were not compared in evaluation, so this row is left out if the job may not
	 * evaluate */
	if (!fsdp || !l->experts || l->eval_micro_batch > l->micro_batch)
		p4d_transformers__evaluation(rows,
					     fsdp && l->fsdp.keeps_gathered ? (p4d_gathered){all, all, all}
					     : fsdp && l->fsdp.flat ? p4d_transformers__gathered_flat(l)
					     : fsdp ? p4d_transformers__gathered_by_fsdp(l, shards)
						    : h.evaluation,
					     fsdp ? s.writer.weight : z.element);
	held(rows, P4D_AT_OPTIMIZER, "step.gradients", "step.update", P4D_PART_WORKING_SET,
	     (moment){(int64_t)step_bytes, (int64_t)h.gradients});
}

const char *p4d_torch__trainer_unvalidated(const p4d_layout *l)
{
	const p4d_architecture *a = l->architecture;
	const bool ddp = p4d_framework_shares(l, P4D_SHARES_NOTHING), full = l->finetune == P4D_TUNE_FULL;
	const bool zero3 = p4d_framework_shares(l, P4D_SHARES_BY_STAGE) && l->zero_stage == 3;
	const bool encoder = a->kind != P4D_DECODER, states = l->pattern_length;
	/* kinds of FSDP units that were compared for plain decoders */
	const bool flat = l->fsdp.flat, units = flat || l->fsdp.keeps_gathered;
	const uint64_t shards = l->shard_degree ? l->shard_degree : l->dp;
	const bool lit = l->torch.model_code == P4D_MODEL_CODE_LITGPT;
	const bool before_5 = l->torch.transformers && l->torch.transformers < 5 * P4D_RELEASE_UNIT;
	const bool evaluates = l->eval_micro_batch > l->micro_batch;
	/* the first reason in this list that applies is reported */
	const struct {
		bool is_so;
		const char *what;
	} kinds[] = {
	    {l->layer_groups > 0, "layers that share parameters"},
	    {l->finetune == P4D_TUNE_ALPHA, "training the scales of binary codes"},
	    {lit && (!ddp || l->dp > 1), "LitGPT on several GPUs"},
	    {lit && (l->torch.autocast || l->recompute), "LitGPT in mixed precision, or with recomputation"},
	    {encoder && p4d_framework_shares(l, P4D_SHARES_UNITS), "encoders with FSDP"},
	    {flat && l->precision != P4D_BF16, "FSDP1 with another precision than bf16"},
	    {flat && shards == 1, "FSDP1 with NO_SHARD"},
	    {units && states, "state-space layers or delta nets with FSDP"},
	    {encoder && !full, "adapters of encoders"},
	    {!ddp && l->quant, "quantized weights that are sharded"},
	    /* before transformers 5, each expert has linear layers that are quantized; later, one tensor has
	     * all experts and is not quantized */
	    {l->experts && l->quant && l->torch.transformers < 5 * P4D_RELEASE_UNIT,
	     "quantized experts of transformers before 5"},
	    {l->experts && a->router != P4D_ROUTER_USUAL && before_5,
	     "the experts of this family before transformers 5"},
	    {a->attention_sinks && l->flash_attention, "attention sinks in a fused kernel"},
	    {states && !l->torch.packing && l->micro_batch > 1, "padded batches in hybrid models"},
	    {zero3 && l->experts && a->experts_compared == P4D_COMPARED_BUT_ZERO3,
	     "the experts of this family with ZeRO-3"},
	    {a->single_blocks && !full, "adapters of Nemotron-H"},
	    {states && !l->flash_attention, "unfused attention in hybrid models"},
	    {l->experts && a->experts_compared == P4D_COMPARED_NEVER, "the experts of this family"},
	    {l->quant > P4D_QUANT_NF4, "8-bit weights"},
	    {l->torch.chunked_loss == P4D_LOSS_CHUNKED, "a chunked loss"},
	    {l->torch.compile, "torch.compile, whose effect p4d does not count"},
	    {l->torch.packing, "packed sequences"},
	    {l->offload & ~(unsigned)P4D_OFFLOAD_OPTIMIZER, "offloading of parameters or activations"},
	    {p4d_optimizer_of(l)->paged, "a paged optimizer"},
	    /* these trainers use AdamW for embeddings, head and norms, and p4d does not count their second
	     * moments */
	    {l->optimizer == P4D_MUON, "Muon with AdamW for embeddings"},
	    {p4d_optimizer_of(l)->bits == 4, "an optimizer in 4 bits"},
	    {evaluates && !l->flash_attention, "evaluation with unfused attention"},
	    {evaluates && (l->fsdp.keeps_gathered || (l->experts && (zero3 || !states)) || (states && flat) ||
			   l->kv_rank || lit || encoder),
	     "evaluation of hybrid models with --eval-micro-batch"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].is_so)
			return kinds[i].what;
	return NULL;
}
