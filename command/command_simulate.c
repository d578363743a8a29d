/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "command.h"
#include "picture/pictures.h"
#include "plan/memory_played.h"
#include "report/report.h"
#include "report/table.h"
#include "request/defaults.h"
#include "request/framework.h"

typedef struct simulated {
	p4d_layout layout;
	p4d_estimate estimate;
	p4d_simulation simulation;
	p4d_timed timed;
	double safe, limit;
} simulated;

static struct json_object *stage_object(const simulated *s, uint32_t number)
{
	const p4d_simulated *stage = &s->simulation.stage[number];
	struct json_object *object = json_object_new_object(), *flight = json_object_new_object();
	const uint64_t capacity = s->estimate.capacity_bytes, bytes = stage->memory.device_bytes;

	json_object_object_add(flight, "activation", json_object_new_uint64(stage->peak.activation));
	json_object_object_add(flight, "vocabulary", json_object_new_uint64(stage->peak.vocabulary));
	json_object_object_add(object, "stage", json_object_new_uint64(number));
	json_object_object_add(object, "layers", json_object_new_uint64(s->layout.stage_layers[number]));
	json_object_object_add(object, "passes", json_object_new_uint64(stage->passes));
	json_object_object_add(object, "in_flight", flight);
	json_object_object_add(object, "busy_fraction", p4d_report_json_fraction(stage->busy));
	json_object_object_add(object, "device_bytes", p4d_report_json_bytes(bytes));
	json_object_object_add(object, "fraction",
			       capacity ? p4d_report_json_fraction((double)bytes / (double)capacity) : NULL);
	return object;
}

static int print_json(const p4d_subject *subject, const simulated *s, p4d_error *err)
{
	const p4d_simulation *of = &s->simulation;
	struct json_object *object = json_object_new_object(), *stages = json_object_new_array();

	for (uint32_t i = 0; i < of->schedule.stages; i++)
		json_object_array_add(stages, stage_object(s, i));
	json_object_object_add(object, "model", json_object_new_string(subject->model));
	json_object_object_add(object, "framework",
			       json_object_new_string(p4d_framework_of(s->layout.framework)->name));
	json_object_object_add(object, "gpu", p4d_report_json_gpu(subject->capacity.gpu));
	json_object_object_add(object, "layout", p4d_report_json_layout(&s->layout, subject->nodes));
	json_object_object_add(object, "unit", json_object_new_string(of->timed ? "seconds" : "passes"));
	json_object_object_add(object, "step_time", p4d_report_json_seconds(of->timeline.seconds));
	json_object_object_add(object, "bubble_fraction",
			       p4d_report_json_fraction(of->timeline.bubble_fraction));
	json_object_object_add(object, "step", p4d_report_json_step(&s->timed));
	json_object_object_add(object, "losses", p4d_report_json_breakdown(&s->timed));
	json_object_object_add(object, "peak", p4d_report_json_peak(&s->estimate));
	json_object_object_add(object, "stages", stages);
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(subject->messages, subject->message));
	return p4d_report_json_print(object, err);
}

static bool same(const simulated *s, uint32_t a, uint32_t b)
{
	const p4d_simulated *x = &s->simulation.stage[a], *y = &s->simulation.stage[b];

	return s->layout.stage_layers[a] == s->layout.stage_layers[b] && x->passes == y->passes &&
	       x->peak.activation == y->peak.activation && x->peak.vocabulary == y->peak.vocabulary &&
	       fabs(x->busy - y->busy) < 5e-4 && x->memory.device_bytes == y->memory.device_bytes;
}

static void add_row(p4d_table *table, const simulated *s, uint32_t first, uint32_t last)
{
	const p4d_simulation *of = &s->simulation;
	const p4d_simulated *stage = &of->stage[first];
	char size[P4D_SIZE_TEXT];

	if (first == last)
		p4d_table_cell(table, P4D_PLAIN, "%u", first);
	else
		p4d_table_cell(table, P4D_PLAIN, "%u-%u", first, last);
	p4d_table_cell(table, P4D_PLAIN, "%u", s->layout.stage_layers[first]);
	p4d_table_cell(table, P4D_PLAIN, "%" PRIu64, stage->passes);
	p4d_table_cell(table, P4D_PLAIN, "%u", stage->peak.activation);
	if (of->schedule.vocabulary != P4D_VOCAB_OFF)
		p4d_table_cell(table, P4D_PLAIN, "%u", stage->peak.vocabulary);
	p4d_table_cell(table, P4D_PLAIN, "%.1f %%", 100 * stage->busy);
	p4d_table_cell(table, P4D_PLAIN, "%s", p4d_report_gib(stage->memory.device_bytes, size));
	if (!s->estimate.capacity_bytes)
		return;
	const double fraction = (double)stage->memory.device_bytes / (double)s->estimate.capacity_bytes;
	p4d_table_cell(table,
		       fraction > s->limit  ? P4D_RED
		       : fraction > s->safe ? P4D_YELLOW
					    : P4D_GREEN,
		       "%.1f %%", 100 * fraction);
}

static int print_stages(const simulated *s, p4d_error *err)
{
	const p4d_schedule *schedule = &s->simulation.schedule;
	p4d_table table = {0};

	p4d_table_columns(&table, {"stage", P4D_LEFT}, {"layers", P4D_RIGHT}, {"passes", P4D_RIGHT},
			  {"in flight", P4D_RIGHT});
	if (schedule->vocabulary != P4D_VOCAB_OFF)
		p4d_table_column(&table, "vocab slots", P4D_RIGHT);
	p4d_table_columns(&table, {"busy", P4D_RIGHT}, {"GiB", P4D_RIGHT});
	if (s->estimate.capacity_bytes)
		p4d_table_column(&table, "fraction", P4D_RIGHT);
	for (uint32_t first = 0, stage = 1; stage <= schedule->stages; stage++) {
		if (stage < schedule->stages && same(s, first, stage))
			continue;
		add_row(&table, s, first, stage - 1);
		first = stage;
	}
	return p4d_table_print(&table, true, err);
}

static int print_text(const p4d_subject *subject, const simulated *s, p4d_error *err)
{
	const p4d_timeline *timeline = &s->simulation.timeline;
	char seconds[P4D_SIZE_TEXT];

	p4d_report_layout(subject->model, &s->layout, subject->nodes, subject->capacity.gpu,
			  s->estimate.method);
	if (s->simulation.timed)
		printf("\nBubble: %.1f %%, step time %s\n\n", 100 * timeline->bubble_fraction,
		       p4d_report_seconds(timeline->seconds, seconds));
	else
		printf("\nBubble: %.1f %%, step time %.1f passes: %s, so p4d counts the forward pass of a "
		       "chunk and each of its two gradients as 1 pass\n\n",
		       100 * timeline->bubble_fraction, timeline->seconds,
		       !p4d_on_gpu(s->layout.device) ? "no performance data for CPUs"
		       : subject->capacity.gpu       ? "no performance data for this GPU"
						     : "no GPU given");
	if (print_stages(s, err) < 0)
		return -1;
	putchar('\n');
	if (s->simulation.schedule.chunks > 1)
		printf("In flight: chunks of micro-batches whose activations the stage stores, %u chunks per "
		       "stage\n",
		       s->simulation.schedule.chunks);
	else if (s->layout.slices > 1)
		printf("In flight: slices of micro-batches whose activations the stage stores, %" PRIu64
		       " slices per micro-batch\n",
		       s->layout.slices);
	else
		puts("In flight: micro-batches whose activations the stage stores");
	if (s->timed.known)
		p4d_report_step(subject->capacity.gpu, &s->timed);
	fflush(stdout);
	p4d_report_messages(subject->messages, subject->message);
	return 0;
}

static int simulate(p4d_subject *subject, const p4d_line *line, simulated *s, p4d_error *err)
{
	const p4d_gpu *gpu;

	if (p4d_subject_open(subject, line, false, err) < 0 || p4d_subject_trains(subject, err) < 0)
		return -1;
	if (subject->method == P4D_METHOD_PAPER) {
		p4d_fail(err, P4D_E_USAGE, "the paper's formula describes one stage and no schedule");
		return p4d_fix(err, "--method=plan");
	}
	gpu = p4d_on_gpu(subject->request.value[P4D_DEVICE]) ? subject->capacity.gpu : NULL;
	p4d_request_complete(&subject->request, subject->preset.global_batch,
			     subject->nodes * subject->gpus_per_node);
	if (p4d_layout_build(&subject->request, subject->nodes, subject->gpus_per_node, &s->layout, err) < 0)
		return -1;
	p4d_cost_choose_slices(&subject->request, &s->layout, gpu);
	if (p4d_memory_estimate(&s->layout, subject->method, &subject->capacity, &s->estimate, err) < 0 ||
	    p4d_simulation_run(&s->layout, subject->method, gpu, &s->simulation, err) < 0 ||
	    p4d_report_time_step(&s->layout, gpu, &s->timed, err) < 0)
		return -1;
	p4d_memory_play(&s->layout, &subject->capacity, &s->estimate);
	s->safe = subject->policy.safe;
	p4d_subject_say_precision(subject, &subject->request);
	s->limit = p4d_site_policy_limit(&subject->policy, s->layout.framework);
	const p4d_picture picture = {line->svg, subject->model, &s->layout, subject->capacity.gpu,
				     s->safe,   s->limit};
	if (line->svg &&
	    p4d_picture_timeline(&picture, &s->simulation, (double)s->estimate.capacity_bytes, err) < 0)
		return -1;
	if (line->trace && p4d_simulation_trace(&s->simulation, line->trace, err) < 0)
		return -1;
	return (line->json ? print_json : print_text)(subject, s, err);
}

int p4d_command_simulate(const p4d_line *line, p4d_error *err)
{
	p4d_subject subject = {0};
	simulated s = {.limit = 0};
	int status = simulate(&subject, line, &s, err);

	p4d_simulation_free(&s.simulation);
	p4d_subject_close(&subject);
	return status;
}
