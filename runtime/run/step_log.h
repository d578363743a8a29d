/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json_text.h"
#include "gpu/gpu.h"
#include "request/layout.h"
#include "run/loss_watch.h"
#include "run/tensorboard.h"

/*
 * Progress of a run, reported by rank 0. On a terminal, a single line is redrawn at each step. The file of
 * --log gets one JSON object per line. Each line is one write, so a killed run leaves only whole lines. If
 * standard output is no terminal, it gets these JSON lines or, with --log, events and some of the steps as
 * text. Numbers that are not finite or not known are null. Nothing is allocated after p4d_step_log_open.
 */

/* FLOPs of a step, counted in two ways, and the rate that is possible. */
typedef struct p4d_flops {
	double model; /* FLOPs of a step: 6 per matmul parameter and token, causal attention at half */
	double full_attention; /* FLOPs with full attention, as many papers count */
	/*
	 * FLOP/s of all GPUs together at their peak: dense, in the job's precision; 0: unknown, so no MFU is
	 * printed
	 */
	double peak;
} p4d_flops;

/* gpu NULL: the cpu, whose peak is unknown. */
p4d_flops p4d_step_log_flops(const p4d_layout *layout, const p4d_gpu *gpu);

typedef struct p4d_step_record {
	uint64_t step, steps;
	double loss, gradient_norm, learning_rate;
	double seconds;  /* duration of this step */
	double left;     /* estimated seconds until the last step ends; below 0: unknown */
	uint64_t tokens; /* number of tokens in this step; with pairs, the number of pairs */
	bool pairs;
	double margin, preferred; /* only with pairs: see p4d_step_result */
	uint64_t nonfinite;
	uint64_t memory_bytes; /* the peak over all ranks */
	p4d_loss_kind kind;
	bool applied;
} p4d_step_record;

enum { P4D_LINE_MOST = 8192 };

/*
 * Format a record: as a JSON line with its newline, and as a line for a terminal with this many columns,
 * without newline.
 */
const char *p4d_step_json(const p4d_step_record *record, const p4d_flops *flops, char *buf, size_t size);
const char *p4d_step_text(const p4d_step_record *record, const p4d_flops *flops, int columns, char *buf,
			  size_t size);

typedef struct p4d_step_log {
	/* file descriptors; json: of the JSON lines; terminal: of lines for people; -1: none */
	int json, terminal;
	bool owned;    /* p4d_step_log_close closes `json` */
	bool drawn;    /* `terminal` has a line that the next one replaces */
	bool redraws;  /* `terminal` is a terminal; otherwise lines stay, and not every step has one */
	double silent; /* seconds since the last line about a step; below 0: there was no line yet */
	p4d_flops flops;
	double usual;   /* running mean of the seconds of a step */
	char what[320]; /* the name of `json` in messages */
	p4d_tensorboard board;
} p4d_step_log;

/* path: the file of --log; NULL: none. Errors: IO. */
int p4d_step_log_open(p4d_step_log *log, const char *path, const p4d_flops *flops, p4d_error *err);
/* Logs a step. Fills `left`. */
void p4d_step_log_step(p4d_step_log *log, p4d_step_record *record);

/*
 * An event other than a step. Append members to the text that p4d_step_event_begin returns, after its member
 * "event".
 */
typedef struct p4d_step_event {
	p4d_text json;
	char line[P4D_LINE_MOST];
} p4d_step_event;

p4d_text *p4d_step_event_begin(p4d_step_event *event, const char *name);
/*
 * Logs an event. text: the line for people; NULL: none. An event that is too long for a line is not logged.
 */
void p4d_step_log_event(p4d_step_log *log, p4d_step_event *event, const char *text);
void p4d_step_log_close(p4d_step_log *log);
