/* SPDX-License-Identifier: Apache-2.0 */
#include "run/memory_report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "plan/plan.h"

/* The arena of this rank, its plan, and whether the device gave just that. */
static int fill(p4d_memory_report *r, const p4d_job_plan *plan, const p4d_trainer *trainer,
		p4d_device *device, p4d_error *err)
{
	const uint32_t stage = p4d_trainer_place(trainer).pp;
	p4d_stage planned;

	if (p4d_plan_bytes(&plan->layout, plan->gpu, stage, &r->planned_bytes, err) < 0)
		return -1;
	r->allocated_bytes = device->allocated_bytes;
	if (r->planned_bytes != r->allocated_bytes)
		return p4d_fail(err, P4D_E_PLAN_CHANGED,
				"the plan has %" PRIu64 " bytes, the device gave %" PRIu64, r->planned_bytes,
				r->allocated_bytes);
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
	r->host = p4d_memory_host_of_rank(&plan->layout, stage, r->planned_bytes);
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
	/* of those with the largest arena the first; numbers below 2^53 are exact */
	double first = (double)r.allocated_bytes == most[0] ? -(double)r.rank : -(double)p4d_group_size(all);
	if (p4d_comm_all_reduce(all, &first, 1, P4D_DT_FP64, P4D_MAX, err) < 0 ||
	    p4d_comm_broadcast(all, &r, sizeof(r), (uint32_t)-first, err) < 0)
		return -1;
	r.host_peak = (uint64_t)most[1];
	r.host_mapped = (uint64_t)most[2];
	*report = r;
	return 0;
}

/* Text under construction; what does not fit is cut off. */
typedef struct text {
	char *at;
	size_t left;
} text;

static void put(text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(text *to, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int length = vsnprintf(to->at, to->left, format, args);
	va_end(args);
	size_t some = length < 0 ? 0 : (size_t)length < to->left ? (size_t)length : to->left - 1;
	to->at += some;
	to->left -= some;
}

static bool is_there(const p4d_memory_report *r, int part)
{
	return r->planned[part] || (r->used[part] && r->used[part] != P4D_NOT_MODELLED);
}

/* As JSON. */
static void put_bytes(text *to, const char *name, uint64_t bytes)
{
	if (bytes == P4D_NOT_MODELLED)
		put(to, "\"%s\":null", name);
	else
		put(to, "\"%s\":%" PRIu64, name, bytes);
}

static void put_parts(text *to, const p4d_memory_report *r, const char *name,
		      const uint64_t part[P4D_PART_COUNT])
{
	const char *comma = "";

	put(to, "\"%s\":{", name);
	for (int i = 0; i < P4D_PART_COUNT; i++) {
		if (!is_there(r, i))
			continue;
		put(to, "%s", comma);
		put_bytes(to, p4d_memory_class_name((p4d_memory_class)i), part[i]);
		comma = ",";
	}
	put(to, "},");
}

const char *p4d_memory_report_json(const p4d_memory_report *r, char *buf, size_t size)
{
	const struct {
		const char *name;
		uint64_t bytes;
	} sums[] = {
	    {"planned_bytes", r->planned_bytes},
	    {"allocated_bytes", r->allocated_bytes},
	    {"used_bytes", r->used_bytes},
	    {"host_planned_bytes", r->host.sum},
	    {"host_saving_bytes", r->host.saving},
	    {"host_loading_bytes", r->host.loading},
	    {"host_peak_bytes", r->host_peak},
	    {"host_mapped_bytes", r->host_mapped},
	    {"reserve_planned_bytes", r->planned_reserve},
	    {"device_bytes", r->device_bytes},
	    {"device_total_bytes", r->device_total},
	};
	text to = {buf, size};

	put_parts(&to, r, "planned", r->planned);
	put_parts(&to, r, "used", r->used);
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
		put_bytes(&to, sums[i].name, sums[i].bytes);
		put(&to, ",");
	}
	put(&to, "\"rank\":%" PRIu32, r->rank);
	return buf;
}

/* A line of the table but for its end. */
static void put_row(text *to, const char *name, uint64_t planned, uint64_t used, double unit)
{
	put(to, "%-18s%11.3f", name, (double)planned / unit);
	if (used == P4D_NOT_MODELLED)
		put(to, "%10s", "-");
	else
		put(to, "%10.3f", (double)used / unit);
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
	text to = {buf, size};

	put(&to, "memory of rank %-5" PRIu32 "  planned      used  (%s)\n", r->rank, large ? "GiB" : "MiB");
	for (int i = 0; i < P4D_PART_COUNT; i++) {
		if (!is_there(r, i))
			continue;
		put_row(&to, label[i] ? label[i] : p4d_memory_class_name((p4d_memory_class)i), r->planned[i],
			r->used[i], unit);
		put(&to, "\n");
	}
	put_row(&to, "arena", r->planned_bytes, r->used_bytes, unit);
	put(&to, "  %.3f were allocated\n", (double)r->allocated_bytes / unit);
	if (r->device_total) {
		put_row(&to, "GPU", r->planned_bytes + r->planned_reserve, r->device_bytes, unit);
		put(&to, "  of %.3f, by whomever\n", (double)r->device_total / unit);
	}
	put_row(&to, "host", r->host.sum, r->host_peak, unit);
	put(&to, "  of any rank; %.3f are files", (double)r->host_mapped / unit);
	return buf;
}
