/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/text.h"
#include "timeline/timeline.h"

/*
 * The passes of a step in the Trace Event Format, which Chrome (chrome://tracing), Perfetto and others show:
 * a process per replica, in it a lane per stage, in that a box per pass. What was predicted and what was
 * measured have the same names, so that they can be looked at beside each other.
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
