/* SPDX-License-Identifier: Apache-2.0 */
/* p4d validate: compares the peak memory of runs described by p4d's own options, with any framework. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/json_file.h"
#include "base/number.h"
#include "serve/serving.h"
#include "serve/serving_speed.h"
#include "plan/memory_played.h"
#include "report/report.h"
#include "request/framework.h"
#include "validate/command_validate.h"
#include "validate/predicted_run.h"

/* The fractions that apply on a site without a policy of its own (p4d.conf(5)). */
static const double safe = 0.80, limit = 0.95;

/* Errors of a class of rows, and of those rows that nobody looked at while choosing constants. */
typedef struct run_class {
	char name[16];
	unsigned count, unseen;
	double *error, *error_unseen; /* owned */
	size_t room, room_unseen;
} run_class;

typedef struct run_validation {
	const p4d_gpus *gpus;
	p4d_table table;
	struct json_object *rows;
	p4d_validate_deaths deaths;
	run_class *of; /* owned */
	size_t room;
	unsigned classes, left_out, refused;
	p4d_validate_untaken untaken;
} run_validation;

/* Quantities of an engine's speed under a load. */
static const char *const speeds[] = {"tokens_per_s", "first_ms", "between_ms"};

/* The quantity of a training run that is its step time in seconds. */
static const char step_seconds[] = "step_s";

static bool is_speed(const char *what)
{
	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
		if (!strcmp(what, speeds[i]))
			return true;
	return false;
}

static int predict_speed(const p4d_request *request, const p4d_gpu *gpu, uint64_t per_node,
			 const p4d_serving *s, const char *what, double *value, p4d_error *err)
{
	const p4d_serving_load load = p4d_serving_load_of(request);
	p4d_serving_speed speed;

	if (p4d_serving_speed_of(request, gpu, per_node, s, &load, &speed, err) < 0)
		return -1;
	*value = !strcmp(what, speeds[0])   ? speed.tokens_per_s
		 : !strcmp(what, speeds[1]) ? 1e3 * speed.first_token_s
					    : 1e3 * speed.between_tokens_s;
	return 0;
}

/* Predicts an engine's quantity `what`, and whether the engine starts. */
static int predict_serving(const run_validation *v, const p4d_measured *row, double *value, bool *starts,
			   p4d_error *err)
{
	const p4d_gpu *gpu = p4d_gpu_find(v->gpus, row->gpu, NULL);
	uint64_t nodes, per_node;
	p4d_request request;
	p4d_serving s;

	if (!gpu)
		return p4d_fail(err, P4D_E_UNKNOWN_GPU, "the GPU \"%s\" is unknown", row->gpu);
	if (p4d_predicted_run_request(v->gpus, row, &request, &nodes, &per_node, err) < 0)
		return -1;
	p4d_serving_complete(&request, gpu);
	if (p4d_serving_estimate(&request, gpu, nodes * per_node, &s, err) < 0)
		return -1;
	*starts = s.sequences > 0;
	if (is_speed(row->what))
		return predict_speed(&request, gpu, per_node, &s, row->what, value, err);
	*value = !strcmp(row->what, "weights") ? p4d_to_gib(s.weights_bytes)
		 : !strcmp(row->what, "cache") ? p4d_to_gib(s.available_bytes)
					       : (double)s.tokens;
	return 0;
}

static run_class *class_of(run_validation *v, const char *name)
{
	for (unsigned i = 0; i < v->classes; i++)
		if (!strcmp(v->of[i].name, name))
			return &v->of[i];
	if (!p4d_grow(&v->of, &v->room, v->classes + 1, sizeof(*v->of)))
		return NULL;
	v->of[v->classes] = (run_class){.count = 0};
	snprintf(v->of[v->classes].name, sizeof(v->of[0].name), "%s", name);
	return &v->of[v->classes++];
}

/* Adds an error to a class. */
static bool add_error(run_class *class, double error, bool seen)
{
	if (!class || !p4d_grow(&class->error, &class->room, class->count + 1, sizeof(error)) ||
	    !p4d_grow(&class->error_unseen, &class->room_unseen, class->unseen + 1, sizeof(error)))
		return false;
	class->error[class->count++] = error;
	if (!seen)
		class->error_unseen[class->unseen++] = error;
	return true;
}

/* Simulates the allocator in *e, as for a job. */
static const char *verdict_of(const p4d_layout *layout, p4d_estimate *e)
{
	const p4d_capacity capacity = {.gpu = e->gpu};

	p4d_memory_play(layout, &capacity, e);
	const double own = p4d_framework_of(layout->framework)->limit;

	return !e->gpu                                 ? "-"
	       : e->fraction > (own > 0 ? own : limit) ? "refuse"
	       : e->fraction > safe                    ? "warn"
						       : "pass";
}

static struct json_object *json_of(const p4d_measured *row, const char *verdict, double fraction)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "row", json_object_new_string(row->id));
	json_object_object_add(object, "class", json_object_new_string(row->class));
	json_object_object_add(object, "gpu", json_object_new_string(row->gpu));
	json_object_object_add(object, "verdict", json_object_new_string(verdict));
	json_object_object_add(object, "fraction", json_object_new_double(fraction));
	return object;
}

/* Adds a prediction and its measurement to its class, to the table and to the rows. */
static int add_value(run_validation *v, const p4d_measured *row, double value, const char *verdict,
		     double fraction, p4d_error *err)
{
	const double error = value / row->allocated_gib - 1;
	const int digits = strncmp(row->what, "tokens", strlen("tokens")) ? 2 : 0;

	if (!add_error(class_of(v, row->class), fabs(error), row->seen))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for row %s", row->id);
	v->refused += !strcmp(verdict, "refuse") || !strcmp(verdict, "does not start");
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->id);
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->class);
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->gpu);
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", row->what);
	p4d_table_cell(&v->table, P4D_PLAIN, "%.*f", digits, row->allocated_gib);
	p4d_table_cell(&v->table, P4D_PLAIN, "%.*f", digits, value);
	p4d_table_cell(&v->table, P4D_PLAIN, "%+.1f %%", 100 * error);
	p4d_table_cell(&v->table, P4D_PLAIN, "%s", verdict);
	struct json_object *object = json_of(row, verdict, fraction);
	json_object_object_add(object, "what", json_object_new_string(row->what));
	const bool gib = !row->serves && strcmp(row->what, step_seconds) != 0;
	json_object_object_add(object, gib ? "measured_gib" : "measured",
			       json_object_new_double(row->allocated_gib));
	json_object_object_add(object, gib ? "predicted_gib" : "predicted", json_object_new_double(value));
	json_object_object_add(object, "seen", json_object_new_boolean(row->seen));
	json_object_array_add(v->rows, object);
	return 0;
}

/* Predicts the seconds of a training step; the run's memory is not judged. */
static int predict_step(const run_validation *v, const p4d_measured *row, double *seconds, p4d_error *err)
{
	p4d_timeline_work work = {0};
	p4d_estimate e;
	p4d_layout layout;
	p4d_step step;

	if (p4d_predicted_run(v->gpus, row, &layout, &e, err) < 0)
		return -1;
	if (!e.gpu)
		return p4d_fail(err, P4D_E_UNKNOWN_GPU, "the GPU \"%s\" is unknown", row->gpu);
	const int rc = p4d_cost_step(&layout, e.gpu, &work, &step, err);
	p4d_timeline_work_free(&work);
	*seconds = rc < 0 ? 0 : step.seconds;
	return rc;
}

static int add_row(run_validation *v, const p4d_measured *row, p4d_error *err)
{
	p4d_estimate e;
	p4d_layout layout;
	p4d_error cause;
	double value = 0;
	bool starts = false;

	if (!strcmp(row->what, step_seconds)) {
		if (predict_step(v, row, &value, &cause) < 0)
			return p4d_fail(err, cause.code, "%s: %.400s", row->id, cause.text);
		return add_value(v, row, value, "-", 0, err);
	}

	if ((row->serves ? predict_serving(v, row, &value, &starts, &cause)
			 : p4d_predicted_run(v->gpus, row, &layout, &e, &cause)) < 0)
		return p4d_fail(err, cause.code, "%s: %.400s", row->id, cause.text);
	if (row->serves)
		return add_value(v, row, value, starts ? "starts" : "does not start", 0, err);
	value = p4d_predicted_run_gib(row, &e.peak);
	const char *verdict = verdict_of(&layout, &e);
	return add_value(v, row, value, verdict, e.fraction, err);
}

/* Compares a run that ran out of memory. */
static int add_death(run_validation *v, const p4d_measured *row, p4d_error *err)
{
	p4d_estimate e;
	p4d_layout layout;
	p4d_error cause;

	if (p4d_predicted_run(v->gpus, row, &layout, &e, &cause) < 0)
		return p4d_fail(err, cause.code, "%s: %.400s", row->id, cause.text);
	const char *verdict = verdict_of(&layout, &e);
	json_object_array_add(v->deaths.rows, json_of(row, verdict, e.fraction));
	v->deaths.judged++;
	v->deaths.passed += !strcmp(verdict, "pass") || !strcmp(verdict, "-");
	p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s", row->id);
	p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s", row->gpu);
	p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%.1f %%", 100 * e.fraction);
	p4d_table_cell(&v->deaths.table, P4D_PLAIN, "%s", verdict);
	return 0;
}

typedef struct summary {
	double mean, median, worst;
} summary;

static summary summary_of(double *error, unsigned count)
{
	summary s = {0, 0, 0};

	if (!count)
		return s;
	qsort(error, count, sizeof(*error), p4d_number_order);
	for (unsigned i = 0; i < count; i++)
		s.mean += error[i] / count;
	s.median = (error[(count - 1) / 2] + error[count / 2]) / 2;
	s.worst = error[count - 1];
	return s;
}

static struct json_object *json_summary(double *error, unsigned count)
{
	struct json_object *object = json_object_new_object();
	const summary s = summary_of(error, count);

	json_object_object_add(object, "rows", json_object_new_int64(count));
	json_object_object_add(object, "mean_absolute_error", json_object_new_double(s.mean));
	json_object_object_add(object, "median_absolute_error", json_object_new_double(s.median));
	json_object_object_add(object, "worst_error", json_object_new_double(s.worst));
	return object;
}

static int print_json(run_validation *v, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *classes = json_object_new_object();

	for (unsigned i = 0; i < v->classes; i++) {
		run_class *c = &v->of[i];
		struct json_object *all = json_summary(c->error, c->count);
		json_object_object_add(all, "unseen", json_summary(c->error_unseen, c->unseen));
		json_object_object_add(classes, c->name, all);
	}
	json_object_object_add(object, "rows", json_object_get(v->rows));
	json_object_object_add(object, "classes", classes);
	json_object_object_add(object, "refused_though_they_ran", json_object_new_int64(v->refused));
	p4d_validate__add_deaths(object, &v->deaths);
	json_object_object_add(object, "left_out", json_object_new_int64(v->left_out));
	p4d_validate__add_untaken(object, &v->untaken);
	return p4d_report_json_print(object, err);
}

static int print_text(run_validation *v, p4d_error *err)
{
	puts("GiB, peak of the fullest rank (serving: of every GPU; tokens: of the cache; step_s: seconds):");
	if (p4d_table_print(&v->table, true, err) < 0)
		return -1;
	puts("");
	for (unsigned i = 0; i < v->classes; i++) {
		run_class *c = &v->of[i];
		const summary all = summary_of(c->error, c->count),
			      unseen = summary_of(c->error_unseen, c->unseen);
		printf("%s: mean absolute error %.1f %%, median %.1f %%, worst %.1f %% over %u rows; %.1f "
		       "%%, %.1f %%, %.1f %% over the %u rows with which no constant was chosen\n",
		       c->name, 100 * all.mean, 100 * all.median, 100 * all.worst, c->count,
		       100 * unseen.mean, 100 * unseen.median, 100 * unseen.worst, c->unseen);
	}
	printf("runs that succeeded, but that p4d would refuse: %u; %u rows left out (the notes of these "
	       "rows say why)\n",
	       v->refused, v->left_out);
	if (p4d_validate__print_deaths(&v->deaths, "", err) < 0)
		return -1;
	p4d_validate__print_untaken(&v->untaken);
	return 0;
}

static int read_rows(run_validation *v, p4d_measured_file *file, p4d_error *err)
{
	p4d_measured row;
	int rc;

	while ((rc = p4d_measured_next(file, &row, err)) != 0) {
		if (rc > 0 && !row.complete && !row.oom)
			v->left_out++;
		else if ((rc < 0 || (row.oom ? add_death : add_row)(v, &row, err) < 0) &&
			 p4d_validate__leave(&v->untaken, file, rc < 0 ? "" : row.id, err) < 0)
			return -1;
	}
	return v->untaken.count && !v->classes && !v->deaths.judged
		   ? p4d_validate__none_taken(&v->untaken, err)
		   : 0;
}

static void free_classes(run_validation *v)
{
	for (unsigned i = 0; i < v->classes; i++) {
		free(v->of[i].error);
		free(v->of[i].error_unseen);
	}
	free(v->of);
}

int p4d_validate__runs(p4d_measured_file *file, const p4d_gpus *gpus, bool json, p4d_error *err)
{
	static const char *const words[] = {"run", "class", "gpu", "what"}, *const numbers[] = {
										"measured", "predicted",
										"error", "verdict"};
	run_validation *v = calloc(1, sizeof(*v));

	if (!v)
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for the rows");
	v->gpus = gpus;
	v->rows = json_object_new_array();
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		p4d_table_column(&v->table, words[i], P4D_LEFT);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		p4d_table_column(&v->table, numbers[i], i < 3 ? P4D_RIGHT : P4D_LEFT);
	p4d_validate__begin_deaths(&v->deaths);
	int rc = read_rows(v, file, err);
	if (rc == 0)
		rc = (json ? print_json : print_text)(v, err);
	p4d_table_free(&v->table);
	json_object_put(v->rows);
	p4d_validate__free_deaths(&v->deaths);
	p4d_validate__free_untaken(&v->untaken);
	free_classes(v);
	free(v);
	return rc;
}
