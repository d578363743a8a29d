/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/choice.h"

static void found(void **state)
{
	(void)state;
	assert_int_equal(p4d_choice_find("none|selective|full", "none"), 0);
	assert_int_equal(p4d_choice_find("none|selective|full", "FULL"), 2);
	assert_int_equal(p4d_choice_find("none|selective|full", "sel"), -1);
	assert_int_equal(p4d_choice_find("none|selective|full", "none|selective"), -1);
	assert_int_equal(p4d_choice_find("none|selective|full", ""), -1);
	assert_int_equal(p4d_choice_find("a||b", ""), 1);
	assert_int_equal(p4d_choice_find("one", "one"), 0);
	assert_int_equal(p4d_choice_index("a100,h100", ',', "h100:4", 4), 1);
	assert_int_equal(p4d_choice_index("", ',', "a", 1), -1);
}

static void named(void **state)
{
	char buf[5];

	(void)state;
	assert_string_equal(p4d_choice_name("off|on", 0, buf, sizeof(buf)), "off");
	assert_string_equal(p4d_choice_name("off|on", 1, buf, sizeof(buf)), "on");
	assert_string_equal(p4d_choice_name("off|on", 7, buf, sizeof(buf)), "on");
	assert_string_equal(p4d_choice_name("none|selective", 1, buf, sizeof(buf)), "sele");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(found), cmocka_unit_test(named)};

	return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
