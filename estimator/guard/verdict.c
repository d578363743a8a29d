/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "guard/script_request.h"
#include "request/framework.h"

p4d_message *p4d_verdict__say(p4d_verdict *verdict, p4d_code code, const char *format, ...)
{
	/* if there are too many messages, the newest replaces the last one, because the first ones are the
	 * reasons */
	unsigned at = verdict->messages < P4D_MESSAGES ? verdict->messages++ : P4D_MESSAGES - 1;
	p4d_message *message = &verdict->message[at];
	char raw[sizeof(message->text)];
	p4d_text text = p4d_text_in(message->text, sizeof(message->text));
	va_list args;

	message->code = code;
	message->fix[0] = '\0';
	va_start(args, format);
	vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	p4d_text_escaped(&text, raw);
	return message;
}

bool p4d_verdict__is_fault_of_site(p4d_code code)
{
	switch (code) {
	case P4D_E_NO_MEMORY:
	case P4D_E_INSTALLATION:
	case P4D_E_UNKNOWN_GPU:
	case P4D_E_GPU_OF_PARTITION:
	case P4D_E_CONF_SYNTAX:
	case P4D_E_CONF_RANGE:
	case P4D_E_CONF_DUPLICATE:
	case P4D_E_CONF_TRUNCATED:
	case P4D_E_CONF_TRUST:
		return true;
	default:
		return false;
	}
}

static bool depends_on_framework(p4d_code code)
{
	return code == P4D_E_DOES_NOT_FIT || code == P4D_E_NO_LAYOUT || code == P4D_E_HOST_MEMORY ||
	       code == P4D_E_SCHEDULE;
}

void p4d_verdict__error(p4d_verdict *verdict, const p4d_error *err)
{
	p4d_message *message = p4d_verdict__say(verdict, err->code, "%s", err->text);

	snprintf(message->fix, sizeof(message->fix), "%s", err->fix);
	verdict->action = P4D_REJECT;
	if (verdict->assumed && depends_on_framework(err->code))
		p4d_verdict__say(
		    verdict, P4D_E_ASSUMED,
		    "assumed %s, because p4d does not know which program the job starts; name it with "
		    "--p4d-framework=%s or --p4d-unmodelled=PROGRAM",
		    p4d_framework_of(verdict->layout.framework)->program, P4D_FRAMEWORK_NAMES);
	/* a site that refuses unmodelled jobs also refuses GPUs that it does not describe */
	verdict->fault_of_site =
	    p4d_verdict__is_fault_of_site(err->code) &&
	    !(err->code == P4D_E_UNKNOWN_GPU && verdict->policy.unmodelled == P4D_UNMODELLED_REJECT);
	if (verdict->fault_of_site && verdict->policy.on_error == P4D_ON_ERROR_PASS) {
		verdict->action = P4D_WARN;
		p4d_verdict__say(verdict, P4D_E_NOT_JUDGED,
				 "the job was not checked; this site accepts jobs that p4d cannot check");
	}
}

void p4d_verdict__leave_unread(p4d_verdict *verdict, const p4d_job *job, const p4d_error *why)
{
	verdict->read = true;
	if (!why->code)
		return;
	if (p4d_verdict__is_fault_of_site(why->code) || why->code == P4D_E_NO_GPU) {
		snprintf(verdict->unread, sizeof(verdict->unread), "%.160s%s", why->text,
			 why->code == P4D_E_GPU_OF_PARTITION
			     ? "; name a type that `p4d gpus` lists: --gpus-per-node=TYPE:N"
			     : "");
		return;
	}
	char place[208];
	p4d_guard__script_place(job->reading, place, sizeof(place));
	/* the message already names the program, or the place is not needed */
	const bool placed = !job->reading->named || !strncmp(why->text, place, strnlen(place, 120));
	const p4d_code code = why->code == P4D_E_UNMODELLED ? P4D_E_UNMODELLED : P4D_E_NOT_READ;
	p4d_message *message =
	    placed ? p4d_verdict__say(verdict, code, "%s", why->text)
		   : p4d_verdict__say(verdict, code, "%.120s was not checked: %.340s", place, why->text);
	snprintf(message->fix, sizeof(message->fix), "%s", why->fix);
	verdict->action = P4D_WARN;
}

bool p4d_verdict_requires_plan(const p4d_verdict *verdict)
{
	return verdict->would_reject && verdict->messages && verdict->message[0].code == P4D_E_PLAN_REQUIRED;
}

void p4d_verdict__name_model(p4d_verdict *verdict, const p4d_request *request)
{
	snprintf(verdict->model, sizeof(verdict->model), "%.*s", (int)sizeof(verdict->model) - 1,
		 request->model);
}

void p4d_verdict__identify(p4d_verdict *verdict, const p4d_request *request)
{
	p4d_plan_digest(request, verdict->digest);
	if (verdict->serving.max_model_len)
		p4d_request_value_text(request, P4D_ENGINE, verdict->engine, sizeof(verdict->engine));
}

static void apply_override(p4d_verdict *verdict, const char *reason)
{
	if (!reason || !*reason || verdict->action != P4D_REJECT)
		return;
	if (!verdict->policy.allow_override) {
		p4d_verdict__say(verdict, P4D_E_OVERRIDE,
				 "--p4d-override is not allowed for this job by the site");
		return;
	}
	verdict->action = P4D_WARN;
	p4d_verdict__say(verdict, P4D_E_OVERRIDDEN, "overridden: %s", reason);
}

void p4d_verdict__finish(p4d_verdict *verdict, const char *override_reason)
{
	verdict->would_reject = verdict->action == P4D_REJECT;
	verdict->only_warned = false;
	apply_override(verdict, override_reason);
	switch (verdict->policy.exempt ? P4D_MODE_OFF : verdict->policy.mode) {
	case P4D_MODE_OFF:
		verdict->messages = 0;
		verdict->would_reject = false;
		verdict->action = P4D_PASS;
		break;
	case P4D_MODE_OBSERVE:
		verdict->action = P4D_PASS;
		break;
	case P4D_MODE_WARN:
		verdict->only_warned = verdict->action == P4D_REJECT;
		if (verdict->action == P4D_REJECT)
			verdict->action = P4D_WARN;
		break;
	case P4D_MODE_ENFORCE:
		break;
	}
}

const char *p4d_guard_message_text(const p4d_message *message, char *buf, size_t size)
{
	if (message->fix[0])
		snprintf(buf, size, "p4d: [P4D%03d] %s\np4d: fix: %s", (int)message->code, message->text,
			 message->fix);
	else
		snprintf(buf, size, "p4d: [P4D%03d] %s", (int)message->code, message->text);
	return buf;
}

/* For a job that passes only because of mode warn: says that such jobs will be refused and, if p4d.conf
 * has a date, from which day. */
static void add_date(p4d_text *lines, const p4d_policy *policy)
{
	struct tm day;
	const time_t from = (time_t)policy->from;

	if (policy->from && policy->later == P4D_MODE_ENFORCE && localtime_r(&from, &day))
		p4d_text_entry(lines, "\n",
			       "p4d: the job is submitted; from %04d-%02d-%02d this site refuses such jobs",
			       day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
	else
		p4d_text_entry(
		    lines, "\n",
		    "p4d: the job is submitted, because this site only warns; later it may refuse such jobs");
}

const char *p4d_verdict_text(const p4d_verdict *verdict, char *buf, size_t size)
{
	p4d_text lines_text = p4d_text_in(buf, size);
	unsigned lines = 0;

	if (verdict->policy.mode == P4D_MODE_OBSERVE)
		return buf;
	for (unsigned i = 0; i < verdict->messages; i++) {
		const p4d_message *message = &verdict->message[i];
		char text[sizeof(message->text) + sizeof(message->fix) + 64];

		lines += message->fix[0] ? 2 : 1;
		if (lines > P4D_VERDICT_LINES)
			break;
		p4d_guard_message_text(message, text, sizeof(text));
		p4d_text_entry(&lines_text, "\n", "%s", text);
	}
	if (verdict->action == P4D_REJECT && verdict->policy.message)
		p4d_text_entry(&lines_text, "\n", "p4d: %s", verdict->policy.message);
	if (verdict->only_warned && verdict->messages)
		add_date(&lines_text, &verdict->policy);
	return buf;
}

const char *p4d_verdict_memory(const p4d_verdict *verdict, char *buf, size_t size)
{
	const p4d_estimate *e = &verdict->estimate;
	const bool offloads = verdict->layout.offload && e->host_bytes != P4D_NOT_MODELLED;
	p4d_text text = p4d_text_in(buf, size);

	if (e->capacity_bytes)
		p4d_text_print(&text, "%.1f of %.1f GiB (%.0f %%)", p4d_to_gib(e->peak.device_bytes),
			       p4d_to_gib(e->capacity_bytes), 100 * e->fraction);
	else
		p4d_text_print(&text, "%.3f GiB per rank", p4d_to_gib(e->peak.device_bytes));
	if (offloads)
		p4d_text_print(&text, ", host memory %.1f GiB a node", p4d_to_gib(e->host_bytes));
	return buf;
}

void p4d_verdict__say_partly(p4d_verdict *v, const p4d_request *request)
{
	if (p4d_is_set(request, P4D_JUDGED_PART))
		p4d_verdict__say(v, P4D_E_PARTLY, "p4d checked only %s", request->judged_part);
}
