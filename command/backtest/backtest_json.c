/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as JSON, as p4d-json(5) describes it. */
#include <stdio.h>

#include "backtest/backtest.h"
#include "base/text.h"
#include "report/report.h"

static struct json_object *cell_object(const p4d_backtest_cell *cell)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "jobs", json_object_new_uint64(cell->jobs));
	json_object_object_add(object, "gpu_hours", p4d_report_json_seconds(cell->gpu_hours));
	return object;
}

static struct json_object *ends_object(const p4d_backtest *b)
{
	struct json_object *ends = json_object_new_object();

	for (int end = 0; end < P4D_BACKTEST_ENDS; end++) {
		struct json_object *verdicts = json_object_new_object();
		for (int verdict = 0; verdict < P4D_BACKTEST_VERDICTS; verdict++)
			json_object_object_add(verdicts, p4d_backtest__verdict_names[verdict],
					       cell_object(&b->cell[end][verdict]));
		json_object_object_add(ends, p4d_backtest_end_names[end], verdicts);
	}
	return ends;
}

static struct json_object *text_object(const char *text)
{
	char buf[2048];
	p4d_text escaped = p4d_text_in(buf, sizeof(buf));

	p4d_text_escaped(&escaped, text);
	return *buf ? json_object_new_string(buf) : NULL;
}

static struct json_object *groups_array(const p4d_backtest_group *groups, unsigned count)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = 0; i < count; i++) {
		const p4d_backtest_row *row = groups[i].row;
		const p4d_backtest_result *r = row->result;
		struct json_object *object = cell_object(&groups[i].cell);
		json_object_object_add(object, "job", json_object_new_string(row->job->id));
		json_object_object_add(object, "script", text_object(r->place));
		json_object_object_add(object, "directory", text_object(row->job->work_dir));
		json_object_object_add(object, "model", text_object(r->model));
		json_object_object_add(object, "code", r->code ? json_object_new_int((int)r->code) : NULL);
		json_object_object_add(object, "message", text_object(r->text));
		json_object_object_add(object, "needed_bytes",
				       r->need_bytes ? json_object_new_uint64(r->need_bytes) : NULL);
		json_object_object_add(object, "capacity_bytes",
				       r->capacity_bytes ? json_object_new_uint64(r->capacity_bytes) : NULL);
		json_object_object_add(object, "measured_bytes",
				       row->measured_bytes ? json_object_new_uint64(row->measured_bytes)
							   : NULL);
		json_object_object_add(object, "measured_is_mean",
				       json_object_new_boolean(row->measured == P4D_MEASURED_MEAN));
		json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *stages_object(const p4d_backtest *b)
{
	static const char *const names[P4D_BACKTEST_STAGES] = {"gpu_jobs", "script_stored", "training_known",
							       "read_whole", "judged"};
	struct json_object *object = json_object_new_object();

	for (int stage = 0; stage < P4D_BACKTEST_STAGES; stage++)
		json_object_object_add(object, names[stage], cell_object(&b->stage[stage]));
	return object;
}

static struct json_object *reasons_array(const p4d_backtest *b)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = 0; i < b->reasons; i++) {
		struct json_object *object = cell_object(&b->reason[i].cell);
		json_object_object_add(object, "reason", json_object_new_string(b->reason[i].text));
		json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *limits_array(const p4d_backtest *b)
{
	struct json_object *array = json_object_new_array();

	for (int i = 0; i < P4D_BACKTEST_LIMITS; i++) {
		struct json_object *object = json_object_new_object(), *caught = json_object_new_object();
		json_object_object_add(object, "limit", p4d_report_json_fraction(p4d_backtest__limits[i]));
		json_object_object_add(object, "refused_but_ran", cell_object(&b->at[i].ran));
		for (int end = 0; end < P4D_BACKTEST_ENDS; end++)
			if (p4d_backtest_is_death((p4d_backtest_end)end))
				json_object_object_add(caught, p4d_backtest_end_names[end],
						       cell_object(&b->at[i].caught[end]));
		json_object_object_add(object, "caught", caught);
		json_object_array_add(array, object);
	}
	return array;
}

int p4d_backtest__print_json(const p4d_backtest *b, p4d_error *err)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "file", text_object(p4d_site_path(b->site)));
	json_object_object_add(object, "since", json_object_new_string(b->since));
	json_object_object_add(object, "output_read", json_object_new_boolean(b->read_output));
	json_object_object_add(object, "jobs", json_object_new_uint64(b->rows));
	json_object_object_add(object, "not_ended", json_object_new_uint64(b->running));
	json_object_object_add(object, "scripts", json_object_new_uint64(b->scripts));
	json_object_object_add(object, "files_changed", json_object_new_uint64(b->changed));
	json_object_object_add(object, "ends", ends_object(b));
	json_object_object_add(object, "refused_but_ran", groups_array(b->ran, b->rans));
	json_object_object_add(object, "passed_but_died", groups_array(b->died, b->dieds));
	json_object_object_add(object, "stages", stages_object(b));
	json_object_object_add(object, "not_judged", reasons_array(b));
	json_object_object_add(object, "limits", b->strict ? limits_array(b) : NULL);
	return p4d_report_json_print(object, err);
}
