/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that PyTorch's allocator reserves against rehearsals: the rows of
 * tests/data/rehearsed_memory.csv, which tests/rehearsal/make_rehearsed_memory.py writes. What p4d does not
 * play is compared with its constant share. `while`: the order of a step in torch_reserved.c was written with
 * the row in view. P4D_TEST_VERBOSE=1 prints every row, P4D_TEST_ROWS names another file, P4D_TEST_PLANS=1
 * prints the plan behind each.
 */
#include "support/support.h"

#include <inttypes.h>
#include <math.h>

#include "plan/plan.h"
#include "plan/stage_memory.h"
#include "request/architecture.h"
#include "request/defaults.h"

enum { COLUMNS = 96, GROUPS = 32 };

typedef struct row {
	char *name[COLUMNS], *field[COLUMNS];
	int columns;
	unsigned line;
} row;

static const char *field(const row *r, const char *name)
{
	for (int i = 0; i < r->columns; i++)
		if (!strcmp(r->name[i], name))
			return r->field[i];
	fail_msg("no column %s", name);
	return NULL;
}

static bool has(const row *r, const char *name, const char *value)
{
	return !strcmp(field(r, name), value);
}

static uint64_t number(const row *r, const char *name)
{
	return strtoull(field(r, name), NULL, 10);
}

static int split(char *line, char *fields[COLUMNS])
{
	int n = 0;

	for (char *at = line; at && n < COLUMNS; n++) {
		fields[n] = at;
		at = strchr(at, ',');
		if (at)
			*at++ = '\0';
	}
	return n;
}

/* Columns that are no option of the program as they stand. */
static bool differs(const row *r, const char *name)
{
	static const char *const always[] = {"program", "attention", "micro-batches", "gpu"};
	const bool transformers = has(r, "program", "transformers"), fsdp = has(r, "framework", "fsdp");

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (!strcmp(name, always[i]))
			return true;
	if (!strcmp(name, "shard-degree"))
		return transformers;
	if (!strcmp(name, "fsdp-version")) /* torchtitan has no other */
		return !transformers;
	if (!strcmp(name, "zero-stage") || !strcmp(name, "offload"))
		return !has(r, "framework", "deepspeed");
	if (!strcmp(name, "adapter-dtype"))
		return has(r, "finetune", "full") || fsdp;
	return !strcmp(name, "autocast") && !has(r, "framework", "ddp");
}

static void set(p4d_request *q, const row *r, int option, const char *value)
{
	p4d_error err;

	if (p4d_request_set(q, (p4d_option)option, value, P4D_BY_USER, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
}

static uint64_t ranks(const row *r, const char *name)
{
	const uint64_t n = number(r, name);

	return n ? n : 1;
}

/* The layout of a row. */
static void layout_of(const row *r, p4d_layout *l)
{
	const uint64_t world = number(r, "dp") * ranks(r, "tp") * ranks(r, "pp");
	p4d_request q = {.gpu = ""};
	p4d_error err;
	char batch[32];

	set_all(&q, "model=custom");
	if (has(r, "program", "transformers"))
		set_all(&q, has(r, "attention", "eager") ? "model-code=transformers attention=unfused"
							 : "model-code=transformers attention=flash");
	else
		set_all(&q, "positions=rope bias=none norm=rmsnorm glu=on");
	if (has(r, "program", "megatron"))
		set_all(&q, "dropout=off attention=unfused cross-entropy=unfused qk-norm=off");
	for (int i = 0; strcmp(r->name[i], "gpu"); i++) { /* from there on it is what was measured */
		const int option = p4d_request_option_find(r->name[i]);
		if (option >= 0 && *r->field[i] && !differs(r, r->name[i]))
			set(&q, r, option,
			    strcmp(r->field[i], "optimizer+params") ? r->field[i] : "optimizer,params");
	}
	snprintf(batch, sizeof(batch), "%" PRIu64,
		 number(r, "micro-batch") * number(r, "micro-batches") * number(r, "dp"));
	set(&q, r, P4D_GLOBAL_BATCH, batch);
	p4d_architecture_defaults(&q);
	if (q.value[P4D_POSITIONS] == P4D_LEARNED)
		set_all(&q, "max-seq-len=2048");
	p4d_request_complete(&q, 0, world);
	if (p4d_layout_build(&q, 1, world, l, &err) < 0)
		fail_msg("line %u: %s", r->line, err.text);
}

static const p4d_gpu *gpu_of(const row *r)
{
	static p4d_gpus table;
	p4d_error err;

	if (!table.gpu)
		assert_int_equal(p4d_gpus_load(&table, NULL, &err), 0);
	const p4d_gpu *gpu = p4d_gpu_find(&table, field(r, "gpu"), NULL);
	assert_non_null(gpu);
	return gpu;
}

/* The fullest stage, as the rows have it. */
static p4d_stage expected(const row *r, const p4d_layout *l, uint32_t *number_of_it)
{
	p4d_stage most = {0}, stage;
	p4d_error err;

	for (uint32_t i = 0; i<l->pp; i += l->pp> 1 ? (uint32_t)l->pp - 1 : 1) {
		if (p4d_memory_of_stage(l, P4D_METHOD_PLAN, gpu_of(r), i, &stage, &err) < 0)
			fail_msg("line %u: %s", r->line, err.text);
		if (stage.device_bytes >= most.device_bytes) {
			most = stage;
			*number_of_it = i;
		}
	}
	return most;
}

static void print_plan(const row *r, const p4d_layout *l, uint32_t stage)
{
	p4d_plan plan;
	p4d_error err;

	assert_int_equal(p4d_plan_build(l, gpu_of(r), stage, &plan, &err), 0);
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

typedef struct group {
	char name[64];
	double sum, worst;
	int rows;
	unsigned line;
} group;

static void count(group *groups, const char *name, const row *r, double share)
{
	group *g = groups;

	while (g->rows && strcmp(g->name, name))
		g++;
	assert_true(g < groups + GROUPS - 1);
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->rows++;
	g->sum += fabs(share);
	if (fabs(share) > fabs(g->worst)) {
		g->worst = share;
		g->line = r->line;
	}
}

static void print(const char *what, const group *groups)
{
	for (const group *g = groups; g->rows; g++)
		printf("%s %-28s %4d rows, mean %5.2f %%, worst %+6.2f %% (line %u)\n", what, g->name,
		       g->rows, 100 * g->sum / g->rows, 100 * g->worst, g->line);
}

enum { ALLOCATED, RESERVED, FIGURES };

/* How far p4d is from the rows. */
static int compare(group of[FIGURES][GROUPS])
{
	const char *dir = getenv("P4D_TEST_SRCDIR"), *other = getenv("P4D_TEST_ROWS");
	char path[4096], header[2048], line[2048], name[64];
	row r = {.line = 1};
	int rows = 0;

	snprintf(path, sizeof(path), "%s/tests/data/rehearsed_memory.csv", dir ? dir : ".");
	FILE *file = fopen(other ? other : path, "r");
	assert_non_null(file);
	assert_non_null(fgets(header, sizeof(header), file));
	header[strcspn(header, "\r\n")] = '\0';
	r.columns = split(header, r.name);
	for (; fgets(line, sizeof(line), file); rows++) {
		p4d_layout l;
		uint32_t stage_number = 0;
		line[strcspn(line, "\r\n")] = '\0';
		r.line++;
		assert_int_equal(split(line, r.field), r.columns);
		layout_of(&r, &l);
		const p4d_stage stage = expected(&r, &l, &stage_number);
		const uint64_t known = p4d_memory_reserved(&l, gpu_of(&r), stage_number);
		const uint64_t reserved =
		    known ? known : stage.allocated_bytes + stage.part[P4D_PART_FRAGMENTATION];
		const double share[FIGURES] = {
		    (double)stage.allocated_bytes / (double)number(&r, "allocated") - 1,
		    (double)reserved / (double)number(&r, "reserved") - 1};
		snprintf(name, sizeof(name), "%.12s %.10s%.2s%.2s %.5s", field(&r, "program"),
			 field(&r, "framework"), field(&r, "fsdp-version"), field(&r, "zero-stage"),
			 field(&r, "finetune"));
		for (int i = 0; i < FIGURES; i++) {
			count(of[i], "all", &r, share[i]);
			count(of[i], known ? "played" : "constant share", &r, share[i]);
			count(of[i], field(&r, "looked_at"), &r, share[i]);
			count(of[i], name, &r, share[i]);
		}
		if (getenv("P4D_TEST_VERBOSE"))
			printf("%5u %-5s allocated %+7.2f %% reserved %+7.2f %% %s\n", r.line,
			       field(&r, "looked_at"), 100 * share[ALLOCATED], 100 * share[RESERVED], name);
		if (getenv("P4D_TEST_PLANS"))
			print_plan(&r, &l, stage_number);
	}
	fclose(file);
	print("allocated", of[ALLOCATED]);
	print("reserved ", of[RESERVED]);
	return rows;
}

static void rehearsals(void **state)
{
	static group of[FIGURES][GROUPS];
	const int rows = compare(of);

	(void)state;
	if (getenv("P4D_TEST_ROWS"))
		return;
	assert_true(rows >= 60);
	for (const group *g = of[ALLOCATED]; g->rows; g++) {
		const bool played = strstr(g->name, "transformers") != NULL;
		assert_true(!played || (g->sum / g->rows <= 0.035 && fabs(g->worst) <= 0.10));
	}
	for (const group *g = of[RESERVED]; g->rows; g++) {
		const bool played = strstr(g->name, "transformers") != NULL;
		assert_true(!played || (g->sum / g->rows <= 0.08 && fabs(g->worst) <= 0.18));
		assert_true(strcmp(g->name, "played") || g->sum / g->rows <= 0.045);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rehearsals)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
