/* SPDX-License-Identifier: Apache-2.0 */
/* Options of every kind, in a table for this test. */
#include "support/support.h"

#include "base/option.h"

enum { SIZE, RATE, MODE, NAME, FORCE, LIBRARY, OPTIONS };

static const p4d_option_info table[OPTIONS] = {
    [SIZE] = {"block-size", "N", "", P4D_INTEGER_KIND, .min = 2, .max = INT64_MAX},
    [RATE] = {"rate", "F", "", P4D_DECIMAL_KIND, .least = 0, .most = 10},
    [MODE] = {"mode", "off|on", "", P4D_CHOICE_KIND},
    [NAME] = {"name", "TEXT", "", P4D_TEXT_KIND, .size = 5},
    [FORCE] = {"force", "", "", P4D_SWITCH_KIND},
    [LIBRARY] = {"library", P4D_RELEASE, "", P4D_INTEGER_KIND, .min = 3000, .max = 99999},
};

static void found(void **state)
{
	(void)state;
	assert_int_equal(p4d_option_find(table, OPTIONS, "rate"), RATE);
	assert_int_equal(p4d_option_find(table, OPTIONS, "BLOCK_size"), SIZE);
	assert_int_equal(p4d_option_find(table, OPTIONS, "block"), -1);
	assert_int_equal(p4d_option_find(table, OPTIONS, "rates"), -1);
	assert_int_equal(p4d_option_find(table, OPTIONS, ""), -1);
	assert_int_equal(p4d_option_find(table, RATE, "rate"), -1);
}

static void round_trips(void **state)
{
	static const struct {
		int option;
		const char *text, *printed;
	} cases[] = {
	    {SIZE, "2", "2"},        {SIZE, "9223372036854775807", "9223372036854775807"},
	    {RATE, ".5", "0.5"},     {RATE, "1e-08", "1e-08"},
	    {RATE, "0", "0"},        {MODE, "On", "on"},
	    {FORCE, "", "on"},       {LIBRARY, "4.57", "4.57"},
	    {LIBRARY, "5", "5"},     {LIBRARY, "4.57.1", "4.57"},
	    {LIBRARY, "3.0", "3.0"}, {LIBRARY, "5.0.0rc1", "5.0"},
	};
	char buf[32];
	int64_t value;
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const p4d_option_info *info = &table[cases[i].option];
		assert_int_equal(p4d_option_parse(info, "--", cases[i].text, &value, &err), 0);
		assert_string_equal(p4d_option_text(info, value, buf, sizeof(buf)), cases[i].printed);
	}
	assert_true(p4d_option_real(p4d_option_bits(-0.1)) == -0.1);
}

static void refused(void **state)
{
	static const struct {
		int option;
		const char *text, *message;
	} cases[] = {
	    {SIZE, "1", "--x-block-size=1: not a whole number from 2 to 9223372036854775807"},
	    {SIZE, "9223372036854775808", "--x-block-size=9223372036854775808: not a whole"},
	    {SIZE, "-2", "--x-block-size=-2: not a whole"},
	    {LIBRARY, "2.9", "--x-library=2.9: not a release from 3 to 99, such as 4.57"},
	    {LIBRARY, "100", "--x-library=100: not a release"},
	    {LIBRARY, "4.", "--x-library=4.: not a release"},
	    {LIBRARY, "4.57-1", "--x-library=4.57-1: not a release"},
	    {LIBRARY, "4.1000", "--x-library=4.1000: not a release"},
	    {LIBRARY, "18446744073709551615", "--x-library=18446744073709551615: not a release"},
	    {RATE, "10.1", "--x-rate=10.1: not a number from 0 to 10"},
	    {RATE, "nan", "--x-rate=nan: not a number"},
	    {MODE, "yes", "--x-mode=yes: not one of off|on"},
	    {NAME, "", "--x-name: empty value"},
	    {NAME, "12345", "--x-name: 5 characters, at most 4 are accepted"},
	    {NAME, "a\nb", "--x-name: control character 0x0a at position 2"},
	};
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int64_t value = 77;
		assert_int_equal(
		    p4d_option_parse(&table[cases[i].option], "--x-", cases[i].text, &value, &err), -1);
		assert_int_equal(err.code, P4D_E_VALUE);
		assert_memory_equal(err.text, cases[i].message, strlen(cases[i].message));
		assert_int_equal(value, 77);
	}
	assert_int_equal(p4d_option_twice("tp", "1", "1", &err), 0);
	assert_int_equal(p4d_option_twice("tp", "1", "2", &err), -1);
	assert_int_equal(err.code, P4D_E_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(found),
	    cmocka_unit_test(round_trips),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
