/* SPDX-License-Identifier: Apache-2.0 */
/* What else would do when a job fits on none of its GPUs: cheaper than more nodes. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "guard/verdict.h"
#include "request/defaults.h"
#include "request/framework.h"

enum { SHORTEST = 1024, PARTITIONS = 4 };

/* Memory for nothing, or for transfers: what is learnt stays. The first that is enough is named. */
static const p4d_way shared[] = {{P4D_CHUNKED_LOSS, 1, false},
				 {P4D_OPTIMIZER_SHARDING, P4D_SHARD_STATES, false},
				 {P4D_OPTIMIZER_SHARDING, P4D_SHARD_GRADIENTS, false},
				 {P4D_OPTIMIZER_SHARDING, P4D_SHARD_PARAMETERS, false},
				 {P4D_ZERO_STAGE, 3, false},
				 {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER, false},
				 {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER, true},
				 {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS, true},
				 {P4D_OFFLOAD, P4D_OFFLOAD_PARAMS, false},
				 {P4D_FRAMEWORK, P4D_FRAMEWORK_FSDP, false},
				 {P4D_OPTIONS, 0, false}};
/* Fewer parameters learn. */
static const p4d_way adapters[] = {
    {P4D_FINETUNE, P4D_TUNE_LORA, false}, {P4D_FINETUNE, P4D_TUNE_QLORA, false}, {P4D_OPTIONS, 0, false}};

void p4d_way_take(const p4d_way *way, p4d_request *request)
{
	p4d_request_put(request, way->option, way->value, P4D_BY_USER);
	if (way->sharded && request->value[P4D_FRAMEWORK] == P4D_FRAMEWORK_DEEPSPEED)
		p4d_request_put(request, P4D_ZERO_STAGE, 3, P4D_BY_USER);
}

const char *p4d_way_text(const p4d_way *way, const char *prefix, char *buf, size_t size)
{
	p4d_text text = p4d_text_in(buf, size);
	p4d_request with = {.model = ""};
	char value[48];

	p4d_way_take(way, &with);
	p4d_text_print(&text, "%s%s%s%s=%s", way->sharded ? prefix : "", way->sharded ? "zero-stage=3 " : "",
		       prefix, p4d_request_option_info(way->option)->name,
		       p4d_request_value_text(&with, way->option, value, sizeof(value)));
	return buf;
}

/* Whether it would share more than now, of what the framework can. */
static bool shares_more(const p4d_request *asked, const p4d_way *way)
{
	const p4d_framework *f = p4d_framework_of((int)asked->value[P4D_FRAMEWORK]);

	if (way->option != P4D_OPTIMIZER_SHARDING)
		return true;
	return !(f->states_only && way->value > P4D_SHARD_STATES) &&
	       !(p4d_is_set(asked, way->option) && asked->value[way->option] > way->value);
}

/* Only DDP has no other way to share. */
static bool open_to(const p4d_request *asked, const p4d_way *way)
{
	/* a loss of TRL's makes no logits either */
	const bool chunks = way->option == P4D_CHUNKED_LOSS && p4d_is_set(asked, P4D_CHUNKED_LOSS) &&
			    asked->value[P4D_CHUNKED_LOSS] != P4D_LOSS_WHOLE;

	return shares_more(asked, way) && !chunks &&
	       (!p4d_is_set(asked, way->option) || asked->value[way->option] != way->value) &&
	       !p4d_framework_fixed_of(asked, way->option) &&
	       (!way->sharded || asked->value[P4D_FRAMEWORK] == P4D_FRAMEWORK_DEEPSPEED) &&
	       (way->option != P4D_FRAMEWORK || asked->value[P4D_FRAMEWORK] == P4D_FRAMEWORK_DDP);
}

/* Whether the host has too little for it, whatever fits its GPUs. job: may be NULL. */
static bool kills(const p4d_job *job, const p4d_request *with, const p4d_search_space *space)
{
	p4d_request complete = *with;
	p4d_estimate estimate;
	p4d_layout layout;

	if (!p4d_is_set(with, P4D_OFFLOAD))
		return false;
	p4d_request_complete(&complete, 0, space->nodes * space->gpus_per_node);
	if (p4d_layout_build(&complete, space->nodes, space->gpus_per_node, &layout, NULL) < 0 ||
	    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, &space->capacity, &estimate, NULL) < 0)
		return false;
	/* p4d-train's need is no allowance, and is refused */
	const bool exact = p4d_framework_of(layout.framework)->checkpoints_are_modelled;
	const uint64_t have = space->capacity.host_bytes;
	return (exact && have && estimate.host_bytes > have) ||
	       (job && p4d_guard__is_killed(job, have, &estimate));
}

/* The first of the list with which it fits, maybe with a smaller micro-batch or more recomputation; NULL:
 * none. */
static const p4d_way *first_of(const p4d_way *way, const p4d_job *job, const p4d_request *asked,
			       const p4d_search_space *space)
{
	for (; way->option != P4D_OPTIONS; way++) {
		p4d_request with = *asked;
		p4d_candidate found;
		if (!open_to(asked, way))
			continue;
		p4d_way_take(way, &with);
		if (kills(job, &with, space))
			continue;
		if (p4d_search_any(&with, space) || p4d_search_nearest(&with, space, &found) >= 0)
			return way;
	}
	return NULL;
}

/* The longest half, quarter ... of the sequence that fits; 0: none. */
static int64_t shorter(const p4d_request *asked, const p4d_search_space *space)
{
	p4d_request cut = *asked, complete = *asked;

	p4d_request_complete(&complete, 0, 0);
	for (int64_t length = complete.value[P4D_SEQ_LEN] / 2; length >= SHORTEST; length /= 2) {
		p4d_request_put(&cut, P4D_SEQ_LEN, length, P4D_BY_USER);
		if (p4d_search_any(&cut, space))
			return length;
	}
	return 0;
}

/*
 * A partition with larger GPUs on which the job fits as it is; NULL: none. job: NULL: any number of GPUs. One
 * that names its nodes or has a reservation is bound to where these are.
 */
static const p4d_site_partition *larger(const p4d_site *site, const p4d_job *job, const p4d_request *asked,
					const p4d_search_space *space)
{
	const p4d_site_partition *partition;
	unsigned tried = 0;

	if (job && (job->nodelist || job->reservation))
		return NULL;
	for (unsigned i = 0; (partition = p4d_site_partition_at(site, i)) && tried < PARTITIONS; i++) {
		const p4d_gpu *gpu = p4d_site_least_gpu(partition);
		p4d_search_space other = *space;
		p4d_geometry geometry;
		p4d_error err;
		if (!gpu || strpbrk(partition->name, "*?") ||
		    gpu->usable_bytes <= space->capacity.gpu->usable_bytes ||
		    (partition->gpus_per_node && partition->gpus_per_node < space->gpus_per_node))
			continue;
		if (job) {
			p4d_job there = *job;
			there.partition = partition->name;
			if (p4d_job_geometry(site, &there, NULL, NULL, &geometry, &err) < 0 ||
			    geometry.gpu != gpu)
				continue;
		}
		tried++;
		other.capacity.gpu = gpu;
		if (p4d_search_any(asked, &other))
			return partition;
	}
	return NULL;
}

const char *p4d_guard_ways_out(const p4d_site *site, const p4d_job *job, const p4d_request *asked,
			       const p4d_search_space *space, const char *prefix, p4d_way best[P4D_WAYS],
			       char *buf, size_t size)
{
	p4d_text list = p4d_text_in(buf, size);
	const p4d_way *way, *tunes = NULL;
	char text[96];

	for (int i = 0; i < P4D_WAYS; i++)
		best[i] = (p4d_way){P4D_OPTIONS, 0, false};
	if (!space->capacity.gpu || !p4d_on_gpu(asked->value[P4D_DEVICE]))
		return buf;
	const p4d_site_partition *partition = larger(site, job, asked, space);
	if (partition && job)
		p4d_text_entry(&list, ", ", "--partition=%s (%s)", partition->name,
			       p4d_site_least_gpu(partition)->name);
	else if (partition)
		p4d_text_entry(&list, ", ", "--gpu=%s (partition %s)", p4d_site_least_gpu(partition)->name,
			       partition->name);
	way = first_of(shared, job, asked, space);
	if (way) {
		p4d_text_entry(&list, ", ", "%s", p4d_way_text(way, prefix, text, sizeof(text)));
		*best++ = *way;
	}
	const int64_t length = shorter(asked, space);
	if (length)
		p4d_text_entry(&list, ", ", "%sseq-len=%" PRId64, prefix, length);
	if (p4d_is_set(asked, P4D_FINETUNE) && asked->value[P4D_FINETUNE] != P4D_TUNE_FULL)
		return buf;
	tunes = first_of(adapters, job, asked, space);
	if (tunes) {
		p4d_text_entry(&list, ", ", "%s", p4d_way_text(tunes, prefix, text, sizeof(text)));
		*best = *tunes;
	} else {
		p4d_text_entry(&list, ", ", "LoRA or offloading (%sframework=fsdp or deepspeed)", prefix);
	}
	return buf;
}
