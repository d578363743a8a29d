/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

static void names(void **state)
{
	(void)state;
	assert_int_equal(p4d_option_find("micro-batch"), P4D_MICRO_BATCH);
	assert_int_equal(p4d_option_find("MICRO_BATCH"), P4D_MICRO_BATCH);
	assert_int_equal(p4d_option_find("micro"), -1);
	assert_int_equal(p4d_option_find("micro-batches"), -1);
	assert_int_equal(p4d_option_find(""), -1);
	for (int i = 0; i < P4D_OPTIONS; i++)
		assert_int_equal(p4d_option_find(p4d_option_info_of((p4d_option)i)->name), i);
}

static void refuse(const char *name, const char *value, const char *message)
{
	p4d_request r = {.gpu = ""}, before = r;
	p4d_error err;

	assert_int_equal(p4d_request_set(&r, (p4d_option)p4d_option_find(name), value, P4D_BY_USER, &err),
			 -1);
	assert_int_equal(err.code, P4D_E_VALUE);
	assert_string_equal(err.text, message);
	assert_memory_equal(&r, &before, sizeof(r));
}

static void malformed_values(void **state)
{
	char longest[400];

	(void)state;
	refuse("tp", "0", "--p4d-tp=0: not a whole number from 1 to 1024");
	refuse("tp", "8x", "--p4d-tp=8x: not a whole number from 1 to 1024");
	refuse("tp", "-8", "--p4d-tp=-8: not a whole number from 1 to 1024");
	refuse("tp", "+8", "--p4d-tp=+8: not a whole number from 1 to 1024");
	refuse("tp", " 8", "--p4d-tp= 8: not a whole number from 1 to 1024");
	refuse("tp", "", "--p4d-tp=: not a whole number from 1 to 1024");
	refuse("tp", "8.0", "--p4d-tp=8.0: not a whole number from 1 to 1024");
	refuse("layers", "9223372036854775808",
	       "--p4d-layers=9223372036854775808: not a whole number from 1 to 65536");
	refuse("layers", "99999999999999999999",
	       "--p4d-layers=99999999999999999999: not a whole number from 1 to 65536");
	refuse("schedule", "zb2p", "--p4d-schedule=zb2p: not one of gpipe|1f1b|interleaved|zb1p|zbv|v-half");
	refuse("schedule", "1f1", "--p4d-schedule=1f1: not one of gpipe|1f1b|interleaved|zb1p|zbv|v-half");
	refuse("dropout", "1", "--p4d-dropout=1: not one of off|on");
	refuse("model", "", "--p4d-model: empty value");
	refuse("model", "a\nb", "--p4d-model: control character 0x0a at position 2");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	refuse("model", longest, "--p4d-model: 399 characters, at most 255 are accepted");
}

static void flags_are_what_was_typed(void **state)
{
	p4d_request r = {.gpu = ""};
	char flags[512];

	(void)state;
	set_all(&r, "model=llama13b tp=8 schedule=1F1B fix=1");
	p4d_request_put(&r, P4D_PP, 2, P4D_BY_P4D);
	p4d_request_put(&r, P4D_LAYERS, 40, P4D_BY_MODEL);
	p4d_request_flags(&r, "--p4d-", 1u << P4D_BY_USER, flags, sizeof(flags));
	assert_string_equal(flags, "--p4d-model=llama13b --p4d-tp=8 --p4d-schedule=1f1b --p4d-fix");
	p4d_request_flags(&r, "--", 1u << P4D_BY_P4D | 1u << P4D_BY_MODEL, flags, sizeof(flags));
	assert_string_equal(flags, "--pp=2");
	assert_true(p4d_request_flags(&r, "--p4d-", 1u << P4D_BY_USER, flags, 12) < 12);
}

static void any_means_by_the_user(void **state)
{
	p4d_request r = {.gpu = ""};

	(void)state;
	assert_false(p4d_request_any(&r));
	p4d_request_put(&r, P4D_TP, 2, P4D_BY_SITE);
	assert_false(p4d_request_any(&r));
	set_all(&r, "fix=1");
	assert_true(p4d_request_any(&r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(malformed_values),
	    cmocka_unit_test(flags_are_what_was_typed),
	    cmocka_unit_test(any_means_by_the_user),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
