/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <stdio.h>

#include "rehearse/rehearse_answer.h"

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
	return o;
}

static struct json_object *strings(const char *const *text, unsigned count)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < count; i++)
		json_object_array_add(list, json_object_new_string(text[i]));
	return list;
}

static struct json_object *rank_object(const p4d_rehearsed *r)
{
	struct json_object *o = json_object_new_object(), *peak = json_object_new_object();
	struct json_object *phases = json_object_new_array(), *host = json_object_new_object();
	const p4d_rehearsed_phase *most = p4d_rehearsed__peak(r);

	add_bytes(o, "rank", r->played.rank);
	add_bytes(o, "exit", (uint64_t)r->played.status);
	add(o, "seconds", json_object_new_double(r->played.seconds));
	add_bytes(peak, "allocated_bytes", r->allocated);
	add_bytes(peak, "reserved_bytes", r->reserved);
	add_bytes(peak, "device_bytes", r->device);
	add(peak, "phase", most ? json_object_new_string(most->name) : NULL);
	add(o, "peak", peak);
	if (r->refused)
		add_bytes(o, "refused_bytes", r->refused);
	for (unsigned i = 0; i < r->phases; i++)
		json_object_array_add(phases, phase_object(&r->phase[i]));
	add(o, "phases", phases);
	add_bytes(host, "resident_bytes", r->played.resident_bytes);
	add_bytes(host, "pinned_bytes", r->pinned);
	add_bytes(host, "managed_bytes", r->managed);
	add(o, "host", host);
	add_bytes(o, "flops", r->flops);
	add_bytes(o, "collective_bytes", r->collective_bytes);
	add_bytes(o, "unknown_reads", r->unknown_reads);
	add(o, "not_played", strings(r->missing, r->missing_count));
	add(o, "doubts", strings(r->doubts, r->doubts_count));
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
		json_object_array_add(ranks, rank_object(&a->rehearsed[i]));
	add(o, "ranks", ranks);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
	json_object_put(o);
	return p4d_rehearse__status(verdict);
}
