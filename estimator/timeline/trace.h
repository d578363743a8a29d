/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/text.h"
#include "timeline/timeline.h"

/*
 * The passes of a step in the Trace Event Format of Chrome (chrome://tracing) and Perfetto: a process per
 * replica, a thread per stage, and an event per pass. Predicted and measured passes have the same names, so
 * they can be compared.
 */
typedef struct p4d_trace {
	p4d_text text; /* the caller frees .at; .truncated: there was no memory */
	bool any;      /* the text contains an event */
} p4d_trace;

void p4d_trace_begin(p4d_trace *trace);
/* Names a replica. */
void p4d_trace_process(p4d_trace *trace, unsigned process, const char *name);
/* Names a stage of a replica. */
void p4d_trace_lane(p4d_trace *trace, unsigned process, unsigned stage);
/*
 * Adds the passes of a timeline. Leaves out sends, which overlap with other passes, and instructions that
 * take no time. span: seconds.
 */
void p4d_trace_pass(p4d_trace *trace, unsigned process, unsigned stage, const p4d_instruction *pass,
		    const p4d_span *span);
void p4d_trace_end(p4d_trace *trace);
