/* SPDX-License-Identifier: Apache-2.0 */
/* A job with what its script says: of one with p4d options the rest, of one without all of it. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "guard/script_request.h"
#include "guard/verdict.h"
#include "model/model.h"
#include "request/framework.h"

/* The reading, if it counts for the site. */
static const p4d_reading *reading_of(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				     void *context)
{
	char name[P4D_PARTITION_NAME];

	if (!job->reading || !job->reading->reader)
		return NULL;
	const p4d_job named = p4d_guard__in_default(site, job, source, context, name);
	const p4d_policy policy = p4d_guard_policy(site, &named, NULL);
	const bool counts =
	    policy.scripts != P4D_SCRIPTS_IGNORE && policy.mode != P4D_MODE_OFF && !policy.exempt;
	return counts ? job->reading : NULL;
}

/* The job passes, and the user hears why p4d cannot tell whether it should; unless it has no GPUs. */
static void leave_unread(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			 const p4d_error *why, p4d_verdict *verdict)
{
	p4d_guard_verify(site, job, source, context, NULL, NULL, verdict);
	if (verdict->would_reject || !p4d_job_gets_gpus(site, job, source, context))
		return;
	if (why->code == P4D_E_UNMODELLED && verdict->policy.unmodelled == P4D_UNMODELLED_PASS)
		return;
	p4d_verdict__leave_unread(verdict, job, why);
	p4d_verdict__finish(verdict, NULL);
}

/* Unless the user names another: then the script's words are not the program's. */
static bool is_of_framework(const p4d_reading *reading, const p4d_request *request)
{
	return !p4d_is_set(request, P4D_FRAMEWORK) ||
	       !strcmp(p4d_framework_of((int)request->value[P4D_FRAMEWORK])->name,
		       p4d_reading_framework(reading));
}

/*
 * A vocabulary that only the tokenizer knows: what does not fit with the smallest does not fit, and what fits
 * with the largest in use is not worth a word. The fix is one for that. False: it may fit or not.
 */
static bool settle_vocabulary(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			      void *context, bool searches, p4d_request *request, p4d_verdict *verdict)
{
	enum { SMALLEST = 1, LARGEST = 262144 };
	p4d_error err = {.code = P4D_OK};
	char fix[sizeof(verdict->message[0].fix)];

	if (!p4d_guard__script_lacks_vocabulary(job->reading) ||
	    p4d_guard__take_script(job->reading, request, &err) < 0)
		return false;
	p4d_request with = *request;
	p4d_request_put(&with, P4D_VOCAB, LARGEST, P4D_BY_SCRIPT);
	if (p4d_model_resolve(&with, NULL, NULL, &err) < 0)
		return false;
	p4d_guard__complete(site, job, source, context, 0, searches, &with, verdict);
	if (!verdict->judged || !verdict->would_reject) {
		verdict->plan[0] = '\0';
		return verdict->judged && !verdict->messages;
	}
	memcpy(fix, verdict->message[0].fix, sizeof(fix));
	with = *request;
	p4d_request_put(&with, P4D_VOCAB, SMALLEST, P4D_BY_SCRIPT);
	if (p4d_model_resolve(&with, NULL, NULL, &err) < 0)
		return false;
	p4d_guard__complete(site, job, source, context, 0, false, &with, verdict);
	verdict->plan[0] = '\0';
	if (!verdict->judged || !verdict->would_reject)
		return false;
	memcpy(verdict->message[0].fix, fix, sizeof(fix));
	p4d_verdict__say(verdict, P4D_E_ASSUMED,
			 "more by its vocabulary, which p4d cannot tell: --p4d-vocab=N does");
	return true;
}

void p4d_guard_submit(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      p4d_request *request, uint32_t *published_batch, p4d_verdict *verdict)
{
	const bool typed = p4d_request_any(request);
	p4d_job with = *job;
	p4d_preset preset = {.global_batch = 0};
	p4d_error err = {.code = P4D_OK};

	with.reading = reading_of(site, job, source, context);
	if (typed && !(p4d_guard__script_runs(with.reading) && is_of_framework(with.reading, request)))
		with.reading = NULL;
	*published_batch = 0;
	p4d_request probe = *request;
	if (!typed && with.reading &&
	    settle_vocabulary(site, &with, source, context, true, &probe, verdict)) {
		*request = probe;
		return;
	}
	const bool unread = !typed && with.reading && p4d_guard__script_unread(with.reading, &err);
	if (unread || (with.reading && p4d_guard__take_script(with.reading, request, &err) < 0) ||
	    (p4d_is_set(request, P4D_MODEL) &&
	     p4d_model_resolve(request, p4d_site_datadir(site), &preset, &err) < 0))
		typed ? p4d_guard_fail(site, job, &err, verdict)
		      : leave_unread(site, &with, source, context, &err, verdict);
	else
		p4d_guard__complete(site, &with, source, context, preset.global_batch, true, request,
				    verdict);
	*published_batch = preset.global_batch;
}

/* No file is read here. */
static int fill_model(const p4d_site *site, p4d_request *request, p4d_error *err)
{
	const p4d_request *preset = p4d_site_preset(site, request->model);

	if (!strcasecmp(request->model, "custom"))
		return p4d_model_resolve(request, NULL, NULL, err);
	if (!preset)
		return p4d_fail(err, P4D_E_NOT_READ, "model %.100s is not one of p4d's presets",
				request->model);
	for (int i = 0; i < P4D_OPTIONS; i++)
		if (p4d_request_option_info((p4d_option)i)->where & P4D_WHERE_MODEL)
			p4d_request_inherit(request, preset, (p4d_option)i, P4D_BY_MODEL);
	return 0;
}

void p4d_guard_verify_script(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			     void *context, p4d_verdict *verdict)
{
	p4d_job with = *job;
	p4d_request request = {.model = ""};
	p4d_error err = {.code = P4D_OK};

	with.reading = reading_of(site, job, source, context);
	if (!with.reading)
		p4d_guard_verify(site, job, source, context, NULL, NULL, verdict);
	else if (settle_vocabulary(site, &with, source, context, false, &request, verdict))
		return;
	else if (p4d_guard__script_unread(with.reading, &err) ||
		 p4d_guard__take_script(with.reading, &request, &err) < 0 ||
		 fill_model(site, &request, &err) < 0)
		leave_unread(site, &with, source, context, &err, verdict);
	else
		p4d_guard__complete(site, &with, source, context, 0, false, &request, verdict);
	verdict->plan[0] = '\0'; /* nothing that the job is given here could carry it */
}
