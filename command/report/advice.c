/* SPDX-License-Identifier: Apache-2.0 */
#include "report/advice.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/script.h"
#include "report/places.h"
#include "report/report.h"
#include "request/framework.h"

/* Maximum number of sizes that are tried. */
enum { SEARCHES = 8 };

static void add(p4d_advice *advice, const char *about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(p4d_advice *advice, const char *about, const char *format, ...)
{
	va_list args;

	if (advice->count == P4D_ADVICE_LINES)
		return;
	advice->line[advice->count].about = about;
	va_start(args, format);
	vsnprintf(advice->line[advice->count++].text, sizeof(advice->line[0].text), format, args);
	va_end(args);
}

static void on_tasks(p4d_advice *advice, const p4d_script *script, const p4d_verdict *v)
{
	const uint32_t tasks = v->geometry.tasks_per_node ? v->geometry.tasks_per_node : 1;
	const char *plural = tasks == 1 ? "" : "s";

	if (script->starts_launcher && tasks > 1)
		add(advice, "tasks",
		    "torchrun starts the ranks of a node itself, and srun starts %" PRIu32
		    " copies of torchrun on each node: --ntasks-per-node=1",
		    tasks);
	if (script->starts_ranks && p4d_on_gpu(v->layout.device) && tasks != v->layout.gpus_per_node)
		add(advice, "tasks",
		    "srun starts %" PRIu32 " task%s for %" PRIu64
		    " GPUs of a node, and each rank is a task: --ntasks-per-node=%" PRIu64,
		    tasks, plural, v->layout.gpus_per_node, v->layout.gpus_per_node);
}

void p4d_advice_on_script(p4d_advice *advice, const p4d_job *job, const p4d_verdict *verdict)
{
	unsigned count;
	const unsigned first = p4d_sbatch_late_line(job->script, job->script_length, &count);

	if (first)
		add(advice, "lines",
		    "sbatch ignores #SBATCH lines after the first command, such as line %u%s of the script",
		    first, count > 1 ? " and others" : "");
	if (!verdict->judged)
		return;
	const p4d_script script = p4d_script_scan(job->script, job->script_length, NULL);
	on_tasks(advice, &script, verdict);
}

static void on_foreign(p4d_advice *advice, const p4d_sbatch *sbatch)
{
	const unsigned more = sbatch->foreigns - 1;
	char others[32] = "", alike[64] = "";

	if (sbatch->alike)
		snprintf(alike, sizeof(alike), "; nearest: --%.40s", sbatch->alike);
	if (more)
		snprintf(others, sizeof(others), " and %u other%s", more, more == 1 ? "" : "s");
	add(advice, "options",
	    "p4d does not know %.64s%s%s; sbatch takes %s if another plugin of the site has %s%s",
	    sbatch->foreign, others, sbatch->skips_foreign ? "" : " of the #SBATCH lines",
	    more ? "them" : "it", more ? "them" : "it", alike);
}

void p4d_advice_on_options(p4d_advice *advice, const p4d_sbatch *sbatch, const p4d_verdict *verdict,
			   const char *preempt_mode)
{
	const uint64_t host_bytes = verdict->judged ? verdict->estimate.host_bytes : P4D_NOT_MODELLED;
	char peak[64] = "more than training does";

	if (sbatch->foreign)
		on_foreign(advice, sbatch);
	if (sbatch->value[P4D_SBATCH_REQUEUE] && strstr(preempt_mode, "CANCEL"))
		add(advice, "requeue",
		    "--requeue has no effect on preemption here: PreemptMode of the partition is %.60s",
		    preempt_mode);
	if (!sbatch->value[P4D_SBATCH_MEM_UPDATE])
		return;
	if (host_bytes != P4D_NOT_MODELLED)
		snprintf(peak, sizeof(peak), "%.1f GiB per node", p4d_to_gib(host_bytes));
	add(advice, "memory",
	    "--mem-update=%.40s lowers the memory limit to the memory in use at that time; saving a "
	    "checkpoint needs %s",
	    sbatch->value[P4D_SBATCH_MEM_UPDATE], peak);
}

/* Unsets options that p4d itself chose, or read from the job, so that a search may change them. */
static void reopen(p4d_request *request)
{
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (request->origin[i] == P4D_BY_P4D && i != P4D_FRAMEWORK && i != P4D_DEVICE)
			request->origin[i] = P4D_UNSET;
	if (request->origin[P4D_GLOBAL_BATCH] == P4D_BY_MODEL) /* it was rounded for this number of ranks */
		request->origin[P4D_GLOBAL_BATCH] = P4D_UNSET;
	request->origin[P4D_NODES] = request->origin[P4D_GPUS_PER_NODE] = request->origin[P4D_GPU] =
	    P4D_UNSET;
}

static p4d_search_space below_safe(const p4d_search_space *space)
{
	p4d_search_space safe = *space;

	safe.limit = space->safe;
	return safe;
}

static void fewer(const p4d_request *request, const p4d_search_space *space, p4d_text *list)
{
	p4d_search_space less = below_safe(space), least = {.nodes = 0};
	p4d_candidate found;

	for (int i = 0; i < SEARCHES / 2 && less.nodes * less.gpus_per_node > 1; i++) {
		if (less.nodes > 1)
			less.nodes = (less.nodes + 1) / 2;
		else if (less.gpus_per_node % 2 == 0)
			less.gpus_per_node /= 2;
		else
			break;
		if (!p4d_search_any(request, &less))
			break;
		least = less;
	}
	if (least.nodes && p4d_search_run(request, &least, &found, 1, NULL))
		p4d_text_entry(list, ", or ", "%" PRIu64 " x %" PRIu64 " %s (%.0f %%)", least.nodes,
			       least.gpus_per_node, space->capacity.gpu->name, 100 * found.fraction);
}

/* Finds the smallest GPU of another partition on which the job fits with the same number of GPUs. */
static void smaller(const p4d_site *site, const p4d_request *request, const p4d_search_space *space,
		    p4d_text *list)
{
	const p4d_site_partition *partition, *best_partition = NULL;
	const p4d_gpu *best = space->capacity.gpu;
	p4d_search_space best_space = {.nodes = 0};
	p4d_candidate found;
	int searches = 0;

	for (unsigned i = 0; (partition = p4d_site_partition_at(site, i)) && searches < SEARCHES / 2; i++) {
		const p4d_gpu *gpu = p4d_site_least_gpu(partition);
		p4d_search_space other = below_safe(space);
		/* a section whose name is a pattern stands for several partitions, so a job cannot name it */
		if (strpbrk(partition->name, "*?") || !gpu || gpu->usable_bytes >= best->usable_bytes ||
		    (partition->gpus_per_node && partition->gpus_per_node < space->gpus_per_node))
			continue;
		other.capacity.gpu = gpu;
		searches++;
		if (!p4d_search_any(request, &other))
			continue;
		best = gpu;
		best_partition = partition;
		best_space = other;
	}
	if (best_partition && p4d_search_run(request, &best_space, &found, 1, NULL))
		p4d_text_entry(list, ", or ", "%" PRIu64 " x %" PRIu64 " %s in partition %s (%.0f %%)",
			       space->nodes, space->gpus_per_node, best->name, best_partition->name,
			       100 * found.fraction);
}

void p4d_advice_on_size(p4d_advice *advice, const p4d_site *site, const p4d_request *request,
			const p4d_search_space *space)
{
	p4d_request open = *request;
	char text[256];
	p4d_text list = p4d_text_in(text, sizeof(text));

	/* the part on the host was never measured, and the host memory of other GPUs' nodes is unknown */
	const bool offloads = p4d_is_set(request, P4D_OFFLOAD) && request->value[P4D_OFFLOAD];
	const bool exact = p4d_framework_of((int)request->value[P4D_FRAMEWORK])->checkpoints_are_modelled;

	if (!space->capacity.gpu || (offloads && !exact))
		return;
	reopen(&open);
	fewer(&open, space, &list);
	smaller(site, &open, space, &list);
	if (list.length)
		add(advice, "size", "would also fit: %s", text);
}

/* Smallest fraction of a step that is reported: the precision of the cost model. */
#define WORTH_SAYING 0.01

void p4d_advice_on_overlap(p4d_advice *advice, const p4d_candidate *candidate, const p4d_search_space *space)
{
	const p4d_gpu *gpu = space->capacity.gpu;
	const double now = candidate->step.seconds;
	p4d_request with = candidate->request;
	p4d_timeline_work work = {0};
	char buf[2][P4D_SIZE_TEXT];
	p4d_layout layout;
	p4d_step step;

	if (now <= 0 || p4d_is_stated(&with, P4D_TP_COMM_OVERLAP) || with.value[P4D_TP_COMM_OVERLAP] ||
	    !p4d_framework_of((int)with.value[P4D_FRAMEWORK])->cost.overlaps_halves)
		return;
	p4d_request_put(&with, P4D_TP_COMM_OVERLAP, 1, P4D_BY_P4D);
	if (p4d_layout_build(&with, space->nodes, space->gpus_per_node, &layout, NULL) < 0 ||
	    !layout.tp_comm_overlap)
		return;
	if (p4d_cost_step(&layout, gpu, &work, &step, NULL) == 0 && step.seconds < (1 - WORTH_SAYING) * now)
		add(advice, "overlap",
		    "--tp-comm-overlap=on: a step of the first layout would take %s instead of %s",
		    p4d_report_seconds(step.seconds, buf[0]), p4d_report_seconds(now, buf[1]));
	p4d_timeline_work_free(&work);
}

static const p4d_placement *cheapest(const p4d_places *places)
{
	const p4d_placement *best = &places->found[0];

	for (size_t i = 1; i < places->count; i++)
		if (places->found[i].gpu_seconds_per_token < best->gpu_seconds_per_token)
			best = &places->found[i];
	return best;
}

static void add_place(p4d_advice *advice, const p4d_placement *one, const char *factors)
{
	const p4d_node_kind *kind = one->kind;

	add(advice, "place",
	    "%s%" PRIu64 " x %" PRIu64 " %s%s: --partition=%s --nodes=%" PRIu64 " --gpus-per-node=%" PRIu64,
	    *factors ? "run it on " : "it fits on ", one->nodes, kind->gpus_per_node,
	    kind->capacity.gpu->name, factors, kind->partition, one->nodes, kind->gpus_per_node);
}

void p4d_advice_on_place(p4d_advice *advice, const p4d_site *site, const char *partitions,
			 const p4d_request *request, const p4d_search_space *space, const p4d_verdict *v)
{
	const bool fits =
	    v->judged && v->estimate.fraction <= p4d_site_policy_limit(&v->policy, v->layout.framework);
	p4d_request open = *request;
	p4d_places places = {.count = 0};
	p4d_timed now = {.known = false};
	p4d_error err = {.code = P4D_OK};
	char factors[160];

	if (!v->geometry.gpu || request->value[P4D_WORKLOAD] != P4D_WORKLOAD_TRAIN)
		return;
	reopen(&open);
	p4d_request_default(&open, P4D_FRAMEWORK, p4d_framework_default(&open), P4D_BY_P4D);
	const p4d_places_wanted wanted = {.partitions = partitions, .request = &open, .space = space};
	if (fits)
		p4d_report_time_step(&v->layout, v->geometry.gpu, &now, NULL);
	const uint64_t gpus = space->nodes * space->gpus_per_node;
	const double speed = now.known ? now.step.tokens_per_second_per_gpu * (double)gpus : 0;
	if (p4d_places_find(&places, site, &wanted, &err) < 0) {
		add(advice, "place", "elsewhere: %s", err.text);
	} else if (!fits) {
		add_place(advice, cheapest(&places), "");
	} else if (speed > 0) {
		const p4d_placement *one = p4d_placement_instead(places.found, places.count, speed, gpus);
		if (one) {
			snprintf(factors, sizeof(factors),
				 " instead of %" PRIu64 " x %" PRIu64
				 " %s, %.2f x the time, %.2f x the GPU-hours",
				 space->nodes, space->gpus_per_node, v->geometry.gpu->name,
				 speed / one->tokens_per_second,
				 one->gpu_seconds_per_token * speed / (double)gpus);
			add_place(advice, one, factors);
		}
	}
	p4d_places_free(&places);
}

void p4d_advice_print(const p4d_advice *advice, const char *prefix)
{
	for (unsigned i = 0; i < advice->count; i++)
		printf("%sp4d: %s\n", prefix, advice->line[i].text);
}

struct json_object *p4d_advice_json(const p4d_advice *advice)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < advice->count; i++) {
		struct json_object *line = json_object_new_object();
		json_object_object_add(line, "about", json_object_new_string(advice->line[i].about));
		json_object_object_add(line, "text", json_object_new_string(advice->line[i].text));
		json_object_array_add(list, line);
	}
	return list;
}
