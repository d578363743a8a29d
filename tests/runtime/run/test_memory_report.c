/* SPDX-License-Identifier: Apache-2.0 */
/* Compares predicted memory with used memory: for each class, the bytes of an arena that each rank wrote,
 * and the memory of the host. */
#include "support/support.h"

#include <inttypes.h>
#include <math.h>
#include <json-c/json.h>

#include "checkpoint/checkpoint_internal.h"
#include "request/framework.h"
#include "run/checkpoint_trainer.h"
#include "run/memory_report.h"
#include "support/forked.h"
#include "support/training.h"

enum { VOCAB = 203 };

#define MODEL \
	"model=custom layers=4 hidden=32 ffn=64 heads=4 kv-heads=2 head-dim=8 vocab=203 seq-len=32 " \
	"tied=off " \
	"bias=none qk-norm=off global-batch=16 micro-batch=1 "

static const char *options;

/* The most bytes of a class that no run on the CPU writes: padding of each copy of a row, and memory that
 * only GPUs need. */
static uint64_t unwritten_at_most(const p4d_plan *plan, int part)
{
	uint64_t bytes = part == P4D_PART_WORKING_SET ? 65536 : 0;

	for (unsigned i = 0; i < plan->count; i++)
		if (plan->tensor[i].part == (p4d_memory_class)part)
			bytes +=
			    (uint64_t)plan->tensor[i].slots * plan->tensor[i].layers * P4D_ARENA_ALIGNMENT;
	return bytes;
}

static void check_report(const p4d_memory_report *r, const p4d_plan *plan)
{
	uint64_t planned = 0, used = 0;

	for (int i = 0; i < P4D_PART_COUNT; i++) {
		CHECK(r->used[i] <= r->planned[i]);
		planned += r->planned[i];
		used += r->used[i];
		/* the first and the last stage send in one direction only; short sequences and small
		 * matmuls do not use their whole workspace */
		if (i == P4D_PART_STAGING || i == P4D_PART_LIBRARIES || i == P4D_PART_ATTENTION)
			continue;
		if (r->used[i] + unwritten_at_most(plan, i) >= r->planned[i])
			continue;
		fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " bytes\n",
			p4d_memory_class_name((p4d_memory_class)i), r->used[i], r->planned[i]);
		_exit(FORKED_WRONG);
	}
	CHECK(r->planned_bytes == planned && r->used_bytes == used && r->allocated_bytes == planned);
	CHECK(r->planned_bytes == plan->arena_bytes);
	CHECK(r->host.arena == planned && r->host.sum > planned + r->host.saving + r->host.loading);
	CHECK(r->host_peak > used && r->host_mapped > 0);
}

/* Compares the predicted host memory with the memory that saving and loading use on this rank. */
static void check_host(const p4d_layout *layout, p4d_trainer *t)
{
	const p4d_weights *weights = p4d_trainer_weights(t);
	const p4d_place place = p4d_trainer_place(t);
	const p4d_host_class host = p4d_memory_host_of_rank(layout, place.pp, 0, 0);
	uint64_t first, count, largest = 0;

	for (uint32_t i = 0; i < weights->segments; i++) {
		p4d_trainer_shard(t, i, &first, &count);
		largest = count > largest ? count : largest;
	}
	CHECK(host.loading == largest * sizeof(float));
	CHECK(p4d_checkpoint_staging_bytes(layout, weights, place) ==
	      (p4d_checkpoint__owns_shards(layout, place) ? host.saving : 0));
}

static const uint32_t unwritten = 0xfff1fff1;

static const uint32_t *arena_of(const p4d_trainer *t)
{
	const p4d_tensor *row = p4d_plan_find(p4d_trainer_plan(t), B_GRADIENTS);

	return (const uint32_t *)(p4d_trainer_gradients(t) - row->offset / 4);
}

/* Checks that only rows of this phase were written until now. */
static void check_phase(const p4d_trainer *t, p4d_phase phase)
{
	const p4d_plan *plan = p4d_trainer_plan(t);

	CHECK(plan->phase_bytes[phase] < plan->arena_bytes);
	for (uint64_t i = plan->phase_bytes[phase] / 4; i < plan->arena_bytes / 4; i++)
		CHECK(arena_of(t)[i] == unwritten);
}

static int fetch(void *context, p4d_state state, const p4d_weight_slice *slice, uint64_t at, uint64_t count,
		 float *to, p4d_error *err)
{
	(void)context, (void)state, (void)slice, (void)at, (void)err;
	for (uint64_t i = 0; i < count; i++)
		to[i] = 1;
	return 0;
}

/* Loads a checkpoint, as a resumed run does. */
static int load(const p4d_layout *layout, p4d_trainer *t, p4d_error *err)
{
	const p4d_checkpoint_storage storage = p4d_checkpoint_storage_of(t, layout, VOCAB);

	TRY(p4d_checkpoint__fill_storage(&storage, fetch, NULL, err));
	return p4d_trainer_restore(t, err);
}

/* Marks gradients as unwritten, because the weights were generated in the gradients' memory. */
static void forget_gradients(const p4d_trainer *t)
{
	uint32_t *word = (uint32_t *)p4d_trainer_gradients(t);

	for (uint64_t i = 0; i < p4d_plan_find(p4d_trainer_plan(t), B_GRADIENTS)->bytes / 4; i++)
		word[i] = unwritten;
}

/* Counts the words of a row's copies that were written, and marks them as expected. */
static uint64_t take_row(const uint32_t *arena, char *expected, const p4d_tensor *row)
{
	uint64_t written = 0;

	for (uint64_t slot = 0; slot < row->slots; slot++)
		for (uint64_t layer = 0; layer < row->layers; layer++) {
			const uint64_t at =
			    (row->offset + slot * row->slot_stride + layer * row->layer_stride) / 4;
			for (uint64_t i = at; i < at + row->bytes / 4; i++) {
				written += arena[i] != unwritten;
				expected[i] = 1;
			}
		}
	return written * 4;
}

/* A run that only evaluates writes only rows that evaluation needs, no bytes outside of the plan, and no
 * gradients. It uses all slots, as training does. */
static void check_evaluation(const p4d_layout *layout, const p4d_trainer *t)
{
	const p4d_plan *plan = p4d_trainer_plan(t);
	const uint32_t *arena = arena_of(t);
	char *expected = calloc(plan->arena_bytes / 4, 1);
	const unsigned points = p4d_framework_of(layout->framework)->evaluation;

	CHECK(expected);
	for (unsigned i = 0; i < plan->count; i++) {
		const p4d_tensor *row = &plan->tensor[i];
		const uint64_t copies = (uint64_t)row->slots * row->layers;
		const bool in_range = row->lifetime == P4D_LIVES_IN_RANGE;
		if (row->id == B_GRADIENTS || (in_range && !(row->live_range & points)))
			continue;
		const uint64_t written = take_row(arena, expected, row);
		CHECK(in_range || row->lifetime == P4D_LIVES_ALWAYS ||
		      written + copies * P4D_ARENA_ALIGNMENT > copies * row->bytes);
	}
	for (uint64_t i = 0; i < plan->arena_bytes / 4; i++)
		CHECK(arena[i] == unwritten || (expected[i] && i * 4 < plan->phase_bytes[P4D_EVALUATION]));
	free(expected);
}

static int work(p4d_world *world, uint32_t rank, uint32_t size, p4d_error *err)
{
	uint32_t ranks[FORKED_MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
	p4d_job_plan plan = {.gpu = NULL};
	p4d_memory_report report;
	p4d_step_result result;
	p4d_evaluated evaluated;
	p4d_device device;
	p4d_trainer *t;
	p4d_group *all;

	(void)rank;
	TRY(training_layout(options, size, &plan.layout, err));
	TRY(p4d_device_cpu_open(&device, err));
	p4d_trainer_settings settings = training_settings(&plan.layout, &device, world, VOCAB);
	TRY(p4d_trainer_open(&t, &settings, err));
	TRY(p4d_group_open(&all, world, ranks, size, err));
	/* until here, only tables of positions were written */
	TRY(p4d_memory_report_make(&report, &plan, t, &device, all, err));
	CHECK(report.used_bytes < 4096 && report.used[P4D_PART_PARAMS] == 0);
	TRY(load(&plan.layout, t, err));
	TRY(p4d_memory_report_make(&report, &plan, t, &device, all, err));
	CHECK(report.used[P4D_PART_PARAMS] > 0 && report.used[P4D_PART_OPTIMIZER] > 0);
	check_phase(t, P4D_RESUME);
	TRY(p4d_trainer_initialize(t, 1, err));
	check_phase(t, P4D_INIT);
	training_text text = {&plan.layout, p4d_trainer_place(t), VOCAB, .documents = false};
	forget_gradients(t);
	TRY(p4d_trainer_evaluate(t, 1, training_source, &text, &evaluated, err));
	check_evaluation(&plan.layout, t);
	TRY(p4d_trainer_step(t, 1, 0.001f, training_source, &text, &result, err));
	CHECK(result.applied && isfinite(result.loss));
	TRY(p4d_memory_report_make(&report, &plan, t, &device, all, err));
	/* rank 0 is the first of the ranks with the largest arena, so the report is about rank 0 */
	CHECK(report.rank == 0);
	if (rank == report.rank)
		check_report(&report, p4d_trainer_plan(t));
	check_host(&plan.layout, t);
	/* a report must fail if the device has allocated more than the plan */
	device.allocated_bytes += P4D_ARENA_ALIGNMENT;
	CHECK(p4d_memory_report_make(&report, &plan, t, &device, all, err) < 0);
	CHECK(err->code == P4D_E_PLAN_CHANGED);
	p4d_group_close(all);
	p4d_trainer_close(t);
	device.close(&device);
	return 0;
}

static void used_is_what_was_planned(void **state)
{
	static const struct {
		uint32_t ranks;
		const char *options;
	} cases[] = {
	    {1, MODEL "tp=1 cp=1 pp=1 vpp=1 precision=fp32"},
	    {1, MODEL "tp=1 cp=1 pp=1 vpp=1 precision=bf16 recompute=full"},
	    {2, MODEL "tp=1 cp=1 pp=2 vpp=1 precision=fp32 schedule=1f1b recompute=mlp"},
	    {2, MODEL "tp=1 cp=1 pp=1 vpp=1 precision=fp32 optimizer-sharding=off"},
	    {4, MODEL "tp=2 cp=1 pp=2 vpp=2 precision=bf16 schedule=interleaved"},
	    {4, MODEL "tp=1 cp=2 pp=2 vpp=1 precision=fp32 schedule=1f1b vocab-parallel=vocab-1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		forked f;
		options = cases[i].options;
		forked_init(&f, cases[i].ranks, NULL);
		forked_start(&f, work);
		const bool in_time = forked_finish(&f, 300);
		if (!forked_all_well(&f) || !in_time)
			fail_msg("%u ranks, %s", cases[i].ranks, options);
	}
}

static int64_t number(struct json_object *of, const char *part, const char *key)
{
	struct json_object *object = part ? json_object_object_get(of, part) : of, *member;

	if (!json_object_object_get_ex(object, key, &member))
		fail_msg("no %s", key);
	return json_object_get_int64(member);
}

static void said(void **state)
{
	const uint64_t mib = 1 << 20;
	const p4d_memory_report r = {
	    .rank = 3,
	    .planned = {[P4D_PART_PARAMS] = 7 * mib, [P4D_PART_STAGING] = 2 * mib},
	    .used = {[P4D_PART_PARAMS] = 7 * mib, [P4D_PART_STAGING] = mib / 2},
	    .planned_bytes = 9 * mib,
	    .allocated_bytes = 9 * mib,
	    .used_bytes = 7 * mib + mib / 2,
	    .host = {.saving = mib, .loading = 2 * mib, .sum = 100 * mib},
	    .host_peak = 50 * mib,
	    .host_mapped = 4 * mib,
	};
	char text[2048];
	p4d_text line = p4d_text_in(text, sizeof(text));

	(void)state;
	p4d_json_text_open(&line, NULL, '{');
	p4d_memory_report_json(&r, &line);
	p4d_json_text_close(&line, '}');
	struct json_object *json = json_tokener_parse(text);
	assert_non_null(json);
	assert_int_equal(number(json, NULL, "rank"), 3);
	assert_int_equal(number(json, NULL, "planned_bytes"), 9 * mib);
	assert_int_equal(number(json, NULL, "used_bytes"), 7 * mib + mib / 2);
	assert_int_equal(number(json, "planned", "staging"), 2 * mib);
	assert_int_equal(number(json, "used", "staging"), mib / 2);
	assert_null(json_object_object_get(json_object_object_get(json, "used"), "logits"));
	assert_int_equal(number(json, NULL, "host_planned_bytes"), 100 * mib);
	assert_int_equal(number(json, NULL, "host_peak_bytes"), 50 * mib);
	json_object_put(json);
	/* a report of a device that cannot tell which memory was written */
	p4d_memory_report silent = r;
	silent.used_bytes = P4D_NOT_MODELLED;
	for (int i = 0; i < P4D_PART_COUNT; i++)
		silent.used[i] = P4D_NOT_MODELLED;
	line = p4d_text_in(text, sizeof(text));
	p4d_memory_report_json(&silent, &line);
	assert_non_null(strstr(text, "\"used_bytes\":null"));
	assert_non_null(strstr(text, "\"used\":{\"params\":null,\"staging\":null}"));
	p4d_memory_report_text(&silent, text, sizeof(text));
	assert_non_null(strstr(text, "\nparameters              7.000         -\nstaging"));
	assert_string_equal(
	    p4d_memory_report_text(&r, text, sizeof(text)),
	    "memory of rank 3      planned      used  (MiB)\n"
	    "parameters              7.000     7.000\n"
	    "staging                 2.000     0.500\n"
	    "arena                   9.000     7.500  9.000 allocated\n"
	    "host                  100.000    50.000  the most of any rank; 4.000 of it in mapped files");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(used_is_what_was_planned),
	    cmocka_unit_test(said),
	};

	return cmocka_run_group_tests_name("memory report", tests, NULL, NULL);
}
