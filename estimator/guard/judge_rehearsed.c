/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a job by the user's rehearsals of its program. This can refuse or warn, but lets no refused job
 * pass.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "guard/script_request.h"
#include "guard/verdict.h"
#include "reader/reader.h"
#include "rehearsals/rehearsals.h"

static bool is_for(const p4d_rehearsal *run, const p4d_geometry *g)
{
	return !strcmp(run->gpu, g->gpu->name) && (run->nodes_said || run->nodes == g->nodes) &&
	       (run->gpus_said || run->gpus_per_node == g->gpus_per_node);
}

static bool is_worse(const p4d_rehearsal *a, const p4d_rehearsal *b)
{
	if (a->verdict != b->verdict)
		return a->verdict > b->verdict;
	return a->device_bytes > b->device_bytes;
}

/* The worst rehearsal on GPUs like the job's, among the commands of a script; NULL: none. */
static const p4d_rehearsal *choose(const p4d_rehearsals *found, const p4d_geometry *g)
{
	const p4d_rehearsal *worst = NULL;

	for (unsigned i = 0; i < found->count; i++)
		if (is_for(&found->run[i], g) && (!worst || is_worse(&found->run[i], worst)))
			worst = &found->run[i];
	return worst;
}

/* The job's geometry, and the policy for it. False: unknown. */
static bool place(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
		  p4d_verdict *v)
{
	char name[P4D_PARTITION_NAME];
	p4d_error err;

	if (v->geometry.gpu)
		return true;
	const p4d_job named = p4d_guard__in_default(site, job, source, context, name);
	const p4d_geometry before = v->geometry;
	const p4d_policy policy = v->policy;
	if (!p4d_guard__place(site, &named, source, context, v, &err) && v->geometry.gpu)
		return true;
	v->geometry = before;
	v->policy = policy;
	return false;
}

/* Whether the message only says that p4d did not check the job, which is no longer true after a rehearsal. */
static bool is_unchecked(const p4d_verdict *v)
{
	return v->read && !v->judged && v->messages && v->action != P4D_REJECT && !v->would_reject &&
	       (v->message[0].code == P4D_E_NOT_READ || v->message[0].code == P4D_E_UNMODELLED);
}

/* Adds warnings about phases that the rehearsal left out, because these may need the most memory. */
static void add_left_out(const p4d_rehearsal *run, p4d_text *text)
{
	const unsigned left = run->phases ^ P4D_REHEARSAL_PHASES;

	if (run->phases == P4D_REHEARSAL_TRAIN)
		p4d_text_add(text, "; training only");
	else if (run->phases && left)
		p4d_text_print(text, "; without %s", left & P4D_REHEARSAL_EVAL ? "evaluation" : "saving");
	if (*run->ranks)
		p4d_text_print(text, "; rank%s %s only", strchr(run->ranks, ',') ? "s" : "", run->ranks);
}

static void write_text(const p4d_rehearsal *run, const p4d_verdict *v, p4d_message *to)
{
	const double used = p4d_to_gib(run->device_bytes), all = p4d_to_gib(run->usable_bytes);
	const time_t when = (time_t)run->when;
	char date[16] = "", memory[96], formulas[160] = "";
	struct tm day;

	if (localtime_r(&when, &day))
		strftime(date, sizeof(date), "%Y-%m-%d", &day);
	if (v->judged)
		snprintf(formulas, sizeof(formulas), "; p4d's formulas: %.120s",
			 p4d_verdict_memory(v, memory, sizeof(memory)));
	p4d_text text = p4d_text_in(to->text, sizeof(to->text));
	if (run->verdict == P4D_REHEARSAL_REJECT)
		p4d_text_print(&text, "rehearsed %s: out of memory on %s", date, run->gpu);
	else
		p4d_text_print(&text, "rehearsed %s: %.1f of %.1f GiB (%.0f %%) on %s", date, used, all,
			       100 * used / all, run->gpu);
	if (*run->reason) {
		p4d_text_add(&text, ": ");
		p4d_text_escaped(&text, run->reason);
	}
	add_left_out(run, &text);
	p4d_text_add(&text, formulas);
	if (run->unsure)
		p4d_text_add(&text, "; p4d cannot tell whether the job runs the program in the same way");
	to->code = P4D_E_REHEARSED;
	to->fix[0] = '\0';
}

/* Puts the message before all others, because it is the reason of the verdict. */
static p4d_message *say_first(p4d_verdict *v)
{
	if (v->messages == P4D_MESSAGES)
		v->messages--;
	memmove(&v->message[1], &v->message[0], v->messages * sizeof(v->message[0]));
	v->messages++;
	return &v->message[0];
}

static void refuse(p4d_verdict *v, const char *override_reason)
{
	v->read = true;
	v->action = P4D_REJECT;
	p4d_verdict__finish(v, override_reason);
}

static void say(const p4d_rehearsal *run, const char *override_reason, p4d_verdict *v)
{
	const bool fails = run->verdict == P4D_REHEARSAL_REJECT,
		   refused = v->action == P4D_REJECT || v->would_reject;
	const bool judges = v->policy.rehearsals == P4D_REHEARSALS_JUDGE && !run->unsure && !v->plan[0] &&
			    v->geometry.gpu_types <= 1;
	const bool unchecked = is_unchecked(v);
	p4d_message message;

	write_text(run, v, &message);
	if (unchecked && v->messages == 1)
		v->action = P4D_PASS;
	if (unchecked)
		v->message[0] = message;
	else if (fails && !refused)
		*say_first(v) = message;
	else
		*p4d_verdict__say(v, P4D_E_REHEARSED, "%s", "") = message;
	if (refused)
		return;
	if (fails && judges)
		refuse(v, override_reason);
	else if (run->verdict != P4D_REHEARSAL_PASS && v->action == P4D_PASS &&
		 v->policy.mode != P4D_MODE_OBSERVE)
		v->action = P4D_WARN;
}

/* Whether a shell needs no quotes around a word. */
static bool is_plain(const char *word)
{
	return *word &&
	       strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=-+:,@%") ==
		   strlen(word);
}

/* Whether the program uses PyTorch itself: it is neither an inference engine nor p4d-train. */
static bool is_python(const p4d_reading *reading)
{
	const p4d_read_value *workload = &reading->value[P4D_WORKLOAD];

	return reading->reader && !(workload->file && !strcmp(workload->text, "serve")) &&
	       strcmp(p4d_reading_framework(reading), "p4d") != 0;
}

/* Suggests to rehearse a training that p4d cannot check, if there is no other fix. */
static void offer(const p4d_job *job, p4d_verdict *v)
{
	const bool others = v->geometry.gpu && !v->geometry.gpu->sm;
	p4d_message *message = &v->message[0];
	p4d_error why;

	if (!is_unchecked(v) || message->fix[0] || !job->rehearsable || !is_plain(job->rehearsable) ||
	    !job->reading || !is_python(job->reading) || others ||
	    !p4d_guard__script_unread(job->reading, NULL, &why))
		return;
	p4d_text fix = p4d_text_in(message->fix, sizeof(message->fix));
	p4d_text_print(&fix, "p4d rehearse %s", job->rehearsable);
	for (const char *const *word = job->script_arguments; word && *word; word++) {
		p4d_text_print(&fix, " %s", *word);
		fix.truncated = fix.truncated || !is_plain(*word);
	}
	if (fix.truncated)
		message->fix[0] = '\0';
}

static const p4d_rehearsal *find(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				 void *context, p4d_verdict *v)
{
	if (!job->rehearsals || !job->rehearsals->count || !place(site, job, source, context, v))
		return NULL;
	return v->policy.rehearsals == P4D_REHEARSALS_IGNORE ? NULL : choose(job->rehearsals, &v->geometry);
}

void p4d_guard__judge_rehearsed(const p4d_site *site, const p4d_job *job, p4d_cluster_source source,
				void *context, const char *override_reason, p4d_verdict *v)
{
	const p4d_rehearsal *run = find(site, job, source, context, v);

	if (v->policy.mode == P4D_MODE_OFF || v->policy.exempt)
		return;
	if (run)
		say(run, override_reason, v);
	else
		offer(job, v);
}
