/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/new_file.h"
#include "picture/simulation.h"
#include "timeline/trace.h"

int p4d_simulation_trace(const p4d_simulation *s, const char *path, p4d_error *err)
{
	const double unit = s->timed ? 1 : 1e-3;
	p4d_trace trace;

	p4d_trace_begin(&trace);
	p4d_trace_process(&trace, 0, s->timed ? "simulated" : "simulated: a pass takes 1 ms");
	for (uint32_t stage = 0; stage < s->schedule.stages; stage++) {
		p4d_trace_lane(&trace, 0, stage);
		for (size_t i = 0; i < s->lists[stage].count; i++) {
			const p4d_span span = s->timeline.span[stage][i];
			p4d_trace_pass(&trace, 0, stage, &s->lists[stage].at[i],
				       &(p4d_span){unit * span.start, unit * span.end});
		}
	}
	p4d_trace_end(&trace);
	return p4d_new_file_put_text(path, &trace.text, err);
}
