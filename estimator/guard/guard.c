/* SPDX-License-Identifier: Apache-2.0 */
/* The submitting side: completes a request, then checks it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cost/cost.h"
#include "guard/guard_internal.h"
#include "guard/script_request.h"
#include "guard/verdict.h"
#include "job/job_limits.h"
#include "job/script.h"
#include "plan/memory_played.h"
#include "request/architecture.h"
#include "request/defaults.h"
#include "request/framework.h"
#include "search/search.h"

/* "pp=1 micro-batch=2 recompute=none": the values that p4d chose. Returns whether there are any. */
static bool write_choices(const p4d_request *asked, const p4d_request *complete, bool assumed, char *buf,
			  size_t size)
{
	p4d_text choices = p4d_text_in(buf, size);
	char value[64];

	for (size_t i = 0; i < P4D_LAYOUT_OPTIONS; i++) {
		p4d_option option = p4d_layout_options[i];
		bool rare = option == P4D_CP || option == P4D_CP_COMM || option == P4D_VPP ||
			    option == P4D_SCHEDULE || option == P4D_VOCAB_PARALLEL ||
			    option == P4D_EVAL_MICRO_BATCH || option == P4D_EP || option == P4D_ETP ||
			    option == P4D_TOKEN_SLICES;
		if (p4d_is_set(asked, option) && asked->value[option] == complete->value[option])
			continue;
		if (rare && p4d_layout_is_default(complete, option) && !p4d_is_set(asked, option))
			continue;
		p4d_text_entry(&choices, " ", "%s=%s", p4d_request_option_info(option)->name,
			       p4d_request_value_text(complete, option, value, sizeof(value)));
	}
	p4d_layout_add_sharing(complete, "", &choices);
	if (p4d_layout_grid_is_open(asked))
		p4d_text_entry(&choices, " ", "tp-grid=%s",
			       p4d_layout_grid_text(complete, value, sizeof(value)));
	if (p4d_is_set(complete, P4D_PIPELINE_SPLIT) && !p4d_is_set(asked, P4D_PIPELINE_SPLIT))
		p4d_text_entry(&choices, " ", "pipeline-split=%.60s%s", complete->pipeline_split,
			       strlen(complete->pipeline_split) > 60 ? "..." : "");
	if (assumed)
		p4d_text_entry(&choices, " ", "framework=%s",
			       p4d_framework_of((int)complete->value[P4D_FRAMEWORK])->name);
	return choices.length > 0;
}

static void say_choice(const p4d_request *asked, const p4d_request *complete, p4d_code code, p4d_verdict *v)
{
	char choices[256], batch[96], assumed[160] = "", memory[128];

	if (!write_choices(asked, complete, v->assumed, choices, sizeof(choices)))
		return;
	if (p4d_is_chosen(complete, P4D_SEQ_LEN) || complete->origin[P4D_GLOBAL_BATCH] >= P4D_BY_MODEL)
		snprintf(assumed, sizeof(assumed), " seq-len=%" PRIu64 " global-batch=%s", v->layout.seq_len,
			 p4d_defaults_batch_text(complete, "--p4d-", batch, sizeof(batch)));
	p4d_verdict__say(v, code, "%s %s%s: %s on %s", code == P4D_E_CHOSE ? "chose" : "changed to", choices,
			 assumed, p4d_verdict_memory(v, memory, sizeof(memory)),
			 p4d_on_gpu(v->layout.device) ? v->estimate.gpu->name : "the host");
}

/* Warns that the budget of the search was too small, so that a better layout may exist. */
static void say_cut(const p4d_request *complete, p4d_verdict *v)
{
	static const char text[] =
	    "p4d did not compare all layouts; to shorten the search, give tp, pp or micro-batch";
	p4d_message *message = p4d_verdict__say(v, P4D_E_SEARCH_CUT, text);

	snprintf(message->fix, sizeof(message->fix),
		 "--p4d-tp=%" PRId64 " --p4d-pp=%" PRId64 " --p4d-micro-batch=%" PRId64,
		 complete->value[P4D_TP], complete->value[P4D_PP], complete->value[P4D_MICRO_BATCH]);
}

static void admit_cut(p4d_error *err)
{
	p4d_error inner = *err;

	p4d_fail(err, inner.code, "%.430s; p4d did not compare all layouts", inner.text);
	p4d_fix(err, "%s", inner.fix);
}

/* True when the error is about the layout, so that another layout may avoid it. */
static bool is_curable(p4d_code code)
{
	return code == P4D_E_DOES_NOT_FIT || (code >= P4D_E_HEADS && code <= P4D_E_SCHEDULE);
}

/* Checks a complete request. If the user sets only the number of slices, adds their lengths to the plan. */
static int judge(p4d_guard_work *g, p4d_error *err)
{
	const p4d_geometry *geometry = &g->verdict->geometry;
	p4d_layout layout;

	if (p4d_is_set(g->request, P4D_TOKEN_SLICES) && !p4d_is_set(g->request, P4D_SLICE_LENGTHS) &&
	    p4d_layout_build(g->request, geometry->nodes, geometry->gpus_per_node, &layout, NULL) == 0)
		p4d_cost_choose_slices(g->request, &layout, geometry->gpu);
	return p4d_guard__judge(g->site, g->job, g->request, g->verdict, err);
}

/* Chooses the options that are open, within the site's rewrite policy, and checks the result. */
static int complete_and_judge(p4d_guard_work *g, p4d_error *err)
{
	const p4d_request asked = *g->request;
	p4d_verdict *v = g->verdict;
	uint64_t world = (uint64_t)v->geometry.nodes * v->geometry.gpus_per_node;
	p4d_candidate best;
	p4d_search_counts counts = {.considered = 0};

	if (!g->by_script && !g->as_written && v->policy.rewrite != P4D_REWRITE_OFF &&
	    p4d_search_preferred(&asked, &g->space, &best, &counts)) {
		*g->request = best.request;
	} else {
		if (counts.considered)
			*g->request =
			    counts.smallest.request; /* a refusal shows the memory of the smallest layout */
		else
			p4d_request_complete(g->request, g->published_batch, world);
	}
	int rc = judge(g, err);
	p4d_code code = P4D_E_CHOSE;
	if (rc < 0 && is_curable(err->code) && !g->searches) {
		p4d_fix(err, P4D_FIX_CHECK);
	} else if (rc < 0 && err->code == P4D_E_MIG && g->searches) {
		p4d_guard__correct_mig(g, &asked, err);
	} else if (rc < 0 && is_curable(err->code)) {
		p4d_request attempted = *g->request;
		if (p4d_guard__correct(g, &asked, true, err) == 0) {
			code = P4D_E_CHANGED;
			rc = judge(g, err);
		} else {
			*g->request = attempted;
		}
	}
	if (rc == 0 && g->searches)
		p4d_guard__suggest(g, &asked);
	p4d_plan_place(g->request, v->geometry.nodes, v->geometry.gpus_per_node,
		       v->geometry.gpu ? v->geometry.gpu->name : NULL);
	if (v->judged && g->searches &&
	    p4d_plan_add_checksum(g->request, &v->layout, v->geometry.gpu, err) < 0)
		return -1;
	if (rc == 0 && !g->by_script && !g->as_written)
		say_choice(&asked, g->request, code, v);
	if (rc == 0 && g->budget.cut)
		say_cut(g->request, v);
	else if (g->budget.cut)
		admit_cut(err);
	v->changed = code == P4D_E_CHANGED || v->messages > 0;
	return rc;
}

/* Whether expandable segments alone make the job safe. */
static bool is_safe_expandable(const p4d_guard_work *g)
{
	p4d_layout layout = g->verdict->layout;
	p4d_estimate e;

	layout.allocator = P4D_ALLOCATOR_EXPANDABLE;
	if (p4d_memory_estimate(&layout, P4D_METHOD_PLAN, &g->space.capacity, &e, NULL) < 0)
		return false;
	p4d_memory_play(&layout, &g->space.capacity, &e);
	return e.fraction <= g->verdict->policy.safe;
}

static void say_above_safe(const p4d_guard_work *g, p4d_verdict *v, const p4d_request *request)
{
	const p4d_estimate *e = &v->estimate;

	if (!e->capacity_bytes || e->fraction <= v->policy.safe ||
	    e->fraction > p4d_site_policy_limit(&v->policy, v->layout.framework))
		return;
	v->action = P4D_WARN;
	p4d_message *message = p4d_verdict__say(
	    v, P4D_E_ABOVE_SAFE, "%.1f of %.1f GiB (%.0f %%) on %s%s is above the safe %.0f %% of this site",
	    p4d_to_gib(e->peak.device_bytes), p4d_to_gib(e->capacity_bytes), 100 * e->fraction,
	    p4d_on_gpu(v->layout.device) ? e->gpu->name : "the host",
	    p4d_guard__is_bound(request) ? ", if a micro-batch has a sequence of the longest length," : "",
	    100 * v->policy.safe);
	const char *fix = p4d_framework_of(v->layout.framework)->above_safe_fix;
	if (fix && v->layout.allocator == P4D_ALLOCATOR_DEFAULT && is_safe_expandable(g))
		snprintf(message->fix, sizeof(message->fix), "%s", fix);
}

static void say_ambiguous(p4d_verdict *v)
{
	if (v->geometry.ambiguous > 1 && v->geometry.gpu)
		p4d_verdict__say(
		    v, P4D_E_AMBIGUOUS_GPU,
		    "the GPU name matches %u GPUs with different memory; p4d assumes %s (%.1f GiB)",
		    v->geometry.ambiguous, v->geometry.gpu->name, p4d_to_gib(v->geometry.gpu->usable_bytes));
}

/* Refuses to judge an architecture or a program without formulas. The user's framework comes first. */
static bool is_unmodelled(const p4d_guard_work *g, const char **program)
{
	p4d_request *request = g->request;
	p4d_script script = {.frameworks = 0};

	if (g->job->script)
		script = p4d_script_scan(g->job->script, g->job->script_length, NULL);
	if (script.frameworks)
		p4d_request_default(request, P4D_FRAMEWORK, __builtin_ctz(script.frameworks), P4D_BY_P4D);
	if (script.sets_allocator ? script.expandable : g->job->expandable)
		p4d_request_default(request, P4D_ALLOCATOR, P4D_ALLOCATOR_EXPANDABLE, P4D_BY_P4D);
	p4d_site_apply_defaults(g->site, g->job->partition, request);
	*program = request->unmodelled[0] ? NULL : p4d_guard__other(&script, request);
	p4d_error why;
	if (!*program && !request->unmodelled[0] && !p4d_framework_models(request, &why))
		snprintf(request->unmodelled, sizeof(request->unmodelled), "%.159s", why.text);
	const p4d_architecture *architecture = p4d_architecture_of(request);
	if (!*program && !request->unmodelled[0] && architecture->unvalidated)
		snprintf(request->unmodelled, sizeof(request->unmodelled),
			 "p4d's formulas for %.40s are unvalidated: nobody compared the formulas with real "
			 "code (p4d estimate prints the prediction)",
			 architecture->name);
	return *program || request->unmodelled[0];
}

static int judge_unmodelled(p4d_guard_work *g, const char *program, p4d_error *err)
{
	p4d_request *request = g->request;
	p4d_verdict *v = g->verdict;

	if (program)
		snprintf(request->unmodelled, sizeof(request->unmodelled), "%s", program);
	p4d_request_default(request, P4D_UNMODELLED, 1, program ? P4D_BY_P4D : P4D_BY_MODEL);
	if (p4d_guard__judge_unmodelled(request, program, v, err) < 0)
		return -1;
	return p4d_plan_write(request, v->plan, sizeof(v->plan), err);
}

/* Whether a file that the script names has an architecture without formulas. */
static bool is_unknown_model(const p4d_guard_work *g, p4d_error *err)
{
	char place[208];

	if (!g->request->unmodelled[0])
		return false;
	p4d_fail(err, P4D_E_UNMODELLED, "%.120s was not checked, because p4d does not model it: %.200s",
		 p4d_guard__script_place(g->job->reading, place, sizeof(place)), g->request->unmodelled);
	return true;
}

/* Whether p4d checks the script's values like typed options. */
static bool judges(const p4d_guard_work *g, const p4d_verdict *v)
{
	const p4d_reading *reading = g->job->reading;

	return v->policy.scripts == P4D_SCRIPTS_JUDGE && !(reading && p4d_reading_doubt(reading));
}

/* Whether the job says what it trains: by options or, in a site that needs a plan, by a fully read script. */
static bool says_training(const p4d_guard_work *g, const p4d_verdict *v)
{
	const p4d_reading *reading = g->job->reading;

	return v->policy.scripts != P4D_SCRIPTS_IGNORE && reading && !p4d_reading_doubt(reading);
}

static bool was_judged(const p4d_verdict *v)
{
	return v->judged || v->colocated.capacity_bytes || v->serving.max_model_len;
}

/* Removes the plan and fixes made of options, because an inference engine has a part of the job's GPUs. */
static void leave_to_user(p4d_verdict *v)
{
	v->plan[0] = '\0';
	for (unsigned i = 0; i < v->messages; i++)
		if (!strncmp(v->message[i].fix, "--", 2))
			v->message[i].fix[0] = '\0';
}

/* Turns the verdict into advice, for a job without p4d options, which runs as it would without p4d. */
static void advise(const p4d_guard_work *g, p4d_verdict *v)
{
	char place[208];

	v->read = true;
	if (was_judged(v))
		p4d_verdict__identify(v, g->request);
	if (p4d_reading_has_server(g->job->reading))
		leave_to_user(v);
	if (!judges(g, v)) {
		v->action = v->action == P4D_REJECT ? P4D_WARN : v->action;
		v->only_warned = false;
		v->plan[0] = '\0';
		v->changed = false;
	}
	if (v->policy.scripts == P4D_SCRIPTS_IGNORE) {
		v->messages = 0;
		v->would_reject = false;
		v->action = P4D_PASS;
	}
	if (v->messages && was_judged(v)) {
		const char *doubt = p4d_reading_doubt(g->job->reading);
		p4d_verdict__say(v, P4D_E_READ, "p4d read the values in %s%s%s%s",
				 p4d_guard__script_place(g->job->reading, place, sizeof(place)),
				 doubt ? ", though " : "", doubt ? doubt : "",
				 v->action == P4D_REJECT ? "" : "; the job is submitted as it is");
	}
}

static void say_unused(p4d_verdict *v, const p4d_request *request)
{
	const p4d_option unused = p4d_heeds_unused(request);
	char text[160];

	if (unused == P4D_OPTIONS)
		return;
	v->action = P4D_WARN;
	p4d_verdict__say(v, P4D_E_NO_EFFECT, "%s",
			 p4d_heeds_unused_text(request, unused, "--p4d-", text, sizeof(text)));
}

static int judge_serving(p4d_guard_work *g, p4d_error *err)
{
	p4d_verdict *v = g->verdict;
	const int rc = p4d_guard__judge_serving(g->site, g->job, g->source, g->context, g->request, v, err);

	say_unused(v, g->request);
	for (unsigned i = 0; g->by_script && i < v->messages; i++)
		p4d_guard__script_flag(g->job->reading, v->message[i].fix, sizeof(v->message[i].fix));
	if (g->by_script && rc < 0)
		p4d_guard__script_flag(g->job->reading, err->fix, sizeof(err->fix));
	p4d_verdict__say_partly(v, g->request);
	return rc < 0 ? -1 : p4d_plan_write(g->request, v->plan, sizeof(v->plan), err);
}

/* Writes a smaller micro-batch with the same global batch as arguments of the script's program, or no fix. */
static void write_micro_batch(const p4d_guard_work *g, char *fix, size_t size)
{
	const p4d_geometry *geometry = &g->verdict->geometry;
	const int64_t sequences = strtoll(fix + strlen(P4D_FIX_MICRO_BATCH), NULL, 10);
	p4d_request asked = *g->request;
	p4d_text text = p4d_text_in(fix, size);

	p4d_colocated_complete(&asked, (uint64_t)geometry->nodes * geometry->gpus_per_node);
	p4d_request_complete(&asked, g->published_batch, (uint64_t)geometry->nodes * geometry->gpus_per_node);
	p4d_request fewer = asked, pasted = asked;
	p4d_request_put(&fewer, P4D_MICRO_BATCH, sequences, P4D_BY_P4D);
	if (!p4d_guard__script_fix(g->job->reading, &asked, &fewer, geometry, geometry, NULL, true, &pasted,
				   &text))
		fix[0] = '\0';
}

static int judge_colocated(p4d_guard_work *g, p4d_error *err)
{
	p4d_verdict *v = g->verdict;

	p4d_guard__judge_colocated(g->request, g->published_batch, v);
	if (g->request->value[P4D_WORKLOAD] == P4D_WORKLOAD_PREFERENCE)
		p4d_guard__say_releases_of_pairs(g->job, g->request, g->published_batch, v);
	for (unsigned i = 0; g->by_script && i < v->messages; i++) {
		char *fix = v->message[i].fix;
		if (!strncmp(fix, P4D_FIX_MICRO_BATCH, strlen(P4D_FIX_MICRO_BATCH)))
			write_micro_batch(g, fix, sizeof(v->message[i].fix));
		else
			p4d_guard__script_flag(g->job->reading, fix, sizeof(v->message[i].fix));
	}
	p4d_verdict__say_partly(v, g->request);
	return p4d_plan_write(g->request, v->plan, sizeof(v->plan), err);
}

/* Warns if the micro-batch of evaluation is larger than that of training, so that it may fill the GPUs. */
static void say_evaluation(p4d_verdict *v, const p4d_reading *reading, const p4d_request *request)
{
	const int64_t size = request->value[P4D_EVAL_MICRO_BATCH];
	const p4d_read_value *there = &reading->value[P4D_EVAL_MICRO_BATCH];

	if (request->origin[P4D_EVAL_MICRO_BATCH] != P4D_BY_SCRIPT || p4d_framework_evaluates(request) ||
	    !p4d_is_set(request, P4D_MICRO_BATCH) || size <= request->value[P4D_MICRO_BATCH])
		return;
	p4d_verdict__say(v, P4D_E_PARTLY,
			 "p4d checked only training, not evaluation with micro-batches of %" PRId64
			 " (%.100s:%" PRIu32 ")",
			 size, there->file, there->line);
}

/* Whether a training next to a serving engine has only some of the job's nodes or of a node's GPUs. */
static bool take_part(const p4d_guard_work *g, p4d_geometry *geometry, p4d_error *err)
{
	const p4d_reading *r = g->job->reading;
	const uint32_t nodes = r->by_default[P4D_NODES]
				   ? 0
				   : (uint32_t)strtoul(r->value[P4D_NODES].text, NULL, 10),
		       gpus = (uint32_t)strtoul(r->value[P4D_GPUS_PER_NODE].text, NULL, 10);
	char place[208];

	if (!(nodes && nodes < geometry->nodes) && !(gpus && gpus < geometry->gpus_per_node)) {
		p4d_guard__script_place(r, place, sizeof(place));
		p4d_fail(err, P4D_E_NOT_READ,
			 "%.120s was not checked: the job also serves a model (%u command%s), and p4d "
			 "does not know on which GPUs",
			 place, r->serving, r->serving > 1 ? "s" : "");
		return false;
	}
	if (nodes && nodes < geometry->nodes)
		geometry->nodes = nodes;
	if (gpus && gpus < geometry->gpus_per_node)
		geometry->gpus_per_node = gpus;
	geometry->tasks_per_node = 0;
	return true;
}

/* Whether p4d leaves the job unchecked, because the script's values turn out to be incomplete. */
static bool is_left(const p4d_guard_work *g, int placed, p4d_error *err)
{
	if (g->by_script && (placed < 0 || is_unknown_model(g, err)))
		return true;
	if (g->by_script && p4d_reading_has_server(g->job->reading) &&
	    !take_part(g, &g->verdict->geometry, err))
		return true;
	return placed == 0 && g->request->origin[P4D_MODEL] == P4D_BY_SCRIPT &&
	       p4d_guard__starts_others(g, err);
}

static void leave(p4d_guard_work *g, p4d_cluster_source source, void *context, p4d_error why)
{
	if (!g->by_script) /* a job that needs a plan but has none */
		p4d_guard_verify(g->site, g->job, source, context, NULL, NULL, g->verdict);
	if (g->by_script || !g->verdict->would_reject)
		p4d_verdict__leave_unread(g->verdict, g->job, &why);
	if (g->by_script && why.code == P4D_E_UNMODELLED &&
	    g->verdict->policy.unmodelled != P4D_UNMODELLED_PASS)
		p4d_guard__say_weights(g->site, g->job, source, context, g->request, g->verdict);
}

static int complete(p4d_guard_work *g, p4d_cluster_source source, void *context, p4d_error *err)
{
	p4d_verdict *v = g->verdict;
	p4d_job job = *g->job;
	const char *program = NULL;

	if (p4d_job_check_limits(g->job, err) < 0)
		return -1;
	if (!p4d_is_set(g->request, P4D_MODEL)) {
		p4d_fail(err, P4D_E_INCOMPLETE_MODEL, "p4d options were given without --p4d-model");
		return p4d_fix(err, "--p4d-model=NAME (`p4d models` lists the presets)");
	}
	const bool serves = p4d_guard__serves(g->request);
	const bool unmodelled = !serves && is_unmodelled(g, &program);
	job.cpu = p4d_is_set(g->request, P4D_DEVICE) && !p4d_on_gpu(g->request->value[P4D_DEVICE]);
	const int placed = p4d_guard__place(g->site, &job, source, context, v, err);
	if (is_left(g, placed, err)) {
		leave(g, source, context, *err);
		return 0;
	}
	if (unmodelled)
		return judge_unmodelled(g, program, err);
	if (placed < 0) {
		if (job.clusters)
			v->policy.on_error = P4D_ON_ERROR_PASS; /* p4d of the other cluster checks the job */
		return -1;
	}
	if (serves)
		return judge_serving(g, err);
	if (p4d_guard__holds_several_models(g->request))
		return judge_colocated(g, err);
	p4d_request_default(g->request, P4D_FRAMEWORK, p4d_framework_default(g->request), P4D_BY_P4D);
	p4d_gpu_set_domain(v->geometry.gpu, g->request);
	p4d_site_apply_network(g->site, g->job->partition, v->geometry.gpu, g->request);
	g->budget = (p4d_search_budget){.left = P4D_GUARD_SEARCH_UNITS};
	g->space = (p4d_search_space){
	    .budget = &g->budget,
	    .memo = &g->memo,
	    .nodes = v->geometry.nodes,
	    .gpus_per_node = v->geometry.gpus_per_node,
	    .published_batch = g->published_batch,
	    .capacity = {v->geometry.gpu, v->geometry.host_bytes, p4d_site_host_bytes_per_rank(g->site)},
	    .method = P4D_METHOD_PLAN,
	    .safe = v->policy.safe,
	    .limit = p4d_site_policy_limit(&v->policy, (int)g->request->value[P4D_FRAMEWORK]),
	};
	say_ambiguous(v);
	say_unused(v, g->request);
	if (g->job->reading)
		say_evaluation(v, g->job->reading, g->request);
	p4d_verdict__say_partly(v, g->request);
	g->memo = p4d_plan_memo_of(P4D_SEARCH_MEMO);
	int rc = complete_and_judge(g, err);
	free(g->memo.entry);
	g->memo.entry = NULL;
	if (rc == 0) {
		say_above_safe(g, v, g->request);
		p4d_guard__say_host_memory(g->site, &job, source, context, v);
	} else {
		p4d_guard__fix_memory(g->site, &job, source, context, v, v->estimate.host_bytes, err);
	}
	/* a refused job that was checked also has a plan: an override or mode = warn may let it pass */
	if (v->judged && p4d_plan_write(g->request, v->plan, sizeof(v->plan), rc == 0 ? err : NULL) < 0 &&
	    rc == 0)
		return -1;
	return rc;
}

/* Whether a fix made of options reaches the program of a script that sets its own layout. */
static bool reaches_program(const p4d_guard_work *g, const char *fix)
{
	p4d_request typed = {.model = ""}, without;
	p4d_job job = *g->job;
	p4d_pasted room;
	p4d_error err;

	return !p4d_guard__script_binds(job.reading, g->job) || !p4d_guard__paste(&room, fix, &job, &typed) ||
	       !p4d_guard__settle_typed(job.reading, p4d_site_datadir(g->site), &typed, &without, &err);
}

/* Removes a fix of options if p4d would refuse the fixed job, too, or adds the fix of that second refusal. */
static void judge_fix(const p4d_guard_work *g, const p4d_request *asked, bool again, p4d_error *err)
{
	p4d_request request = *asked;
	p4d_job job = *g->job;
	p4d_pasted room;
	p4d_verdict v = {.messages = 0};
	char both[2 * sizeof(err->fix)];

	if (!reaches_program(g, err->fix))
		err->fix[0] = '\0';
	/* p4d_guard__correct has already checked its own fix */
	if (!err->fix[0] || is_curable(err->code) || err->code == P4D_E_NO_LAYOUT || g->by_script ||
	    !p4d_guard__paste(&room, err->fix, &job, &request))
		return;
	/* an option cannot change which program the script starts */
	if (strstr(err->fix, "--p4d-framework=") && job.reading && p4d_guard__script_framework(job.reading)) {
		err->fix[0] = '\0';
		return;
	}
	p4d_guard__complete(g->site, &job, g->source, g->context, g->published_batch, again, &request, &v);
	if (!v.messages || v.action != P4D_REJECT)
		return;
	snprintf(both, sizeof(both), "%s %s", err->fix, v.message[0].fix);
	err->fix[0] = '\0';
	if (again && v.message[0].fix[0] && strlen(both) < sizeof(err->fix) &&
	    p4d_guard__paste(&room, both, &job, &request))
		p4d_fix(err, "%s", both);
}

void p4d_guard__complete(const p4d_site *site, const p4d_job *job, p4d_cluster_source source, void *context,
			 uint32_t published_batch, bool searches, p4d_request *request, p4d_verdict *verdict)
{
	char name[P4D_PARTITION_NAME];
	const p4d_job named = p4d_guard__in_default(site, job, source, context, name);
	p4d_guard_work g = {.site = site,
			    .job = &named,
			    .source = source,
			    .context = context,
			    .published_batch = published_batch,
			    .request = request,
			    .verdict = verdict,
			    .by_script = !p4d_request_any(request),
			    .searches = searches};
	p4d_error err = {.code = P4D_OK};
	const p4d_request asked = *request;

	bool required = false;

	g.as_written = !g.by_script && p4d_guard__script_binds(named.reading, &named);
	if (g.by_script) {
		p4d_guard_verify(site, job, source, context, NULL, NULL, verdict);
		required = p4d_verdict_requires_plan(verdict);
		if (!p4d_is_set(request, P4D_MODEL) ||
		    (verdict->would_reject && !(required && says_training(&g, verdict))))
			return;
	}
	memset(verdict, 0, sizeof(*verdict));
	verdict->policy = p4d_guard_policy(site, &named, NULL);
	if (!verdict->policy.exempt && verdict->policy.mode != P4D_MODE_OFF &&
	    complete(&g, source, context, &err) < 0) {
		if (searches) {
			p4d_guard__limit_nodes(&g, &err);
			judge_fix(&g, &asked, err.code == P4D_E_HOST_MEMORY, &err);
		}
		if (g.by_script && err.code == P4D_E_UNMODELLED)
			p4d_verdict__leave_unread(verdict, &named, &err);
		else
			p4d_verdict__error(verdict, &err);
	}
	p4d_verdict__name_model(verdict, request);
	p4d_verdict__finish(verdict, p4d_is_set(request, P4D_OVERRIDE) ? request->override_reason : NULL);
	if (required && !was_judged(verdict))
		p4d_guard_verify(site, job, source, context, NULL, NULL, verdict);
	else if (g.by_script)
		advise(&g, verdict);
}

void p4d_guard_fail(const p4d_site *site, const p4d_job *job, const p4d_error *err,
		    const char *override_reason, p4d_verdict *verdict)
{
	memset(verdict, 0, sizeof(*verdict));
	verdict->policy = p4d_guard_policy(site, job, NULL);
	p4d_verdict__error(verdict, err);
	p4d_verdict__finish(verdict, override_reason);
}
