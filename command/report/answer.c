/* SPDX-License-Identifier: Apache-2.0 */
#include "report/answer.h"
#include "request/framework.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guard/submit.h"
#include "report/colocated.h"
#include "report/report.h"
#include "report/serving.h"

static void print_no_options(const p4d_reading *script)
{
	printf(": the job has no p4d options");
	if (script && *script->program) /* a program was read */
		printf(", and p4d does not know the program %s (%s:%" PRIu32 ")", script->program,
		       script->file, script->line);
	if (script && script->left.file)
		printf("; its script exits at %s:%" PRIu32 ", before any training", script->left.file,
		       script->left.line);
	printf(", not checked");
}

static void print_place(const p4d_verdict *v)
{
	printf(" on %" PRIu32 " node%s of %" PRIu32 " x %s", v->geometry.nodes,
	       v->geometry.nodes == 1 ? "" : "s", v->geometry.gpus_per_node,
	       v->geometry.gpu ? v->geometry.gpu->name : "GPUs");
}

static void print_colocated(const p4d_verdict *v, const p4d_request *request)
{
	const p4d_colocated *c = &v->colocated;

	printf(": %s, %s", request->model, c->pairs ? "preference training" : "reinforcement learning");
	print_place(v);
	printf(", %.1f of %.1f GiB", p4d_to_gib(c->training.sum), p4d_to_gib(c->capacity_bytes));
	if (!c->pairs)
		printf(" while it trains, %.1f while it generates", p4d_to_gib(c->generating.sum));
	fputs(" (unvalidated)", stdout);
}

/* Whether p4d knows the program, but not all values that it needs. */
static bool not_checked(const p4d_verdict *v)
{
	return v->read && !v->judged && !v->starts && !v->serving.max_model_len &&
	       !v->colocated.capacity_bytes && !(v->messages && v->message[0].code == P4D_E_REHEARSED);
}

/*
 * sbatch's answer as a word. A job above the limit passes if the site, or a doubt about the script, lets p4d
 * only advise.
 */
static const char *outcome(const p4d_verdict *v)
{
	static const char *const words[] = {"would pass", "would pass with a warning", "would be refused"};
	const double limit = p4d_site_policy_limit(&v->policy, v->layout.framework);

	if (v->judged && v->action == P4D_WARN && v->estimate.fraction > limit)
		return "would be submitted, but may not fit";
	if (v->action == P4D_WARN && not_checked(v))
		return "would be submitted";
	return words[v->action];
}

/* Prints the outcome in one line. script: see p4d_checked. */
static void print_answer(const p4d_verdict *v, const p4d_request *request, const p4d_reading *script)
{
	const p4d_layout *l = &v->layout;
	const char *unvalidated = v->judged ? p4d_framework_unvalidated(l) : NULL;
	char memory[128], tp[P4D_TP_TEXT];

	printf("p4d: %s", outcome(v));
	if (v->tasks)
		printf(": array task %" PRIu32, v->task);
	if (v->tasks > 1)
		printf(", the worst of %u", v->tasks);
	if (v->judged)
		printf(": %s on %" PRIu32 " node%s of %" PRIu32 " x %s, tp=%s cp=%" PRIu64 " pp=%" PRIu64
		       " dp=%" PRIu64 " micro-batch=%" PRIu64 ", %s",
		       request->model, v->geometry.nodes, v->geometry.nodes == 1 ? "" : "s",
		       v->geometry.gpus_per_node, v->estimate.gpu ? v->estimate.gpu->name : "CPU ranks",
		       p4d_layout_tp_text(l, tp), l->cp, l->pp, l->dp, l->micro_batch,
		       p4d_verdict_memory(v, memory, sizeof(memory)));
	else if (v->starts) {
		printf(": %s starts", request->model);
		print_place(v);
		printf(", %" PRIu64 " sequence%s of %" PRIu64 " tokens at a time (unvalidated)",
		       v->serving.sequences, v->serving.sequences == 1 ? "" : "s", v->serving.max_model_len);
	} else if (v->serving.max_model_len)
		printf(": %s does not start (unvalidated)", request->model);
	else if (v->colocated.capacity_bytes)
		print_colocated(v, request);
	else if (v->messages && v->message[0].code == P4D_E_REHEARSED)
		printf(": checked with the result of a rehearsal");
	else if (not_checked(v))
		printf(": not checked%s%s", v->unread[0] ? ": " : "", v->unread);
	else if (v->action == P4D_PASS && !p4d_request_any(request))
		print_no_options(script);
	else if (v->policy.exempt)
		printf(": not checked, because the account or QOS is exempt");
	else if (v->policy.mode == P4D_MODE_OFF)
		printf(": not checked, because mode = off applies to the job");
	if (unvalidated)
		printf(" (unvalidated: %s)", unvalidated);
	if (v->would_reject && v->policy.mode != P4D_MODE_ENFORCE)
		printf(" (mode = %s; mode = enforce%s would refuse it)", p4d_site_mode_name(v->policy.mode),
		       v->read && v->policy.scripts != P4D_SCRIPTS_JUDGE ? " and scripts = judge" : "");
	putchar('\n');
}

/* Suggests a rehearsal, which is possible for a Python program that p4d does not know. */
static void offer_rehearsal(const p4d_checked *answer, const char *prefix)
{
	const p4d_sbatch *sbatch = answer->sbatch;
	const char *dot = answer->script ? strrchr(answer->script->program, '.') : NULL;

	if (dot && !strcmp(dot, ".py") && sbatch->job.rehearsable && answer->verdict->action == P4D_PASS &&
	    !answer->verdict->messages && !p4d_request_any(&sbatch->request))
		printf("%sTo find out the memory of each GPU: p4d rehearse %s\n", prefix,
		       sbatch->job.rehearsable);
}

/* The parts of a judged job for which p4d has no formula; NULL: there are none. */
static const char *not_counted(const p4d_checked *answer)
{
	const p4d_layout *l = &answer->verdict->layout;
	const p4d_reading *r = answer->sbatch->job.reading;

	if (r && answer->verdict->read && p4d_reading_has_server(r) &&
	    (answer->verdict->judged || answer->verdict->colocated.capacity_bytes))
		return "the inference engine that another command starts on other GPUs of the job";
	if (!answer->verdict->judged)
		return NULL;
	if (p4d_framework_shares(l, P4D_SHARES_BY_STAGE) && l->zero_stage == 3 && r && r->saves_on_host)
		return "the 16-bit weights that rank 0 gathers in host memory when it saves "
		       "(stage3_gather_16bit_weights_on_model_save)";
	if (l->fsdp.flat && l->quant)
		return "the GPU memory during loading, before FSDP1 shards the quantized weights";
	return NULL;
}

static void print_not_counted(const p4d_checked *answer)
{
	const char *what = not_counted(answer);

	if (what)
		printf("Not counted: %s\n", what);
}

/*
 * Writes why a judged job may use more memory than p4d knows. False: there is no reason, or a message of the
 * verdict already says it.
 */
static bool list_doubts(const p4d_checked *answer, p4d_text *text)
{
	const p4d_reading *r = answer->sbatch->job.reading;
	const p4d_verdict *v = answer->verdict;

	if (!r || !v->read || !(v->judged || v->serving.max_model_len || v->colocated.capacity_bytes))
		return false;
	for (unsigned i = 0; i < v->messages; i++)
		if (v->message[i].code == P4D_E_READ)
			return false;
	for (unsigned i = 0; i < r->unknowns; i++)
		if (r->unknown[i].doubt)
			p4d_text_entry(text, ", ", "%s", r->unknown[i].why);
	return text->length;
}

static void print_doubts(const p4d_checked *answer)
{
	char buf[1024];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	if (list_doubts(answer, &text))
		printf("Not known: %s\n", buf);
}

/* Calls visit for each value that the script decided. */
static void each_read(const p4d_sbatch *sbatch,
		      void (*visit)(const char *, const char *, const char *, void *), void *context)
{
	const p4d_reading *r = sbatch->job.reading;
	char value[1024], from[PATH_MAX + 16];

	for (int i = 0; r && i < P4D_OPTIONS; i++) {
		if (sbatch->request.origin[i] != P4D_BY_SCRIPT || r->by_default[i] || !r->value[i].file)
			continue;
		snprintf(from, sizeof(from), r->value[i].line ? "%s:%" PRIu32 : "%s", r->value[i].file,
			 r->value[i].line);
		visit(p4d_request_option_info((p4d_option)i)->name,
		      p4d_request_value_text(&sbatch->request, (p4d_option)i, value, sizeof(value)), from,
		      context);
	}
}

static void add_text(const char *name, const char *value, const char *from, void *text)
{
	p4d_text_entry(text, ", ", "%s=%s (%s)", name, value, from);
}

static void add_object(const char *name, const char *value, const char *from, void *object)
{
	struct json_object *entry = json_object_new_object();

	json_object_object_add(entry, "value", json_object_new_string(value));
	json_object_object_add(entry, "from", json_object_new_string(from));
	json_object_object_add(object, name, entry);
}

static void print_read(const p4d_sbatch *sbatch)
{
	char buf[4096];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	each_read(sbatch, add_text, &text);
	if (!text.length)
		return;
	p4d_report_list("Read from the script:", buf);
}

void p4d_answer_print(const p4d_checked *answer, const char *prefix)
{
	const p4d_sbatch *sbatch = answer->sbatch;
	const p4d_verdict *v = answer->verdict;
	char text[4096];
	char *rest = text;

	p4d_verdict_text(v, text, sizeof(text)); /* the text is empty in mode observe */
	for (char *line; *text && (line = strsep(&rest, "\n"));)
		fprintf(stderr, "%s%s\n", prefix, line);
	fflush(stderr);
	fputs(prefix, stdout);
	print_answer(v, &sbatch->request, answer->script);
	offer_rehearsal(answer, prefix);
	print_read(sbatch);
	print_doubts(answer);
	print_not_counted(answer);
	if (v->policy.mode == P4D_MODE_OBSERVE)
		for (unsigned i = 0; i < v->messages; i++)
			printf("%s\n", p4d_guard_message_text(&v->message[i], text, sizeof(text)));
	if (v->judged && p4d_is_set(&sbatch->request, P4D_VERBOSE)) {
		p4d_report_layout(sbatch->request.model, &v->layout, v->geometry.nodes, v->estimate.gpu,
				  v->estimate.method);
		p4d_report_defaults(&sbatch->request, true);
		p4d_report_memory(&v->layout, &v->estimate, v->policy.safe,
				  p4d_site_policy_limit(&v->policy, v->layout.framework), NULL);
	}
	p4d_advice_print(answer->advice, prefix);
	fflush(stdout);
}

struct json_object *p4d_answer_json(const p4d_checked *answer)
{
	const p4d_sbatch *sbatch = answer->sbatch;
	const p4d_verdict *v = answer->verdict;
	struct json_object *object = json_object_new_object();
	const char *partition = v->geometry.partition[0] ? v->geometry.partition : sbatch->job.partition;

	json_object_object_add(object, "verdict", json_object_new_string(p4d_report_action(v->action)));
	json_object_object_add(object, "would_reject", json_object_new_boolean(v->would_reject));
	json_object_object_add(object, "judged", json_object_new_boolean(v->judged));
	json_object_object_add(object, "changed", json_object_new_boolean(v->changed));
	json_object_object_add(object, "mode", json_object_new_string(p4d_site_mode_name(v->policy.mode)));
	json_object_object_add(object, "partition", partition ? json_object_new_string(partition) : NULL);
	json_object_object_add(
	    object, "model", sbatch->request.model[0] ? json_object_new_string(sbatch->request.model) : NULL);
	json_object_object_add(object, "gpu", p4d_report_json_gpu(v->geometry.gpu));
	json_object_object_add(object, "layout",
			       v->judged ? p4d_report_json_layout(&v->layout, v->geometry.nodes) : NULL);
	json_object_object_add(object, "peak", v->judged ? p4d_report_json_peak(&v->estimate) : NULL);
	json_object_object_add(
	    object, "unvalidated",
	    p4d_report_json_unvalidated(v->judged ? p4d_framework_unvalidated(&v->layout) : NULL));
	json_object_object_add(object, "host",
			       v->judged ? p4d_report_json_host(&v->estimate, v->geometry.host_bytes) : NULL);
	char doubts[1024];
	p4d_text text = p4d_text_in(doubts, sizeof(doubts));
	json_object_object_add(object, "not_known",
			       list_doubts(answer, &text) ? json_object_new_string(doubts) : NULL);
	const char *left_out = not_counted(answer);
	json_object_object_add(object, "not_counted", left_out ? json_object_new_string(left_out) : NULL);
	struct json_object *serving = NULL, *colocated = NULL;
	if (v->serving.max_model_len)
		p4d_serving_json(&v->serving, serving = json_object_new_object());
	if (v->colocated.capacity_bytes)
		p4d_colocated_json(&v->colocated, colocated = json_object_new_object());
	json_object_object_add(object, "serving", serving);
	json_object_object_add(object, "colocated", colocated);
	json_object_object_add(object, "plan", v->plan[0] ? json_object_new_string(v->plan) : NULL);
	struct json_object *read = json_object_new_object();
	each_read(sbatch, add_object, read);
	json_object_object_add(object, "read", read);
	if (v->tasks)
		json_object_object_add(object, "array_task", json_object_new_int64(v->task));
	json_object_object_add(object, "by_script", json_object_new_boolean(v->read));
	json_object_object_add(object, "messages", p4d_report_json_messages(v->messages, v->message));
	json_object_object_add(object, "advice", p4d_advice_json(answer->advice));
	return object;
}

/* Whether --strict turns the answer into a failure: it has a warning, or nothing was checked. */
static bool is_doubtful(const p4d_verdict *v)
{
	return v->action == P4D_WARN || !(v->judged || v->starts || v->colocated.capacity_bytes);
}

p4d_code p4d_answer_code(const p4d_verdict *v, bool strict)
{
	const int notes = 100; /* number of the first note in codes.def */

	if (v->action != P4D_REJECT && !(strict && is_doubtful(v)))
		return P4D_OK;
	for (unsigned i = 0; i < v->messages; i++)
		if ((int)v->message[i].code < notes)
			return v->message[i].code;
	return v->messages ? v->message[0].code : P4D_E_NOT_READ;
}

void p4d_answer_misplaced(char *const *arguments, const char *script)
{
	p4d_message message;

	if (p4d_guard_misplaced((const char *const *)arguments, "p4d check", script, &message))
		p4d_report_messages(1, &message);
}

void p4d_answer_late(void)
{
	p4d_report_messages(
	    1,
	    &(p4d_message){.code = P4D_E_IO,
			   .text = "Slurm's commands did not answer within ten seconds; p4d therefore lacks "
				   "facts about nodes and partitions, and sbatch may decide differently"});
}
