/* SPDX-License-Identifier: Apache-2.0 */
#include "rehearse/rehearsed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_file.h"

enum { FILE_BYTES = 16 << 20 };

static uint64_t member(struct json_object *o, const char *name)
{
	return json_object_get_uint64(json_object_object_get(o, name));
}

static unsigned names(struct json_object *o, const char *name, const char **out)
{
	struct json_object *list;
	unsigned count = 0;

	if (!json_object_object_get_ex(o, name, &list) || !json_object_is_type(list, json_type_array))
		return 0;
	for (size_t i = 0; i < json_object_array_length(list) && count < P4D_REHEARSED_NAMES; i++)
		out[count++] = json_object_get_string(json_object_array_get_idx(list, i));
	return count;
}

static void take_devices(p4d_rehearsed *r, struct json_object *report)
{
	struct json_object *list;

	if (!json_object_object_get_ex(report, "devices", &list) ||
	    !json_object_is_type(list, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *device = json_object_array_get_idx(list, i);
		uint64_t peak = member(device, "peak_bytes"), refused = member(device, "refused_bytes");
		r->device = peak > r->device ? peak : r->device;
		if (refused > r->refused) {
			r->refused = refused;
			r->held = member(device, "held_bytes");
		}
	}
}

static int read_report(p4d_rehearsed *r, const p4d_player *player, p4d_error *err)
{
	const char *list[P4D_REHEARSED_NAMES];
	char path[P4D_PLAYER_PATH];

	p4d_player__file(player, "report", r->played.rank, path, sizeof(path));
	if (access(path, R_OK))
		return 0;
	r->text = p4d_json_read(path, FILE_BYTES, err);
	if (!r->text)
		return -1;
	take_devices(r, r->text);
	r->python = member(r->text, "python");
	r->pinned = member(r->text, "pinned_bytes");
	r->managed = member(r->text, "managed_bytes");
	r->products = member(r->text, "products");
	r->flops = member(r->text, "flops");
	r->collectives = member(r->text, "collectives");
	r->collective_bytes = member(r->text, "collective_bytes");
	r->missing_count = names(r->text, "missing", r->missing);
	r->doubts_count = names(r->text, "doubts", r->doubts);
	if (names(r->text, "unvalidated", list))
		r->unvalidated = list[0];
	return 0;
}

static const char *text_of(struct json_object *o, const char *name)
{
	return json_object_get_string(json_object_object_get(o, name));
}

static void take_largest(p4d_rehearsed *r, struct json_object *list)
{
	for (size_t i = 0; i < json_object_array_length(list) && r->largest_count < P4D_REHEARSED_NAMES;
	     i++) {
		struct json_object *row = json_object_array_get_idx(list, i);
		p4d_rehearsed_largest l = {
		    .kind = text_of(row, "kind"),
		    .module = text_of(row, "module"),
		    .bytes = member(row, "bytes"),
		    .blocks = member(row, "blocks"),
		};
		if (l.kind)
			r->largest[r->largest_count++] = l;
	}
}

static void take_reads(p4d_rehearsed *r, struct json_object *list)
{
	r->unknown_reads += json_object_array_length(list);
	for (size_t i = 0; i < json_object_array_length(list) && r->read_count < P4D_REHEARSED_NAMES; i++) {
		struct json_object *row = json_object_array_get_idx(list, i);
		p4d_rehearsed_read read = {.name = text_of(row, "operator"),
					   .place = text_of(row, "place"),
					   .count = member(row, "count")};
		if (read.name && read.place)
			r->read[r->read_count++] = read;
	}
}

static bool is_of_training(const p4d_rehearsed_phase *p)
{
	return !strcmp(p->name, "forward") || !strcmp(p->name, "backward") || !strcmp(p->name, "update");
}

/* Adds a phase. If a phase repeats within a step, as with gradient accumulation, its peaks are combined. */
static void add_phase(p4d_rehearsed *r, const p4d_rehearsed_phase *p)
{
	for (unsigned i = 0; i < r->phases; i++) {
		p4d_rehearsed_phase *old = &r->phase[i];
		if (old->step != p->step || strcmp(old->name, p->name))
			continue;
		old->allocated = p->allocated > old->allocated ? p->allocated : old->allocated;
		old->reserved = p->reserved > old->reserved ? p->reserved : old->reserved;
		old->parameters = p->parameters;
		old->gradients = p->gradients;
		old->optimizer = p->optimizer;
		old->flops += p->flops;
		old->collective_bytes += p->collective_bytes;
		return;
	}
	if (r->phases < P4D_REHEARSED_PHASES)
		r->phase[r->phases++] = *p;
}

static double number(struct json_object *row, const char *name)
{
	return (double)member(row, name);
}

/* Adds a row of communication: ranks, ranks in the node, calls, bytes gathered, exchanged and transferred. */
static void add_wire(p4d_counted *w, struct json_object *row)
{
	enum { COLUMNS = 6 };
	double column[COLUMNS];
	unsigned i = 0;

	if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) < COLUMNS)
		return;
	for (unsigned c = 0; c < COLUMNS; c++)
		column[c] = json_object_get_double(json_object_array_get_idx(row, c));
	while (i < w->wires && (w->wire[i].ranks != column[0] || w->wire[i].in_node != column[1]))
		i++;
	if (i == P4D_COUNTED_WIRES)
		return;
	w->wires += i == w->wires;
	w->wire[i].ranks = column[0];
	w->wire[i].in_node = column[1];
	w->wire[i].calls += column[2];
	w->wire[i].gathered += column[3];
	w->wire[i].exchanged += column[4];
	w->wire[i].transferred += column[5];
}

/* Adds the work of a phase of the training from its row, which work.py and phases.py write. */
static void add_work(p4d_counted *w, struct json_object *row)
{
	struct json_object *wires;

	w->flops += number(row, "flops") + number(row, "grouped") + number(row, "grouped_8");
	w->flops_8 += number(row, "flops_8") + number(row, "grouped_8");
	w->flops_tf32 += number(row, "flops_tf32");
	w->flops_32 += number(row, "flops_32");
	w->depth += number(row, "depth");
	w->product_bytes += number(row, "product_bytes") + number(row, "grouped_bytes");
	w->attention_forward += number(row, "attention_forward");
	w->attention_backward += number(row, "attention_backward");
	w->cudnn_forward += number(row, "cudnn_forward");
	w->cudnn_backward += number(row, "cudnn_backward");
	w->convolutions += number(row, "convolutions");
	w->moved += number(row, "moved");
	w->lifted += number(row, "lifted");
	w->kernels += number(row, "kernels");
	w->foreign += number(row, "foreign");
	w->is_half = w->flops_tf32 + w->flops_32 < w->flops / 2;
	if (!json_object_object_get_ex(row, "wires", &wires) || !json_object_is_type(wires, json_type_array))
		return;
	for (size_t i = 0; i < json_object_array_length(wires); i++)
		add_wire(w, json_object_array_get_idx(wires, i));
}

static void take_work(p4d_rehearsed *r, struct json_object *row, const p4d_rehearsed_phase *p)
{
	if (!is_of_training(p))
		return;
	if (p->step != r->begun_step)
		r->begun = (p4d_counted){.flops = 0};
	r->begun_step = p->step;
	add_work(&r->begun, row);
	if (!strcmp(p->name, "update"))
		r->work = r->begun;
}

static void take_phase(p4d_rehearsed *r, struct json_object *row, struct json_object *name)
{
	p4d_rehearsed_phase p = {
	    .step = member(row, "step"),
	    .allocated = member(row, "allocated"),
	    .reserved = member(row, "reserved"),
	    .parameters = member(row, "parameters"),
	    .gradients = member(row, "gradients"),
	    .optimizer = member(row, "optimizer"),
	    .flops = member(row, "flops"),
	    .collective_bytes = member(row, "collective_bytes"),
	};
	snprintf(p.name, sizeof(p.name), "%s", json_object_get_string(name));
	r->updated = r->updated || !strcmp(p.name, "update");
	r->allocated = p.allocated > r->allocated ? p.allocated : r->allocated;
	r->reserved = p.reserved > r->reserved ? p.reserved : r->reserved;
	take_work(r, row, &p);
	add_phase(r, &p);
}

static void take_row(p4d_rehearsed *r, struct json_object *row)
{
	struct json_object *value;

	const char *place[P4D_REHEARSED_NAMES];

	if (!r->missing_place && names(row, "missing_places", place) && *place[0])
		r->missing_place = place[0];
	r->even_routes += member(row, "even_routes");
	r->copied += member(row, "host_copies");
	r->caught += member(row, "caught");
	if (json_object_object_get_ex(row, "unknown_reads", &value) &&
	    json_object_is_type(value, json_type_array)) {
		take_reads(r, value);
		r->followed = true;
	}
	if (json_object_object_get_ex(row, "largest", &value) && json_object_is_type(value, json_type_array))
		take_largest(r, value);
	if (json_object_object_get_ex(row, "timeline", &value) &&
	    json_object_is_type(value, json_type_object))
		r->timeline = value;
	if (json_object_object_get_ex(row, "serving", &value))
		p4d_rehearsed_serving__take(&r->serving, value);
	if (json_object_object_get_ex(row, "out_of_memory", &value))
		r->raised = !json_object_get_boolean(value);
	r->allowed += member(row, "allowed_bytes");
	if (member(row, "passes_without_optimizer"))
		r->passes = member(row, "passes_without_optimizer");
	if (!r->unseen_count)
		r->unseen_count = names(row, "unseen", r->unseen);
	if (json_object_object_get_ex(row, "phase", &value))
		take_phase(r, row, value);
}

/* Reads phases, one JSON object per line. It skips an incomplete last line, which a killed process may
 * leave. */
static int read_phases(p4d_rehearsed *r, const p4d_player *player, p4d_error *err)
{
	char path[P4D_PLAYER_PATH], *rest = NULL;
	size_t length;

	p4d_player__file(player, "phases", r->played.rank, path, sizeof(path));
	if (access(path, R_OK))
		return 0;
	char *text = p4d_text_read(path, FILE_BYTES, &length, err);
	if (!text)
		return -1;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct json_object *row = json_tokener_parse(line);
		if (row && json_object_is_type(row, json_type_object) && !json_object_array_add(r->rows, row))
			take_row(r, row);
		else
			json_object_put(row);
	}
	free(text);
	return 0;
}

int p4d_rehearsed__read(p4d_rehearsed *r, const p4d_player *player, const p4d_played *played, p4d_error *err)
{
	memset(r, 0, sizeof(*r));
	r->played = *played;
	r->rows = json_object_new_array();
	if (!r->rows)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the result of rank %" PRIu64,
				played->rank);
	return read_report(r, player, err) || read_phases(r, player, err) ? -1 : 0;
}

int p4d_rehearsed__play(p4d_rehearsed *r, const p4d_player *player, uint64_t rank, p4d_error *err)
{
	static const char *const written[] = {"report", "phases"};
	char path[P4D_PLAYER_PATH];
	p4d_played played;

	for (int i = 0; i < 2; i++) {
		p4d_player__file(player, written[i], rank, path, sizeof(path));
		unlink(path);
	}
	return p4d_player__play(player, rank, &played, err) || p4d_rehearsed__read(r, player, &played, err)
		   ? -1
		   : 0;
}

void p4d_rehearsed__free(p4d_rehearsed *r)
{
	json_object_put(r->text);
	json_object_put(r->rows);
	r->text = r->rows = NULL;
}

const p4d_rehearsed_phase *p4d_rehearsed__peak(const p4d_rehearsed *r)
{
	const p4d_rehearsed_phase *most = NULL;

	for (unsigned i = 0; i < r->phases; i++)
		if (!most || r->phase[i].reserved > most->reserved ||
		    (r->phase[i].reserved == most->reserved && r->phase[i].allocated > most->allocated))
			most = &r->phase[i];
	return most;
}

bool p4d_rehearsed__last_step(const p4d_rehearsed *r, uint64_t *flops, uint64_t *collective_bytes)
{
	uint64_t step = 0;

	*flops = *collective_bytes = 0;
	for (unsigned i = 0; i < r->phases; i++)
		if (!strcmp(r->phase[i].name, "update"))
			step = r->phase[i].step;
	for (unsigned i = 0; i < r->phases; i++)
		if (step && r->phase[i].step == step && is_of_training(&r->phase[i])) {
			*flops += r->phase[i].flops;
			*collective_bytes += r->phase[i].collective_bytes;
		}
	return step;
}

bool p4d_rehearsed__ran_out(const p4d_rehearsed *r)
{
	return (r->refused || r->allowed) && r->played.status && !r->played.timed_out && !r->raised;
}

bool p4d_rehearsed__limits_itself(const p4d_rehearsed *r)
{
	return p4d_rehearsed__ran_out(r) && !r->refused;
}

bool p4d_rehearsed__adapts(const p4d_rehearsed *r)
{
	return r->caught && !r->played.status && !r->serving.engine;
}

static p4d_rehearsed_verdict incomplete(const p4d_rehearsed *r, char *reason, size_t size)
{
	if (r->played.timed_out && r->passes && !r->updated)
		snprintf(
		    reason, size,
		    "it did not end within %.0f s; in %" PRIu64
		    " backward passes it called no torch.optim.Optimizer, whose steps p4d counts: let the "
		    "program end by itself after two steps",
		    r->played.seconds, r->passes);
	else if (r->played.timed_out)
		snprintf(reason, size, "it did not end within %.0f s", r->played.seconds);
	else if (r->serving.error)
		snprintf(reason, size, "%s: %s", r->serving.engine, r->serving.error);
	else if (r->played.status && r->missing_count && !r->unvalidated)
		snprintf(reason, size,
			 "the program ended with status %d; it called %s, which p4d does not simulate",
			 r->played.status, r->missing[0]);
	else if (r->played.status)
		snprintf(reason, size, "the program ended with status %d%s%s", r->played.status,
			 r->unvalidated ? "; " : "", r->unvalidated ? r->unvalidated : "");
	else if (!r->device)
		snprintf(reason, size, "the program used no GPU");
	else if (r->missing_count)
		snprintf(reason, size, "it called %s%s%.120s%s, which p4d does not simulate", r->missing[0],
			 r->missing_place ? " at " : "", r->missing_place ? r->missing_place : "",
			 r->missing_count > 1 ? " and others" : "");
	else
		return P4D_REHEARSED_PASS;
	return P4D_REHEARSED_INCOMPLETE;
}

p4d_rehearsed_verdict p4d_rehearsed__judge(const p4d_rehearsed *r, const p4d_gpu *gpu, char *reason,
					   size_t size)
{
	reason[0] = '\0';
	/* If a program caught the error and continued, it fits: its allocator freed cached memory and
	 * tried again. */
	if (p4d_rehearsed__limits_itself(r)) {
		snprintf(reason, size,
			 "it ran out of the %.2f GiB to which the program limits PyTorch "
			 "(torch.cuda.set_per_process_memory_fraction)",
			 p4d_to_gib(r->allowed));
		return P4D_REHEARSED_REJECT;
	}
	if (p4d_rehearsed__ran_out(r)) {
		snprintf(reason, size, "it requested %.2f GiB when %.1f of %.1f GiB were in use",
			 p4d_to_gib(r->refused), p4d_to_gib(r->held), p4d_to_gib(gpu->usable_bytes));
		return P4D_REHEARSED_REJECT;
	}
	if (r->serving.error && r->serving.short_of_memory && r->played.status && !r->played.timed_out) {
		snprintf(reason, size, "%s: %s", r->serving.engine, r->serving.error);
		return P4D_REHEARSED_REJECT;
	}
	if (incomplete(r, reason, size))
		return P4D_REHEARSED_INCOMPLETE;
	if (p4d_rehearsed_serving__is_answer(&r->serving) && !r->serving.server) {
		snprintf(reason, size,
			 "the rehearsal includes only the start of %s, not what the program does with it",
			 r->serving.engine);
		return P4D_REHEARSED_WARN;
	}
	if (r->unknown_reads) {
		snprintf(reason, size,
			 "unvalidated: the program read %" PRIu64 " values that only a GPU computes",
			 r->unknown_reads);
		return P4D_REHEARSED_WARN;
	}
	if (r->unvalidated) {
		snprintf(reason, size, "unvalidated: %s", r->unvalidated);
		return P4D_REHEARSED_WARN;
	}
	if (r->python && !r->followed) {
		snprintf(reason, size,
			 "unvalidated: Python did not load p4d's module, which tracks values that only a GPU "
			 "computes (python -I, -E or -S?)");
		return P4D_REHEARSED_WARN;
	}
	if (r->unseen_count) {
		snprintf(reason, size, "the program did not %s",
			 strcmp(r->unseen[0], "eval") ? "save" : "evaluate");
		return P4D_REHEARSED_WARN;
	}
	if (!r->updated && r->phases && !p4d_rehearsed_serving__is_answer(&r->serving)) {
		snprintf(reason, size, "no optimizer ran");
		return P4D_REHEARSED_WARN;
	}
	if (p4d_rehearsed__adapts(r)) {
		snprintf(reason, size, "it ran out of memory %" PRIu64 " time%s and continued", r->caught,
			 r->caught > 1 ? "s" : "");
		return P4D_REHEARSED_WARN;
	}
	if (r->device > gpu->usable_bytes / 100 * 95) {
		snprintf(reason, size, "above 95 %% of the GPU");
		return P4D_REHEARSED_WARN;
	}
	return P4D_REHEARSED_PASS;
}

const char *p4d_rehearsed__verdict_name(p4d_rehearsed_verdict verdict)
{
	static const char *const name[] = {"pass", "warn", "incomplete", "reject"};

	return name[verdict];
}
