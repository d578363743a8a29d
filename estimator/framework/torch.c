/* SPDX-License-Identifier: Apache-2.0 */
#include "framework/torch.h"

#include "plan/optimizer.h"
#include "request/architecture.h"
#include "request/framework.h"

const p4d_torch_modules *const p4d_torch__modules[P4D_MODEL_CODES] = {
    [P4D_MODEL_CODE_TORCHTITAN] = &p4d_torch__torchtitan,
    [P4D_MODEL_CODE_TRANSFORMERS] = &p4d_torch__transformers,
};

#define ALL_POINTS ((1u << P4D_LIVE_POINTS) - 1)
#define BACKWARD (1u << P4D_AT_BACKWARD_FFN | 1u << P4D_AT_BACKWARD_ATTENTION)

p4d_torch_sizes p4d_torch__sizes(const p4d_rows *rows)
{
	const p4d_layout *l = rows->layout;
	p4d_torch_sizes z = {.tokens = l->seq_len / l->cp * l->micro_batch,
			     .h = l->hidden,
			     .A = l->heads / l->tp * l->head_dim,
			     .G = l->kv_heads / l->tp * l->head_dim,
			     .F = l->ffn / l->tp,
			     .V = (l->vocab + l->tp - 1) / l->tp,
			     .heads = l->heads / l->tp,
			     .element = l->precision == P4D_FP32 ? 4 : 2,
			     .param = l->param_dtype == P4D_PARAM_FP32 ? 4 : 2,
			     .reduced = l->grad_dtype == P4D_GRAD_FP32 ? 4 : 2};

	z.own = l->sequence_parallel ? z.tokens / l->tp : z.tokens;
	z.shards = l->shard_degree ? l->shard_degree : l->dp * l->cp;
	z.layer = p4d_size_of_layer(l);
	z.table = p4d_div_up((p4d_wide)l->vocab * l->hidden, l->tp);
	z.stage = p4d_parameters_of_stage(l, &rows->schedule, rows->stage);
	z.ends = l->micro_batches > 1;
	return z;
}

/* Bytes of an optimizer's moments of so many elements, which have the type of their parameters. */
static p4d_wide moments(const p4d_layout *l, p4d_wide elements, unsigned element)
{
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const unsigned count = o->states - 1;

	if (o->paged)
		return 0;
	if (o->quantized)
		return count * (elements + p4d_div_up(elements, P4D_QUANTIZED_BLOCK) * 4);
	if (o->factored)
		return count * (elements / (l->hidden ? l->hidden : 1)) * 4;
	return count * elements * element;
}

static void always(p4d_rows *rows, const char *name, p4d_memory_class part, p4d_wide bytes, bool later)
{
	rows->overflow = rows->overflow || bytes >> 62;
	p4d_row(rows, name, "tp pp dp cp", part, P4D_DT_BYTES, rows->overflow ? 0 : (uint64_t)bytes, 0, 0)
	    ->at_first_step = later;
}

/*
 * Parameters, their gradients and the optimizer. What --zero-stage shards is a rank's share of it. DeepSpeed
 * keeps an fp32 master copy and moments of its own.
 */
static void add_states(p4d_rows *rows, const p4d_torch_sizes *z)
{
	const p4d_layout *l = rows->layout;
	const bool master = l->framework == P4D_FRAMEWORK_DEEPSPEED && z->param < 4;
	const p4d_wide share = p4d_div_up(z->stage, z->shards);
	const p4d_wide optimizer = l->zero_stage > 0 ? share : z->stage;
	const p4d_wide gradients = (l->zero_stage > 1 ? share : z->stage) * z->param;
	const bool on_host = l->offload & P4D_OFFLOAD_OPTIMIZER;

	if (!(l->offload & P4D_OFFLOAD_PARAMS))
		always(rows, "parameters", P4D_PART_PARAMS, (l->zero_stage > 2 ? share : z->stage) * z->param,
		       false);
	if (!on_host) {
		if (master)
			always(rows, "optimizer.master", P4D_PART_OPTIMIZER, optimizer * 4, false);
		always(rows, "optimizer.moments", P4D_PART_OPTIMIZER,
		       moments(l, optimizer, master ? 4 : z->param), true);
	}
	if (l->offload & P4D_OFFLOAD_PARAMS)
		return;
	if (z->ends || master)
		always(rows, "gradients", P4D_PART_GRADS, gradients, true);
	else
		p4d_torch_held(rows, 1u << P4D_AT_EMBED | 1u << P4D_AT_OPTIMIZER, "gradients", "tp pp dp cp",
			       P4D_PART_GRADS, gradients);
}

/*
 * Parameters that are gathered: of two layers while the second is prefetched, in the type of activations;
 * backward, gradients of one layer that are being reduced beside them.
 */
static void add_gathered(p4d_rows *rows, const p4d_torch_sizes *z)
{
	const p4d_layout *l = rows->layout;

	if (l->zero_stage < 3)
		return;
	p4d_torch_held(rows, 1u << P4D_AT_FORWARD | BACKWARD, "gathered.layers", "tp pp",
		       P4D_PART_WORKING_SET, 2 * z->layer * z->element);
	p4d_torch_held(rows, BACKWARD, "reduced.layer", "tp pp", P4D_PART_WORKING_SET, z->layer * z->reduced);
	if (rows->last)
		p4d_torch_held(rows, 1u << P4D_AT_LOSS | 1u << P4D_AT_HEAD | BACKWARD, "gathered.head", "tp",
			       P4D_PART_WORKING_SET, z->table * z->element);
}

/* cuBLAS's workspace on Hopper, from the first product on (PyTorch's CublasHandlePool.cpp). */
static void add_libraries(p4d_rows *rows)
{
	const bool before_hopper = rows->gpu && rows->gpu->sm && rows->gpu->sm < 90;

	p4d_row(rows, "workspace", "", P4D_PART_LIBRARIES, P4D_DT_BYTES,
		before_hopper ? (8 << 20) + (1 << 17) : 32 << 20, 0, 0)
	    ->at_first_step = true;
}

void p4d_torch__rows(p4d_rows *rows)
{
	const p4d_torch_sizes z = p4d_torch__sizes(rows);

	add_states(rows, &z);
	add_gathered(rows, &z);
	add_libraries(rows);
	p4d_torch__modules[rows->layout->model_code]->write(rows, &z);
}

int p4d_torch__check_model(const p4d_request *r, p4d_error *err)
{
	const char *difference = p4d_architecture_difference(r);

	if (!difference)
		return 0;
	return p4d_fail(err, P4D_E_UNMODELLED, "%.80s has %s, which p4d does not model in %s", r->model,
			difference, p4d_framework_of((int)r->value[P4D_FRAMEWORK])->program);
}
