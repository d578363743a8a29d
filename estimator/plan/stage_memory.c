/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/stage_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "plan/memory_paper.h"
#include "plan/plan_rows.h"
#include "request/framework.h"

/* CUDA context: 0.3 to 0.5 GiB observed with lazy module loading. p4d-train loads all of cuBLASLt's code
 * for the GPU at its start, which needs more. That was not measured yet (tests/gpu/run prints it). */
#define CONTEXT_BYTES ((uint64_t)1 << 29)
/*
 * Host memory of a rank in addition to its tensors. With --device cpu, 6 to 36 MiB were measured, most of it
 * memory of OpenBLAS. A node with many ranks also needs shared memory. With --device cuda the number is an
 * estimate for program, driver and pinned pools.
 */
#define CUDA_PROCESS_BYTES ((p4d_wide)2 << 30)
#define CPU_PROCESS_BYTES ((p4d_wide)96 << 20)
enum { FP32_BYTES = 4 };

uint64_t p4d_memory_context_bytes(void)
{
	return CONTEXT_BYTES;
}

/* NCCL as measured on 4xA100: 544 MB for a communicator of two ranks, 688 MB for more */
uint64_t p4d_memory_communicator_bytes(uint64_t ranks)
{
	return ranks < 2 ? 0 : ranks == 2 ? 544000000 : 688000000;
}

uint64_t p4d_memory_usual_groups_bytes(const p4d_layout *l, uint32_t stage)
{
	(void)stage;
	/*
	 * experts have three more communicators: one over ep; one over ep and etp, to exchange numbers of
	 * tokens; and one over the replicas of the experts
	 */
	const uint64_t experts = l->experts ? p4d_memory_communicator_bytes(l->ep) +
						  p4d_memory_communicator_bytes(l->ep * l->etp) +
						  p4d_memory_communicator_bytes(l->expert_dp)
					    : 0;
	return experts + p4d_memory_communicator_bytes(l->tp) + p4d_memory_communicator_bytes(l->cp) +
	       p4d_memory_communicator_bytes(l->dp) + p4d_memory_communicator_bytes(l->pp);
}

uint32_t p4d_memory_stage_count(const p4d_layout *layout, int method)
{
	return method == P4D_METHOD_PAPER ? 1 : (uint32_t)layout->pp;
}

static int narrow(p4d_wide wide, uint64_t *narrow_bytes)
{
	/* the largest number means P4D_NOT_MODELLED, and sums need room */
	if (wide >> 62)
		return -1;
	*narrow_bytes = (uint64_t)wide;
	return 0;
}

/* The paper describes the first stage only, and no phases. */
static int paper_stage(const p4d_layout *layout, p4d_stage *stage, p4d_error *err)
{
	p4d_wide part[P4D_PART_COUNT] = {0}, sum = 0;

	p4d_memory__paper(layout, part);
	for (int i = 0; i < P4D_PART_COUNT; i++) {
		sum += part[i];
		if (narrow(part[i], &stage->part[i]) < 0 || narrow(sum, &stage->allocated_bytes) < 0)
			return p4d_fail(
			    err, P4D_E_OVERFLOW,
			    "one GPU would hold more than 4 EiB; check layers, hidden, ffn, vocab and "
			    "seq-len");
	}
	for (int i = 0; i < P4D_PHASES; i++)
		stage->phase_bytes[i] = P4D_NOT_MODELLED;
	stage->phase_bytes[P4D_TRAIN] = stage->device_bytes = stage->allocated_bytes;
	stage->phase = P4D_TRAIN;
	return 0;
}

/* Bytes of device memory in addition to the plan's buffers. */
typedef struct outside {
	uint64_t fragmentation, context, comm;
} outside;

const p4d_gpu_margin *p4d_memory__margin(const p4d_layout *layout, const p4d_gpu *gpu)
{
	return p4d_gpu_margin_of(gpu, layout->framework, layout->torch.model_code, layout->precision);
}

/*
 * Thousandths of the allocated memory by which the overhead that the site measured exceeds the framework's
 * constant. Never below 0: a site's figure can only make p4d more careful.
 */
static unsigned measured_overhead(const p4d_layout *layout, const p4d_gpu_margin *measured)
{
	const unsigned own = p4d_framework_of(layout->framework)->fragmentation[P4D_ALLOCATOR_DEFAULT];

	return measured && measured->fragmentation > own ? measured->fragmentation - own : 0;
}

/*
 * The share of the allocated memory, in thousandths, by which the allocator's reserved memory exceeds it; a
 * constant.
 */
static unsigned share_of(const p4d_framework *framework, const p4d_layout *layout)
{
	const unsigned of_pipelines = framework->pipeline_fragmentation[layout->allocator];

	return layout->pp > 1 && of_pipelines ? of_pipelines : framework->fragmentation[layout->allocator];
}

static outside beside(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t stage, uint64_t allocated_bytes,
		      uint64_t idle_bytes)
{
	const p4d_framework *framework = p4d_framework_of(layout->framework);
	outside o = {0, 0, 0};

	if (!p4d_on_gpu(layout->device))
		return o;
	const p4d_gpu_margin *measured = p4d_memory__margin(layout, gpu);
	const unsigned overhead = share_of(framework, layout) + measured_overhead(layout, measured);
	o.fragmentation = idle_bytes;
	if (overhead)
		o.fragmentation += (uint64_t)((p4d_wide)allocated_bytes * overhead / 1000);
	o.context =
	    measured && measured->reserve_bytes > CONTEXT_BYTES ? measured->reserve_bytes : CONTEXT_BYTES;
	o.comm = framework->groups_bytes(layout, stage);
	return o;
}

static int planned_stage(const p4d_layout *layout, const p4d_gpu *gpu, uint32_t number,
			 const p4d_plan_memo *memo, p4d_stage *stage, p4d_error *err)
{
	p4d_plan plan;

	if (p4d_plan__build(layout, gpu, number, memo, &plan, err) < 0)
		return -1;
	memcpy(stage->part, plan.part, sizeof(stage->part));
	memcpy(stage->phase_bytes, plan.phase_bytes, sizeof(stage->phase_bytes));
	stage->phase = plan.phase;
	stage->allocated_bytes = plan.arena_bytes;
	stage->host_bytes = plan.host_bytes;
	stage->host = plan.host;
	outside o = beside(layout, gpu, number, plan.arena_bytes, plan.idle_bytes);
	stage->part[P4D_PART_FRAGMENTATION] = o.fragmentation;
	stage->part[P4D_PART_CONTEXT] = o.context;
	stage->part[P4D_PART_COMM] = o.comm;
	stage->device_bytes = plan.arena_bytes + o.fragmentation + o.context + o.comm;
	return 0;
}

static int memory_of_stage(const p4d_layout *layout, int method, const p4d_gpu *gpu, uint32_t stage,
			   const p4d_plan_memo *memo, p4d_stage *out, p4d_error *err)
{
	p4d_stage result;

	memset(&result, 0, sizeof(result));
	if ((method == P4D_METHOD_PAPER ? paper_stage(layout, &result, err)
					: planned_stage(layout, gpu, stage, memo, &result, err)) < 0)
		return -1;
	*out = result;
	return 0;
}

int p4d_memory_of_stage(const p4d_layout *layout, int method, const p4d_gpu *gpu, uint32_t stage,
			p4d_stage *out, p4d_error *err)
{
	return memory_of_stage(layout, method, gpu, stage, NULL, out, err);
}

/* Converts to 64 bits; an overflow counts as more memory than any node has. */
static uint64_t narrow_host(p4d_wide wide)
{
	uint64_t bytes;

	return narrow(wide, &bytes) < 0 ? P4D_NOT_MODELLED - 1 : bytes;
}

p4d_host_class p4d_memory_host_of_rank(const p4d_layout *l, uint32_t stage, uint64_t arena_bytes,
				       uint64_t offloaded_bytes)
{
	const p4d_schedule schedule = p4d_schedule_of(l);
	const uint64_t shards = p4d_optimizer_shards(l);
	const p4d_wide process = p4d_on_gpu(l->device) ? CUDA_PROCESS_BYTES : CPU_PROCESS_BYTES;
	const p4d_wide arena = !p4d_on_gpu(l->device) ? arena_bytes : 0;
	const p4d_wide states = l->evaluates ? 0 : p4d_optimizer_stored(p4d_optimizer_of(l));
	const p4d_wide saving = p4d_parameters_padded(l, &schedule, stage) / shards * states * FP32_BYTES;
	const p4d_wide loading = p4d_parameters__largest_segment(l, &schedule, stage) / shards * FP32_BYTES;

	const p4d_wide sum = process + arena + offloaded_bytes + saving + loading;
	return (p4d_host_class){narrow_host(process), narrow_host(arena),   offloaded_bytes,
				narrow_host(saving),  narrow_host(loading), narrow_host(sum)};
}

/*
 * Host memory of a node. rank_bytes: the maximum per rank over the examined stages. offloaded: the offloaded
 * part of these bytes.
 */
static uint64_t host_need(const p4d_layout *l, const p4d_capacity *capacity, uint64_t rank_bytes,
			  uint64_t offloaded)
{
	if (!p4d_framework_of(l->framework)->checkpoints_are_modelled) {
		const uint64_t process =
		    capacity->host_bytes_per_rank ? capacity->host_bytes_per_rank : CUDA_PROCESS_BYTES;
		rank_bytes = offloaded ? process + offloaded : capacity->host_bytes_per_rank;
	}
	return rank_bytes ? narrow_host((p4d_wide)rank_bytes * l->gpus_per_node) : P4D_NOT_MODELLED;
}

static p4d_host_beside of_node(const p4d_layout *l, const p4d_host_beside *rank)
{
	const p4d_wide ranks = l->gpus_per_node;

	return (p4d_host_beside){.pinned = narrow_host(ranks * rank->pinned),
				 .rounding = narrow_host(ranks * rank->rounding),
				 .loading = narrow_host(ranks * rank->loading),
				 .saving = rank->saving};
}

uint64_t p4d_memory_capacity_bytes(const p4d_layout *layout, int method, const p4d_capacity *capacity)
{
	if (!p4d_on_gpu(layout->device))
		return capacity->host_bytes / layout->gpus_per_node;
	if (!capacity->gpu)
		return 0;
	return method == P4D_METHOD_PAPER ? capacity->gpu->nominal_bytes : capacity->gpu->usable_bytes;
}

p4d_memory_stages p4d_memory__stages(const p4d_layout *l, int method)
{
	return (p4d_memory_stages){.count = p4d_memory_stage_count(l, method),
				   .all = l->uneven_chunks || (l->pattern_length && l->vpp > 1)};
}

/* Whether the beginning of the pipeline has fewer slots than its end. */
static bool is_backwards(const p4d_layout *l, uint32_t count)
{
	const p4d_schedule schedule = p4d_schedule_of(l);

	return count > 3 && p4d_schedule_slots(&schedule, 1).activation <
				p4d_schedule_slots(&schedule, count - 2).activation;
}

bool p4d_memory__next_stage(const p4d_layout *l, p4d_memory_stages *s, uint32_t *stage)
{
	while (s->next < s->count) {
		const uint32_t i = s->next++;
		if (i == 2)
			s->backwards = is_backwards(l, s->count);
		*stage = i == 0 ? 0 : i == 1 ? s->count - 1 : s->backwards ? s->count - i : i - 1;
		const uint32_t layers = l->stage_layers[*stage],
			       experts = p4d_parameters_expert_layers_of_stage(l, *stage);
		bool more = layers > s->layers || experts > s->experts;
		if (i >= 2 && l->pattern_length) {
			uint32_t *from =
			    &s->from[p4d_parameters_first_layer(l, *stage, 0) % l->pattern_length];
			more = more || layers > *from;
			*from = layers > *from ? layers : *from;
		}
		if (i >= 2) {
			s->layers = layers > s->layers ? layers : s->layers;
			s->experts = experts > s->experts ? experts : s->experts;
		}
		if (i < 2 || s->all || more)
			return true;
	}
	return false;
}

uint64_t p4d_memory_least_states(const p4d_layout *l)
{
	/*
	 * the largest number of layers of any stage. With experts: the largest number of layers with experts,
	 * and p4d counts no other layers
	 */
	const uint64_t sparse = (p4d_expert_layers_before(l, l->layers) + l->pp - 1) / l->pp;
	const p4d_wide n = l->pattern_length ? p4d_size_of_layers(l, 0, l->layers) / l->pp
			   : sparse          ? sparse * p4d_size_of_expert_layer(l)
					     : l->layers / l->pp * p4d_size_of_layer(l);
	const p4d_wide experts = sparse ? sparse * (l->experts / l->ep) * p4d_size_of_expert(l) : 0;
	const p4d_optimizer *o = p4d_optimizer_of(l);
	const uint64_t shards = p4d_optimizer_shards(l);
	/* in frameworks that free gradients after a step, moments have the type of the parameters */
	const bool come = p4d_framework_of(l->framework)->frees_gradients;
	const bool held = !come && !p4d_shards_gradients(l);
	const bool moments = !o->bits && !o->paged && !o->factored && !(l->offload & P4D_OFFLOAD_OPTIMIZER);
	const unsigned half = l->precision == P4D_FP32 ? 4 : 2;
	uint64_t bytes;

	if (l->finetune != P4D_TUNE_FULL)
		return 0;
	/* parameters, gradients of at least 16 bits, and all optimizer states except the master copy */
	p4d_wide all = (n + experts) * ((held ? half : 0) + (l->offload & P4D_OFFLOAD_PARAMS ? 0 : half));
	if (l->zero_stage > 2)
		all /= shards;
	all += moments * (n / shards + experts / p4d_expert_shards(l)) * (o->states - 1) *
	       (come              ? half
		: l->half_moments ? 2
				  : FP32_BYTES);
	return narrow(all, &bytes) < 0 ? P4D_NOT_MODELLED : bytes;
}

static int device_bytes_of(const p4d_layout *layout, int method, const p4d_gpu *gpu, uint32_t number,
			   const p4d_plan_memo *memo, uint64_t *bytes)
{
	p4d_stage stage;
	uint64_t idle;

	if (method == P4D_METHOD_PAPER) {
		if (p4d_memory_of_stage(layout, method, gpu, number, &stage, NULL) < 0)
			return -1;
		*bytes = stage.device_bytes;
		return 0;
	}
	if (p4d_plan_bytes(layout, gpu, number, memo, bytes, &idle, NULL) < 0)
		return -1;
	outside o = beside(layout, gpu, number, *bytes, idle);
	*bytes += o.fragmentation + o.context + o.comm;
	return 0;
}

bool p4d_memory_fits_below(const p4d_layout *layout, int method, const p4d_capacity *capacity,
			   double fraction, const p4d_plan_memo *memo, uint64_t *device_bytes)
{
	const uint64_t most = p4d_memory_capacity_bytes(layout, method, capacity);
	p4d_memory_stages all = p4d_memory__stages(layout, method);
	uint64_t bytes;
	uint32_t i;

	*device_bytes = 0;
	while (p4d_memory__next_stage(layout, &all, &i)) {
		if (device_bytes_of(layout, method, capacity->gpu, i, memo, &bytes) < 0) {
			*device_bytes = P4D_NOT_MODELLED;
			return false;
		}
		*device_bytes = bytes > *device_bytes ? bytes : *device_bytes;
		if (most && (double)*device_bytes > fraction * (double)most)
			return false;
	}
	return true;
}

double p4d_memory_most_imbalance(const p4d_layout *layout, int method, const p4d_capacity *capacity,
				 double fraction)
{
	p4d_layout l = *layout;
	double below = 0, above = P4D_MOST_IMBALANCE;
	uint64_t bytes;

	l.imbalance = above;
	if (p4d_memory_fits_below(&l, method, capacity, fraction, NULL, &bytes))
		return above;
	l.imbalance = 1;
	while (p4d_memory_fits_below(&l, method, capacity, fraction, NULL, &bytes)) {
		below = l.imbalance;
		l.imbalance *= 2;
	}
	if (below == 0)
		return 0;
	above = l.imbalance;
	while (above - below > 0.01 * below) {
		l.imbalance = (below + above) / 2;
		*(p4d_memory_fits_below(&l, method, capacity, fraction, NULL, &bytes) ? &below : &above) =
		    l.imbalance;
	}
	return below;
}

/* The most by which a simulated allocator needed more than 80 rehearsals with little memory, as a share of
 * the allocated memory (test_megatron_memory.c). */
#define PLAYED_ERROR 0.04

const char *p4d_memory_unsure(const p4d_layout *l, const p4d_estimate *e, double fraction)
{
	const double limit = fraction * (double)e->capacity_bytes;
	const double share = (double)e->peak.part[P4D_PART_FRAGMENTATION];
	const double error = PLAYED_ERROR * (double)e->peak.allocated_bytes;
	/* activations of experts differ from step to step */
	const bool of_experts = l->experts && !l->megatron.pads_experts;

	/* no allocator needs less than the allocated memory */
	if (e->peak.plays_allocator && error < share)
		return (double)e->peak.device_bytes - error <= limit
			   ? "fragmentation, which p4d simulates to 4 %; with 4 % less the job fits"
			   : NULL;
	return (e->peak.plays_allocator || p4d_framework_is_of_pytorch(l) || of_experts) &&
		       (double)e->peak.device_bytes - share <= limit
		   ? "fragmentation; without it the job fits"
		   : NULL;
}

int p4d_memory_estimate(const p4d_layout *layout, int method, const p4d_capacity *capacity, p4d_estimate *out,
			p4d_error *err)
{
	p4d_plan_memo_entry entry = {.known = false};
	const p4d_plan_memo memo = {1, &entry, 0};
	uint64_t host_rank = 0, offloaded = 0;
	p4d_estimate e;
	p4d_stage stage;

	memset(&e, 0, sizeof(e));
	p4d_memory_stages all = p4d_memory__stages(layout, method);
	uint32_t i;
	while (p4d_memory__next_stage(layout, &all, &i)) {
		if (memory_of_stage(layout, method, capacity->gpu, i, &memo, &stage, err) < 0)
			return -1;
		/* if several stages are equally full, the first one counts */
		if (i == 0 || stage.device_bytes > e.peak.device_bytes ||
		    (stage.device_bytes == e.peak.device_bytes && i < e.stage)) {
			e.peak = stage;
			e.stage = i;
		}
		offloaded = stage.host_bytes > offloaded ? stage.host_bytes : offloaded;
		if (p4d_framework_of(layout->framework)->checkpoints_are_modelled) {
			const uint64_t need =
			    p4d_memory_host_of_rank(layout, i, stage.allocated_bytes, stage.host_bytes).sum;
			host_rank = need > host_rank ? need : host_rank;
		}
	}
	e.method = method;
	e.gpu = capacity->gpu;
	e.capacity_bytes = p4d_memory_capacity_bytes(layout, method, capacity);
	if (e.capacity_bytes)
		e.fraction = (double)e.peak.device_bytes / (double)e.capacity_bytes;
	e.host_bytes = host_need(layout, capacity, host_rank, offloaded);
	e.host = of_node(layout, &e.peak.host);
	if (!(layout->offload & P4D_OFFLOAD_ACTIVATIONS))
		e.offloaded_bytes = narrow_host((p4d_wide)offloaded * layout->gpus_per_node);
	*out = e;
	return 0;
}

const char *p4d_memory_where(const p4d_layout *l, const p4d_estimate *e, char buf[P4D_WHERE_TEXT])
{
	const int length = snprintf(buf, P4D_WHERE_TEXT, "stage %" PRIu32 " of %" PRIu64, e->stage, l->pp);

	if (e->peak.phase == P4D_EVALUATION)
		snprintf(buf + length, P4D_WHERE_TEXT - (size_t)length,
			 " in evaluation (eval-micro-batch=%" PRIu64 ")", l->eval_micro_batch);
	return buf;
}

const char *p4d_memory_accumulated(const p4d_layout *l)
{
	/* accelerate reduces gradients only after the last micro-batch */
	return p4d_framework_shares(l, P4D_SHARES_UNITS) &&
		       l->torch.model_code == P4D_MODEL_CODE_TRANSFORMERS && l->micro_batches > 1
		   ? ", with unsharded gradients, which FSDP keeps during gradient accumulation"
		   : "";
}

const char *p4d_memory_class_name(p4d_memory_class part)
{
	static const char *const name[P4D_PART_COUNT] = {
#define PART(id, json) [P4D_PART_##id] = #json,
	    P4D_PARTS(PART)
#undef PART
	};
	return name[part];
}

const char *p4d_memory_phase_name(p4d_phase phase)
{
#define PHASE(id, name) #name,
	static const char *const names[P4D_PHASES] = {P4D_PHASE_LIST(PHASE)};
#undef PHASE

	return names[phase];
}

const char *p4d_memory_method_name(int method, int framework)
{
	if (method == P4D_METHOD_PAPER)
		return "paper";
	/* if the program allocates exactly this table, it is called the plan */
	return p4d_framework_of(framework)->allocates_plan ? "plan" : "closed";
}
