/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/text.h"
#include "timeline/timeline.h"

/*
 * The passes of a step in the Trace Event Format, which Chrome (chrome://tracing), Perfetto and others show:
 * a process per replica, in it a lane per stage, and in the lane a box per pass. Predicted and measured
 * passes have the same names, so that one can compare them.
 */
typedef struct p4d_trace {
	p4d_text text; /* the caller frees .at; .truncated: there was no memory */
	bool any;      /* an event is in it */
} p4d_trace;

void p4d_trace_begin(p4d_trace *trace);
/* A replica, named by its number; and a stage in it. */
void p4d_trace_process(p4d_trace *trace, unsigned process, const char *name);
void p4d_trace_lane(p4d_trace *trace, unsigned process, unsigned stage);
/* Sends, which overlap what follows, and what takes no time are left out. span: seconds. */
void p4d_trace_pass(p4d_trace *trace, unsigned process, unsigned stage, const p4d_instruction *pass,
		    const p4d_span *span);
void p4d_trace_end(p4d_trace *trace);
