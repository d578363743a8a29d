/* SPDX-License-Identifier: Apache-2.0 */
/* The properties of each schedule in the table agree with the results of other code. */
#include "support/support.h"

#include <math.h>

#include "request/defaults.h"
#include "request/framework.h"
#include "request/layout.h"
#include "schedule/schedule_order.h"
#include "search/search.h"
#include "support/durations.h"
#include "support/schedule_check.h"
#include "support/shapes.h"
#include "timeline/timeline_graph.h"

static bool megatron_has(int schedule)
{
	return p4d_framework_of(P4D_FRAMEWORK_MEGATRON)->schedules >> schedule & 1;
}

static const char *name_of(int schedule)
{
	static char name[24];

	return p4d_request_choice_name(P4D_SCHEDULE, schedule, name, sizeof(name));
}

static void names_are_the_choices(void **state)
{
	const p4d_option_info *info = p4d_request_option_info(P4D_SCHEDULE);
	char list[256] = "";
	size_t used = 0;

	(void)state;
	for (int i = 0; i < P4D_SCHEDULES; i++) {
		p4d_request r = {.gpu = ""};
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? "|" : "", name_of(i));
		assert_int_equal(p4d_request_set(&r, P4D_SCHEDULE, name_of(i), P4D_BY_USER, NULL), 0);
		assert_int_equal(r.value[P4D_SCHEDULE], i);
	}
	assert_string_equal(p4d_option_choices(info), list);
}

static void entries_are_complete(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_SCHEDULES; i++) {
		const p4d_schedule_kind *kind = p4d_schedule_kinds[i];
		assert_non_null(kind);
		assert_non_null(kind->order);
		assert_true(kind->turn < P4D_SCHEDULES);
		assert_int_equal(kind->v_shaped, kind->ends != NULL);
		assert_true(!kind->v_shaped || kind->chunks == 2);
		for (int j = 0; j < i; j++) {
			assert_ptr_not_equal(kind, p4d_schedule_kinds[j]);
			assert_int_not_equal(kind->rank, p4d_schedule_kinds[j]->rank);
		}
	}
}

/* ---- the rules of a layout ---- */

static bool permits(const p4d_request *r, int64_t micro_batches)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[r->value[P4D_SCHEDULE]];
	const int64_t pp = r->value[P4D_PP], vpp = r->value[P4D_VPP];

	if (kind->chunks ? vpp != kind->chunks : vpp == 1)
		return false;
	if (pp == 1 && (vpp > 1 || r->value[P4D_VOCAB_PARALLEL] != P4D_VOCAB_OFF))
		return false;
	if (r->value[P4D_FRAMEWORK] == P4D_FRAMEWORK_MEGATRON &&
	    (!megatron_has((int)r->value[P4D_SCHEDULE]) || r->value[P4D_VOCAB_PARALLEL] != P4D_VOCAB_OFF))
		return false;
	return (kind->vocabulary || r->value[P4D_VOCAB_PARALLEL] == P4D_VOCAB_OFF) &&
	       (!kind->in_groups || micro_batches % pp == 0);
}

/* Applies a fix such as "--p4d-NAME=VALUE ...". */
static void apply_fix(p4d_request *r, const char *fix)
{
	char flags[480];

	snprintf(flags, sizeof(flags), "%s", fix);
	for (char *flag = strtok(flags, " "); flag; flag = strtok(NULL, " ")) {
		char *value = strchr(flag, '=');
		assert_non_null(value);
		assert_int_equal(strncmp(flag, "--p4d-", 6), 0);
		*value++ = '\0';
		const int option = p4d_request_option_find(flag + 6);
		assert_true(option >= 0);
		assert_int_equal(p4d_request_set(r, (p4d_option)option, value, P4D_BY_USER, NULL), 0);
	}
}

/* If the schedule forbids a layout, p4d refuses it. At most three fixes, one after the other, give a valid
 * layout. */
static void refused(const p4d_request *asked, const p4d_error *first)
{
	p4d_request r = *asked;
	p4d_error err = *first;
	p4d_layout l;
	int fixes = 0;

	do {
		if (err.code != P4D_E_SCHEDULE)
			fail_msg("%s: %s", name_of((int)r.value[P4D_SCHEDULE]), err.text);
		assert_true(err.text[0] && err.fix[0]);
		apply_fix(&r, err.fix);
		assert_true(++fixes <= 3);
	} while (p4d_layout_build(&r, (uint64_t)r.value[P4D_PP], 1, &l, &err) < 0);
}

static void compiles(const p4d_layout *l)
{
	const p4d_schedule s = p4d_schedule_of(l);
	p4d_instruction_list *lists = compiled(&s);
	bool weights = false;
	p4d_error err;

	if (p4d_schedule_check(&s, lists, &err) < 0)
		fail_msg("%s: %s", shape_text(&s), err.text);
	for (uint32_t stage = 0; stage < s.stages; stage++)
		for (size_t i = 0; i < lists[stage].count; i++)
			weights = weights || lists[stage].at[i].op == P4D_OP_BACKWARD_WEIGHT;
	assert_int_equal(weights, p4d_schedule_kinds[s.kind]->split);
	release(lists, &s);
}

static void rules_are_what_the_entry_says(void **state)
{
	unsigned permitted[P4D_SCHEDULES] = {0}, forbidden[P4D_SCHEDULES] = {0};

	(void)state;
	for (unsigned i = 0; i < P4D_SCHEDULES * 5 * 4 * 11 * 3 * 2; i++) {
		const int schedule = (int)(i % P4D_SCHEDULES);
		unsigned rest = i / P4D_SCHEDULES;
		const int64_t pp = 1 + rest % 5, vpp = 1 + rest / 5 % 4, micro_batches = 1 + rest / 20 % 11;
		rest /= 220;
		p4d_request r = {.gpu = ""};
		p4d_layout l;
		p4d_error err;
		set_all(&r, MODEL_13B "layers=720 seq-len=512 tp=1 cp=1 micro-batch=1");
		p4d_request_put(&r, P4D_SCHEDULE, schedule, P4D_BY_USER);
		p4d_request_put(&r, P4D_PP, pp, P4D_BY_USER);
		p4d_request_put(&r, P4D_VPP, vpp, P4D_BY_USER);
		p4d_request_put(&r, P4D_GLOBAL_BATCH, micro_batches, P4D_BY_USER);
		p4d_request_put(&r, P4D_VOCAB_PARALLEL, rest % 3, P4D_BY_USER);
		p4d_request_put(&r, P4D_FRAMEWORK, rest / 3 ? P4D_FRAMEWORK_MEGATRON : P4D_FRAMEWORK_P4D,
				P4D_BY_USER);
		p4d_request_complete(&r, 0, (uint64_t)pp);
		const bool built = p4d_layout_build(&r, (uint64_t)pp, 1, &l, &err) == 0;
		if (built != permits(&r, micro_batches))
			fail_msg("%s pp=%d vpp=%d vocabulary=%d micro-batches=%d: %s", name_of(schedule),
				 (int)pp, (int)vpp, (int)r.value[P4D_VOCAB_PARALLEL], (int)micro_batches,
				 built ? "let through" : err.text);
		if (built)
			compiles(&l);
		else
			refused(&r, &err);
		(built ? permitted : forbidden)[schedule]++;
	}
	for (int i = 0; i < P4D_SCHEDULES; i++)
		assert_true(permitted[i] > 10 && forbidden[i] > 10);
}

/* If the user sets no number of chunks, p4d assumes the schedule's fixed number. A schedule for any number
 * of chunks needs the option. */
static void default_chunks(void **state)
{
	(void)state;
	for (int i = 0; i < P4D_SCHEDULES; i++) {
		const p4d_schedule_kind *kind = p4d_schedule_kinds[i];
		p4d_request r = {.gpu = ""};
		p4d_layout l;
		set_all(&r, MODEL_13B "tp=1 pp=4");
		p4d_request_put(&r, P4D_SCHEDULE, i, P4D_BY_USER);
		p4d_request_complete(&r, 0, 4);
		assert_int_equal(p4d_layout_build(&r, 4, 1, &l, NULL), kind->chunks ? 0 : -1);
	}
}

/* ---- the step time ---- */

/* A schedule in phases (all forward passes first) has a formula for its time. Every other schedule reaches
 * a steady state. */
static void formula_and_period(const p4d_schedule *shape)
{
	const p4d_schedule_kind *kind = p4d_schedule_kinds[shape->kind];
	p4d_schedule s = *shape;
	p4d_timeline_graph graph = {.nodes = 0};
	p4d_schedule_order order;
	p4d_pass pass;
	bool phases = true, backward = false;

	p4d_schedule_order_begin(&s, 0, &order);
	while (p4d_schedule_order_next(&order, &pass)) {
		phases = phases && !(backward && pass.op == P4D_OP_FORWARD);
		backward = backward || pass.op != P4D_OP_FORWARD;
	}
	if (kind->in_phases) {
		assert_true(phases);
		return;
	}
	s.micro_batches = p4d_timeline_graph__enough(&s);
	assert_int_equal(s.micro_batches % (kind->in_groups ? s.stages : p4d_schedule_slices(&s)), 0);
	assert_int_equal(p4d_timeline_graph__build(&s, false, &graph, NULL), 0);
	if (graph.windows == 0)
		fail_msg("%s: no steady state", shape_text(&s));
	assert_int_equal(graph.micro_batches, kind->in_groups ? s.stages : p4d_schedule_slices(&s));
	free(graph.node);
}

static void same_as_the_events(const p4d_schedule *s, p4d_timeline_work *work)
{
	p4d_instruction_list *lists = compiled(s);
	durations_store store;
	const p4d_durations d = random_durations(s, &store);
	p4d_timeline timeline;
	double seconds, bubble;

	assert_int_equal(p4d_timeline_seconds(s, &d, work, &seconds, &bubble, NULL), 0);
	assert_int_equal(p4d_timeline_run(s, lists, &d, false, &timeline, NULL), 0);
	if (fabs(seconds / timeline.seconds - 1) > 1e-9 || fabs(bubble - timeline.bubble_fraction) > 1e-9)
		fail_msg("%s: %.12g s with bubble %.9f, not %.12g s with %.9f", shape_text(s), seconds,
			 bubble, timeline.seconds, timeline.bubble_fraction);
	p4d_timeline_free(&timeline, s->stages);
	release(lists, s);
}

static void step_time_is_that_of_the_events(void **state)
{
	p4d_timeline_work work = {0};

	(void)state;
	for (int i = 0; i < P4D_SCHEDULES; i++) {
		const p4d_schedule_kind *kind = p4d_schedule_kinds[i];
		for (uint32_t stages = kind->chunks == 1 ? 1 : 2; stages <= 9; stages++) {
			p4d_schedule s = {i, P4D_VOCAB_OFF, stages, least_chunks(i), 0, 1, false};
			const int last = kind->vocabulary && stages > 1 ? P4D_VOCAB_2 : P4D_VOCAB_OFF;
			for (; s.vocabulary <= last; s.vocabulary++) {
				/* fewer micro-batches than the steady state needs, up to many more */
				for (uint32_t groups = 1; groups <= 64; groups *= 4) {
					s.micro_batches = groups * (kind->in_groups ? stages : 3);
					same_as_the_events(&s, &work);
				}
				formula_and_period(&s);
			}
			s.vocabulary = P4D_VOCAB_OFF;
			for (s.slices = 2; kind->slices && s.slices <= 5; s.slices++) {
				for (uint32_t groups = 1; groups <= 64; groups *= 4) {
					s.micro_batches = groups * s.slices;
					same_as_the_events(&s, &work);
				}
				formula_and_period(&s);
			}
		}
	}
	p4d_timeline_work_free(&work);
}

/* ---- the search ---- */

enum { MOST = 8192 };

static p4d_gpus gpus;

/* Counts the candidates of a search for each schedule. */
static size_t search(const char *asked, int schedule, unsigned *each)
{
	static p4d_candidate found[MOST];
	p4d_request r = {.gpu = ""};
	const p4d_search_space space = {.nodes = 2,
					.gpus_per_node = 8,
					.published_batch = 64,
					.capacity = {p4d_gpu_find(&gpus, "h100-80gb", NULL), 0, 0},
					.safe = 0.80,
					.limit = 0.95};

	set_all(&r, asked);
	if (schedule >= 0)
		p4d_request_put(&r, P4D_SCHEDULE, schedule, P4D_BY_USER);
	const size_t n = p4d_search_run(&r, &space, found, MOST, NULL);
	assert_true(n < MOST);
	memset(each, 0, P4D_SCHEDULES * sizeof(*each));
	for (size_t i = 0; i < n; i++)
		each[found[i].request.value[P4D_SCHEDULE]]++;
	return n;
}

static void search_tries_every_entry(void **state)
{
	unsigned open[P4D_SCHEDULES], again[P4D_SCHEDULES], megatron[P4D_SCHEDULES], asked[P4D_SCHEDULES];

	(void)state;
	search(MODEL_13B "seq-len=2048 framework=p4d", -1, open);
	search(MODEL_13B "seq-len=2048 framework=p4d recompute=full", -1, again);
	search(MODEL_13B "seq-len=2048 framework=megatron", -1, megatron);
	for (int i = 0; i < P4D_SCHEDULES; i++) {
		const p4d_schedule_kind *kind = p4d_schedule_kinds[i];
		assert_int_equal(open[i] > 0, !kind->only_asked);
		assert_int_equal(again[i] > 0, !kind->only_asked && !kind->idle_if_recomputed);
		assert_int_equal(megatron[i] > 0, !kind->only_asked && megatron_has(i));
		size_t n = search(MODEL_13B "seq-len=2048 framework=p4d", i, asked);
		assert_true(n > 0 && asked[i] == n);
		n = search(MODEL_13B "seq-len=2048 framework=megatron", i, asked);
		assert_int_equal(n > 0, megatron_has(i));
		n = search(MODEL_13B "seq-len=2048 framework=p4d vocab-parallel=vocab-1", i, asked);
		assert_int_equal(n > 0, kind->vocabulary);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_the_choices),           cmocka_unit_test(entries_are_complete),
	    cmocka_unit_test(rules_are_what_the_entry_says),   cmocka_unit_test(default_chunks),
	    cmocka_unit_test(step_time_is_that_of_the_events), cmocka_unit_test(search_tries_every_entry),
	};

	if (p4d_gpus_load(&gpus, NULL, NULL) < 0)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	p4d_gpus_free(&gpus);
	return failed;
}
