/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares p4d's predicted reserved memory with rehearsals, which are the rows of
 * tests/data/rehearsed_memory.csv (tests/rehearsal/make_rehearsed_memory.py writes them). If p4d does not
 * simulate the allocator for a row, its constant share is compared. `while` in a row means that the author
 * of *_reserved.c saw the row while writing the order of a step. rehearsed_phases.csv has other phases of
 * such trainings, and rehearsed_memory_2.4.csv has older releases.
 *
 * P4D_TEST_VERBOSE=1 prints every row, and P4D_TEST_PLANS=1 also prints its plan. P4D_TEST_ROWS and
 * P4D_TEST_PHASES name other files.
 */
#include "support/deviations.h"
#include "support/rows.h"

#include "plan/plan.h"
#include "plan/memory_played.h"
#include "request/architecture.h"
#include "request/defaults.h"

enum { GROUPS = 32 };

/* Columns whose names are not those of options. */
static bool differs(const csv_row *r, const char *name)
{
	static const char *const always[] = {"program", "attention", "micro-batches", "gpu"};
	const bool transformers = row_has(r, "program", "transformers"),
		   fsdp = row_has(r, "framework", "fsdp");

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (!strcmp(name, always[i]))
			return true;
	if (!strcmp(name, "shard-degree"))
		return transformers;
	if (!strcmp(name, "fsdp-version")) /* torchtitan has only FSDP2 */
		return !transformers;
	if (!strcmp(name, "zero-stage"))
		return !row_has(r, "framework", "deepspeed");
	if (!strcmp(name, "offload"))
		return !row_has(r, "framework", "deepspeed") && !row_has(r, "framework", "fsdp");
	if (!strcmp(name, "adapter-dtype"))
		return row_has(r, "finetune", "full") || fsdp;
	return !strcmp(name, "autocast") && !row_has(r, "framework", "ddp");
}

static uint64_t ranks(const csv_row *r, const char *name)
{
	const uint64_t n = row_number(r, name);

	return n ? n : 1;
}

/* Whether PyTorch's scaled_dot_product_attention chooses cuDNN on this GPU (sdp_utils.cpp). */
static bool prefers_cudnn(const csv_row *r)
{
	int major = 0, minor = 0;

	assert_int_equal(sscanf(row_field(r, "torch"), "%d.%d", &major, &minor), 2);
	return row_gpu(r)->sm >= 90 && (major > 2 || minor >= 11);
}

static void layout_of(const csv_row *r, p4d_layout *l)
{
	const uint64_t world = row_number(r, "dp") * ranks(r, "tp") * ranks(r, "pp");
	p4d_request q = {.gpu = ""};
	p4d_error err;

	set_all(&q, "model=custom");
	if (row_has(r, "program", "transformers"))
		set_all(&q, row_has(r, "attention", "eager") ? "model-code=transformers attention=unfused"
			    : prefers_cudnn(r)               ? "model-code=transformers attention=cudnn"
							     : "model-code=transformers attention=flash");
	else
		set_all(&q, "positions=rope bias=none norm=rmsnorm glu=on");
	if (row_has(r, "program", "megatron"))
		set_all(&q, "dropout=off te-wgrad=off cross-entropy=unfused qk-norm=off");
	for (int i = 0; strcmp(r->name[i], "gpu"); i++) { /* the columns after this one are measurements */
		const int option = p4d_request_option_find(r->name[i]);
		if (option >= 0 && *r->field[i] && !differs(r, r->name[i]))
			row_set(&q, r, option,
				strcmp(r->field[i], "optimizer+params") ? r->field[i] : "optimizer,params");
	}
	if (row_has(r, "program", "transformers")) {
		char release[32];
		int major, minor;
		assert_int_equal(sscanf(row_field(r, "release"), "%d.%d", &major, &minor), 2);
		snprintf(release, sizeof(release), "transformers=%d.%d", major, minor);
		set_all(&q, release);
	}
	row_set_batch(&q, r, row_number(r, "dp"));
	p4d_architecture_defaults(&q);
	if (q.value[P4D_POSITIONS] == P4D_LEARNED)
		set_all(&q, "max-seq-len=2048");
	p4d_request_complete(&q, 0, world);
	if (p4d_layout_build(&q, 1, world, l, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
}

/* The most memory that a rank has until the last optimizer step, because the rows end there. */
typedef struct held {
	uint64_t allocated, reserved;
	bool played; /* true: `reserved` comes from a simulation of the allocator; false: from the constant
		      * share */
	uint32_t stage;
} held;

static uint64_t named(const p4d_plan *plan, const char *name)
{
	for (unsigned i = 0; i < plan->count; i++)
		if (!strcmp(plan->tensor[i].name, name))
			return plan->tensor[i].bytes;
	return 0;
}

/*
 * Bytes of workspaces that a plan of Megatron-LM has but the rows do not. In the plan, Transformer Engine
 * has a workspace of cuBLAS for layers, and PyTorch has another one for the head. In the rows, PyTorch
 * allocates both. Release 2.15 allocates one workspace for each matmul and frees it afterwards.
 */
static uint64_t others_workspaces(const csv_row *r, const p4d_plan *plan, bool in_product)
{
	const uint64_t both = named(plan, "workspace") + named(plan, "workspace.torch");

	return row_has(r, "program", "megatron") ? both - (in_product ? 32 << 20 : 0) : 0;
}

static void plan_of(const csv_row *r, const p4d_layout *l, uint32_t stage, p4d_plan *plan)
{
	p4d_error err;

	if (p4d_plan_build(l, row_gpu(r), stage, plan, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
}

static held held_in_stage(const csv_row *r, const p4d_layout *l, uint32_t number)
{
	held h = {.reserved = p4d_memory_reserved(l, row_gpu(r), number, false), .stage = number};
	p4d_stage stage;
	p4d_plan plan;
	p4d_error err;

	plan_of(r, l, number, &plan);
	if (p4d_memory_of_stage(l, P4D_METHOD_PLAN, row_gpu(r), number, &stage, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
	for (int phase = P4D_INIT; phase <= P4D_STEP; phase++)
		if (stage.phase_bytes[phase] > h.allocated)
			h.allocated = stage.phase_bytes[phase];
	h.allocated -= others_workspaces(r, &plan, row_has(r, "phase", "backward-2"));
	h.played = h.reserved > 0;
	if (h.played)
		h.reserved -=
		    others_workspaces(r, &plan, true); /* the allocator keeps a freed workspace reserved */
	else
		h.reserved = h.allocated + stage.part[P4D_PART_FRAGMENTATION];
	return h;
}

/* The larger memory of the first and the last stage, because the rows have only these stages. */
static held expected(const csv_row *r, const p4d_layout *l)
{
	held most = held_in_stage(r, l, 0);
	const held last = l->pp > 1 ? held_in_stage(r, l, (uint32_t)l->pp - 1) : most;

	if (last.allocated > most.allocated) {
		most.allocated = last.allocated;
		most.stage = last.stage;
	}
	most.reserved = last.reserved > most.reserved ? last.reserved : most.reserved;
	return most;
}

static void print_plan(const csv_row *r, const p4d_layout *l, uint32_t stage)
{
	p4d_plan plan;

	plan_of(r, l, stage, &plan);
	printf("PLAN {\"line\": %u, \"peak\": %d, \"idle\": [", r->line, plan.peak);
	for (int i = 0; i < P4D_LIVE_POINTS; i++)
		printf("%s%" PRIu64, i ? "," : "", plan.idle[i]);
	printf("], \"rows\": [");
	for (unsigned i = 0; i < plan.count; i++)
		printf("%s[\"%s\", \"%s\", %" PRIu64 ", %u, %u, %u, %u, %d]", i ? "," : "",
		       plan.tensor[i].name, p4d_memory_class_name(plan.tensor[i].part), plan.tensor[i].bytes,
		       plan.tensor[i].layers, plan.tensor[i].slots, (unsigned)plan.tensor[i].lifetime,
		       plan.tensor[i].live_range, plan.tensor[i].at_first_step);
	printf("]}\n");
}

static void print(const char *what, const deviation_group *groups)
{
	for (const deviation_group *g = groups; g->rows; g++)
		printf("%s %-28s %4d rows, mean %5.2f %%, worst %+6.2f %% (line %u)\n", what, g->name,
		       g->rows, 100 * g->sum / g->rows, 100 * g->worst, g->line);
}

enum { NAME = 64 };

/* Name of the group in which a row is counted. */
static void name_of(const csv_row *r, char name[NAME])
{
	snprintf(name, NAME, "%.12s %.10s%.2s%.2s %.5s%s", row_field(r, "program"), row_field(r, "framework"),
		 row_field(r, "fsdp-version"), row_field(r, "zero-stage"), row_field(r, "finetune"),
		 ranks(r, "pp") > 1 ? " pp" : "");
}

enum { ALLOCATED, RESERVED, FIGURES };

/* Counts the errors of p4d's predictions for the rows of a file. */
static int compare(const char *file, deviation_group of[FIGURES][GROUPS])
{
	csv_row r;
	char name[NAME];
	int rows = 0;

	rows_open(&r, file, getenv("P4D_TEST_ROWS"));
	for (; rows_next(&r); rows++) {
		p4d_layout l;
		layout_of(&r, &l);
		const held h = expected(&r, &l);
		const double share[FIGURES] = {(double)h.allocated / (double)row_number(&r, "allocated") - 1,
					       (double)h.reserved / (double)row_number(&r, "reserved") - 1};
		name_of(&r, name);
		for (int i = 0; i < FIGURES; i++) {
			deviation_group_count(of[i], GROUPS, "all", r.line, share[i]);
			deviation_group_count(of[i], GROUPS, h.played ? "played" : "constant share", r.line,
					      share[i]);
			deviation_group_count(of[i], GROUPS, row_field(&r, "looked_at"), r.line, share[i]);
			deviation_group_count(of[i], GROUPS, name, r.line, share[i]);
		}
		if (getenv("P4D_TEST_VERBOSE"))
			printf("%5u %-5s allocated %+7.2f %% reserved %+7.2f %% %s\n", r.line,
			       row_field(&r, "looked_at"), 100 * share[ALLOCATED], 100 * share[RESERVED],
			       name);
		if (getenv("P4D_TEST_PLANS"))
			print_plan(&r, &l, h.stage);
	}
	print("allocated", of[ALLOCATED]);
	print("reserved ", of[RESERVED]);
	return rows;
}

static void rehearsals(void **state)
{
	static deviation_group of[FIGURES][GROUPS];
	const int rows = compare("rehearsed_memory.csv", of);

	(void)state;
	if (getenv("P4D_TEST_ROWS"))
		return;
	assert_true(rows >= 124);
	for (const deviation_group *g = of[ALLOCATED]; g->rows; g++) {
		const bool megatron = strstr(g->name, "megatron") != NULL,
			   played = strstr(g->name, "transformers") != NULL;
		assert_true(!played || g->sum / g->rows <= 0.035);
		assert_true(!played || fabs(g->worst) <= (strstr(g->name, "deepspeed2") ? 0.10 : 0.035));
		assert_true(!megatron || (g->sum / g->rows <= 0.008 && fabs(g->worst) <= 0.03));
		assert_true(!strstr(g->name, "torchtitan") ||
			    (g->sum / g->rows <= 0.006 && fabs(g->worst) <= 0.02));
	}
	for (const deviation_group *g = of[RESERVED]; g->rows; g++) {
		const bool megatron = strstr(g->name, "megatron") != NULL,
			   played = strstr(g->name, "transformers") != NULL;
		/* attention's output is copied with Phi 3 on this GPU; see ACCURACY.md */
		assert_true(!played || g->sum / g->rows <= 0.02);
		assert_true(!played || fabs(g->worst) <= 0.05);
		assert_true(!megatron || (g->sum / g->rows <= 0.02 && fabs(g->worst) <= 0.06));
		assert_true(strcmp(g->name, "torchtitan fsdp2 full") != 0 ||
			    (g->sum / g->rows <= 0.02 && fabs(g->worst) <= 0.06));
		assert_true(strcmp(g->name, "played") || g->sum / g->rows <= 0.02);
	}
}

/* PyTorch 2.4.1 with transformers 4.46.3. In this release Mistral frees the logits that its loss cast, but
 * no option distinguishes Mistral from Llama. The test therefore does not check reserved memory. */
static void rehearsals_of_2_4(void **state)
{
	static deviation_group of[FIGURES][GROUPS];
	const int rows = compare("rehearsed_memory_2.4.csv", of);

	(void)state;
	if (getenv("P4D_TEST_ROWS"))
		return;
	assert_true(rows >= 29);
	for (const deviation_group *g = of[ALLOCATED]; g->rows; g++)
		assert_true(g->sum / g->rows <= 0.02 && fabs(g->worst) <= 0.105);
}

/* ---- too little memory ---- */

/* Rehearsals in which set_per_process_memory_fraction limited PyTorch to a number of GiB. The training ran
 * out of memory with `fails` GiB and ran with `runs` GiB. */
static const struct {
	unsigned line, stage;
	double fails, runs;
} shortages[] = {{12, 0, 8.6, 9.65}, {107, 0, 9.0, 9.6}, {99, 0, 11.65, 11.9}, {103, 1, 13.4, 14.2}};

static double least_of(const csv_row *r, const p4d_layout *l, uint32_t stage)
{
	return (double)p4d_memory_reserved(l, row_gpu(r), stage, true) / (1 << 30);
}

static unsigned compare_shortage(const csv_row *r, const p4d_layout *l)
{
	unsigned compared = 0;

	for (size_t i = 0; i < sizeof(shortages) / sizeof(shortages[0]); i++)
		if (shortages[i].line == r->line) {
			const double least = least_of(r, l, shortages[i].stage);
			assert_true(least > shortages[i].fails && least <= shortages[i].runs);
			compared++;
		}
	return compared;
}

/* The search adds a constant share for the allocator, and the guard simulates the allocator. The guard
 * must not refuse a layout that the search found. */
static void compare_constant(const csv_row *r, const p4d_layout *l, uint32_t number)
{
	const double least = least_of(r, l, number);
	p4d_stage stage;

	assert_int_equal(p4d_memory_of_stage(l, P4D_METHOD_PLAN, row_gpu(r), number, &stage, NULL), 0);
	const double constant =
	    (double)(stage.allocated_bytes + stage.part[P4D_PART_FRAGMENTATION]) / (1 << 30);
	if (getenv("P4D_TEST_VERBOSE"))
		printf("%5u stage %u least %6.2f GiB, with the constant share %6.2f\n", r->line, number,
		       least, constant);
	assert_true(least > 0 && least <= 1.01 * constant);
}

static void least_memory(void **state)
{
	unsigned compared = 0;
	csv_row r;

	(void)state;
	rows_open(&r, "rehearsed_memory.csv", NULL);
	while (rows_next(&r)) {
		p4d_layout l;
		layout_of(&r, &l);
		compared += compare_shortage(&r, &l);
		for (uint32_t i = 0; row_has(&r, "program", "torchtitan") && !l.experts && i < l.pp; i++)
			compare_constant(&r, &l, i);
	}
	assert_int_equal(compared, sizeof(shortages) / sizeof(shortages[0]));
}

/* ---- evaluation ---- */

static uint64_t evaluated(const csv_row *r, const p4d_layout *l)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i<l->pp; i += l->pp> 1 ? (uint32_t)l->pp - 1 : 1) {
		p4d_plan plan;
		plan_of(r, l, i, &plan);
		const uint64_t bytes = plan.phase_bytes[P4D_EVALUATION] - others_workspaces(r, &plan, false);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static void evaluations(void **state)
{
	static deviation_group of[GROUPS];
	csv_row r;
	char name[NAME];
	int rows = 0;

	(void)state;
	rows_open(&r, "rehearsed_phases.csv", getenv("P4D_TEST_PHASES"));
	while (rows_next(&r)) {
		const uint64_t measured = row_number(&r, "evaluation-allocated");
		p4d_layout l;
		if (!measured)
			continue;
		rows++;
		layout_of(&r, &l);
		const double share = (double)evaluated(&r, &l) / (double)measured - 1;
		name_of(&r, name);
		deviation_group_count(of, GROUPS, name, r.line, share);
		if (getenv("P4D_TEST_VERBOSE"))
			printf("%5u evaluation %+7.2f %% %s\n", r.line, 100 * share, name);
	}
	print("evaluation", of);
	if (getenv("P4D_TEST_PHASES"))
		return;
	assert_true(rows >= 20);
	for (const deviation_group *g = of; g->rows; g++)
		assert_true(g->sum / g->rows <= 0.01 && fabs(g->worst) <= 0.03);
}

/* ---- the host ---- */

enum { PINNED, SAVED, LOADED, HOSTS };

/* Memory that the rehearsed Trainer has on the host for Python, PyTorch and transformers. */
static const uint64_t PROCESS = 600 << 20;

static double of_host(int which, const csv_row *r, const p4d_host_beside *host)
{
	const uint64_t measured = row_number(r, which == PINNED  ? "pinned"
						: which == SAVED ? "copied"
								 : "load-resident");

	if (which == PINNED)
		return host->pinned ? (double)host->pinned / (double)measured - 1 : NAN;
	if (which == SAVED)
		return measured && host->saving ? (double)host->saving / (double)measured - 1 : NAN;
	/* the mapped file has half as many bytes as the loaded weights */
	return host->loading && row_has(r, "load", "file")
		   ? (double)(host->loading + host->loading / 2 + PROCESS) / (double)measured - 1
		   : NAN;
}

/* Host memory: pinned memory, copies for saving, and weights that ranks are reading. */
static void hosts(void **state)
{
	static const char *const names[] = {"pinned", "saved", "loaded"};
	static deviation_group of[HOSTS][GROUPS];
	char name[NAME];
	csv_row r;
	int rows = 0;

	(void)state;
	rows_open(&r, "rehearsed_phases.csv", getenv("P4D_TEST_PHASES"));
	while (rows_next(&r)) {
		p4d_layout l;
		p4d_plan plan;
		if (!row_has(&r, "program", "transformers"))
			continue;
		rows++;
		layout_of(&r, &l);
		plan_of(&r, &l, 0, &plan);
		name_of(&r, name);
		for (int i = 0; i < HOSTS; i++) {
			const double share = of_host(i, &r, &plan.host);
			if (isnan(share))
				continue;
			deviation_group_count(of[i], GROUPS, name, r.line, share);
			if (getenv("P4D_TEST_VERBOSE"))
				printf("%5u %s %+7.2f %% %s\n", r.line, names[i], 100 * share, name);
		}
	}
	for (int i = 0; i < HOSTS; i++)
		print(names[i], of[i]);
	if (getenv("P4D_TEST_PHASES"))
		return;
	assert_true(rows >= 9);
	for (int i = 0; i < HOSTS; i++)
		for (const deviation_group *g = of[i]; g->rows; g++)
			assert_true(fabs(g->worst) <= (i == LOADED ? 0.05 : 0.04));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rehearsals), cmocka_unit_test(rehearsals_of_2_4),
					   cmocka_unit_test(least_memory), cmocka_unit_test(evaluations),
					   cmocka_unit_test(hosts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
