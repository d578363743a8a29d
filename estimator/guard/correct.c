/* SPDX-License-Identifier: Apache-2.0 */
/* For a job that does not fit: the flags of a fix, or the layout that replaces the requested one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "guard/guard_internal.h"
#include "guard/script_request.h"
#include "guard/verdict.h"
#include "request/defaults.h"
#include "request/framework.h"

/*
 * Writes the pipeline split. A command line cannot unset a split for another number of stages, only replace
 * it.
 */
static void write_split(const p4d_request *candidate, p4d_text *flags)
{
	int64_t stages = candidate->value[P4D_PP], layers = candidate->value[P4D_LAYERS] / stages;
	const bool uneven = p4d_is_set(candidate, P4D_PIPELINE_SPLIT);

	p4d_text_entry(flags, " ", "--p4d-pipeline-split=%s", uneven ? candidate->pipeline_split : "");
	for (int64_t i = 0; i < stages && !uneven; i++)
		p4d_text_print(flags, "%s%" PRId64, i ? "," : "", layers);
}

/* an unset option may still have its old text */
static bool split_differs(const p4d_request *asked, const p4d_request *candidate)
{
	const bool set = p4d_is_set(candidate, P4D_PIPELINE_SPLIT);

	return set != p4d_is_set(asked, P4D_PIPELINE_SPLIT) ||
	       (set && strcmp(asked->pipeline_split, candidate->pipeline_split) != 0);
}

/*
 * Flags that turn the user's options into the candidate: every layout option that is not the default, and
 * every option that the user had set to another value. Options that only the script sets are left out,
 * because script_fix.c writes them.
 */
static void write_flags(const p4d_request *asked, const p4d_request *candidate, bool as_written, char *buf,
			size_t size)
{
	p4d_text flags = p4d_text_in(buf, size);
	char value[64];

	if (asked->origin[P4D_MODEL] == P4D_BY_SCRIPT && !p4d_request_any(asked))
		return;

	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		p4d_option option = p4d_layout_options[i];
		bool differs = p4d_is_set(asked, option) && asked->value[option] != candidate->value[option];
		if ((p4d_layout_is_default(candidate, option) && !differs) ||
		    asked->origin[option] == P4D_BY_SCRIPT ||
		    (as_written && asked->origin[option] != P4D_BY_USER))
			continue;
		p4d_text_entry(&flags, " ", "--p4d-%s=%s", p4d_request_option_info(option)->name,
			       p4d_request_value_text(candidate, option, value, sizeof(value)));
	}
	if (as_written)
		return;
	p4d_layout_add_sharing(candidate, "--p4d-", &flags);
	/* --p4d-tp-grid=auto leaves the grid to p4d: the fix names the grid that fits */
	if (p4d_layout_grid_is_open(asked))
		p4d_text_entry(&flags, " ", "--p4d-tp-grid=%s",
			       p4d_layout_grid_text(candidate, value, sizeof(value)));
	/* the user must set this value, because p4d does not choose it by itself */
	if (split_differs(asked, candidate))
		write_split(candidate, &flags);
	/* the fix sets equal slices, because the fastest lengths may not fit */
	if (candidate->origin[P4D_SLICE_LENGTHS] == P4D_BY_P4D)
		p4d_text_entry(&flags, " ", "--p4d-slice-lengths=%s", candidate->slice_lengths);
	else if (p4d_is_set(asked, P4D_SLICE_LENGTHS) && !p4d_is_set(candidate, P4D_SLICE_LENGTHS))
		p4d_text_entry(&flags, " ", "--p4d-slice-lengths=%" PRId64, candidate->value[P4D_SEQ_LEN]);
}

/* The request after the user pastes write_flags's flags: the candidate, but with the values of the script. */
static p4d_request with_flags(const p4d_request *asked, const p4d_request *candidate, bool as_written)
{
	if (asked->origin[P4D_MODEL] == P4D_BY_SCRIPT && !p4d_request_any(asked))
		return *asked;
	p4d_request pasted = as_written ? *asked : *candidate;
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS && as_written; i++)
		if (asked->origin[p4d_layout_options[i]] == P4D_BY_USER)
			p4d_request_put(&pasted, p4d_layout_options[i],
					candidate->value[p4d_layout_options[i]], P4D_BY_USER);
	if (as_written)
		return pasted;
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		const p4d_option option = p4d_layout_options[i];
		if (asked->origin[option] == P4D_BY_SCRIPT)
			p4d_request_put(&pasted, option, asked->value[option], P4D_BY_SCRIPT);
		else if (p4d_is_set(&pasted, option) && !p4d_layout_is_default(&pasted, option))
			pasted.origin[option] = P4D_BY_USER;
	}
	return pasted;
}

/*
 * Lists ways to make the job fit that need no more GPUs, since more GPUs are seldom the cheapest way. Uses
 * the budget that the search for GPUs left.
 */
static void admit_ways_out(p4d_guard_work *g, const p4d_request *asked, p4d_way best[P4D_WAYS],
			   p4d_error *err)
{
	p4d_error inner = *err;
	char ways[200];

	p4d_guard_ways_out(g->site, g->job, asked, &g->space, "--p4d-", best, ways, sizeof(ways));
	if (ways[0])
		p4d_fail(err, inner.code, "%.300s" P4D_WITHOUT_MORE_GPUS "%s", inner.text, ways);
}

/*
 * If the job requests no memory: writes the option that requests the host memory that offloading needs.
 * False: no node has that much.
 */
static bool write_memory(const p4d_guard_work *g, const p4d_request *found, const p4d_geometry *then,
			 p4d_text *fix)
{
	const p4d_job *job = g->job;
	const uint64_t has = g->space.capacity.host_bytes;
	p4d_estimate e;
	p4d_layout layout;

	if (!p4d_is_set(found, P4D_OFFLOAD) || !found->value[P4D_OFFLOAD] || job->mem_is_all ||
	    job->mem_per_node_bytes || job->mem_per_gpu_bytes || job->mem_per_cpu_bytes ||
	    p4d_layout_build(found, then->nodes, then->gpus_per_node, &layout, NULL) < 0 ||
	    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, &g->space.capacity, &e, NULL) < 0 ||
	    e.host_bytes == P4D_NOT_MODELLED)
		return true;
	const uint64_t wanted[] = {p4d_guard__roomy(&e, g->space.limit), e.host_bytes + e.host.rounding,
				   e.host_bytes};
	uint64_t gib = 0;
	for (unsigned i = 0; i < 3 && (!gib || (has && gib > has >> 30)); i++)
		gib = (wanted[i] >> 30) + 1;
	p4d_text_entry(fix, " ", "--mem=%" PRIu64 "G", gib);
	return !has || gib <= has >> 30;
}

/* Whether the guard accepts the job once the fix is pasted, with the fix's Slurm options and the resulting
 * options of p4d and the script. */
static bool is_accepted(const p4d_guard_work *g, const char *slurm, const p4d_request *pasted,
			const p4d_geometry *then)
{
	p4d_request complete = *pasted, none = {.model = ""};
	p4d_error err = {.code = P4D_OK};
	p4d_verdict v = {.policy = g->verdict->policy};
	p4d_job job = *g->job;
	p4d_pasted room;

	if (!p4d_guard__paste(&room, slurm, &job, &none) ||
	    p4d_job_geometry(g->site, &job, g->source, g->context, &v.geometry, NULL) < 0 ||
	    v.geometry.nodes != then->nodes || v.geometry.gpus_per_node != then->gpus_per_node ||
	    v.geometry.gpu != then->gpu)
		return false;
	p4d_request_complete(&complete, g->published_batch, (uint64_t)then->nodes * then->gpus_per_node);
	if (p4d_guard__judge(g->site, &job, &complete, &v, &err) < 0)
		return false;
	for (unsigned i = 0; i < v.messages; i++)
		if (v.message[i].code == P4D_E_UNVALIDATED || v.message[i].code == P4D_E_LENGTH)
			return false;
	return true;
}

/*
 * Everything that the user must change for a candidate: Slurm's options, p4d's options, and lines of the
 * script. way: its options are included; may be NULL.
 */
static int write_fix(p4d_guard_work *g, const p4d_request *asked, const p4d_candidate *found,
		     const p4d_geometry *then, const p4d_way *way, p4d_error *err)
{
	const p4d_geometry *now = &g->verdict->geometry;
	const p4d_reading *reading = g->job->reading;
	char flags[400], where[400], slurm[480], text[sizeof(err->fix)];
	p4d_text fix = p4d_text_in(text, sizeof(text));
	p4d_job job = *g->job;
	p4d_request pasted = reading ? with_flags(asked, &found->request, g->as_written) : found->request;

	if (!err || (reading && !p4d_guard__script_stays(reading, &found->request, now, then)))
		return -1;
	job.cpu = !p4d_on_gpu(found->request.value[P4D_DEVICE]);
	if (then->nodes != now->nodes || then->gpus_per_node != now->gpus_per_node || then->gpu != now->gpu)
		p4d_text_entry(&fix, " ", "%s",
			       p4d_job_flags_with(&job, then->gpu != now->gpu ? g->gpu_type : NULL,
						  then->nodes, then->gpus_per_node, where, sizeof(where)));
	if (!write_memory(g, &found->request, then, &fix))
		return -1;
	snprintf(slurm, sizeof(slurm), "%s", text);
	if (way && !reading)
		p4d_text_entry(&fix, " ", "%s", p4d_way_text(way, "--p4d-", where, sizeof(where)));
	write_flags(asked, &found->request, g->as_written, flags, sizeof(flags));
	if (flags[0])
		p4d_text_entry(&fix, " ", "%s", flags);
	if (reading) {
		p4d_request complete = *asked;
		p4d_request_complete(&complete, g->published_batch,
				     (uint64_t)now->nodes * now->gpus_per_node);
		p4d_request_put(&pasted, P4D_GLOBAL_BATCH, complete.value[P4D_GLOBAL_BATCH],
				complete.origin[P4D_GLOBAL_BATCH]);
		if (!p4d_guard__script_fix(reading, &complete, &found->request, now, then, way,
					   !reading->more_arguments, &pasted, &fix))
			return -1;
		if ((way && !p4d_guard__script_way(reading, way, &fix)) ||
		    !p4d_guard__script_starts(reading, now, then, &fix))
			return -1;
		if (way)
			p4d_way_take(way, &pasted);
	}
	if (fix.truncated || !is_accepted(g, slurm, &pasted, then))
		return -1;
	g->verdict->planned = found->request;
	return p4d_fix(err, "%s", text);
}

/*
 * Whether p4d may replace the requested layout by its own. It may not if the script has the layout, because
 * p4d cannot change the script.
 */
static bool may_rewrite(const p4d_guard_work *g, const p4d_request *asked, const p4d_request *found)
{
	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++)
		if (asked->origin[p4d_layout_options[i]] == P4D_BY_SCRIPT &&
		    asked->value[p4d_layout_options[i]] != found->value[p4d_layout_options[i]])
			return false;
	return !g->by_script && !g->as_written &&
	       (g->verdict->policy.rewrite == P4D_REWRITE_ALL ||
		(g->verdict->policy.rewrite == P4D_REWRITE_UNSET && p4d_is_set(asked, P4D_FIX)));
}

/*
 * True if Slurm certainly gives such a job fewer nodes or GPUs than these numbers. *err then says so, instead
 * of having a fix.
 */
static bool is_out_of_reach(const p4d_guard_work *g, uint64_t nodes, uint64_t gpus_per_node, p4d_error *err)
{
	const p4d_job_bounds most = p4d_job_most(g->site, g->job, g->source, g->context);
	const uint64_t gpus = nodes * gpus_per_node;
	const bool lacks_nodes = most.nodes && nodes > most.nodes, lacks_gpus = most.gpus && gpus > most.gpus;

	if (!lacks_nodes && !lacks_gpus)
		return false;
	p4d_error inner = *err;
	p4d_fail(err, inner.code,
		 "%.380s; the fix needs %" PRIu64 " %s, and a job in this partition gets at most %" PRIu32,
		 inner.text, lacks_nodes ? nodes : gpus, lacks_nodes ? "nodes" : "GPUs",
		 lacks_nodes ? most.nodes : most.gpus);
	return true;
}

void p4d_guard__limit_nodes(const p4d_guard_work *g, p4d_error *err)
{
	static const char option[] = "--nodes=";
	uint64_t nodes;

	if (!strncmp(err->fix, option, sizeof(option) - 1) &&
	    p4d_number_digits(err->fix + sizeof(option) - 1, &nodes))
		is_out_of_reach(g, nodes, g->verdict->geometry.gpus_per_node, err);
}

/*
 * Suggests the smallest GPU or MIG instance with which the job fits. It must be larger than the job's GPU,
 * and in the job's partitions. -1: there is none.
 */
static int correct_by_gpu(p4d_guard_work *g, const p4d_request *asked, p4d_geometry then, p4d_error *err)
{
	const p4d_search_space space = g->space;
	const bool several = then.nodes > 1 || then.gpus_per_node > 1;
	p4d_candidate found;

	if (!then.gpu || !p4d_on_gpu(asked->value[P4D_DEVICE]))
		return -1;
	p4d_error with = {.code = err->code};
	while (!with.fix[0] && (then.gpu = p4d_job_larger_gpu(g->site, g->job, g->source, g->context,
							      then.gpu, then.gpus_per_node, g->gpu_type))) {
		g->space.capacity.gpu = then.gpu;
		g->space.nodes = then.nodes;
		g->space.gpus_per_node = then.gpus_per_node;
		g->budget.left = P4D_GUARD_WAY_UNITS;
		if (!(several && p4d_gpu_is_mig(then.gpu)) &&
		    p4d_search_nearest(asked, &g->space, &found) >= 0)
			write_fix(g, asked, &found, &then, NULL, &with);
	}
	g->space = space;
	if (!with.fix[0])
		return -1;
	memcpy(err->fix, with.fix, sizeof(err->fix));
	return 0;
}

int p4d_guard__correct_mig(p4d_guard_work *g, const p4d_request *asked, p4d_error *err)
{
	const p4d_gpu *gpu = g->verdict->geometry.gpu;
	p4d_geometry one = g->verdict->geometry;
	p4d_candidate found;

	g->budget.left = P4D_GUARD_FIX_UNITS;
	g->space.nodes = g->space.gpus_per_node = one.nodes = one.gpus_per_node = 1;
	if (p4d_search_nearest(asked, &g->space, &found) >= 0)
		return write_fix(g, asked, &found, &one, NULL, err);
	p4d_error inner = *err;
	p4d_fail(err, inner.code, "%.400s; %s needs more than one GPU of %.1f GiB", inner.text, asked->model,
		 p4d_to_gib(gpu->usable_bytes));
	correct_by_gpu(g, asked, g->verdict->geometry, err);
	return -1;
}

/* Excludes from fixes the options for which the script's program has no argument. */
static void keep_untold(p4d_guard_work *g, const p4d_request *asked)
{
	const p4d_geometry *now = &g->verdict->geometry;
	p4d_request complete = *asked;

	p4d_request_complete(&complete, g->published_batch, (uint64_t)now->nodes * now->gpus_per_node);
	g->space.kept = p4d_guard__script_untold(g->job->reading, &complete, now);
	g->space.unsaid_recompute = p4d_guard__script_unsaid(g->job->reading, &complete, now);
}

/* Looks up the memory of a node for a job without a memory request: a fix may request up to that. */
static void know_memory(p4d_guard_work *g)
{
	p4d_job whole = *g->job;
	p4d_geometry node;

	if (whole.mem_per_node_bytes || whole.mem_per_gpu_bytes || whole.mem_per_cpu_bytes)
		return;
	whole.mem_is_all = true;
	if (p4d_job_geometry(g->site, &whole, g->source, g->context, &node, NULL) == 0)
		g->space.capacity.host_bytes = node.host_bytes;
}

/* Suggests a fix that needs no more GPUs, using this way. -1: there is none. */
static int correct_by(p4d_guard_work *g, const p4d_request *asked, const p4d_way *way, p4d_error *err)
{
	p4d_request with = *asked;
	p4d_candidate found;

	if (way->option == P4D_OPTIONS)
		return -1;
	p4d_way_take(way, &with);
	g->budget.left = P4D_GUARD_WAY_UNITS;
	if (p4d_search_nearest(&with, &g->space, &found) < 0)
		return -1;
	write_fix(g, asked, &found, &g->verdict->geometry, way, err);
	return err->fix[0] ? 0 : -1;
}

/* The smallest number of GPUs on which a request fits: a power of two (at least 2) times the job's GPUs, on
 * up to 16 nodes. False: there is no such number, or the site gives jobs fewer GPUs. per_gpu: sequences of a
 * step on each GPU; 0: the global batch stays. */
static bool fits_on(p4d_guard_work *g, p4d_request with, uint64_t per_gpu, uint64_t of_node,
		    p4d_geometry *then, p4d_candidate *found)
{
	enum { NODES = 16 };
	p4d_error unused = {.code = P4D_E_NO_LAYOUT};
	p4d_search_space space = g->space;

	for (uint64_t n = 2 * g->space.nodes * g->space.gpus_per_node; n <= NODES * of_node; n *= 2) {
		space.gpus_per_node = n < of_node ? n : of_node;
		space.nodes = n / space.gpus_per_node;
		if (n % space.gpus_per_node || of_node % space.gpus_per_node)
			continue;
		if (per_gpu)
			p4d_request_put(&with, P4D_GLOBAL_BATCH, (int64_t)(per_gpu * n), P4D_BY_SCRIPT);
		g->budget.left = P4D_GUARD_WAY_UNITS;
		if (p4d_search_nearest(&with, &space, found) < 0)
			continue;
		then->nodes = (uint32_t)space.nodes;
		then->gpus_per_node = (uint32_t)space.gpus_per_node;
		return !is_out_of_reach(g, space.nodes, space.gpus_per_node, &unused);
	}
	return false;
}

/*
 * Says in words, instead of a fix, on how many GPUs the job fits if it shards the model. DDP has all of the
 * model on each GPU, so it needs another framework, and p4d does not know how each program selects one. FSDP
 * and DeepSpeed shard it, but if each GPU has too few sequences to divide, more GPUs train with a larger
 * batch.
 */
static void name_sharing(p4d_guard_work *g, const p4d_request *asked, uint64_t of_node, p4d_error *err)
{
	const p4d_framework *framework = p4d_framework_of((int)asked->value[P4D_FRAMEWORK]);
	const p4d_way shards = {P4D_FRAMEWORK, P4D_FRAMEWORK_FSDP, P4D_OPTIONS, 0};
	const bool copies = framework->sharing == P4D_SHARES_NOTHING;
	const uint64_t gpus = g->space.nodes * g->space.gpus_per_node;
	const bool grows = asked->origin[P4D_GLOBAL_BATCH] == P4D_BY_SCRIPT;
	const uint64_t per_gpu = grows ? (uint64_t)asked->value[P4D_GLOBAL_BATCH] / gpus : 0;
	const p4d_error before = *err;
	p4d_request with = *asked;
	p4d_geometry then;
	p4d_candidate found;
	char recompute[48], batch[48] = "";

	if (!p4d_on_gpu(asked->value[P4D_DEVICE]) ||
	    !(copies || (grows && g->job->reading && p4d_guard__batch_follows(g->job->reading))))
		return;
	if (copies)
		p4d_way_take(&shards, &with);
	if (copies && gpus > 1 && p4d_search_nearest(&with, &g->space, &found) >= 0)
		return; /* the sharded job fits on the job's own GPUs */
	if ((copies || !fits_on(g, with, 0, of_node, &then, &found)) &&
	    !fits_on(g, with, per_gpu, of_node, &then, &found))
		return;
	p4d_request_value_text(&found.request, P4D_RECOMPUTE, recompute, sizeof(recompute));
	if (!copies && found.request.value[P4D_GLOBAL_BATCH] != asked->value[P4D_GLOBAL_BATCH])
		snprintf(batch, sizeof(batch), ", global-batch=%" PRId64,
			 found.request.value[P4D_GLOBAL_BATCH]);
	p4d_fail(err, before.code,
		 "%.380s; with more GPUs: %s on %" PRIu32 " x %" PRIu32 " (%.1f GiB, recompute=%s%s)",
		 before.text, copies ? "FSDP" : framework->program, then.nodes, then.gpus_per_node,
		 p4d_to_gib(found.device_bytes), recompute, batch);
}

/*
 * Called if nothing fits with the user's choices. Suggests a layout or, if `rewrites` allows it, changes the
 * choices.
 */
int p4d_guard__correct(p4d_guard_work *g, const p4d_request *asked, bool rewrites, p4d_error *err)
{
	const p4d_geometry *geometry = &g->verdict->geometry;
	const p4d_site_partition *section = p4d_site_partition_of(g->site, geometry->partition);
	const uint32_t of_node = section ? section->gpus_per_node : 0;
	const bool on_node = !of_node || geometry->gpus_per_node <= of_node;
	p4d_geometry then = *geometry;
	p4d_candidate found;
	uint64_t nodes, gpus_per_node;
	p4d_way way[P4D_WAYS] = {{P4D_OPTIONS, 0, P4D_OPTIONS, 0}, {P4D_OPTIONS, 0, P4D_OPTIONS, 0}};

	/* a fix asks for at most as many GPUs per node as a node has, because Slurm accepts nothing else */
	if (!on_node) {
		p4d_error inner = *err;
		p4d_fail(err, inner.code, "%.400s; a node of partition %s has %" PRIu32 " GPUs", inner.text,
			 section->name, of_node);
		g->space.gpus_per_node = then.gpus_per_node = of_node;
	}
	g->budget.left = P4D_GUARD_FIX_UNITS;
	know_memory(g);
	if (g->by_script || g->as_written)
		keep_untold(g, asked);
	if (p4d_search_nearest(asked, &g->space, &found) >= 0) {
		if (!rewrites || !on_node || !may_rewrite(g, asked, &found.request))
			return write_fix(g, asked, &found, &then, NULL, err);
		*g->request = found.request;
		return 0;
	}
	const bool too_large = err->code == P4D_E_DOES_NOT_FIT;
	if (too_large)
		err->code = P4D_E_NO_LAYOUT;
	const bool mig = geometry->gpu &&
			 p4d_gpu_is_mig(geometry->gpu); /* a layout cannot use more than one MIG instance */
	int grown = mig ? -1
			: p4d_search_smallest(asked, &g->space, section ? of_node : geometry->gpus_per_node,
					      &nodes, &gpus_per_node, &found);
	if (grown == 0 && is_out_of_reach(g, nodes, gpus_per_node, err))
		grown = -1;
	if (too_large)
		admit_ways_out(g, asked, way, err);
	if (on_node &&
	    (correct_by(g, asked, &way[0], err) == 0 || correct_by_gpu(g, asked, *geometry, err) == 0))
		return -1;
	then.nodes = (uint32_t)nodes;
	then.gpus_per_node = (uint32_t)gpus_per_node;
	if (grown == 0)
		write_fix(g, asked, &found, &then, NULL, err);
	if (!err->fix[0] && on_node)
		correct_by(g, asked, &way[1], err);
	if (!err->fix[0] && too_large && !mig)
		name_sharing(g, asked, of_node ? of_node : geometry->gpus_per_node, err);
	return -1;
}

/*
 * Adds a fix for a job that does not fit according to unvalidated formulas. Such formulas only cause a
 * warning.
 */
void p4d_guard__suggest(p4d_guard_work *g, const p4d_request *asked)
{
	p4d_verdict *v = g->verdict;
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);
	p4d_error err = {.code = P4D_E_DOES_NOT_FIT};

	for (unsigned i = 0; i < v->messages; i++)
		if ((v->message[i].code == P4D_E_UNVALIDATED || v->message[i].code == P4D_E_LENGTH) &&
		    v->estimate.fraction > limit && !v->message[i].fix[0]) {
			p4d_guard__correct(g, asked, false, &err);
			snprintf(v->message[i].fix, sizeof(v->message[i].fix), "%s", err.fix);
		}
}

/*
 * The launcher starts processes on another number of nodes than the job has. If p4d accepts the job with that
 * number, it becomes the fix.
 */
static void fix_nodes(const p4d_guard_work *g, uint64_t nodes, p4d_error *err)
{
	const p4d_geometry *geometry = &g->verdict->geometry;
	p4d_request request = *g->request;
	p4d_verdict v = {.messages = 0};
	p4d_job job = *g->job;
	p4d_pasted room;
	char flags[400];

	p4d_job_flags(&job, nodes, geometry->gpus_per_node, flags, sizeof(flags));
	if (!g->searches || nodes >= geometry->nodes || !p4d_guard__paste(&room, flags, &job, &request))
		return;
	p4d_guard__complete(g->site, &job, g->source, g->context, g->published_batch, false, &request, &v);
	if (v.judged && !v.would_reject)
		p4d_fix(err, "%s", flags);
}

bool p4d_guard__starts_others(const p4d_guard_work *g, p4d_error *err)
{
	static const p4d_option sizes[] = {P4D_NODES, P4D_GPUS_PER_NODE};
	const p4d_reading *r = g->job->reading;
	const p4d_geometry *geometry = &g->verdict->geometry;
	char place[208];

	for (int i = 0; i < 2; i++) {
		const p4d_read_value *v = &r->value[sizes[i]];
		const uint32_t of_job = i ? geometry->gpus_per_node : geometry->nodes;
		const bool by_default = r->by_default[sizes[i]];
		if (!v->file || strtoul(v->text, NULL, 10) == of_job || (by_default && p4d_reading_doubt(r)))
			continue;
		p4d_guard__script_place(r, place, sizeof(place));
		if (by_default)
			p4d_fail(
			    err, P4D_E_NOT_READ,
			    "%.120s was not checked: the program starts on one node, but the job has %" PRIu32
			    " nodes; each node may train by itself; to start it on all nodes, use %s",
			    place, of_job, v->argument);
		else
			p4d_fail(err, P4D_E_NOT_READ,
				 "%.120s was not checked: the script starts it with %s=%s, but the job has "
				 "%" PRIu32,
				 place, p4d_request_option_info(sizes[i])->name, v->text, of_job);
		if (!i)
			fix_nodes(g, strtoul(v->text, NULL, 10), err);
		return true;
	}
	return false;
}
