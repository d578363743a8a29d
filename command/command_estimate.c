/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "command.h"
#include "command_pages.h"
#include "plan/memory_played.h"
#include "report/colocated.h"
#include "report/report.h"
#include "report/serving.h"
#include "report/unfit.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "search/search.h"

typedef struct judged {
	p4d_layout layout;
	p4d_estimate estimate;
	p4d_action action;
	p4d_code code; /* the exit status */
	double safe, limit;
	p4d_timed timed;
} judged;

/* The largest work of a search: about one second, which is enough for all layouts of usual models. */
enum { FIX_UNITS = 100000000 };

/*
 * Finds the layout closest to the request that fits on the same GPUs or on more, and writes its command to
 * `fix`; other ways to make it fit are in words. False: the search was cut short. A quick query gets neither.
 */
static bool find_fix(const p4d_subject *subject, const p4d_request *asked, const judged *j, char *fix,
		     size_t size, char *words, size_t room)
{
	p4d_search_budget budget = {.left = FIX_UNITS};
	const p4d_search_space space = {.nodes = subject->nodes,
					.gpus_per_node = subject->gpus_per_node,
					.published_batch = subject->preset.global_batch,
					.capacity = subject->capacity,
					.method = subject->method,
					.safe = j->safe,
					.limit = j->limit,
					.budget = &budget};
	p4d_candidate found;
	uint64_t nodes, gpus_per_node;
	char smaller[480];

	words[0] = fix[0] = '\0';
	if (subject->quick)
		return true;
	if (p4d_search_nearest(asked, &space, &found) >= 0) {
		p4d_subject_command(subject, &found.request, subject->nodes, subject->gpus_per_node, fix,
				    size);
		return !budget.cut;
	}
	const bool grown = p4d_search_smallest(asked, &space, p4d_subject_most_gpus(subject), &nodes,
					       &gpus_per_node, &found) == 0;
	if (grown)
		p4d_subject_command(subject, &found.request, nodes, gpus_per_node, fix, size);
	if (budget.cut) /* the search found no layout in the time it had */
		return false;
	p4d_unfit_ways_out(subject, asked, &space, grown, words, room, smaller, sizeof(smaller));
	if (!grown)
		snprintf(fix, size, "%s", smaller);
	return !budget.cut;
}

/* The reason why fragmentation may be smaller than predicted, so that the job might fit. NULL: there is no
 * reason. No site refuses a job because of fragmentation that is uncertain. */
static const char *unsure(const judged *j)
{
	return j->estimate.fraction > j->limit ? p4d_memory_unsure(&j->layout, &j->estimate, j->limit) : NULL;
}

static void judge_memory(p4d_subject *subject, const p4d_request *asked, judged *j)
{
	const p4d_estimate *e = &j->estimate;
	const char *what = !p4d_on_gpu(j->layout.device) ? "the host memory of a rank"
			   : subject->capacity.gpu       ? subject->capacity.gpu->name
							 : "";
	char fix[480], words[320], stage[P4D_WHERE_TEXT];

	if (!e->capacity_bytes)
		return;
	if (e->fraction > j->limit) {
		const bool whole = find_fix(subject, asked, j, fix, sizeof(fix), words, sizeof(words));
		const char *may_fit = unsure(j);
		p4d_subject_say(
		    subject, may_fit ? P4D_E_UNVALIDATED : P4D_E_DOES_NOT_FIT, fix,
		    "%s%s%s%.200s needs %.1f of %.1f GiB (%.0f %%, limit %.0f %%) of %s on %s%s%.240s%s",
		    may_fit ? "unvalidated (" : "", may_fit ? may_fit : "", may_fit ? "): " : "",
		    subject->model, p4d_to_gib(e->peak.device_bytes), p4d_to_gib(e->capacity_bytes),
		    100 * e->fraction, 100 * j->limit, what, p4d_memory_where(&j->layout, e, stage),
		    p4d_memory_accumulated(&j->layout), words,
		    whole ? "" : "; p4d did not compare all layouts for the fix");
		j->action = may_fit ? P4D_WARN : P4D_REJECT;
		j->code = may_fit ? P4D_OK : P4D_E_DOES_NOT_FIT;
	} else if (e->fraction > j->safe) {
		p4d_subject_say(subject, P4D_E_ABOVE_SAFE, "",
				"%.1f of %.1f GiB (%.0f %%) is above the safe %.0f %%",
				p4d_to_gib(e->peak.device_bytes), p4d_to_gib(e->capacity_bytes),
				100 * e->fraction, 100 * j->safe);
		j->action = P4D_WARN;
	}
}

static void judge_host_memory(p4d_subject *subject, judged *j)
{
	const uint64_t need = j->estimate.host_bytes, have = subject->mem_bytes;
	char fix[64];

	if (need == P4D_NOT_MODELLED || !have || need <= have)
		return;
	snprintf(fix, sizeof(fix), "--mem=%" PRIu64 "G", (need >> 30) + 1);
	p4d_subject_say(subject, P4D_E_HOST_MEMORY, fix,
			"a node needs %.1f GiB of host memory and has %.1f GiB", p4d_to_gib(need),
			p4d_to_gib(have));
	j->action = P4D_REJECT;
	if (j->code == P4D_OK)
		j->code = P4D_E_HOST_MEMORY;
}

/* The largest imbalance of experts with which the layout fits; 0: none, or unknown. */
static double most_imbalance(const p4d_subject *subject, const judged *j)
{
	if (j->layout.ep == 1 || !j->layout.experts || !j->estimate.capacity_bytes)
		return 0;
	return p4d_memory_most_imbalance(&j->layout, subject->method, &subject->capacity, j->limit);
}

/*
 * Prints how much imbalance of experts the verdict tolerates, because nobody knows a job's imbalance in
 * advance.
 */
static void print_imbalance(const p4d_subject *subject, const judged *j)
{
	const double most = most_imbalance(subject, j);

	if (j->layout.ep == 1 || !j->layout.experts || !j->estimate.capacity_bytes)
		return;
	if (most >= P4D_MOST_IMBALANCE)
		puts("Imbalance of experts: the job fits with any imbalance");
	else if (most > 0)
		printf("Imbalance of experts: the job fits up to %.2f (now %.4g)\n", floor(100 * most) / 100,
		       j->layout.imbalance);
	else
		puts("Imbalance of experts: the job does not fit even without imbalance");
}

/* Prints how the lengths of documents affect the step, if the request has documents. */
static int print_documents(const p4d_subject *subject, const judged *j, p4d_error *err)
{
	const p4d_cost_of_documents of = p4d_cost_documents(&j->layout);
	p4d_layout slowest = j->layout;
	p4d_timed timed;

	if (!j->layout.document_len || !j->timed.known)
		return 0;
	slowest.document_excess = of.excess;
	if (p4d_report_time_step(&slowest, subject->capacity.gpu, &timed, err) < 0)
		return -1;
	printf("Documents of random length, %" PRIu64
	       " tokens on average: attention needs %.0f %% of the FLOPs that it would need for whole "
	       "sequences.",
	       j->layout.document_len, 100 * of.share);
	if (j->layout.dp > 1)
		printf(" The slowest of %" PRIu64 " data-parallel ranks needs %.0f %% more attention FLOPs "
		       "than the mean, so the step takes %.1f %% longer.",
		       j->layout.dp, 100 * of.excess, 100 * (timed.step.seconds / j->timed.step.seconds - 1));
	putchar('\n');
	return 0;
}

/* The part of the prediction that p4d has compared with no measurement. NULL: p4d has compared all parts. */
static const char *unvalidated(const p4d_subject *subject, const judged *j)
{
	const char *what = p4d_framework_unvalidated(&j->layout);

	if (!what)
		what = unsure(j);
	return what || j->code != P4D_E_DOES_NOT_FIT
		   ? what
		   : p4d_memory_of_newer(&j->layout, subject->method, &subject->capacity, j->limit);
}

static int print_json(const p4d_subject *subject, const judged *j, p4d_error *err)
{
	struct json_object *object = json_object_new_object(), *stages;

	if (p4d_report_json_stages(&j->layout, &j->estimate, &stages, err) < 0)
		return -1;
	json_object_object_add(object, "model", json_object_new_string(subject->model));
	json_object_object_add(object, "framework",
			       json_object_new_string(p4d_framework_of(j->layout.framework)->name));
	json_object_object_add(
	    object, "method",
	    json_object_new_string(p4d_memory_method_name(j->estimate.method, j->layout.framework)));
	json_object_object_add(object, "gpu", p4d_report_json_gpu(subject->capacity.gpu));
	json_object_object_add(object, "layout", p4d_report_json_layout(&j->layout, subject->nodes));
	json_object_object_add(object, "peak", p4d_report_json_peak(&j->estimate));
	json_object_object_add(object, "unvalidated", p4d_report_json_unvalidated(unvalidated(subject, j)));
	json_object_object_add(object, "stages", stages);
	json_object_object_add(object, "step", p4d_report_json_step(&j->timed));
	const double most = most_imbalance(subject, j);
	json_object_object_add(object, "most_imbalance", most > 0 ? json_object_new_double(most) : NULL);
	json_object_object_add(object, "host", p4d_report_json_host(&j->estimate, subject->mem_bytes));
	json_object_object_add(object, "defaults", p4d_report_json_defaults(&subject->request));
	json_object_object_add(
	    object, "verdict",
	    j->estimate.capacity_bytes ? json_object_new_string(p4d_report_action(j->action)) : NULL);
	json_object_object_add(object, "messages",
			       p4d_report_json_messages(subject->messages, subject->message));
	return p4d_report_json_print(object, err);
}

static const char *verdict_text(const p4d_subject *subject, const judged *j, char *buf, size_t size)
{
	const char *what = unvalidated(subject, j);
	const p4d_estimate *e = &j->estimate;

	if (e->capacity_bytes)
		snprintf(buf, size, "Verdict: %s%s%s%s: %.1f of %.1f GiB (%.0f %%)",
			 p4d_report_action(j->action), what ? " (unvalidated: " : "", what ? what : "",
			 what ? ")" : "", p4d_to_gib(e->peak.device_bytes), p4d_to_gib(e->capacity_bytes),
			 100 * e->fraction);
	else if (!p4d_on_gpu(j->layout.device))
		snprintf(buf, size, "Verdict: none, host memory per node unknown; add --mem SIZE");
	else
		snprintf(buf, size, "Verdict: none, no GPU given; add --gpu NAME (p4d gpus lists them)");
	return buf;
}

/* Prints the assumptions, and then the answer: whether the job fits, its memory, and a fix if it does not
 * fit. */
static void print_verdict(const p4d_subject *subject, const judged *j)
{
	char text[512];

	fflush(stdout);
	p4d_report_messages(subject->assumptions, subject->message);
	puts(verdict_text(subject, j, text, sizeof(text)));
	fflush(stdout);
	p4d_report_messages(subject->messages - subject->assumptions,
			    subject->message + subject->assumptions);
}

/* Prints the value found for "auto", if it fits. */
static void print_largest(const p4d_subject *subject, p4d_option option, const judged *j)
{
	if (option != P4D_OPTIONS && j->estimate.fraction <= j->limit)
		printf("The largest %s that fits%s: %" PRId64 "\n", p4d_request_option_info(option)->name,
		       option == P4D_SEQ_LEN ? "" : ", of powers of two", subject->request.value[option]);
}

static int print_text(const p4d_subject *subject, const p4d_line *line, const judged *j, p4d_error *err)
{
	if (line->quiet) {
		print_verdict(subject, j);
		return 0;
	}
	p4d_report_layout(subject->model, &j->layout, subject->nodes, subject->capacity.gpu,
			  j->estimate.method);
	print_verdict(subject, j);
	print_largest(subject, line->largest, j);
	putchar('\n');
	p4d_report_defaults(&subject->request, line->verbose);
	p4d_subject_print_framework(&subject->request, false);
	if (p4d_report_memory(&j->layout, &j->estimate, j->safe, j->limit, err) < 0)
		return -1;
	p4d_report_step(subject->capacity.gpu, &j->timed);
	print_imbalance(subject, j);
	return print_documents(subject, j, err);
}

/* Completes the subject's request and computes its memory. */
static int work_out(p4d_subject *subject, judged *j, p4d_error *err)
{
	p4d_request_complete(&subject->request, subject->preset.global_batch,
			     subject->nodes * subject->gpus_per_node);
	if (p4d_layout_build(&subject->request, subject->nodes, subject->gpus_per_node, &j->layout, err) < 0)
		return -1;
	p4d_cost_choose_slices(&subject->request, &j->layout, subject->capacity.gpu);
	j->safe = subject->policy.safe;
	j->limit = p4d_site_policy_limit(&subject->policy, j->layout.framework);
	if (p4d_memory_estimate(&j->layout, subject->method, &subject->capacity, &j->estimate, err) < 0)
		return -1;
	p4d_memory_play(&j->layout, &subject->capacity, &j->estimate);
	return 0;
}

/* Whether the subject's request fits with this value. If no layout has this value: false, and *err is set. */
static bool fits_with(const p4d_subject *subject, p4d_option option, int64_t value, p4d_error *err)
{
	p4d_subject tried = *subject;
	judged j = {.action = P4D_PASS};

	p4d_request_put(&tried.request, option, value, P4D_BY_USER);
	return work_out(&tried, &j, err) == 0 && j.estimate.fraction <= j.limit;
}

/*
 * Replaces "auto" by the largest value that fits: a power of two (sequences), or a multiple of 1,024 up to
 * the model's maximum (tokens). If not even the smallest value fits, the option gets that value.
 */
static int take_largest(p4d_subject *subject, p4d_option option, p4d_error *err)
{
	const int64_t usual = option == P4D_SEQ_LEN ? 1024 : 1,
		      most = option != P4D_SEQ_LEN ? 65536
			     : p4d_is_set(&subject->request, P4D_MAX_SEQ_LEN)
				 ? subject->request.value[P4D_MAX_SEQ_LEN]
				 : 1 << 20,
		      least =
			  usual < most ? usual : most; /* the model's maximum, if it is below 1,024 tokens */
	int64_t value = least, step = least;
	p4d_error why = {.code = P4D_OK};

	if (!subject->capacity.gpu) {
		p4d_fail(err, P4D_E_USAGE, "without --gpu, p4d cannot find the largest value that fits");
		return p4d_fix(err, "--gpu NAME (p4d gpus lists them)");
	}
	while (2 * value <= most && fits_with(subject, option, 2 * value, &why))
		value *= 2;
	if (option == P4D_SEQ_LEN)
		for (step = value / 2; step >= least; step /= 2)
			if (value + step <= most && fits_with(subject, option, value + step, &why))
				value += step;
	p4d_request_put(&subject->request, option, value, P4D_BY_P4D);
	return 0;
}

static int estimate(p4d_subject *subject, const p4d_line *line, p4d_error *err)
{
	judged j = {.action = P4D_PASS, .code = P4D_OK};

	if (p4d_subject_open(subject, line, false, err) < 0)
		return -1;
	if (line->html && subject->request.value[P4D_WORKLOAD] != P4D_WORKLOAD_TRAIN)
		return p4d_fail(err, P4D_E_USAGE, "--html writes a page only for training");
	if (subject->request.value[P4D_WORKLOAD] == P4D_WORKLOAD_SERVE)
		return p4d_serving_report(subject, line->largest == P4D_SEQ_LEN, line->json, err);
	if (subject->request.value[P4D_WORKLOAD] >= P4D_WORKLOAD_RL &&
	    !p4d_framework_trains_pairs(&subject->request))
		return p4d_colocated_report(subject, line->json, err);
	if (p4d_subject_trains(subject, err) < 0 ||
	    (line->largest != P4D_OPTIONS && take_largest(subject, line->largest, err) < 0))
		return -1;
	p4d_request asked = subject->request;
	if (work_out(subject, &j, err) < 0 ||
	    (!subject->quick && p4d_report_time_step(&j.layout, subject->capacity.gpu, &j.timed, err) < 0))
		return -1;
	/* a fix must not change the global batch, whose default depends on the micro-batch */
	if (!p4d_is_set(&asked, P4D_GLOBAL_BATCH) && p4d_framework_of(j.layout.framework)->fine_tunes)
		p4d_request_put(&asked, P4D_GLOBAL_BATCH, (int64_t)j.layout.global_batch, P4D_BY_P4D);
	judge_memory(subject, &asked, &j);
	p4d_subject_say_precision(subject, &subject->request);
	judge_host_memory(subject, &j);
	const p4d_picture picture = {line->svg, subject->model, &j.layout, subject->capacity.gpu,
				     j.safe,    j.limit};
	char verdict[512];
	const p4d_estimate_page page = {
	    .subject = subject,
	    .picture = &picture,
	    .estimate = &j.estimate,
	    .timed = &j.timed,
	    .verdict = verdict_text(subject, &j, verdict, sizeof(verdict)),
	    .action = j.action,
	};
	if ((line->svg && p4d_picture_memory(&picture, &j.estimate, err) < 0) ||
	    (line->html && p4d_command__estimate_page(&page, line->html, err) < 0))
		return -1;
	if ((line->json ? print_json(subject, &j, err) : print_text(subject, line, &j, err)) < 0)
		return -1;
	return (int)j.code;
}

int p4d_command_estimate(const p4d_line *line, p4d_error *err)
{
	p4d_subject subject = {0};
	int status = estimate(&subject, line, err);

	p4d_subject_close(&subject);
	return status;
}
