/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists of hosts, read in place. */
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
	    {"h[1-65537]", 0}, /* too many */
	    {"h[1-99999999999999999]", 0},
	    {"h[1-999999999999999999999999]", 0},
	    {"a[1-9][1-9][1-9][1-9][1-9][1-9][1-9][1-9]", 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (p4d_hostlist__count(cases[i].list) != cases[i].count)
			fail_msg("%s: %u", cases[i].list, p4d_hostlist__count(cases[i].list));
	char longest[600];
	memset(longest, 'h', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(p4d_hostlist__count(longest), 0);
}

static void looking_up(void **state)
{
	(void)state;
	static const char list[] = "h[1-12],a[01-16,20],r[1-2]n[3-4],login";
	static const char *const in[] = {"h1", "h12", "a01", "a16", "a20", "r2n4", "login"};
	static const char *const out[] = {"",    "h",    "h0",   "h13", "h01",    "a1", "a17",
					  "a00", "r3n3", "r2n5", "log", "login1", "h1x"};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		if (!p4d_hostlist__has(list, in[i]))
			fail_msg("%s is missing", in[i]);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		if (p4d_hostlist__has(list, out[i]))
			fail_msg("%s is in it", out[i]);
	assert_true(p4d_hostlist__has("h[8-12]", "h9"));
	assert_true(p4d_hostlist__has("h[098-102]", "h099"));
	assert_true(p4d_hostlist__has("h[098-102]", "h102"));
	assert_false(p4d_hostlist__has("h[098-102]", "h99"));
	assert_false(p4d_hostlist__has("h[1-", "h1"));
}

static void comparing(void **state)
{
	(void)state;
	assert_true(p4d_hostlist__overlap("h1,a1", "a[1-4]"));
	assert_false(p4d_hostlist__overlap("h1,a5", "a[1-4]"));
	assert_true(p4d_hostlist__within("a[1-2]", "a[1-4]"));
	assert_false(p4d_hostlist__within("a[1-5]", "a[1-4]"));
	/* what is malformed, or too much to find out, excludes nothing */
	assert_true(p4d_hostlist__overlap("h[", "a1"));
	assert_false(p4d_hostlist__within("h[", "h1"));
	assert_true(p4d_hostlist__overlap("h[1-99999999]", "a1"));
	assert_false(p4d_hostlist__within("h[1-99999999]", "h[1-99999999]"));
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
	assert_null(p4d_hostlist__first("h[1-99999]", 2));
	assert_null(p4d_hostlist__first("h[", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counting),
	    cmocka_unit_test(looking_up),
	    cmocka_unit_test(comparing),
	    cmocka_unit_test(the_first),
	};

	return cmocka_run_group_tests_name("hostlist", tests, NULL, NULL);
}
