/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of p4d-train, and the plan that it gives. */
#include "support/support.h"

#include <inttypes.h>

#include "plan/plan_line.h"
#include "run/job_plan.h"
#include "run/settings.h"

#define TINY \
	"--model=custom", "--layers=2", "--hidden=64", "--ffn=128", "--heads=4", "--kv-heads=2", \
	    "--head-dim=16", "--vocab=257", "--max-seq-len=64", "--norm=rmsnorm", "--glu=on", "--tied=off", \
	    "--positions=rope", "--bias=none", "--qk-norm=off", "--seq-len=64"

static int parse(p4d_settings *s, p4d_error *err, const char *const *words)
{
	char *argv[64] = {(char *)"p4d-train"};
	int argc = 1;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)words[argc - 1];
	memset(err, 0, sizeof(*err));
	return p4d_settings_parse(s, argc, argv, err);
}
#define PARSE(...) parse(&s, &err, (const char *const[]){__VA_ARGS__, NULL})

static void test_defaults(void **state)
{
	p4d_settings s;
	p4d_error err;

	(void)state;
	assert_int_equal(PARSE("--data", "text", "--steps=1000"), 0);
	assert_string_equal(s.data, "text");
	assert_int_equal(s.steps, 1000);
	assert_int_equal(s.warmup, 10);
	assert_int_equal(s.decay, 200);
	assert_true(s.rate == 3e-4 && s.least_rate == 3e-4 / 10 && s.clip == 1);
	assert_int_equal(s.delimiter, UINT64_MAX);
	assert_int_equal(s.local_ranks, 0);
	assert_null(s.log);
	assert_false(p4d_is_set(&s.request, P4D_DEVICE));
	p4d_rate rate = p4d_settings_rate(&s);
	assert_int_equal(rate.curve, P4D_COSINE);
	assert_int_equal(rate.steps, 1000);
}

static void test_values(void **state)
{
	p4d_settings s;
	p4d_error err;

	(void)state;
	assert_int_equal(PARSE("--data=a", "--steps=50", "--lr=0.001", "--min-lr", "0", "--warmup=0",
			       "--schedule-lr=wsd", "--decay-steps=7", "--seed=42", "--device=cpu", "--tp=2",
			       "--local-ranks=4", "--schedule=zbv"),
			 0);
	assert_true(s.rate == 0.001 && s.least_rate == 0);
	assert_int_equal(s.warmup, 0);
	assert_int_equal(p4d_settings_rate(&s).curve, P4D_WSD);
	assert_int_equal(p4d_settings_rate(&s).decay, 7);
	assert_int_equal(s.seed, 42);
	assert_int_equal(s.local_ranks, 4);
	assert_int_equal(s.request.value[P4D_TP], 2);
	assert_int_equal(s.request.value[P4D_SCHEDULE], P4D_ZBV);
	assert_int_equal(s.request.value[P4D_DEVICE], P4D_CPU);
	/* an option that is given twice with the same value is no contradiction */
	assert_int_equal(PARSE("--data=a", "--data=a", "--steps=50", "--lr=0.001", "--lr=1e-3"), 0);
	assert_int_equal(s.twice.code, P4D_OK);
	assert_int_equal(PARSE("--data=a", "--steps=5", "--steps=6", "--data=b", "--log=l"), 0);
	assert_int_equal(s.twice.code, P4D_E_USAGE);
	assert_string_equal(s.twice.text,
			    "--steps has two values, 5 and 6: p4d-train uses the last one; --data has two "
			    "values, a and b: p4d-train uses the last one");
	assert_true(s.steps == 6 && !strcmp(s.data, "b"));
}

static void refused(const char *const *words, p4d_code code, const char *text)
{
	p4d_settings s = {.steps = 77};
	p4d_error err;

	assert_int_equal(parse(&s, &err, words), -1);
	if (err.code != code || !strstr(err.text, text))
		fail_msg("%s: code %d, \"%s\" instead of \"%s\"", words[0], err.code, err.text, text);
	assert_int_equal(s.steps, 77); /* the setting was not changed */
}
#define REFUSED(code, text, ...) refused((const char *const[]){__VA_ARGS__, NULL}, code, text)

static void test_refused(void **state)
{
	(void)state;
	REFUSED(P4D_E_USAGE, "--data is missing", "--steps=3");
	REFUSED(P4D_E_USAGE, "--steps or --epochs is missing", "--data=a");
	REFUSED(P4D_E_VALUE, "from 1 to", "--data=a", "--steps=0");
	REFUSED(P4D_E_VALUE, "--steps=3x", "--data=a", "--steps=3x");
	REFUSED(P4D_E_VALUE, "--steps=-1", "--data=a", "--steps=-1");
	REFUSED(P4D_E_VALUE, "--lr=nan", "--data=a", "--steps=3", "--lr=nan");
	REFUSED(P4D_E_VALUE, "--lr=", "--data=a", "--steps=3", "--lr=");
	REFUSED(P4D_E_VALUE, "cosine|wsd", "--data=a", "--steps=3", "--schedule-lr=cos");
	REFUSED(P4D_E_VALUE, "report|skip|stop", "--data=a", "--steps=3", "--on-spike=drop");
	REFUSED(P4D_E_VALUE, "auto|cpu|cuda", "--data=a", "--steps=3", "--device=gpu");
	REFUSED(P4D_E_VALUE, "--data is empty", "--data=", "--steps=3");
	REFUSED(P4D_E_VALUE, "above --steps", "--data=a", "--steps=3", "--warmup=4");
	REFUSED(P4D_E_VALUE, "above --lr", "--data=a", "--steps=3", "--lr=0.1", "--min-lr=0.2");
	REFUSED(P4D_E_VALUE, "--tp=0", "--data=a", "--steps=3", "--tp=0");
	REFUSED(P4D_E_USAGE, "--tp", "--data=a", "--steps=3", "--tp=1", "--tp=2");
	REFUSED(P4D_E_USAGE, "--nosuch", "--data=a", "--steps=3", "--nosuch");
	REFUSED(P4D_E_USAGE, "--nodse", "--data=a", "--steps=3", "--nodse=2");
	REFUSED(P4D_E_USAGE, "p4d-train has no option --nodes", "--data=a", "--steps=3", "--nodes=2");
	REFUSED(P4D_E_USAGE, "no option --gpus-per-node", "--data=a", "--steps=3", "--gpus-per-node", "2");
	REFUSED(P4D_E_USAGE, "has no option --framework", "--data=a", "--steps=3", "--framework=megatron");
	REFUSED(P4D_E_USAGE, "needs a value", "--data=a", "--steps");
	REFUSED(P4D_E_USAGE, "--device needs a value", "--data=a", "--device");
	REFUSED(P4D_E_USAGE, "\"more\"", "--data=a", "--steps=3", "more");
	REFUSED(P4D_E_USAGE, "exclusive", "--data=a", "--steps=3", "--valid-data=b", "--valid-fraction=0.1");
}

static void test_hash(void **state)
{
	p4d_settings s;
	p4d_error err;

	(void)state;
	assert_int_equal(PARSE("--data=a", "--steps=50"), 0);
	uint64_t first = p4d_settings_hash(&s);
	assert_true(first < UINT64_C(1) << 52);
	assert_int_equal(PARSE("--data=/else/where/a", "--steps=50", "--log=x"), 0);
	assert_int_equal(p4d_settings_hash(&s), first);
	assert_int_equal(PARSE("--data=a", "--steps=50", "--seed=2"), 0);
	assert_int_not_equal(p4d_settings_hash(&s), first);
	assert_int_equal(PARSE("--data=a", "--steps=50", "--lr=0.0003000001"), 0);
	assert_int_not_equal(p4d_settings_hash(&s), first);
}

/* Settings of a tiny model, with more options. */
static void tiny(p4d_settings *s, const char *more)
{
	p4d_error err;
	const char *words[] = {TINY, "--data=a", "--steps=5", more, NULL};

	if (parse(s, &err, words) < 0)
		fail_msg("%s", err.text);
}

static void test_plan_of_options(void **state)
{
	p4d_job_plan plan = {.gpu = NULL};
	p4d_settings s;
	p4d_error err;

	(void)state;
	tiny(&s, "--tp=2");
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 4, 2, test_datadir(), &err), 0);
	assert_int_equal(plan.layout.device, P4D_CPU);
	assert_int_equal(plan.layout.precision, P4D_FP32);
	assert_int_equal(plan.layout.world, 4);
	assert_int_equal(plan.layout.dp, 2);
	assert_int_equal(plan.layout.gpus_per_node, 2);
	assert_null(plan.gpu);
	uint64_t need = plan.estimate.host_bytes;
	assert_int_equal(p4d_job_plan_check_memory(&plan, true, need, &err), 0);
	assert_int_equal(p4d_job_plan_check_memory(&plan, true, need - 1, &err), -1);
	assert_int_equal(err.code, P4D_E_HOST_MEMORY);
	assert_non_null(strstr(err.fix, "--mem="));
	assert_int_equal(p4d_job_plan_check_memory(&plan, false, need - 1, &err), -1);
	assert_non_null(strstr(err.fix, "p4d plan --model custom"));
	p4d_job_plan_close(&plan);

	tiny(&s, "--tp=3");
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 3, 1, test_datadir(), &err), -1);
	assert_int_equal(err.code, P4D_E_HEADS);
	tiny(&s, "--pp=2");
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 3, 1, test_datadir(), &err), -1);
	assert_int_equal(err.code, P4D_E_WORLD);
	tiny(&s, "--norm=rmsnorm");
	s.request.value[P4D_NORM] = P4D_LAYERNORM_PLAIN;
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 1, 1, test_datadir(), &err), -1);
	assert_int_equal(err.code, P4D_E_UNMODELLED);
	const char *words[] = {"--data=a", "--steps=5", NULL};
	assert_int_equal(parse(&s, &err, words), 0);
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 1, 1, test_datadir(), &err), -1);
	assert_int_equal(err.code, P4D_E_USAGE);
}

/* Makes the plan line that the guard would give to this job. */
static void make_line(char line[P4D_PLAN_MAX], const char *arena)
{
	p4d_job_plan plan = {.gpu = NULL};
	p4d_settings s;
	p4d_error err;

	tiny(&s, "--tp=2");
	assert_int_equal(p4d_job_plan_open(&plan, NULL, &s, 4, 2, test_datadir(), &err), 0);
	assert_int_equal(p4d_plan_add_checksum(&plan.request, &plan.layout, NULL, &err), 0);
	if (arena)
		snprintf(plan.request.arena, sizeof(plan.request.arena), "%s", arena);
	assert_int_equal(p4d_plan_write(&plan.request, line, P4D_PLAN_MAX, &err), 0);
	p4d_job_plan_close(&plan);
}

static void test_plan_of_line(void **state)
{
	const char *bare[] = {"--data=a", "--steps=5", NULL};
	const char *same[] = {"--data=a", "--steps=5", "--tp=2", "--device=cpu", NULL};
	const char *other[] = {"--data=a", "--steps=5", "--tp=1", NULL};
	p4d_job_plan plan = {.gpu = NULL};
	char line[P4D_PLAN_MAX];
	p4d_settings s;
	p4d_error err;

	(void)state;
	make_line(line, NULL);
	assert_int_equal(parse(&s, &err, bare), 0);
	assert_int_equal(p4d_job_plan_open(&plan, line, &s, 4, 2, "/nonexistent", &err), 0);
	assert_int_equal(plan.layout.tp, 2);
	assert_int_equal(plan.layout.layers, 2);
	p4d_job_plan_close(&plan);
	assert_int_equal(parse(&s, &err, same), 0);
	assert_int_equal(p4d_job_plan_open(&plan, line, &s, 4, 2, "/nonexistent", &err), 0);
	p4d_job_plan_close(&plan);
	assert_int_equal(parse(&s, &err, other), 0);
	assert_int_equal(p4d_job_plan_open(&plan, line, &s, 4, 2, "/nonexistent", &err), -1);
	assert_int_equal(err.code, P4D_E_PLAN_CHANGED);
	assert_non_null(strstr(err.text, "--tp=1"));

	/* the job has another number of tasks than the plan */
	assert_int_equal(parse(&s, &err, bare), 0);
	assert_int_equal(p4d_job_plan_open(&plan, line, &s, 2, 1, "/nonexistent", &err), -1);
	assert_int_equal(err.code, P4D_E_WORLD);
	assert_non_null(strstr(err.fix, "--ntasks-per-node=2"));

	/* the plan line has another hash of buffers than this version's plan */
	make_line(line, "0123456789abcdef");
	assert_int_equal(p4d_job_plan_open(&plan, line, &s, 4, 2, "/nonexistent", &err), -1);
	assert_int_equal(err.code, P4D_E_PLAN_CHANGED);
	assert_non_null(strstr(err.text, "0123456789abcdef"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_defaults),        cmocka_unit_test(test_values),
	    cmocka_unit_test(test_refused),         cmocka_unit_test(test_hash),
	    cmocka_unit_test(test_plan_of_options), cmocka_unit_test(test_plan_of_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
