/* SPDX-License-Identifier: Apache-2.0 */
#include "run/memory_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/host_memory.h"
#include "plan/plan.h"

/* Fills in this rank's arena and plan. Fails if the device did not allocate exactly what was planned. */
static int fill(p4d_memory_report *r, const p4d_job_plan *plan, const p4d_trainer *trainer,
		p4d_device *device, p4d_error *err)
{
	const uint32_t stage = p4d_trainer_place(trainer).pp;
	p4d_stage planned;

	if (p4d_plan_bytes(&plan->layout, plan->gpu, stage, NULL, &r->planned_bytes, NULL, err) < 0)
		return -1;
	r->allocated_bytes = device->allocated_bytes;
	if (r->planned_bytes != r->allocated_bytes)
		return p4d_fail(err, P4D_E_PLAN_CHANGED,
				"the plan has %" PRIu64 " bytes, but the device allocated %" PRIu64 " bytes",
				r->planned_bytes, r->allocated_bytes);
	if (p4d_trainer_plan(trainer)->host_bytes != device->host_allocated_bytes)
		return p4d_fail(err, P4D_E_PLAN_CHANGED,
				"the plan has %" PRIu64
				" bytes on the host, but the device allocated %" PRIu64 " bytes",
				p4d_trainer_plan(trainer)->host_bytes, device->host_allocated_bytes);
	memcpy(r->planned, p4d_trainer_plan(trainer)->part, sizeof(r->planned));
	if (p4d_trainer_arena_used(trainer, r->used, err) < 0)
		return -1;
	for (int i = 0; i < P4D_PART_COUNT; i++)
		r->used_bytes =
		    r->used[i] == P4D_NOT_MODELLED ? P4D_NOT_MODELLED : r->used_bytes + r->used[i];
	if (p4d_on_gpu(plan->layout.device)) {
		if (p4d_memory_of_stage(&plan->layout, P4D_METHOD_PLAN, plan->gpu, stage, &planned, err) < 0)
			return -1;
		r->planned_reserve = planned.device_bytes - planned.allocated_bytes;
		device->usage(device, &r->device_bytes, &r->device_total);
	}
	r->host = p4d_memory_host_of_rank(&plan->layout, stage, r->planned_bytes,
					  p4d_trainer_plan(trainer)->host_bytes);
	return 0;
}

int p4d_memory_report_make(p4d_memory_report *report, const p4d_job_plan *plan, const p4d_trainer *trainer,
			   p4d_device *device, p4d_group *all, p4d_error *err)
{
	double most[] = {0, (double)p4d_host_memory_peak(), (double)p4d_host_memory_mapped()};
	p4d_memory_report r = {.rank = p4d_group_index(all)};

	if (fill(&r, plan, trainer, device, err) < 0)
		return -1;
	most[0] = (double)r.allocated_bytes;
	if (p4d_comm_all_reduce(all, most, 3, P4D_DT_FP64, P4D_MAX, err) < 0)
		return -1;
	/*
	 * Finds the first of the ranks with the largest arena. Ranks are exchanged as doubles, which are
	 * exact below 2^53.
	 */
	double first = (double)r.allocated_bytes == most[0] ? -(double)r.rank : -(double)p4d_group_size(all);
	if (p4d_comm_all_reduce(all, &first, 1, P4D_DT_FP64, P4D_MAX, err) < 0 ||
	    p4d_comm_broadcast(all, &r, sizeof(r), (uint32_t)-first, err) < 0)
		return -1;
	r.host_peak = (uint64_t)most[1];
	r.host_mapped = (uint64_t)most[2];
	*report = r;
	return 0;
}

static bool is_there(const p4d_memory_report *r, int part)
{
	return r->planned[part] || (r->used[part] && r->used[part] != P4D_NOT_MODELLED);
}

static void put_bytes(p4d_text *json, const char *name, uint64_t bytes)
{
	if (bytes == P4D_NOT_MODELLED)
		p4d_json_text_null(json, name);
	else
		p4d_json_text_whole(json, name, bytes);
}

static void put_parts(p4d_text *json, const p4d_memory_report *r, const char *name,
		      const uint64_t part[P4D_PART_COUNT])
{
	p4d_json_text_open(json, name, '{');
	for (int i = 0; i < P4D_PART_COUNT; i++)
		if (is_there(r, i))
			put_bytes(json, p4d_memory_class_name((p4d_memory_class)i), part[i]);
	p4d_json_text_close(json, '}');
}

void p4d_memory_report_json(const p4d_memory_report *r, p4d_text *json)
{
	const struct {
		const char *name;
		uint64_t bytes;
	} sums[] = {
	    {"planned_bytes", r->planned_bytes},
	    {"allocated_bytes", r->allocated_bytes},
	    {"used_bytes", r->used_bytes},
	    {"host_planned_bytes", r->host.sum},
	    {"host_offloaded_bytes", r->host.offloaded},
	    {"host_saving_bytes", r->host.saving},
	    {"host_loading_bytes", r->host.loading},
	    {"host_peak_bytes", r->host_peak},
	    {"host_mapped_bytes", r->host_mapped},
	    {"reserve_planned_bytes", r->planned_reserve},
	    {"device_bytes", r->device_bytes},
	    {"device_total_bytes", r->device_total},
	};

	put_parts(json, r, "planned", r->planned);
	put_parts(json, r, "used", r->used);
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		put_bytes(json, sums[i].name, sums[i].bytes);
	p4d_json_text_whole(json, "rank", r->rank);
}

/* Prints a line of the table, except the text at its end. */
static void put_row(p4d_text *to, const char *name, uint64_t planned, uint64_t used, double unit)
{
	p4d_text_print(to, "%-18s%11.3f", name, (double)planned / unit);
	if (used == P4D_NOT_MODELLED)
		p4d_text_print(to, "%10s", "-");
	else
		p4d_text_print(to, "%10.3f", (double)used / unit);
}

const char *p4d_memory_report_text(const p4d_memory_report *r, char *buf, size_t size)
{
	static const char *const label[P4D_PART_COUNT] = {
	    [P4D_PART_PARAMS] = "parameters",   [P4D_PART_GRADS] = "gradients",
	    [P4D_PART_OPTIMIZER] = "optimizer", [P4D_PART_ACTIVATIONS] = "activations",
	    [P4D_PART_LOGITS] = "logits",       [P4D_PART_WORKING_SET] = "working set",
	    [P4D_PART_ATTENTION] = "attention", [P4D_PART_STAGING] = "staging",
	    [P4D_PART_LIBRARIES] = "libraries",
	};
	const uint64_t largest = r->host.sum > r->planned_bytes ? r->host.sum : r->planned_bytes;
	const bool large = largest >= (uint64_t)16 << 30;
	const double unit = large ? (double)(1 << 30) : (double)(1 << 20);
	p4d_text to = p4d_text_in(buf, size);

	p4d_text_print(&to, "memory of rank %-5" PRIu32 "  planned      used  (%s)\n", r->rank,
		       large ? "GiB" : "MiB");
	for (int i = 0; i < P4D_PART_COUNT; i++) {
		if (!is_there(r, i))
			continue;
		put_row(&to, label[i] ? label[i] : p4d_memory_class_name((p4d_memory_class)i), r->planned[i],
			r->used[i], unit);
		p4d_text_print(&to, "\n");
	}
	put_row(&to, "arena", r->planned_bytes, r->used_bytes, unit);
	p4d_text_print(&to, "  %.3f allocated\n", (double)r->allocated_bytes / unit);
	if (r->device_total) {
		put_row(&to, "GPU", r->planned_bytes + r->planned_reserve, r->device_bytes, unit);
		p4d_text_print(&to, "  of %.3f, by all processes\n", (double)r->device_total / unit);
	}
	if (r->host.offloaded) {
		put_row(&to, "offloaded", r->host.offloaded, P4D_NOT_MODELLED, unit);
		p4d_text_print(&to, "  on the host, allocated\n");
	}
	put_row(&to, "host", r->host.sum, r->host_peak, unit);
	p4d_text_print(&to, "  the most of any rank; %.3f of it in mapped files",
		       (double)r->host_mapped / unit);
	return buf;
}
