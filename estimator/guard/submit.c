/* SPDX-License-Identifier: Apache-2.0 */
/* Combines a job with the values of its script. A job with p4d options gets its missing values from the
 * script; a job without options gets all values from it. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "guard/guard_internal.h"
#include "guard/script_request.h"
#include "guard/submit.h"
#include "guard/verdict.h"
#include "job/script.h"
#include "model/model.h"
#include "request/framework.h"

/* The job's reading, if the site uses readings and the script trains a language model; else NULL. */
static const p4d_reading *reading_of(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				     void *context, bool files)
{
	char name[P4D_PARTITION_NAME];

	if (!job->reading || !job->reading->reader || !p4d_guard__script_concerns(site, job->reading, files))
		return NULL;
	const p4d_job named = p4d_guard__in_default(site, job, source, context, name);
	const p4d_policy policy = p4d_guard_policy(site, &named, NULL);
	const bool counts =
	    policy.scripts != P4D_SCRIPTS_IGNORE && policy.mode != P4D_MODE_OFF && !policy.exempt;
	return counts ? job->reading : NULL;
}

/*
 * Completes the message about a job that must say what it trains: if the script has some of the required
 * options, names the missing ones.
 */
static void say_missing(const p4d_error *why, p4d_message *message)
{
	snprintf(message->text, sizeof(message->text),
		 "GPU jobs like this one must say what they train: %.400s", why->text);
	if (*why->fix)
		snprintf(message->fix, sizeof(message->fix), "%s", why->fix);
}

static void submit(const p4d_guard_asked *asked, bool searches);

/*
 * A fix may name a program whose arguments the user's own program takes. If p4d would refuse the job with
 * that fix, removes the fix and says so.
 */
static void judge_program(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			  p4d_message *message)
{
	p4d_request typed = {.model = ""};
	p4d_verdict then = {.messages = 0};
	p4d_job again = *job;
	p4d_pasted room;
	uint32_t batch;

	if (strncmp(message->fix, "--p4d-program=", strlen("--p4d-program=")) != 0)
		return;
	again.reading = job->read_as && p4d_guard__paste(&room, message->fix, &again, &typed)
			    ? job->read_as(job->read_context, &typed)
			    : NULL;
	again.read_as = NULL;
	again.array_tasks = NULL;
	if (again.reading)
		submit(&(p4d_guard_asked){.site = site,
					  .job = &again,
					  .source = source,
					  .context = context,
					  .request = &typed,
					  .published_batch = &batch,
					  .verdict = &then},
		       false);
	if (again.reading && !then.would_reject)
		return;
	/* if the job may train adapters this is left out, because the number counts all weights */
	if (again.reading && then.judged && !p4d_reading_doubt(again.reading)) {
		char memory[128];
		p4d_text text = {
		    .at = message->text, .size = sizeof(message->text), .length = strlen(message->text)};
		p4d_text_print(&text, "; with %s the job would need %s", message->fix,
			       p4d_verdict_memory(&then, memory, sizeof(memory)));
	}
	message->fix[0] = '\0';
}

/* The user's reason for an override; NULL: there is none. */
static const char *override_of(const p4d_request *request)
{
	return p4d_is_set(request, P4D_OVERRIDE) ? request->override_reason : NULL;
}

/*
 * Tells the user why p4d cannot judge the job, unless the job has no GPUs, and lets it pass. But refuses a
 * job that does not fit with any values of the unknown options. job: with its reading, if the site uses it.
 */
static void leave_unread(const p4d_guard_asked *asked, const p4d_job *job, const p4d_error *why)
{
	const p4d_site *site = asked->site;
	const p4d_cluster_source source = asked->source;
	void *context = asked->context;
	p4d_verdict *verdict = asked->verdict;
	const p4d_request *request = asked->request;

	p4d_guard_verify(site, job, source, context, NULL, NULL, verdict);
	if (p4d_verdict_requires_plan(verdict) && why->code == P4D_E_NOT_READ)
		say_missing(why, &verdict->message[0]);
	if (verdict->would_reject || !p4d_job_gets_gpus(site, job, source, context))
		return;
	if (why->code == P4D_E_UNMODELLED && verdict->policy.unmodelled == P4D_UNMODELLED_PASS)
		return;
	p4d_verdict__leave_unread(verdict, job, why);
	if (verdict->messages)
		judge_program(site, job, source, context, &verdict->message[0]);
	p4d_guard__judge_weights(site, job, source, context, !asked->verifies, verdict);
	p4d_verdict__finish(verdict, override_of(request) ? override_of(request) : asked->override_reason);
}

/* Names a model in the request: a program that p4d does not model needs none, but each plan has one. */
static void name_unmodelled(p4d_request *request)
{
	if (!p4d_is_set(request, P4D_MODEL))
		p4d_request_set(request, P4D_MODEL, "custom", P4D_BY_P4D, NULL);
}

/* Whether the job may need a plan. A job without a script may. */
static bool uses_plan(const p4d_job *job)
{
	return !job->script || p4d_script_scan(job->script, job->script_length, NULL).uses_plan;
}

/*
 * Treats the job like one without options: its program ignores the plan, so options alone are not enough to
 * judge it.
 */
static void leave_unnamed(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			  const p4d_request *request, p4d_verdict *verdict)
{
	const char *reason = override_of(request);

	p4d_guard_verify(site, job, source, context, NULL, NULL, verdict);
	if (verdict->would_reject || verdict->policy.mode == P4D_MODE_OFF || verdict->policy.exempt)
		return;
	verdict->read = true;
	verdict->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(verdict, P4D_E_INCOMPLETE_MODEL,
						"the job was not checked: p4d options were given without "
						"--p4d-model, and p4d cannot read the model in the script");
	snprintf(message->fix, sizeof(message->fix), "--p4d-model=NAME (`p4d models` lists the presets)");
	p4d_verdict__finish(verdict, reason);
}

/* Whether the framework can train the typed model. */
static bool can_train(const p4d_site *site, const p4d_request *typed, const char *framework)
{
	p4d_request with = *typed;
	p4d_preset preset;
	p4d_error err;

	return p4d_request_set(&with, P4D_FRAMEWORK, framework, P4D_BY_SCRIPT, &err) == 0 &&
	       (!p4d_is_set(&with, P4D_MODEL) ||
		(p4d_model_resolve(&with, p4d_site_datadir(site), &preset, &err) == 0 &&
		 p4d_framework_of((int)with.value[P4D_FRAMEWORK])->check_model(&with, &err) == 0));
}

/* Whether the user names another framework than that of the program which the script evidently starts. */
static bool names_another(const p4d_site *site, const p4d_reading *reading, const p4d_request *request,
			  p4d_error *err)
{
	const char *script = p4d_guard__script_framework(reading);
	const char *typed = p4d_is_set(request, P4D_FRAMEWORK)
				? p4d_framework_of((int)request->value[P4D_FRAMEWORK])->name
				: NULL;
	char place[208];

	if (!script || !typed || !strcmp(script, typed) || p4d_is_set(request, P4D_UNMODELLED))
		return false;
	p4d_fail(err, P4D_E_CONTRADICTION,
		 "--p4d-framework=%s contradicts the script: the program of %s trains with %s", typed,
		 p4d_guard__script_place(reading, place, sizeof(place)), script);
	if (can_train(site, request, script))
		p4d_fix(err, "--p4d-framework=%s", script);
	return true;
}

/*
 * Handles a job for which the user typed only a framework: it counts as a job without options, unless the
 * script needs a plan.
 */
static void share_framework(const p4d_job *job, p4d_request *request)
{
	const uint8_t origin = request->origin[P4D_FRAMEWORK];

	if (origin != P4D_BY_USER || !p4d_guard__script_framework(job->reading))
		return;
	request->origin[P4D_FRAMEWORK] = P4D_BY_SCRIPT;
	if (!p4d_request_any(request))
		request->origin[P4D_FRAMEWORK] = uses_plan(job) ? origin : P4D_UNSET;
}

static void refuse(const p4d_site *site, const p4d_job *job, const p4d_request *request, const p4d_error *err,
		   p4d_verdict *verdict)
{
	memset(verdict, 0, sizeof(*verdict));
	verdict->policy = p4d_guard_policy(site, job, NULL);
	p4d_verdict__error(verdict, err);
	p4d_verdict__name_model(verdict, request);
	p4d_verdict__finish(verdict, override_of(request));
}

/* Replaces the typed value of an option by the value in a layout that fits. */
static void put_fitting(const p4d_request *typed, const p4d_request *without, const p4d_request *fitting,
			p4d_text *fix)
{
	char value[64];

	for (int i = 0; i < (int)P4D_OPTIONS; i++) {
		const p4d_option option = (p4d_option)i;
		if (p4d_is_set(typed, option) && !p4d_is_set(without, option) && option != P4D_MODEL &&
		    p4d_is_set(fitting, option) && typed->value[i] != fitting->value[i])
			p4d_text_entry(fix, " ", "--p4d-%s=%s", p4d_request_option_info(option)->name,
				       p4d_request_value_text(fitting, option, value, sizeof(value)));
	}
}

/*
 * Refuses a job whose typed options do not reach the program (*err). If the job does not fit with the
 * script's own values either, the fix changes these values so that the job fits. It keeps the typed options
 * that agree with the fix.
 */
static void refuse_contradiction(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				 void *context, const p4d_request *typed, const p4d_request *without,
				 p4d_error *err, p4d_verdict *verdict)
{
	p4d_request script = *without;
	p4d_preset preset = {.global_batch = 0};
	p4d_error why;
	char text[sizeof(err->fix)];
	p4d_text fix = p4d_text_in(text, sizeof(text));

	if (!p4d_guard__script_unread(job->reading, without, &why) &&
	    p4d_guard__take_script(job->reading, &script, &why) == 0 &&
	    p4d_model_resolve(&script, p4d_site_datadir(site), &preset, &why) == 0) {
		p4d_guard__complete(site, job, source, context, preset.global_batch, true, &script, verdict);
		const char *lines = verdict->message[0].fix;
		if (verdict->would_reject && verdict->messages && *lines) {
			if (p4d_is_set(typed, P4D_MODEL) && !p4d_is_set(without, P4D_MODEL))
				p4d_text_entry(&fix, " ", "--p4d-model=%s",
					       job->reading->value[P4D_MODEL].text);
			put_fitting(typed, without, &verdict->planned, &fix);
			p4d_text_entry(&fix, strncmp(lines, "--", 2) ? "; " : " ", "%s", lines);
			if (!fix.truncated)
				p4d_fix(err, "%s", text);
		}
	}
	refuse(site, job, typed, err, verdict);
}

/*
 * For a script whose vocabulary size is only in the tokenizer's files. A job that does not fit with the
 * smallest vocabulary does not fit; one that fits with the largest vocabulary in use passes silently. False:
 * it may fit or not.
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
			 "the job may need more: p4d does not know the size of its vocabulary; give it with "
			 "--p4d-vocab=N");
	return true;
}

static void submit(const p4d_guard_asked *asked, bool searches)
{
	const p4d_site *site = asked->site;
	const p4d_job *job = asked->job;
	const p4d_cluster_source source = asked->source;
	void *context = asked->context;
	p4d_request *request = asked->request;
	uint32_t *published_batch = asked->published_batch;
	p4d_verdict *verdict = asked->verdict;
	const bool carries = p4d_request_any(request);
	p4d_job with = *job;
	p4d_preset preset = {.global_batch = 0};
	p4d_error err = {.code = P4D_OK};

	*published_batch = 0;
	/* --p4d-program tells p4d how to read the script, which is done */
	request->origin[P4D_PROGRAM] = P4D_UNSET;
	bool typed = p4d_request_any(request);
	with.reading = reading_of(site, job, source, context, true);
	if (typed && !p4d_guard__script_runs(with.reading))
		with.reading = NULL;
	if (typed && with.reading && names_another(site, with.reading, request, &err)) {
		refuse(site, job, request, &err, verdict);
		return;
	}
	const bool binds =
	    typed && !p4d_is_set(request, P4D_UNMODELLED) && p4d_guard__script_binds(with.reading, &with);
	if (binds) {
		const p4d_request all = *request;
		p4d_request without;
		if (p4d_guard__settle_typed(with.reading, p4d_site_datadir(site), request, &without, &err)) {
			refuse_contradiction(site, &with, source, context, &all, &without, &err, verdict);
			return;
		}
		typed = p4d_request_any(request);
	} else if (typed && with.reading && !p4d_is_set(request, P4D_UNMODELLED)) {
		share_framework(&with, request);
		typed = p4d_request_any(request);
	}
	p4d_request probe = *request;
	if (!typed && with.reading &&
	    settle_vocabulary(site, &with, source, context, searches, &probe, verdict)) {
		*request = probe;
		return;
	}
	const bool unread = with.reading && (!typed || binds) &&
			    p4d_guard__script_unread(with.reading, typed ? request : NULL, &err);
	int rc = unread ? -1 : 0;
	if (!unread && with.reading)
		rc = p4d_guard__take_script(with.reading, request, &err);
	if (rc == 0 && p4d_is_set(request, P4D_MODEL))
		rc = p4d_model_resolve(request, p4d_site_datadir(site), &preset, &err);
	if (rc == 0 && p4d_is_set(request, P4D_UNMODELLED))
		name_unmodelled(request);
	if (rc == 0 && typed && !p4d_is_set(request, P4D_MODEL) && !uses_plan(job))
		leave_unnamed(site, job, source, context, request, verdict);
	else if (rc == 0)
		p4d_guard__complete(site, &with, source, context, preset.global_batch, searches, request,
				    verdict);
	else if (typed && !unread)
		p4d_guard_fail(site, job, &err, override_of(request), verdict);
	else
		leave_unread(asked, &with, &err);
	/* slurmctld also treats the job as one without options */
	if (carries && (!typed || unread) && !verdict->plan[0])
		verdict->read = true;
	*published_batch = preset.global_batch;
}

/* Warns about a comment of the script that p4d cannot use. It causes no refusal. */
static void say_comment(const p4d_job *job, p4d_verdict *verdict)
{
	const p4d_policy *policy = &verdict->policy;

	if (!job->reading || !*job->reading->comment || policy->mode == P4D_MODE_OFF || policy->exempt ||
	    policy->scripts == P4D_SCRIPTS_IGNORE)
		return;
	p4d_verdict__say(verdict, P4D_E_VALUE, "%s", job->reading->comment);
	if (verdict->action == P4D_PASS && policy->mode != P4D_MODE_OBSERVE)
		verdict->action = P4D_WARN;
}

static void verify(const p4d_guard_asked *asked)
{
	const p4d_site *site = asked->site;
	const p4d_cluster_source source = asked->source;
	void *context = asked->context;
	p4d_verdict *verdict = asked->verdict;
	p4d_job with = *asked->job;
	p4d_request *request = asked->request;
	p4d_error err = {.code = P4D_OK};

	with.reading = reading_of(site, &with, source, context, false);
	if (!with.reading)
		p4d_guard_verify(site, asked->job, source, context, NULL, NULL, verdict);
	else if (settle_vocabulary(site, &with, source, context, false, request, verdict))
		return;
	else if (p4d_guard__script_unread(with.reading, NULL, &err) ||
		 p4d_guard__take_script(with.reading, request, &err) < 0 ||
		 (p4d_is_set(request, P4D_MODEL) && p4d_guard__fill_model(site, request, &err) < 0))
		leave_unread(asked, &with, &err);
	else
		p4d_guard__complete(site, &with, source, context, 0, false, request, verdict);
	verdict->plan[0] = '\0'; /* the job's environment cannot carry a plan */
}

void p4d_guard__judge_asked(const p4d_guard_asked *asked, bool searches)
{
	if (asked->verifies) {
		verify(asked);
		return;
	}
	submit(asked, searches);
	const p4d_request *request = asked->request;
	p4d_guard__judge_rehearsed(asked->site, asked->job, asked->source, asked->context,
				   override_of(request), asked->verdict);
	say_comment(asked->job, asked->verdict);
}

void p4d_guard_submit(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		      p4d_request *request, uint32_t *published_batch, p4d_verdict *verdict)
{
	p4d_guard__judge_tasks(&(p4d_guard_asked){.site = site,
						  .job = job,
						  .source = source,
						  .context = context,
						  .request = request,
						  .published_batch = published_batch,
						  .verdict = verdict});
}

void p4d_guard_verify_script(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
			     void *context, const char *override_reason, p4d_verdict *verdict)
{
	p4d_request request = {.model = ""};

	p4d_guard__judge_tasks(&(p4d_guard_asked){.site = site,
						  .job = job,
						  .source = source,
						  .context = context,
						  .request = &request,
						  .verdict = verdict,
						  .override_reason = override_reason,
						  .verifies = true});
}

bool p4d_guard_misplaced(const char *const *arguments, const char *command, const char *script,
			 p4d_message *message)
{
	static const char prefix[] = "--p4d-";

	while (*arguments && strncmp(*arguments, prefix, sizeof(prefix) - 1) != 0)
		arguments++;
	if (!*arguments)
		return false;
	char word[104], name[204];
	p4d_text words = p4d_text_in(word, sizeof(word)), names = p4d_text_in(name, sizeof(name));
	p4d_text_escaped(&words, *arguments);
	p4d_text_escaped(&names, script);
	*message = (p4d_message){.code = P4D_E_NO_EFFECT};
	snprintf(message->text, sizeof(message->text),
		 "%s is an argument of the script: sbatch takes options before the script's name", word);
	snprintf(message->fix, sizeof(message->fix), "%s %s %s", command, word, name);
	return true;
}
