/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for ways out for a job that fits on none of its GPUs: changes that cost less than more nodes. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "guard/script_request.h"
#include "guard/verdict.h"
#include "request/defaults.h"
#include "request/framework.h"

enum { SHORTEST = 1024, PARTITIONS = 4 };

/*
 * Ways to save memory that are free or cost only transfers between GPUs, and that do not change what is
 * trained. The message names the first way that is enough.
 */
static const p4d_way shared[] = {{P4D_CHUNKED_LOSS, 1, P4D_OPTIONS, 0},
				 {P4D_OPTIMIZER_SHARDING, P4D_SHARD_STATES, P4D_OPTIONS, 0},
				 {P4D_OPTIMIZER_SHARDING, P4D_SHARD_GRADIENTS, P4D_OPTIONS, 0},
				 {P4D_OPTIMIZER_SHARDING, P4D_SHARD_PARAMETERS, P4D_OPTIONS, 0},
				 {P4D_ZERO_STAGE, 1, P4D_OPTIONS, 0},
				 {P4D_ZERO_STAGE, 2, P4D_OPTIONS, 0},
				 {P4D_ZERO_STAGE, 3, P4D_OPTIONS, 0},
				 {P4D_ZERO_STAGE, 3, P4D_CHUNKED_LOSS, 1},
				 {P4D_ZERO_STAGE, 2, P4D_FRAMEWORK, P4D_FRAMEWORK_DEEPSPEED},
				 {P4D_ZERO_STAGE, 3, P4D_FRAMEWORK, P4D_FRAMEWORK_DEEPSPEED},
				 {P4D_FRAMEWORK, P4D_FRAMEWORK_FSDP, P4D_OPTIONS, 0},
				 {P4D_OPTIONS, 0, P4D_OPTIONS, 0}};
/* Ways that save memory by copying tensors to the host. */
static const p4d_way offloaded[] = {
    {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER, P4D_OPTIONS, 0},
    {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER, P4D_ZERO_STAGE, 3},
    {P4D_OFFLOAD, P4D_OFFLOAD_OPTIMIZER | P4D_OFFLOAD_PARAMS, P4D_ZERO_STAGE, 3},
    {P4D_OFFLOAD, P4D_OFFLOAD_PARAMS, P4D_OPTIONS, 0},
    {P4D_OPTIONS, 0, P4D_OPTIONS, 0}};
/* Ways that train fewer parameters, which is another training: only the user may choose them. */
static const p4d_way adapters[] = {{P4D_FINETUNE, P4D_TUNE_LORA, P4D_OPTIONS, 0},
				   {P4D_FINETUNE, P4D_TUNE_QLORA, P4D_OPTIONS, 0},
				   {P4D_FINETUNE, P4D_TUNE_QLORA, P4D_CHUNKED_LOSS, 1},
				   {P4D_OPTIONS, 0, P4D_OPTIONS, 0}};

/* The value that the way gives the option. False: the way does not set this option. */
static bool has(const p4d_way *way, p4d_option option, int64_t *value)
{
	if (option == P4D_OPTIONS || (way->option != option && way->also != option))
		return false;
	*value = way->option == option ? way->value : way->more;
	return true;
}

void p4d_way_take(const p4d_way *way, p4d_request *request)
{
	int64_t framework;

	if (has(way, P4D_FRAMEWORK, &framework)) {
		p4d_request_put(request, P4D_FRAMEWORK, framework, P4D_BY_USER);
		for (int i = 0; i < (int)P4D_OPTIONS; i++) {
			const p4d_heeds_reason *f = p4d_framework_fixed_of(request, (p4d_option)i);
			if (f && p4d_is_set(request, (p4d_option)i) && request->origin[i] != P4D_BY_USER &&
			    request->value[i] != f->value)
				request->origin[i] = P4D_UNSET;
		}
	}
	if (way->also != P4D_OPTIONS)
		p4d_request_put(request, way->also, way->more, P4D_BY_USER);
	p4d_request_put(request, way->option, way->value, P4D_BY_USER);
}

const char *p4d_way_text(const p4d_way *way, const char *prefix, char *buf, size_t size)
{
	const p4d_option options[] = {way->also, way->option};
	p4d_text text = p4d_text_in(buf, size);
	p4d_request with = {.model = ""};
	char value[48];

	p4d_way_take(way, &with);
	for (int i = 0; i < 2; i++)
		if (options[i] != P4D_OPTIONS)
			p4d_text_entry(&text, " ", "%s%s=%s", prefix,
				       p4d_request_option_info(options[i])->name,
				       p4d_request_value_text(&with, options[i], value, sizeof(value)));
	return buf;
}

/* Whether the way shards more than the request does, and the framework supports it. */
static bool shares_more(const p4d_request *asked, p4d_option option, int64_t value)
{
	const p4d_framework *f = p4d_framework_of((int)asked->value[P4D_FRAMEWORK]);

	if (option != P4D_OPTIMIZER_SHARDING && option != P4D_ZERO_STAGE)
		return true;
	return !(f->states_only && option == P4D_OPTIMIZER_SHARDING && value > P4D_SHARD_STATES) &&
	       !(p4d_is_set(asked, option) && asked->value[option] > value);
}

/* Whether the request may have this option, with another value than it has. */
static bool open_to(const p4d_request *asked, p4d_option option, int64_t value)
{
	if (option == P4D_OPTIONS)
		return true;
	/* TRL's chunked losses already avoid the logits */
	if (option == P4D_CHUNKED_LOSS && p4d_is_set(asked, option) && asked->value[option] != P4D_LOSS_WHOLE)
		return false;
	return shares_more(asked, option, value) && !p4d_framework_fixed_of(asked, option) &&
	       (option != P4D_ZERO_STAGE || p4d_heeds(asked, (int)asked->value[P4D_FRAMEWORK], option));
}

/*
 * Whether the way applies to the request. DDP shards nothing, so the way may change the framework; a single
 * GPU cannot shard.
 */
static bool is_way(const p4d_request *asked, const p4d_way *way, const p4d_search_space *space)
{
	int64_t framework, value;
	const bool shards = has(way, P4D_FRAMEWORK, &framework) || has(way, P4D_ZERO_STAGE, &value) ||
			    has(way, P4D_OPTIMIZER_SHARDING, &value);
	const bool offloads = has(way, P4D_OFFLOAD, &value);

	if (shards && !offloads && space->nodes * space->gpus_per_node == 1)
		return false;
	if (has(way, P4D_FRAMEWORK, &framework))
		return p4d_framework_of((int)asked->value[P4D_FRAMEWORK])->sharing == P4D_SHARES_NOTHING;
	if (p4d_is_set(asked, way->option) && asked->value[way->option] == way->value &&
	    (way->also == P4D_OPTIONS ||
	     (p4d_is_set(asked, way->also) && asked->value[way->also] == way->more)))
		return false;
	return open_to(asked, way->option, way->value) && open_to(asked, way->also, way->more);
}

/* Whether the nodes certainly have too little host memory for the request. job: may be NULL. */
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
	const uint64_t have = space->capacity.host_bytes;
	return have && (estimate.host_bytes > have || (job && p4d_guard__is_killed(job, have, &estimate)));
}

/* Whether a fix may name the way: the program of a script that p4d read must have words for it. For other
 * jobs p4d knows only its own options, which do not change the framework that the script starts. */
static bool is_pasted(const p4d_job *job, const p4d_way *way)
{
	char words[256];
	p4d_text text = p4d_text_in(words, sizeof(words));
	int64_t framework;

	if (job && job->reading)
		return p4d_guard__script_way(job->reading, way, &text);
	return !job || !has(way, P4D_FRAMEWORK, &framework);
}

/* A way with which a job fits, perhaps with a smaller micro-batch or more recomputation. */
typedef struct found_way {
	const p4d_way *named,
	    *pasted;    /* the first way that is enough, and the first that a fix may name; NULL: none */
	uint64_t bytes; /* memory on a GPU with the named way */
} found_way;

static found_way first_of(const p4d_way *way, const p4d_job *job, const p4d_request *asked,
			  const p4d_search_space *space)
{
	found_way found = {.named = NULL};

	for (; way->option != P4D_OPTIONS && !found.pasted; way++) {
		p4d_request with = *asked;
		p4d_candidate candidate;
		const bool pasted = is_way(asked, way, space) && is_pasted(job, way);
		if (!is_way(asked, way, space) || (found.named && !pasted))
			continue;
		p4d_way_take(way, &with);
		if (kills(job, &with, space) || p4d_search_nearest(&with, space, &candidate) < 0)
			continue;
		if (!found.named) {
			found.named = way;
			found.bytes = candidate.device_bytes;
		}
		if (pasted)
			found.pasted = way;
	}
	return found;
}

/* Names LoRA or QLoRA in words, if the job fits with it. */
static void name_adapters(const p4d_job *job, const p4d_request *asked, const p4d_search_space *space,
			  const char *prefix, p4d_text *list)
{
	char text[96];

	const int64_t now = p4d_is_set(asked, P4D_FINETUNE) ? asked->value[P4D_FINETUNE] : P4D_TUNE_FULL;
	if (now == P4D_TUNE_QLORA || (p4d_is_set(asked, P4D_QUANT) && asked->value[P4D_QUANT]))
		return;
	const found_way found = first_of(&adapters[now == P4D_TUNE_LORA], job, asked, space);
	if (found.named)
		p4d_text_entry(
		    list, ", ", "%s (%s, %.1f GiB)", found.named->value == P4D_TUNE_LORA ? "LoRA" : "QLoRA",
		    p4d_way_text(found.named, prefix, text, sizeof(text)), p4d_to_gib(found.bytes));
}

/* The longest sequence that fits: a half, a quarter, ... of the job's length; 0: none. */
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
 * A partition with larger GPUs on which the unchanged job fits; NULL: none. job NULL: any number of GPUs. A
 * job that names its nodes or has a reservation cannot move to another partition.
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

/* Names the first way of this kind that is enough, in words; adds its flags to *best. */
static void name_way(const p4d_way *ways, const p4d_job *job, const p4d_request *asked,
		     const p4d_search_space *space, const char *prefix, p4d_way *best, p4d_text *list)
{
	const found_way found = first_of(ways, job, asked, space);
	int64_t framework;
	char text[96];

	if (found.pasted)
		*best = *found.pasted;
	if (!found.named)
		return;
	p4d_way_text(found.named, prefix, text, sizeof(text));
	if (has(found.named, P4D_FRAMEWORK, &framework))
		p4d_text_entry(list, ", ", "%s (%s, %.1f GiB)", p4d_framework_of((int)framework)->program,
			       text, p4d_to_gib(found.bytes));
	else
		p4d_text_entry(list, ", ", "%s", text);
}

const char *p4d_guard_ways_out(const p4d_site *site, const p4d_job *job, const p4d_request *asked,
			       const p4d_search_space *space, const char *prefix, p4d_way best[P4D_WAYS],
			       char *buf, size_t size)
{
	p4d_text list = p4d_text_in(buf, size);

	for (int i = 0; i < P4D_WAYS; i++)
		best[i] = (p4d_way){P4D_OPTIONS, 0, P4D_OPTIONS, 0};
	if (!space->capacity.gpu || !p4d_on_gpu(asked->value[P4D_DEVICE]))
		return buf;
	const p4d_site_partition *partition = larger(site, job, asked, space);
	if (partition && job)
		p4d_text_entry(&list, ", ", "--partition=%s (%s)", partition->name,
			       p4d_site_least_gpu(partition)->name);
	else if (partition)
		p4d_text_entry(&list, ", ", "--gpu=%s (partition %s)", p4d_site_least_gpu(partition)->name,
			       partition->name);
	name_way(shared, job, asked, space, prefix, &best[0], &list);
	name_way(offloaded, job, asked, space, prefix, &best[1], &list);
	name_adapters(job, asked, space, prefix, &list);
	const int64_t length = shorter(asked, space);
	if (length)
		p4d_text_entry(&list, ", ", "shorter sequences (%sseq-len=%" PRId64 ")", prefix, length);
	return buf;
}
