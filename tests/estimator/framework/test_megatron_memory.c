/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares p4d's memory of Megatron-LM's stages with what Megatron-LM's own code allocates. The rows of
 * tests/data/megatron_memory.csv have every stage of 500 configurations;
 * tests/parity/make_megatron_memory.py writes them. The column looked_at says `before` for the rows with
 * which constants were chosen, and `after` for all others. P4D_TEST_ROWS=1 prints every row.
 */
#include "support/deviations.h"
#include "support/rows.h"

#include "plan/memory_played.h"
#include "request/defaults.h"

enum { WORST = 12 };

/* A layer pattern with delta nets is Qwen3-Next's. Layers of other patterns are blocks of Nemotron-H. */
static const char *architecture_of(const csv_row *r)
{
	if (!row_find(r, "layer-pattern"))
		return "positions=rope";
	return strchr(row_field(r, "layer-pattern"), 'G') ? "architecture=qwen3-next positions=rope"
							  : "architecture=nemotron-h positions=none";
}

static void layout_of(const csv_row *r, p4d_layout *l)
{
	p4d_request q = {.gpu = ""};
	p4d_error err;
	const uint64_t world =
	    row_number(r, "tp") * row_number(r, "cp") * row_number(r, "pp") * row_number(r, "dp");

	set_all(&q, "model=custom framework=megatron bias=none qk-norm=off dropout=off attention-mask=off");
	set_all(&q, architecture_of(r));
	set_all(&q, strcmp(row_field(r, "activation"), "swiglu") ? "glu=off" : "glu=on");
	for (int i = 0; strcmp(r->name[i], "stage"); i++) { /* the columns after this one are measurements */
		const bool meant =
		    strcmp(r->name[i], "gpu") && /* "imbalance" counts only for experts on several ranks */
		    (strcmp(r->name[i], "imbalance") || row_number(r, "ep") > 1);
		const int option = meant ? p4d_request_option_find(r->name[i]) : -1;
		if (option >= 0 && strcmp(r->field[i], "0"))
			row_set(&q, r, option, r->field[i]);
	}
	row_set_batch(&q, r, row_number(r, "dp"));
	p4d_request_complete(&q, 0, world);
	if (p4d_layout_build(&q, 1, world, l, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
}

/* The most memory that p4d expects this rank to allocate in training. */
static uint64_t expected(const csv_row *r)
{
	p4d_stage stage;
	p4d_layout l;
	p4d_error err;

	layout_of(r, &l);
	if (p4d_memory_of_stage(&l, P4D_METHOD_PLAN, row_gpu(r), (uint32_t)row_number(r, "stage"), &stage,
				&err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
	const uint64_t train = stage.phase_bytes[P4D_TRAIN], step = stage.phase_bytes[P4D_STEP];
	return train > step ? train : step;
}

/* Whether this row has the same configuration as the row before. All columns are equal, except the stage
 * and the measurements. */
static bool same_configuration(const csv_row *r, char before[ROW_LENGTH], size_t *length)
{
	const size_t options = (size_t)(row_field(r, "stage") - r->field[0]);
	const bool same = *length == options && !memcmp(before, r->text, options);

	memcpy(before, r->text, options);
	*length = options;
	return same;
}

static void count_in(deviations *s, int count_of, const char *what, double share)
{
	for (int i = 0; i < count_of; i++)
		if (!strcmp(s[i].what, what))
			deviations_count(&s[i], share);
}

/* Compares the rows of one file. A prediction may be wrong by 0.1 GiB or by `most`, a share of the
 * measured bytes, whichever is larger. */
static void compare(const char *name, double mean, double most, int configurations_of, int most_seen)
{
	static deviation of[8192];
	deviations looked_at[] = {{.what = "before"}, {.what = "after"}, {.what = "all"}},
		   by_phase[] = {{.what = "backward"}, {.what = "head"},      {.what = "loss"},
				 {.what = "forward"},  {.what = "optimizer"}, {.what = "between"}},
		   by_stage[] = {
		       {.what = "only stage"}, {.what = "first"}, {.what = "middle"}, {.what = "last"}};
	csv_row r;
	char before[ROW_LENGTH];
	size_t length = 0;
	uint64_t next_stage = 0, stages_before = 0;
	int rows = 0, beyond = 0, configurations = 0, seen = 0;

	rows_open(&r, name, NULL);
	while (rows_next(&r)) {
		const double measured = (double)row_number(&r, "allocated");
		const double bytes = (double)expected(&r) - measured, share = bytes / measured;
		const uint64_t stage = row_number(&r, "stage"), stages = row_number(&r, "pp");
		if (getenv("P4D_TEST_ROWS")) /* to find the wrong formula */
			printf("%u,%.4f,%.1f,%.1f,%s\n", r.line, share, bytes / (1 << 20),
			       measured / (1 << 20), row_field(&r, "phase"));
		if (!same_configuration(&r, before, &length)) {
			assert_int_equal(
			    next_stage,
			    stages_before); /* the previous configuration has a row for each of its stages */
			next_stage = 0;
			stages_before = stages;
			configurations++;
			seen += strcmp(row_field(&r, "looked_at"), "after") != 0;
		}
		assert_int_equal(stage, next_stage++);
		assert_true(rows < (int)(sizeof(of) / sizeof(*of)));
		of[rows++] = (deviation){share, bytes, r.line};
		beyond += fabs(share) > most && fabs(bytes) > 0.1 * (double)(1 << 30);
		count_in(looked_at, 2, row_field(&r, "looked_at"), share);
		deviations_count(&looked_at[2], share);
		deviations_count(&by_stage[stages == 1          ? 0
					   : stage == 0         ? 1
					   : stage < stages - 1 ? 2
								: 3],
				 share);
		count_in(by_phase, 6, row_field(&r, "phase"), share);
	}
	deviations_print_worst(of, rows, WORST);
	for (size_t i = 0; i < sizeof(by_phase) / sizeof(*by_phase); i++)
		deviations_print(&by_phase[i]);
	for (size_t i = 0; i < sizeof(by_stage) / sizeof(*by_stage); i++)
		deviations_print(&by_stage[i]);
	for (int i = 0; i < 3; i++) {
		deviations_print(&looked_at[i]);
		assert_true(looked_at[i].rows > 0 || (i == 0 && most_seen == 0));
		assert_true(looked_at[i].sum <= mean * looked_at[i].rows);
	}
	assert_int_equal(looked_at[0].rows + looked_at[1].rows, rows);
	assert_int_equal(next_stage, stages_before);
	assert_int_equal(configurations, configurations_of);
	assert_within(seen, most_seen > 0, most_seen);
	assert_int_equal(beyond, 0);
}

/* ---- reserved memory ---- */

/* Bytes of cuBLAS's workspace for PyTorch's own matmuls, in heads and in routers of experts. The
 * rehearsals did not allocate this workspace. */
static uint64_t workspace_of(const csv_row *r)
{
	const bool is_last = row_number(r, "stage") + 1 == row_number(r, "pp");

	return is_last || row_find(r, "experts") ? 32 << 20 : 0;
}

/*
 * Errors of predicted reserved memory. played: rows whose allocator p4d simulates. virtual_stages,
 * context, after: those of them with virtual stages, with context parallelism, and not looked at before.
 * constant: all other rows, predicted with p4d's constant share for the allocator.
 */
typedef struct reserved_rows {
	deviations played, virtual_stages, context, after, constant;
} reserved_rows;

static void count_reserved(reserved_rows *of, const csv_row *r, bool played, double share)
{
	deviations_count(played ? &of->played : &of->constant, share);
	if (!played)
		return;
	if (row_number(r, "vpp") > 1)
		deviations_count(&of->virtual_stages, share);
	if (row_number(r, "cp") > 1)
		deviations_count(&of->context, share);
	if (row_has(r, "looked_at", "after"))
		deviations_count(&of->after, share);
}

/* Memory that the allocator reserves in rehearsals of rows of the other files (parity.py --store). */
static reserved_rows compare_reserved(const char *file)
{
	reserved_rows of = {{.what = "played"},
			    {.what = "virtual stages"},
			    {.what = "context parallelism"},
			    {.what = "played, after"},
			    {.what = "constant share"}};
	csv_row r;

	rows_open(&r, file, getenv("P4D_TEST_RESERVED"));
	while (rows_next(&r)) {
		p4d_layout l;
		layout_of(&r, &l);
		const uint64_t played =
		    p4d_memory_reserved(&l, row_gpu(&r), (uint32_t)row_number(&r, "stage"), false);
		const double bytes = played ? (double)played : 1.053 * (double)expected(&r);
		const double share =
		    (bytes - (double)workspace_of(&r)) / (double)row_number(&r, "reserved") - 1;
		if (getenv("P4D_TEST_ROWS"))
			printf("%u %s %+.2f %%\n", r.line, played ? "played" : "constant share", 100 * share);
		count_reserved(&of, &r, played, share);
	}
	printf("%s\n", file);
	for (const deviations *d = &of.played; d <= &of.constant; d++)
		deviations_print(d);
	return of;
}

static void assert_reserved(const deviations *d, int rows, double mean, double worst)
{
	assert_int_equal(d->rows, rows);
	assert_true(d->sum <= mean * rows && d->worst <= worst);
}

static void reserved_with_experts(void **state)
{
	const reserved_rows of = compare_reserved("rehearsed_megatron_experts.csv");

	(void)state;
	assert_reserved(&of.played, 37, 0.01, 0.06);
	assert_reserved(&of.constant, 13, 0.05, 0.1);
}

static void reserved_without_experts(void **state)
{
	const reserved_rows of = compare_reserved("rehearsed_megatron.csv");

	(void)state;
	assert_reserved(&of.played, 44, 0.01, 0.06);
	assert_reserved(&of.virtual_stages, 24, 0.01, 0.06);
	assert_reserved(&of.context, 18, 0.01, 0.06);
	assert_reserved(&of.after, 20, 0.01, 0.06);
}

/* ---- too little memory ---- */

/* The least memory with which p4d's simulation runs, without the workspaces that the rehearsal does not
 * allocate. 0: p4d does not simulate this row. */
static double least_of(const csv_row *r)
{
	p4d_layout l;

	layout_of(r, &l);
	const uint64_t bytes = p4d_memory_reserved(&l, row_gpu(r), (uint32_t)row_number(r, "stage"), true);
	return bytes ? (double)(bytes - workspace_of(r)) : 0;
}

/* low: predictions below the bytes with which a row ran out of memory. high: predictions above the bytes
 * with which it ran. tiny: rows with less than 1 GiB, whose many small blocks p4d does not place. */
typedef struct least_rows {
	deviations all, low, high, tiny;
} least_rows;

/*
 * parity.py --least rehearsed the rows with fewer and fewer bytes that PyTorch may reserve. `exhausted` is
 * the largest number of bytes with which the row ran out of memory, and `sufficed` the smallest with which
 * it ran. The two differ by 1 % of the row's allocations. This function counts how far a prediction lies
 * outside of the two, as a share of the allocations.
 */
static void count_least(const csv_row *r, double least, least_rows *of)
{
	const double exhausted = (double)row_number(r, "exhausted"),
		     sufficed = (double)row_number(r, "sufficed"),
		     allocated = (double)row_number(r, "allocated");
	const double low = least < exhausted ? (exhausted - least) / allocated : 0,
		     high = least > sufficed ? (least - sufficed) / allocated : 0;

	assert_true(exhausted > 0 && exhausted < sufficed);
	if (getenv("P4D_TEST_ROWS"))
		printf("%u exhausted %.3f, sufficed %.3f, least %.3f\n", r->line, exhausted / allocated,
		       sufficed / allocated, least / allocated);
	if (allocated < (1 << 30)) {
		deviations_count(&of->tiny, low + high);
		return;
	}
	deviations_count(&of->all, low + high);
	if (low > 0)
		deviations_count(&of->low, low);
	if (high > 0)
		deviations_count(&of->high, high);
}

/* Rows that would run out of memory if p4d added its constant share: 1.053 times the allocations. */
static bool exceeds_constant(const csv_row *r)
{
	return (double)row_number(r, "exhausted") >= 1.053 * (double)row_number(r, "allocated");
}

static void least_memory(void **state)
{
	static const char *const files[] = {"rehearsed_megatron.csv", "rehearsed_megatron_experts.csv"};
	least_rows of = {
	    {.what = "least"}, {.what = "too low"}, {.what = "too high"}, {.what = "below 1 GiB"}};
	int played = 0, others = 0;
	csv_row r;

	(void)state;
	for (int i = 0; i < 2; i++)
		for (rows_open(&r, files[i], NULL); rows_next(&r);) {
			const double least = least_of(&r);
			*(least > 0 ? &played : &others) += exceeds_constant(&r);
			if (least > 0)
				count_least(&r, least, &of);
			else /* what p4d passes without a warning (0.8 of the GPU) must run */
				assert_true(0.8 / 1.053 * (double)row_number(&r, "sufficed") <
					    0.95 * (double)row_number(&r, "allocated"));
		}
	for (const deviations *d = &of.all; d <= &of.tiny; d++)
		deviations_print(d);
	printf("out of memory with the constant share: %d simulated rows, %d others\n", played, others);
	assert_int_equal(of.all.rows + of.tiny.rows, 81);
	assert_true(of.all.sum <= 0.006 * of.all.rows && of.tiny.worst <= 0.07);
	/* with the default limit of 0.95, more than `low` of the GPU is left; p4d_memory_unsure subtracts
	 * 0.04 */
	assert_true(of.low.worst <= 0.05 && of.high.worst <= 0.04);
}

/* Estimates a row on a GPU that is just large enough: PyTorch's allocator gets `allocator_bytes` within
 * the share `fraction` of the GPU. */
static p4d_estimate on_gpu_with(const p4d_layout *l, uint64_t allocator_bytes, double fraction, p4d_gpu *gpu)
{
	p4d_estimate e;

	*gpu = (p4d_gpu){.name = "limited", .usable_bytes = UINT64_C(1) << 40};
	const p4d_capacity capacity = {.gpu = gpu};
	assert_int_equal(p4d_memory_estimate(l, P4D_METHOD_PLAN, &capacity, &e, NULL), 0);
	const uint64_t others = e.peak.part[P4D_PART_CONTEXT] + e.peak.part[P4D_PART_COMM];
	gpu->usable_bytes = (uint64_t)((double)(allocator_bytes + others) / fraction);
	assert_int_equal(p4d_memory_estimate(l, P4D_METHOD_PLAN, &capacity, &e, NULL), 0);
	p4d_memory_play(l, &capacity, &e);
	return e;
}

/*
 * Checks two verdicts with the default `safe` and `limit`. If the row runs out of memory on a GPU, p4d
 * warns or refuses. If the row runs with 0.95 of the GPU, p4d does not refuse. Returns false for rows that
 * are not compared: those with less than 1 GiB, and stages that do not need the most memory.
 */
static bool compare_verdicts(const csv_row *r)
{
	const double safe = 0.8, limit = 0.95;
	const uint64_t exhausted = row_number(r, "exhausted"), sufficed = row_number(r, "sufficed");
	p4d_layout l;
	p4d_gpu gpu;

	layout_of(r, &l);
	p4d_estimate e = on_gpu_with(&l, exhausted + workspace_of(r), 1, &gpu);
	if (e.stage != row_number(r, "stage") || row_number(r, "allocated") < 1 << 30)
		return false;
	assert_true(e.fraction > safe);
	e = on_gpu_with(&l, sufficed + workspace_of(r), limit, &gpu);
	assert_true(e.fraction <= limit || p4d_memory_unsure(&l, &e, limit));
	return true;
}

static void verdicts(void **state)
{
	static const char *const files[] = {"rehearsed_megatron.csv", "rehearsed_megatron_experts.csv"};
	int compared = 0;
	csv_row r;

	(void)state;
	for (int i = 0; i < 2; i++)
		for (rows_open(&r, files[i], NULL); rows_next(&r);)
			compared += compare_verdicts(&r);
	printf("verdicts of %d rows\n", compared);
	assert_int_equal(compared, 46);
}

static void megatron_core_itself(void **state)
{
	(void)state;
	compare("megatron_memory.csv", 0.003, 0.015, 500, 50);
}

/* Options of which each changes one thing: norms of queries and keys, attention masks, copied key/value
 * heads, chunks with only the embedding or the loss. */
static void further_options(void **state)
{
	(void)state;
	compare("megatron_options.csv", 0.003, 0.02, 33, 25);
}

/* Attention that stores its scores, with Transformer Engine's softmax or, for sizes that it lacks, with
 * PyTorch's. */
static void unfused_attention(void **state)
{
	(void)state;
	compare("megatron_unfused.csv", 0.001, 0.005, 30, 14);
}

/* Mixtral, Qwen3 and Qwen1.5-MoE, DeepSeek V2 and V3, Moonlight, Kimi K2 with few layers. */
static void with_experts(void **state)
{
	(void)state;
	compare("megatron_experts.csv", 0.0015, 0.016, 635, 52);
}

/* FP8, with Transformer Engine's own Python code above kernels that only allocate, and with the
 * precision-aware optimizer. */
static void in_fp8(void **state)
{
	(void)state;
	compare("megatron_fp8.csv", 0.004, 0.056, 129, 40);
}

static void experts_in_fp8(void **state)
{
	(void)state;
	compare("megatron_fp8_experts.csv", 0.01, 0.02, 14, 0);
}

/* Nemotron-H: MambaModel with mamba-ssm's own Python code above kernels that do nothing. */
static void hybrids(void **state)
{
	(void)state;
	compare("megatron_hybrids.csv", 0.0006, 0.013, 90, 35);
}

/* Nemotron 3 Nano. */
static void hybrids_with_experts(void **state)
{
	(void)state;
	compare("megatron_hybrid_experts.csv", 0.002, 0.01, 24, 0);
}

/* Qwen3-Next: gated delta nets, with flash-linear-attention's own Python code above kernels that do
 * nothing. */
static void delta_nets(void **state)
{
	(void)state;
	compare("megatron_delta_nets.csv", 0.005, 0.02, 30, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(megatron_core_itself),
					   cmocka_unit_test(reserved_with_experts),
					   cmocka_unit_test(reserved_without_experts),
					   cmocka_unit_test(least_memory),
					   cmocka_unit_test(verdicts),
					   cmocka_unit_test(further_options),
					   cmocka_unit_test(unfused_attention),
					   cmocka_unit_test(with_experts),
					   cmocka_unit_test(in_fp8),
					   cmocka_unit_test(experts_in_fp8),
					   cmocka_unit_test(hybrids),
					   cmocka_unit_test(hybrids_with_experts),
					   cmocka_unit_test(delta_nets)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
