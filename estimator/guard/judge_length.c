/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose sequence length is an upper bound: whether they fit depends on data that p4d does not see. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guard/script_request.h"
#include "guard/verdict.h"
#include "plan/memory_played.h"
#include "request/framework.h"

enum { STEPS = 8 }; /* steps of the bisection for the longest sequence that fits */

typedef struct lengths {
	const p4d_request *request;
	const p4d_capacity *capacity;
	const p4d_geometry *geometry;
	double limit;
} lengths;

bool p4d_guard__is_bound(const p4d_request *request)
{
	/* a typed length is exact, unless the user also typed --padding */
	return p4d_is_set(request, P4D_PADDING) && request->value[P4D_PADDING] == P4D_PAD_LONGEST &&
	       (request->origin[P4D_PADDING] == P4D_BY_USER || request->origin[P4D_SEQ_LEN] != P4D_BY_USER);
}

/* Estimates the job with another sequence length. play: with the simulated allocator, as p4d judges the full
 * length; that takes milliseconds. False: there is no such layout. */
static bool estimate(const lengths *l, int64_t length, bool play, p4d_estimate *e)
{
	p4d_request with = *l->request;
	p4d_layout layout;

	p4d_request_put(&with, P4D_SEQ_LEN, length, P4D_BY_SCRIPT);
	if (p4d_layout_build(&with, l->geometry->nodes, l->geometry->gpus_per_node, &layout, NULL) < 0 ||
	    p4d_memory_estimate(&layout, P4D_METHOD_PLAN, l->capacity, e, NULL) < 0)
		return false;
	if (play)
		p4d_memory_play(&layout, l->capacity, e);
	return true;
}

static bool fits(const lengths *l, int64_t length)
{
	p4d_estimate e;

	return estimate(l, length, false, &e) && e.fraction <= l->limit;
}

/* The shortest sequence length that the layout's degrees divide. */
static int64_t shortest(const p4d_request *request)
{
	return 2 * request->value[P4D_TP] * request->value[P4D_CP];
}

/* Approximately the longest sequence that fits, as a multiple of shortest(). shortest() itself must fit. */
static int64_t longest(const lengths *l)
{
	const int64_t unit = shortest(l->request);
	int64_t fit = 1, not = l->request->value[P4D_SEQ_LEN] / unit;

	for (int i = 0; i < STEPS && not -fit > 1; i++) {
		const int64_t middle = fit + (not -fit) / 2;
		if (fits(l, middle * unit))
			fit = middle;
		else
			not = middle;
	}
	return fit * unit;
}

/* Where the sequence length comes from: "cutoff_len 8192 (run.yaml:8)", or p4d's own option. */
static const char *name(const p4d_job *job, const p4d_request *request, char *buf, size_t size)
{
	const p4d_read_value *v = job->reading ? &job->reading->value[P4D_SEQ_LEN] : NULL;

	if (v && v->file && v->argument && v->line)
		snprintf(buf, size, "%.60s %.20s (%.100s:%" PRIu32 ")",
			 v->argument + strspn(v->argument, "-"), v->text, v->file, v->line);
	else
		snprintf(buf, size, "seq-len %" PRId64, request->value[P4D_SEQ_LEN]);
	return buf;
}

/* Reports that memory which does not depend on the sequence length is already too much. A simulated allocator
 * may fragment more with short sequences than with long ones. */
static void say_any_length(const p4d_estimate *least, const p4d_estimate *full, p4d_error *err)
{
	const uint64_t short_bytes = least->peak.device_bytes, full_bytes = full->peak.device_bytes;
	p4d_error inner = *err;

	p4d_fail(err, inner.code, "%.400s; even the shortest sequences need more than %.1f GiB", inner.text,
		 p4d_to_gib(short_bytes < full_bytes ? short_bytes : full_bytes));
	p4d_fix(err, "%s", inner.fix);
}

bool p4d_guard__say_length(const p4d_job *job, const p4d_request *request, const p4d_capacity *capacity,
			   const char *doubt, p4d_verdict *v, p4d_error *err)
{
	const lengths l = {request, capacity, &v->geometry,
			   p4d_site_policy_limit(&v->policy, v->layout.framework)};
	char what[208];
	p4d_estimate least;

	if (!p4d_guard__is_bound(request) || !estimate(&l, shortest(request), true, &least))
		return false;
	if (least.fraction > l.limit) {
		say_any_length(&least, &v->estimate, err);
		return false;
	}
	v->action = P4D_WARN;
	p4d_verdict__say(v, P4D_E_LENGTH,
			 "%s is an upper bound: the job needs %.1f of %.1f GiB (%.0f %%) only if a "
			 "micro-batch has a sequence of this length; sequences of up to about %" PRId64
			 " tokens fit on %s%s%s",
			 name(job, request, what, sizeof(what)), p4d_to_gib(v->estimate.peak.device_bytes),
			 p4d_to_gib(v->estimate.capacity_bytes), 100 * v->estimate.fraction, longest(&l),
			 p4d_on_gpu(v->layout.device) ? v->estimate.gpu->name : "the host",
			 doubt ? "; unvalidated: " : "", doubt ? doubt : "");
	*err = (p4d_error){.code = P4D_OK};
	return true;
}
