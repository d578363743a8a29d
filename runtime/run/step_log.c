/* SPDX-License-Identifier: Apache-2.0 */
#include "run/step_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/json_text.h"
#include "cost/cost.h"
#include "run/log_file.h"

enum { USUAL_COLUMNS = 80, SILENT_SECONDS = 30 };

p4d_flops p4d_step_log_flops(const p4d_layout *l, const p4d_gpu *gpu)
{
	/* FLOPs of causal attention: 6 per layer, query column, position and token */
	double causal = 6 * (double)l->layers * (double)l->heads * (double)l->head_dim * (double)l->seq_len *
			(double)l->global_batch * (double)l->seq_len;
	p4d_flops flops = {.model = p4d_cost_model_flops(l)};

	flops.full_attention = flops.model + causal;
	if (gpu && p4d_on_gpu(l->device))
		flops.peak = p4d_cost_peak_flops(l, gpu) * (double)l->world;
	return flops;
}

static const char *kind_name(p4d_loss_kind kind)
{
	switch (kind) {
	case P4D_LOSS_SPIKE:
		return "spike";
	case P4D_LOSS_NOT_FINITE:
		return "not finite";
	case P4D_LOSS_EMPTY:
		return "empty";
	default:
		return "fine";
	}
}

/* The share of the peak that a step reaches; NAN: unknown. */
static double utilization(double flops, double seconds, double peak)
{
	return peak > 0 && seconds > 0 ? flops / seconds / peak : NAN;
}

static double rate_of(const p4d_step_record *r)
{
	return r->seconds > 0 ? (double)r->tokens / r->seconds : (double)NAN;
}

const char *p4d_step_json(const p4d_step_record *r, const p4d_flops *flops, char *buf, size_t size)
{
	p4d_text line = p4d_text_in(buf, size);

	p4d_json_text_open(&line, NULL, '{');
	p4d_json_text_string(&line, "event", "step");
	p4d_json_text_whole(&line, "step", r->step);
	p4d_json_text_whole(&line, "steps", r->steps);
	p4d_json_text_real(&line, "loss", r->loss);
	p4d_json_text_real(&line, "gradient_norm", r->gradient_norm);
	p4d_json_text_real(&line, "learning_rate", r->learning_rate);
	if (r->pairs) {
		p4d_json_text_real(&line, "margin", r->margin);
		p4d_json_text_real(&line, "preferred", r->preferred);
	}
	p4d_json_text_whole(&line, r->pairs ? "pairs" : "tokens", r->tokens);
	p4d_json_text_real(&line, "seconds", r->seconds);
	p4d_json_text_real(&line, r->pairs ? "pairs_per_second" : "tokens_per_second", rate_of(r));
	p4d_json_text_real(&line, "model_tflops", r->seconds > 0 ? 1e-12 * flops->model / r->seconds : NAN);
	p4d_json_text_real(&line, "mfu", utilization(flops->model, r->seconds, flops->peak));
	p4d_json_text_real(&line, "mfu_full_attention",
			   utilization(flops->full_attention, r->seconds, flops->peak));
	p4d_json_text_whole(&line, "memory_bytes", r->memory_bytes);
	p4d_json_text_real(&line, "seconds_left", r->left < 0 ? NAN : r->left);
	p4d_json_text_bool(&line, "applied", r->applied);
	p4d_json_text_whole(&line, "nonfinite", r->nonfinite);
	p4d_json_text_string(&line, "kind", kind_name(r->kind));
	p4d_text_add(&line, "}\n");
	return buf;
}

/* "1:02:03", "4:05" */
static const char *duration(double seconds, char buf[32])
{
	uint64_t s = (uint64_t)seconds;

	if (s >= 3600)
		snprintf(buf, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(buf, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
	return buf;
}

const char *p4d_step_text(const p4d_step_record *r, const p4d_flops *flops, int columns, char *buf,
			  size_t size)
{
	char mfu[64] = "", left[48] = "", time[32], preferred[64] = "";
	double model = utilization(flops->model, r->seconds, flops->peak);

	if (isfinite(model))
		snprintf(mfu, sizeof(mfu), "  MFU %.1f %% (%.1f %% full attention)", 100 * model,
			 100 * utilization(flops->full_attention, r->seconds, flops->peak));
	if (r->pairs)
		snprintf(preferred, sizeof(preferred), "  margin %.4f, %.0f %% preferred", r->margin,
			 100 * r->preferred);
	if (r->left >= 0)
		snprintf(left, sizeof(left), "  %s left", duration(r->left, time));
	snprintf(buf, size, "step %" PRIu64 "/%" PRIu64 "  loss %.4f%s%s  %.*f %s/s%s  %.2f GiB%s", r->step,
		 r->steps, r->loss,
		 r->kind == P4D_LOSS_FINE    ? ""
		 : r->kind == P4D_LOSS_EMPTY ? " (no label)"
		 : r->applied                ? " (spike)"
					     : " (skipped)",
		 preferred, r->pairs ? 1 : 0, r->seconds > 0 ? rate_of(r) : 0.0,
		 r->pairs ? "pairs" : "tokens", mfu, p4d_to_gib(r->memory_bytes), left);
	/* cut to the terminal's width, because a line that wraps cannot be overwritten */
	if (columns > 1 && strlen(buf) > (size_t)columns - 1)
		buf[columns - 1] = '\0';
	return buf;
}

int p4d_step_log_open(p4d_step_log *log, const char *path, const p4d_flops *flops, p4d_error *err)
{
	const bool terminal = isatty(STDOUT_FILENO) == 1;

	*log = (p4d_step_log){.json = -1,
			      .terminal = terminal || path ? STDOUT_FILENO : -1,
			      .redraws = terminal,
			      .silent = -1,
			      .flops = *flops,
			      .what = "standard output",
			      .board = {.fd = -1}};
	if (!path) {
		log->json = terminal ? -1 : STDOUT_FILENO;
		return 0;
	}
	log->json = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (log->json < 0)
		return p4d_fail(err, P4D_E_IO, "--log %.300s: %s", path, strerror(errno));
	log->owned = true;
	snprintf(log->what, sizeof(log->what), "--log %.300s", path);
	return 0;
}

static void put_json(p4d_step_log *log, const char *line)
{
	p4d_log_file_write(&log->json, line, strlen(line), log->what);
}

/* Writes to the terminal. A failed write is not reported. */
static void put_terminal(p4d_step_log *log, const char *text)
{
	p4d_log_file_write(&log->terminal, text, strlen(text), NULL);
}

static int columns(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : USUAL_COLUMNS;
}

static void put_board(p4d_step_log *log, const p4d_step_record *r)
{
	const p4d_scalar scalars[] = {
	    {"train/loss", r->loss},
	    {"train/gradient_norm", r->gradient_norm},
	    {"train/learning_rate", r->learning_rate},
	    {r->pairs ? "performance/pairs_per_second" : "performance/tokens_per_second", rate_of(r)},
	    {"performance/memory_gib", p4d_to_gib(r->memory_bytes)},
	    {"performance/mfu", utilization(log->flops.model, r->seconds, log->flops.peak)},
	    {"train/margin", r->margin},
	    {"train/preferred", r->preferred},
	};
	const size_t count = sizeof(scalars) / sizeof(*scalars);

	p4d_tensorboard_add(&log->board, r->step, scalars, r->pairs ? count : count - 2);
}

/*
 * Prints some of the steps as text: the first, the last, unusual ones, and otherwise one every half minute.
 */
static void put_some(p4d_step_log *log, const p4d_step_record *record)
{
	char line[P4D_LINE_MOST], text[P4D_LINE_MOST + 8];
	const bool first = log->silent < 0;

	log->silent = (first ? 0 : log->silent) + record->seconds;
	if (!first && record->step < record->steps && record->kind == P4D_LOSS_FINE &&
	    log->silent < SILENT_SECONDS)
		return;
	log->silent = 0;
	snprintf(text, sizeof(text), "%s\n",
		 p4d_step_text(record, &log->flops, (int)sizeof(line), line, sizeof(line)));
	put_terminal(log, text);
}

void p4d_step_log_step(p4d_step_log *log, p4d_step_record *record)
{
	char line[P4D_LINE_MOST], drawn[P4D_LINE_MOST + 8];

	log->usual = log->usual > 0 ? 0.9 * log->usual + 0.1 * record->seconds : record->seconds;
	record->left = log->usual * (double)(record->steps - record->step);
	put_json(log, p4d_step_json(record, &log->flops, line, sizeof(line)));
	put_board(log, record);
	if (log->terminal < 0)
		return;
	if (!log->redraws) {
		put_some(log, record);
		return;
	}
	snprintf(drawn, sizeof(drawn), "\r\033[K%s",
		 p4d_step_text(record, &log->flops, columns(), line, sizeof(line)));
	put_terminal(log, drawn);
	log->drawn = true;
	/* a line about an unusual step must stay, so the next line does not overwrite it */
	if (record->kind != P4D_LOSS_FINE) {
		put_terminal(log, "\n");
		log->drawn = false;
	}
}

p4d_text *p4d_step_event_begin(p4d_step_event *event, const char *name)
{
	event->json = p4d_text_in(event->line, sizeof(event->line));
	p4d_json_text_open(&event->json, NULL, '{');
	p4d_json_text_string(&event->json, "event", name);
	return &event->json;
}

void p4d_step_log_event(p4d_step_log *log, p4d_step_event *event, const char *text)
{
	char line[P4D_LINE_MOST];

	p4d_text_add(&event->json, "}\n");
	if (!event->json.truncated)
		put_json(log, event->line);
	if (!text || log->terminal < 0)
		return;
	snprintf(line, sizeof(line), "%s%s\n", log->drawn ? "\r\033[K" : "", text);
	put_terminal(log, line);
	log->drawn = false;
}

void p4d_step_log_close(p4d_step_log *log)
{
	if (log->drawn)
		put_terminal(log, "\n");
	if (log->owned && log->json >= 0)
		close(log->json);
	p4d_tensorboard_close(&log->board);
	log->json = log->terminal = -1;
	log->owned = log->drawn = false;
}
