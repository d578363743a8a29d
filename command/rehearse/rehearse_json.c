/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <stdio.h>

#include "rehearse/rehearse_answer.h"
#include "rehearse/rehearse_step.h"

static void add(struct json_object *to, const char *name, struct json_object *value)
{
	json_object_object_add(to, name, value);
}

static void add_bytes(struct json_object *to, const char *name, uint64_t bytes)
{
	add(to, name, json_object_new_uint64(bytes));
}

static struct json_object *phase_object(const p4d_rehearsed_phase *p)
{
	struct json_object *o = json_object_new_object();

	add(o, "phase", json_object_new_string(p->name));
	add_bytes(o, "step", p->step);
	add_bytes(o, "allocated_bytes", p->allocated);
	add_bytes(o, "reserved_bytes", p->reserved);
	add_bytes(o, "parameters_bytes", p->parameters);
	add_bytes(o, "gradients_bytes", p->gradients);
	add_bytes(o, "optimizer_bytes", p->optimizer);
	add_bytes(o, "flops", p->flops);
	add_bytes(o, "collective_bytes", p->collective_bytes);
	return o;
}

static struct json_object *strings(const char *const *text, unsigned count)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++)
		json_object_array_add(list, json_object_new_string(text[i]));
	return list;
}

static struct json_object *peak_object(const p4d_rehearsed *r)
{
	struct json_object *peak = json_object_new_object();
	const p4d_rehearsed_phase *most = p4d_rehearsed__peak(r);

	add_bytes(peak, "allocated_bytes", r->allocated);
	add_bytes(peak, "reserved_bytes", r->reserved);
	add_bytes(peak, "device_bytes", r->device);
	add(peak, "phase", most ? json_object_new_string(most->name) : NULL);
	return peak;
}

static struct json_object *largest_list(const p4d_rehearsed *r)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < r->largest_count; i++) {
		struct json_object *o = json_object_new_object();
		add(o, "kind", json_object_new_string(r->largest[i].kind));
		add(o, "module", r->largest[i].module ? json_object_new_string(r->largest[i].module) : NULL);
		add_bytes(o, "bytes", r->largest[i].bytes);
		add_bytes(o, "blocks", r->largest[i].blocks);
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *rank_object(const p4d_rehearse_answer *a, const p4d_rehearsed *r)
{
	struct json_object *o = json_object_new_object();
	struct json_object *phases = json_object_new_array(), *host = json_object_new_object();

	add_bytes(o, "rank", r->played.rank);
	add_bytes(o, "exit", (uint64_t)r->played.status);
	add(o, "seconds", json_object_new_double(r->played.seconds));
	add(o, "peak", peak_object(r));
	add_bytes(o, "caught", r->caught);
	if (r->refused)
		add_bytes(o, "refused_bytes", r->refused);
	for (unsigned i = 0; i < r->phases; i++)
		json_object_array_add(phases, phase_object(&r->phase[i]));
	add(o, "phases", phases);
	add(o, "largest", largest_list(r));
	add(o, "serving", p4d_rehearsed_serving__json(&r->serving));
	add(o, "step", p4d_rehearse_step__json(a, r));
	add_bytes(host, "resident_bytes", r->played.resident_bytes);
	add_bytes(host, "pinned_bytes", r->pinned);
	add_bytes(host, "managed_bytes", r->managed);
	add_bytes(host, "copied_bytes", r->copied);
	add(o, "host", host);
	add_bytes(o, "flops", r->flops);
	add_bytes(o, "collective_bytes", r->collective_bytes);
	add_bytes(o, "unknown_reads", r->unknown_reads);
	add(o, "not_played", strings(r->missing, r->missing_count));
	add(o, "not_seen", strings(r->unseen, r->unseen_count));
	add(o, "doubts", strings(r->doubts, r->doubts_count));
	return o;
}

static struct json_object *fit_list(const p4d_rehearse_fits *fits)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < fits->count; i++) {
		const p4d_rehearse_fit *fit = &fits->fit[i];
		struct json_object *o = json_object_new_object();
		add(o, "gpu", json_object_new_string(fit->gpu->name));
		add_bytes(o, "usable_bytes", fit->gpu->usable_bytes);
		add_bytes(o, "device_bytes", fit->device);
		add(o, "fits",
		    fit->state == P4D_REHEARSE_FITS_PERHAPS
			? NULL
			: json_object_new_boolean(fit->state == P4D_REHEARSE_FITS));
		add(o, "rehearsed", json_object_new_boolean(fit->rehearsed));
		add(o, "partitions", json_object_new_string(fit->partitions));
		json_object_array_add(list, o);
	}
	return list;
}

/* The memory that was missing; NULL (null): nothing was missing, or it is unknown. */
static struct json_object *excess(const p4d_rehearse_answer *a)
{
	const p4d_rehearsed *roomy = &a->fits->roomy;
	const uint64_t usable = a->player->gpu->usable_bytes;

	return roomy->text && !roomy->played.status && roomy->device > usable
		   ? json_object_new_uint64(roomy->device - usable)
		   : NULL;
}

static struct json_object *host_object(const p4d_rehearse_answer *a)
{
	struct json_object *o = json_object_new_object();

	add_bytes(o, "node_bytes", p4d_rehearse__node_host(a));
	add(o, "job_bytes", a->host_bytes ? json_object_new_uint64(a->host_bytes) : NULL);
	return o;
}

/* The doubts of all ranks; each doubt once. */
static struct json_object *all_doubts(const p4d_rehearse_answer *a)
{
	struct json_object *all = json_object_new_object(), *list = json_object_new_array();

	for (unsigned i = 0; i < a->count; i++)
		for (unsigned k = 0; k < a->rehearsed[i].doubts_count; k++)
			add(all, a->rehearsed[i].doubts[k], NULL);
	json_object_object_foreach(all, doubt, none)
	{
		(void)none;
		json_object_array_add(list, json_object_new_string(doubt));
	}
	json_object_put(all);
	return list;
}

/* The prediction of p4d's formulas, next to the rehearsal; NULL (null): they do not cover the program. */
static struct json_object *estimate_object(const p4d_rehearse_answer *a, const p4d_rehearsed *worst)
{
	const p4d_rehearsed *r = a->fits->roomy.text ? &a->fits->roomy : worst;

	const p4d_rehearse_estimate *e = &a->estimate;
	const bool serves = e->cache_bytes && r->serving.cache;

	if (!serves && (!e->device_bytes || !r->device))
		return NULL;
	struct json_object *o = json_object_new_object();
	const uint64_t bytes = serves ? e->cache_bytes : e->device_bytes,
		       of = serves ? r->serving.cache : r->device;
	add_bytes(o, serves ? "cache_bytes" : "device_bytes", bytes);
	if (serves)
		add_bytes(o, "cache_tokens", e->cache_tokens);
	if (!serves)
		add(o, "step_seconds", e->seconds > 0 ? json_object_new_double(e->seconds) : NULL);
	add(o, "difference", json_object_new_double((double)bytes / (double)of - 1));
	return o;
}

/* NULL (null): no search was requested, or nothing is known. */
static struct json_object *micro_batch_object(const p4d_micro_batch *m)
{
	struct json_object *o, *tried;

	if (!m->option || !m->tries)
		return NULL;
	o = json_object_new_object();
	tried = json_object_new_array();
	add(o, "option", json_object_new_string(m->option));
	add(o, "largest", m->largest ? json_object_new_uint64(m->largest) : NULL);
	add(o, "sure", json_object_new_boolean(m->sure));
	for (unsigned i = 0; i < m->tries; i++) {
		struct json_object *t = json_object_new_object();
		add_bytes(t, "value", m->tried[i].value);
		add(t, "fits", json_object_new_boolean(m->tried[i].fits));
		add_bytes(t, "device_bytes", m->tried[i].device);
		json_object_array_add(tried, t);
	}
	add(o, "tried", tried);
	return o;
}

int p4d_rehearse__print_json(const p4d_rehearse_answer *a)
{
	const p4d_rehearsed *worst;
	char reason[P4D_REHEARSE_REASON];
	p4d_rehearsed_verdict verdict = p4d_rehearse__judge(a, &worst, reason);
	struct json_object *o = json_object_new_object(), *ranks = json_object_new_array();

	add_bytes(o, "schema", 1);
	add(o, "verdict", json_object_new_string(p4d_rehearsed__verdict_name(verdict)));
	add(o, "reason", *reason ? json_object_new_string(reason) : NULL);
	add(o, "gpu", json_object_new_string(a->player->gpu->name));
	add_bytes(o, "usable_bytes", a->player->gpu->usable_bytes);
	add_bytes(o, "nodes", a->player->nodes);
	add_bytes(o, "gpus_per_node", a->player->gpus_per_node);
	for (unsigned i = 0; i < a->count; i++)
		json_object_array_add(ranks, rank_object(a, &a->rehearsed[i]));
	add(o, "ranks", ranks);
	add(o, "excess_bytes", excess(a));
	add(o, "host", host_object(a));
	add(o, "fits", fit_list(a->fits));
	add(o, "estimate", estimate_object(a, worst));
	add(o, "micro_batch", micro_batch_object(a->micro_batch));
	add(o, "doubts", all_doubts(a));
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
	json_object_put(o);
	return p4d_rehearse__status(verdict);
}
