/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's host lists, read without expanding them. */
#include "support/support.h"

#include "job/hostlist.h"

static void counting(void **state)
{
	(void)state;
	static const struct {
		const char *list;
		uint32_t count;
	} cases[] = {
	    {"", 0},
	    {"h1", 1},
	    {"h1,h2", 2},
	    {",h1,,h2,", 2},
	    {"h[1-4]", 4},
	    {"h[1-4,7,9-10],a1", 8},
	    {"r[1-2]n[01-10]", 20},
	    {"h[1-4]x", 4},
	    {"h[3]", 1},
	    {"h[4-1]", 0},
	    {"h[", 0},
	    {"h[1-", 0},
	    {"h[1-2", 0},
	    {"h[]", 0},
	    {"h[a-b]", 0},
	    {"h[1;2]", 0},
	    {"h[1-65536]", 65536},
	    {"h[1-65537]", 0}, /* too many hosts */
	    {"h[1-99999999999999999]", 0},
	    {"h[1-999999999999999999999999]", 0},
	    {"a[1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9]", 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (p4d_hostlist__count(cases[i].list) != cases[i].count)
			fail_msg("%s: %u", cases[i].list, p4d_hostlist__count(cases[i].list));
	/* a list of the maximum length is read, a longer one is not */
	static char list[65541];
	for (size_t i = 0; i < 65535; i += 3)
		memcpy(list + i, "h1,", 3);
	assert_int_equal(p4d_hostlist__count(list), 21845);
	memcpy(list + 65535, "h1,h1", 5);
	assert_int_equal(p4d_hostlist__count(list), 0);
}

/* Compares two lists with the usual budget of steps. */
static bool overlap(const char *a, const char *b)
{
	return p4d_hostlist__overlap(a, b, &(uint32_t){P4D_HOSTLIST_BUDGET});
}

static void looking_up(void **state)
{
	(void)state;
	static const char list[] = "h[1-12],a[01-16,20],r[1-2]n[3-4],login";
	static const char *const in[] = {"h1", "h12", "a01", "a16", "a20", "r2n4", "login"};
	static const char *const out[] = {"",    "h",    "h0",   "h13", "h01",    "a1", "a17",
					  "a00", "r3n3", "r2n5", "log", "login1", "h1x"};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		if (!overlap(in[i], list))
			fail_msg("%s is missing", in[i]);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		if (overlap(out[i], list))
			fail_msg("%s is in it", out[i]);
	assert_true(overlap("h9", "h[8-12]"));
	assert_true(overlap("h099", "h[098-102]"));
	assert_true(overlap("h102", "h[098-102]"));
	assert_false(overlap("h99", "h[098-102]"));
	assert_false(overlap("h1", "h[1-"));
}

static bool within(const char *a, const char *b)
{
	return p4d_hostlist__within(a, b, &(uint32_t){P4D_HOSTLIST_BUDGET});
}

static void comparing(void **state)
{
	char longest[600];

	(void)state;
	assert_true(overlap("h1,a1", "a[1-4]"));
	assert_false(overlap("h1,a5", "a[1-4]"));
	assert_false(overlap("h[1-2]x[08-11]", "h1x8,h2x[010-012],h3x08"));
	assert_true(overlap("h[1-2]x[08-11]", "h2x[8-11]")); /* both lists contain h2x10 and h2x11 */
	assert_true(overlap("h[09-10]", "h10"));
	assert_false(overlap("h[009-010]", "h[9-10]"));
	assert_true(within("a[1-2]", "a[1-4]"));
	assert_false(within("a[1-5]", "a[1-4]"));
	/* if a list is malformed or would take too long to compare, it excludes no node */
	assert_true(overlap("h[", "a1"));
	assert_false(within("h[", "h1"));
	assert_true(overlap("h[1-99999999]", "a1"));
	assert_false(within("h[1-99999999]", "h[1-99999999]"));
	memset(longest, 'h', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_true(overlap(longest, "a1"));
	/* the nodes of a large job are not in a partition of other nodes */
	assert_false(overlap("gpu[0001-2000]", "cpu[0001-9999]"));
	assert_true(within("gpu[0001-2000]", "gpu[0001-9999]"));
	const char *const others[] = {"a[3-4]", "b1,a9"};
	uint32_t budget = P4D_HOSTLIST_BUDGET;
	assert_int_equal(p4d_hostlist__count_outside("a[1-9],b1", others, 2, &budget), 6);
	assert_int_equal(p4d_hostlist__count_outside("a[1-9],b1", others, 0, &budget), 10);
	budget = 1;
	assert_int_equal(p4d_hostlist__count_outside("a[1-9],b1", others, 2, &budget), 10);
}

/* No comparison takes much longer than its budget. If the budget is not enough, the list excludes no node. */
static void the_budget_is_kept(void **state)
{
	enum { LONG = 65536 };
	static const char *const pieces[] = {
	    ",", "x,", "n[0-9][0-9][0-9],", "n[0-99999]", "n[1-2][1][1][1][1][1],", "n[1,1,1,1,1,1,1,1],"};
	static char text[LONG + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		for (int all = 0; all < 2; all++) {
			uint32_t budget = P4D_HOSTLIST_BUDGET, before;
			for (size_t at = 0, length = strlen(pieces[i]); at < LONG; at++)
				text[at] = pieces[i][at % length];
			do {
				before = budget;
				if (all)
					p4d_hostlist__within("m[1-9]", text, &budget);
				else
					p4d_hostlist__overlap(text, "m[1-9]", &budget);
				/* a comparison uses at least LONG of the budget, or the rest of it */
				assert_true(budget == 0 || budget + LONG <= before);
			} while (budget);
			assert_true(p4d_hostlist__overlap(text, "m1", &budget));
			assert_false(p4d_hostlist__within("m1", text, &budget));
			assert_int_equal(budget, 0);
		}
}

static void the_first(void **state)
{
	(void)state;
	static const struct {
		const char *list;
		uint32_t count;
		const char *first;
	} cases[] = {
	    {"h1,a1", 1, "a1"}, {"h[8-12],a3", 3, "a3,h8,h9"}, {"h2,h2,h1", 3, "h1,h2"}, {"h1", 5, "h1"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *first = p4d_hostlist__first(cases[i].list, cases[i].count);
		assert_string_equal(first, cases[i].first);
		free(first);
	}
	assert_null(p4d_hostlist__first("h[1-9999999]", 2));
	assert_null(p4d_hostlist__first("h[", 1));
	/* the budget is not enough for the whole list, so no hosts are returned */
	assert_null(p4d_hostlist__first("n[1-2000]", 200));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counting),           cmocka_unit_test(looking_up), cmocka_unit_test(comparing),
	    cmocka_unit_test(the_budget_is_kept), cmocka_unit_test(the_first),
	};

	return cmocka_run_group_tests_name("hostlist", tests, NULL, NULL);
}
