/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the memory history that account.py writes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "picture/history.h"
#include "rehearse/rehearsed.h"

enum { KINDS = 16 };

typedef struct timeline {
	struct json_object *points, *phases;
	p4d_history_band band[KINDS]; /* the band for each kind in the file */
	size_t kinds;
	double context; /* bytes on the device outside of PyTorch's allocator: the CUDA context and others */
	p4d_history_moment *moment;
	p4d_history_phase *phase;
	p4d_history history;
} timeline;

static struct json_object *list(struct json_object *o, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(o, name, &value) && json_object_is_type(value, json_type_array)
		   ? value
		   : NULL;
}

static double number(struct json_object *o, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(o, name, &value) ? json_object_get_double(value) : 0;
}

/* Entry i of a row; NULL: it is no row, or it has fewer entries. */
static struct json_object *entry(struct json_object *row, size_t i)
{
	return json_object_is_type(row, json_type_array) ? json_object_array_get_idx(row, i) : NULL;
}

static void take_kinds(timeline *t, struct json_object *kinds)
{
	t->kinds = json_object_array_length(kinds);
	t->kinds = t->kinds < KINDS ? t->kinds : KINDS;
	for (size_t k = 0; k < t->kinds; k++) {
		const char *name = json_object_get_string(json_object_array_get_idx(kinds, k));
		t->band[k] = p4d_history_band_of(name ? name : "");
	}
}

static void take_moments(timeline *t)
{
	for (size_t i = 0; i < t->history.moments; i++) {
		struct json_object *point = json_object_array_get_idx(t->points, i);
		p4d_history_moment *m = &t->moment[i];
		m->event = json_object_get_double(entry(point, 0));
		m->reserved = json_object_get_double(entry(point, 1)) + t->context;
		m->band[P4D_HISTORY_CONTEXT] = t->context;
		for (size_t k = 0; k < t->kinds; k++)
			m->band[t->band[k]] += json_object_get_double(entry(point, k + 2));
	}
}

static void take_phases(timeline *t)
{
	p4d_history_phase *last = &t->phase[0];

	*last = (p4d_history_phase){.name = "load", .step = 1};
	for (size_t i = 1; i < t->history.phases; i++) {
		struct json_object *row = json_object_array_get_idx(t->phases, i - 1);
		const char *name = json_object_get_string(entry(row, 1));
		t->phase[i] = (p4d_history_phase){
		    .name = name ? name : "",
		    .step = json_object_get_uint64(entry(row, 2)),
		    .begins = json_object_get_double(entry(row, 0)),
		};
		last->ends = t->phase[i].begins;
		last = &t->phase[i];
	}
	last->ends = t->history.events;
}

/* Reads the history. False: there is none; or no memory, with err set. */
static bool take(timeline *t, const p4d_rehearsed *r, p4d_error *err)
{
	struct json_object *kinds = r->timeline ? list(r->timeline, "kinds") : NULL;

	t->points = kinds ? list(r->timeline, "points") : NULL;
	t->phases = t->points ? list(r->timeline, "phases") : NULL;
	if (!t->phases || !json_object_array_length(t->points) || number(r->timeline, "events") <= 0) {
		p4d_fail(err, P4D_E_UNMODELLED, "--svg: there is no memory history of rank %" PRIu64,
			 r->played.rank);
		return false;
	}
	t->history.moments = json_object_array_length(t->points);
	t->history.phases = json_object_array_length(t->phases) + 1;
	t->history.events = number(r->timeline, "events");
	t->history.peak = number(r->timeline, "peak");
	t->moment = calloc(t->history.moments, sizeof(*t->moment));
	t->phase = calloc(t->history.phases, sizeof(*t->phase));
	if (!t->moment || !t->phase) {
		p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu points", t->history.moments);
		return false;
	}
	take_kinds(t, kinds);
	take_moments(t);
	take_phases(t);
	return true;
}

int p4d_rehearsed__draw(const p4d_rehearsed *r, const p4d_player *player, const char *path, p4d_error *err)
{
	char title[160], subtitle[160];
	timeline t = {.context = r->device > r->reserved ? (double)(r->device - r->reserved) : 0};
	int rc = -1;

	if (take(&t, r, err)) {
		snprintf(title, sizeof(title), "%.1f of %.1f GiB on %s", p4d_to_gib(r->device),
			 p4d_to_gib(player->gpu->usable_bytes), player->gpu->label);
		snprintf(subtitle, sizeof(subtitle),
			 "Rank %" PRIu64 " of %" PRIu64
			 ", rehearsed; allocations in their order from left to right",
			 r->played.rank, p4d_player__world(player));
		t.history.title = title;
		t.history.subtitle = subtitle;
		t.history.moment = t.moment;
		t.history.phase = t.phase;
		t.history.allocated = r->allocated;
		t.history.device = r->device;
		t.history.capacity = player->gpu->usable_bytes;
		rc = p4d_history_draw(&t.history, path, err);
	}
	free(t.moment);
	free(t.phase);
	return rc;
}
