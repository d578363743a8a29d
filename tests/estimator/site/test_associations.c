/* SPDX-License-Identifier: Apache-2.0 */
/* The account and QOS of a job, and values that a user may not use. */
#include "site/associations.h"

#include "support/support.h"

static p4d_associations *all;

static int setup(void **state)
{
	static const p4d_association rows[] = {
	    {.account = "root", .qos = "normal"},
	    {.account = "staff", .parent = "root", .qos = "normal", .most = {20, 64}},
	    {.account = "physics", .parent = "staff", .qos = "normal"},
	    {.user = "ann",
	     .uid = 1000,
	     .account = "physics",
	     .qos = "large",
	     .qoses = "normal,large",
	     .is_default = true},
	    {.user = "ann",
	     .uid = 1000,
	     .account = "physics",
	     .partition = "gpu",
	     .qos = "fast",
	     .qoses = "fast"},
	    {.user = "bob",
	     .uid = 1001,
	     .account = "staff",
	     .qos = "normal",
	     .is_default = true,
	     .most = {8}},
	};

	(void)state;
	all = p4d_associations_new();
	assert_non_null(all);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(p4d_associations_add(all, &rows[i], NULL), 0);
	assert_int_equal(p4d_associations_add_partition(all, "debug", "short", NULL), 0);
	assert_int_equal(p4d_associations_add_qos(all, "short", (uint32_t[]){3, 0}, false, NULL), 0);
	assert_int_equal(p4d_associations_add_qos(all, "wide", (uint32_t[]){64, 0}, true, NULL), 0);
	assert_int_equal(p4d_associations_add_qos(all, "fast", (uint32_t[]){5, 16}, false, NULL), 0);
	p4d_associations_ready(all);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	p4d_associations_free(all);
	return 0;
}

static void what_a_job_gets(void **state)
{
	(void)state;
	assert_true(p4d_associations_known(all));
	assert_string_equal(p4d_associations_user(all, 1001), "bob");
	assert_null(p4d_associations_user(all, 1002));
	assert_string_equal(p4d_associations_default_account(all, "ann"), "physics");
	assert_string_equal(p4d_associations_parent(all, "PHYSICS"), "staff");
	assert_string_equal(p4d_associations_default_qos(all, "ann", "physics", NULL, 0), "large");
	assert_string_equal(p4d_associations_default_qos(all, "ann", "physics", "gpu", 3), "fast");
	assert_string_equal(p4d_associations_partition_qos(all, "debug,gpu", 5), "short");
	assert_null(p4d_associations_partition_qos(all, "gpu", 3));
}

static void what_is_believed(void **state)
{
	p4d_associations *none = p4d_associations_new();

	(void)state;
	assert_true(p4d_associations_has(all, "ann", "Physics"));
	assert_false(p4d_associations_has(all, "ann", "staff"));
	assert_true(p4d_associations_may_have(all, "ann", "physics", "NORMAL"));
	assert_true(
	    p4d_associations_may_have(all, "ann", "physics", "fast")); /* ann has this QOS in one partition */
	assert_false(p4d_associations_may_have(all, "ann", "physics", "free"));
	assert_true(p4d_associations_may_have(all, "bob", "staff", "free")); /* p4d does not know bob's QOS */
	assert_false(p4d_associations_may_have(all, "eve", "physics", "normal"));
	assert_false(p4d_associations_may_have(all, "eve", NULL, "normal"));
	/* without accounting data, p4d forbids nothing */
	p4d_associations_ready(none);
	assert_true(p4d_associations_may_have(none, "eve", NULL, "free"));
	assert_true(p4d_associations_may_have(NULL, "eve", NULL, "free"));
	p4d_associations_free(none);
}

/* Limits apply in this order: the partition's QOS, the job's QOS, the association, and the accounts above
 * it. A QOS with a flag for it overrides the partition's QOS. */
static void at_most(void **state)
{
	static const struct {
		const char *user, *account, *partition, *qos;
		uint32_t nodes, gpus;
	} cases[] = {
	    {"bob", NULL, "cpu", NULL, 8, 64},         {"bob", "staff", "debug", NULL, 3, 64},
	    {"bob", "staff", "debug", "wide", 64, 64}, {"bob", "staff", "debug", "fast", 3, 16},
	    {"bob", "staff", "cpu", "fast", 5, 16},    {"ann", NULL, "gpu", NULL, 5, 16},
	    {"ann", NULL, "cpu", NULL, 20, 64},        {"ann", "physics", "cpu", "wide", 64, 64},
	    {"eve", NULL, "cpu", NULL, 0, 0},          {NULL, NULL, NULL, NULL, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (p4d_limit of = 0; of < P4D_LIMITS; of++)
			assert_int_equal(p4d_associations_most(all, of, cases[i].user, cases[i].account,
							       cases[i].partition, cases[i].qos),
					 of == P4D_LIMIT_NODES ? cases[i].nodes : cases[i].gpus);
	assert_int_equal(p4d_associations_most(NULL, P4D_LIMIT_NODES, "bob", NULL, "cpu", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_job_gets),
	    cmocka_unit_test(at_most),
	    cmocka_unit_test(what_is_believed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
