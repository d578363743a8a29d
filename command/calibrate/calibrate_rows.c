/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rows for p4d calibrate: predicts each, and finds the group whose margin it belongs to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "calibrate/calibrate_internal.h"
#include "plan/stage_memory.h"
#include "request/framework.h"
#include "validate/predicted_run.h"

/* From this share of a GPU on, the allocator keeps all memory that it gets. A measurement is then only an
 * upper bound. */
static const double CENSORED = 0.90;

/* Opens the site's GPUs without its margins, so that predictions are p4d's own. */
static int own_gpus(p4d_calibrate *all, p4d_error *err)
{
	const p4d_gpus *from = p4d_site_gpus(all->site);

	all->gpus = (p4d_gpus){.count = from->count, .owned = calloc(from->count, sizeof(*from->gpu))};
	if (!all->gpus.owned)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu GPUs", from->count);
	memcpy(all->gpus.owned, from->gpu, from->count * sizeof(*from->gpu));
	all->gpus.gpu = all->gpus.owned;
	for (size_t i = 0; i < from->count; i++)
		all->gpus.owned[i].margins = NULL;
	return 0;
}

static void fill_group(const p4d_calibrate *all, const p4d_layout *l, const p4d_gpu *gpu,
		       p4d_calibrate_group *g)
{
	const bool pytorch = p4d_framework_is_of_pytorch(l);
	const unsigned own = p4d_framework_of(l->framework)->fragmentation[P4D_ALLOCATOR_DEFAULT];
	const p4d_gpu *of_site = p4d_gpu_find(p4d_site_gpus(all->site), gpu->name, NULL);
	const p4d_gpu_margin *m = p4d_gpu_margin_of(of_site, l->framework, l->torch.model_code, l->precision);
	const double reserve = m ? p4d_to_gib(m->reserve_bytes) : 0,
		     share = m ? m->fragmentation / 1000.0 : 0;
	char code[32], precision[32];

	*g = (p4d_calibrate_group){.framework = l->framework,
				   .reserve_own = p4d_to_gib(p4d_memory_context_bytes()),
				   .fragmentation_own = own / 1000.0};
	g->reserve_in_force = reserve > g->reserve_own ? reserve : g->reserve_own;
	g->fragmentation_in_force = share > g->fragmentation_own ? share : g->fragmentation_own;
	snprintf(
	    g->title, sizeof(g->title), "%s/%s/%s/%s", p4d_framework_of(l->framework)->name,
	    pytorch ? p4d_request_choice_name(P4D_MODEL_CODE, l->torch.model_code, code, sizeof(code)) : "*",
	    p4d_request_choice_name(P4D_PRECISION, l->precision, precision, sizeof(precision)), gpu->name);
}

static int find_group(p4d_calibrate *all, const p4d_layout *layout, const p4d_gpu *gpu, size_t *at,
		      p4d_error *err)
{
	p4d_calibrate_group group;

	fill_group(all, layout, gpu, &group);
	for (*at = 0; *at < all->groups; ++*at)
		if (!strcmp(all->group[*at].title, group.title))
			return 0;
	if (!p4d_grow(&all->group, &all->room_groups, all->groups + 1, sizeof(group)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu groups", all->groups + 1);
	all->group[all->groups++] = group;
	return 0;
}

/* The largest measurement as a share of the GPU's usable memory. A larger value is an error of the
 * measurement. */
static const double MOST = 1.1;

static int add_row(p4d_calibrate *all, const p4d_measured *measured, p4d_error *err)
{
	const p4d_gpu *gpu = p4d_gpu_find(&all->gpus, measured->gpu, NULL);
	p4d_calibrate_row row = {.measured = *measured};
	p4d_layout layout;
	p4d_estimate e;

	if (!gpu)
		return p4d_fail(err, P4D_E_UNKNOWN_GPU, "the GPU \"%s\" is unknown", measured->gpu);
	if (p4d_predicted_run(&all->gpus, measured, &layout, &e, err) < 0 ||
	    find_group(all, &layout, gpu, &row.group, err) < 0)
		return -1;
	const p4d_policy policy = p4d_site_policy(all->site, &(p4d_site_job){.gpu = gpu->name});
	row.safe = policy.safe;
	row.limit = p4d_site_policy_limit(&policy, layout.framework);
	row.allocated = p4d_to_gib(e.peak.allocated_bytes);
	row.device = p4d_to_gib(e.peak.device_bytes);
	row.fragmentation = p4d_to_gib(e.peak.part[P4D_PART_FRAGMENTATION]);
	row.capacity = p4d_to_gib(e.capacity_bytes);
	if (!measured->oom && measured->allocated_gib > MOST * row.capacity)
		return p4d_fail(err, P4D_E_VALUE,
				"measured_gib=%.6g is more than the %.1f GiB of %s: are these MiB or bytes?",
				measured->allocated_gib, row.capacity, gpu->name);
	/* 1e9: asks without regard to the limit */
	row.fragments_freely = p4d_memory_unsure(&layout, &e, 1e9) != NULL;
	row.residual = measured->oom ? 0 : measured->allocated_gib - p4d_predicted_run_gib(measured, &e.peak);
	row.censored = !measured->oom && measured->allocated_gib >= CENSORED * row.capacity;
	if (!p4d_grow(&all->row, &all->room, all->count + 1, sizeof(row)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu rows", all->count + 1);
	all->row[all->count++] = row;
	return 0;
}

/* Adds the line number to an error about a row, if the reader of the file did not. */
static void add_place(const p4d_measured_file *file, const char *id, p4d_error *err)
{
	const p4d_error inner = *err;

	p4d_fail(err, inner.code, "%.100s:%u: %.60s: %.250s", file->name, file->line, id, inner.text);
	if (inner.fix[0])
		p4d_fix(err, "%s", inner.fix);
}

/* Records why a row is not used. -1: no memory. */
static int leave(p4d_calibrate *all, p4d_error *err)
{
	if (!all->untaken++)
		snprintf(all->first_untaken, sizeof(all->first_untaken), "%.320s", err->text);
	return err->code == P4D_E_NO_MEMORY ? -1 : 0;
}

int p4d_calibrate__read(p4d_calibrate *all, const char *name, char *text, p4d_error *err)
{
	p4d_measured_file file;
	p4d_measured measured;
	int rc;

	if (own_gpus(all, err) < 0 || p4d_measured_open(&file, name, text, err) < 0)
		return -1;
	if (file.kind != P4D_MEASURED_RUNS) {
		p4d_fail(err, P4D_E_VALUE,
			 "%.200s has no column named options, so this is not a file of p4d report --rows",
			 name);
		return p4d_fix(err, "p4d report --rows rows.csv");
	}
	while ((rc = p4d_measured_next(&file, &measured, err)) != 0) {
		if (rc > 0 && (measured.serves || (!measured.complete && !measured.oom))) {
			all->left_out++;
			continue;
		}
		const bool taken = rc > 0 && add_row(all, &measured, err) == 0;
		if (!taken && rc > 0)
			add_place(&file, measured.id, err);
		if (!taken && leave(all, err) < 0)
			return -1;
	}
	if (all->count)
		return 0;
	if (all->untaken)
		return -1;
	return p4d_fail(err, P4D_E_VALUE, "%.200s: no row of a training job has validate = 1 or oom = 1",
			name);
}

void p4d_calibrate__free(p4d_calibrate *all)
{
	free(all->gpus.owned);
	free(all->row);
	free(all->group);
}
