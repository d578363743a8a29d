/* SPDX-License-Identifier: Apache-2.0 */
#include "plot/training_log.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/json_file.h"

/* The members of a line that are drawn, by the line's event. */
static const struct {
	const char *event, *member;
	p4d_log_kind kind;
	double unit;
} values[] = {
    {"step", "loss", P4D_LOG_LOSS, 1},
    {"step", "tokens_per_second", P4D_LOG_SPEED, 1},
    {"step", "memory_bytes", P4D_LOG_MEMORY, 1.0 / (1 << 30)},
    {"validation", "loss", P4D_LOG_VALIDATION, 1},
};

static p4d_log_curve *find_curve(p4d_training_log *log, p4d_log_kind kind, const char *name)
{
	for (size_t i = 0; i < log->curves; i++)
		if (log->curve[i].kind == kind && !strcmp(log->curve[i].name, name))
			return &log->curve[i];
	p4d_log_curve *more = reallocarray(log->curve, log->curves + 1, sizeof(*more));
	if (!more)
		return NULL;
	log->curve = more;
	more[log->curves] = (p4d_log_curve){.kind = kind};
	snprintf(more[log->curves].name, sizeof(more->name), "%s", name);
	return &more[log->curves++];
}

/* Removes the points of later steps, because the run went back to this step. */
static void go_back(p4d_log_curve *curve, double step)
{
	while (curve->count && curve->point[curve->count - 1].x > step)
		curve->count--;
}

static int add_point(p4d_training_log *log, p4d_log_kind kind, const char *name, p4d_chart_point point,
		     p4d_error *err)
{
	p4d_log_curve *curve = find_curve(log, kind, name);

	if (!curve || !p4d_grow(&curve->point, &curve->room, curve->count + 1, sizeof(*curve->point)))
		return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for %zu curves", log->curves);
	go_back(curve, point.x - 0.5);
	curve->point[curve->count++] = point;
	return 0;
}

static int read_event(p4d_training_log *log, struct json_object *line, p4d_error *err)
{
	char event[32] = "", name[64] = "";
	int64_t step = -1, resumed = -1;

	if (p4d_json_string(line, "event", event, sizeof(event), err) < 0 ||
	    p4d_json_integer(line, "step", 0, INT64_MAX, &step, err) < 0 ||
	    p4d_json_integer(line, "resumed_step", 0, INT64_MAX, &resumed, err) < 0 ||
	    (!strcmp(event, "validation") && p4d_json_string(line, "name", name, sizeof(name), err) < 0))
		return -1;
	if (!event[0])
		return p4d_fail(err, P4D_E_JSON, "lacks \"event\", which every line of --log has");
	for (size_t i = 0; resumed >= 0 && i < log->curves; i++)
		go_back(&log->curve[i], (double)resumed);
	for (size_t i = 0; step >= 0 && i < sizeof(values) / sizeof(*values); i++) {
		double value = NAN;
		if (strcmp(event, values[i].event) != 0)
			continue;
		if (p4d_json_number(line, values[i].member, -INFINITY, INFINITY, &value, err) < 0)
			return -1;
		if (isfinite(value) &&
		    add_point(log, values[i].kind, name,
			      (p4d_chart_point){(double)step, value * values[i].unit}, err) < 0)
			return -1;
	}
	return 0;
}

static int read_lines(p4d_training_log *log, FILE *from, const char *path, p4d_error *err)
{
	char *text = NULL, where[320];
	size_t room = 0, number = 0;
	ssize_t length;
	int rc = 0;

	errno = 0;
	while (rc == 0 && (length = getline(&text, &room, from)) > 0) {
		const bool complete = text[length - 1] == '\n';
		snprintf(where, sizeof(where), "%.255s:%zu", path, ++number);
		p4d_error why = {.code = P4D_OK};
		struct json_object *line = p4d_json_parse(text, (size_t)length, where, &why);
		if (line && read_event(log, line, &why) < 0)
			rc = p4d_fail(err, why.code, "%s: %.200s", where, why.text);
		else if (!line && complete)
			rc = p4d_fail(err, why.code, "%s", why.text);
		json_object_put(line);
		errno = 0;
	}
	free(text);
	if (rc == 0 && (ferror(from) || errno))
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path,
				strerror(errno ? errno : EIO));
	return rc;
}

int p4d_training_log__read(p4d_training_log *log, const char *path, p4d_error *err)
{
	const bool standard = !strcmp(path, "-");
	FILE *from = standard ? stdin : fopen(path, "re");

	*log = (p4d_training_log){.curves = 0};
	if (!from)
		return p4d_fail(err, P4D_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
	int rc = read_lines(log, from, standard ? "standard input" : path, err);
	if (!standard)
		fclose(from);
	if (rc == 0 && !p4d_training_log__find(log, P4D_LOG_LOSS, 0)) {
		rc = p4d_fail(err, P4D_E_VALUE, "%.300s: no step has a loss yet", path);
		p4d_fix(err, "the FILE of p4d-train --log");
	}
	if (rc < 0)
		p4d_training_log__free(log);
	return rc;
}

void p4d_training_log__free(p4d_training_log *log)
{
	for (size_t i = 0; i < log->curves; i++)
		free(log->curve[i].point);
	free(log->curve);
	*log = (p4d_training_log){.curves = 0};
}

const p4d_log_curve *p4d_training_log__find(const p4d_training_log *log, p4d_log_kind kind, size_t i)
{
	for (size_t k = 0; k < log->curves; k++)
		if (log->curve[k].kind == kind && log->curve[k].count && !i--)
			return &log->curve[k];
	return NULL;
}
