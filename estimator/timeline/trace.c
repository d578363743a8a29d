/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/trace.h"

#include "base/json_text.h"

void p4d_trace_begin(p4d_trace *trace)
{
	*trace = (p4d_trace){.text = {.grows = true}};
	p4d_text_add(&trace->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

static void next(p4d_trace *trace)
{
	p4d_text_add(&trace->text, trace->any ? ",\n" : "\n");
	trace->any = true;
}

void p4d_trace_process(p4d_trace *trace, unsigned process, const char *name)
{
	next(trace);
	p4d_text_print(&trace->text,
		       "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":", process);
	p4d_json_text_quote(&trace->text, name);
	p4d_text_add(&trace->text, "}}");
}

void p4d_trace_lane(p4d_trace *trace, unsigned process, unsigned stage)
{
	next(trace);
	p4d_text_print(
	    &trace->text,
	    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"stage %u\"}}",
	    process, stage, stage);
}

void p4d_trace_pass(p4d_trace *trace, unsigned process, unsigned stage, const p4d_instruction *pass,
		    const p4d_span *span)
{
	if (pass->op == P4D_OP_SEND_FORWARD || pass->op == P4D_OP_SEND_BACKWARD || !(span->end > span->start))
		return;
	next(trace);
	p4d_text_print(&trace->text,
		       "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
		       "\"args\":{\"micro_batch\":%u,\"chunk\":%u}}",
		       p4d_schedule_op_name((p4d_op)pass->op), process, stage, 1e6 * span->start,
		       1e6 * (span->end - span->start), pass->micro_batch, pass->chunk);
}

void p4d_trace_end(p4d_trace *trace)
{
	p4d_text_add(&trace->text, "\n]}\n");
}
