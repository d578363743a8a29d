/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

static void names(void **state)
{
	(void)state;
	assert_int_equal(p4d_request_option_find("micro-batch"), P4D_MICRO_BATCH);
	assert_int_equal(p4d_request_option_find("MICRO_BATCH"), P4D_MICRO_BATCH);
	assert_int_equal(p4d_request_option_find("micro"), -1);
	assert_int_equal(p4d_request_option_find("micro-batches"), -1);
	assert_int_equal(p4d_request_option_find(""), -1);
	for (int i = 0; i < P4D_OPTIONS; i++)
		assert_int_equal(p4d_request_option_find(p4d_request_option_info((p4d_option)i)->name), i);
}

static void refuse(const char *name, const char *value, const char *message)
{
	p4d_request r = {.gpu = ""}, before = r;
	p4d_error err;

	assert_int_equal(
	    p4d_request_set(&r, (p4d_option)p4d_request_option_find(name), value, P4D_BY_USER, &err), -1);
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
	refuse("rope-theta", "0.5", "--p4d-rope-theta=0.5: not a number from 1 to 1e+12");
	refuse("rope-theta", "1e4x", "--p4d-rope-theta=1e4x: not a number from 1 to 1e+12");
	refuse("norm-epsilon", "nan", "--p4d-norm-epsilon=nan: not a number from 0 to 0.1");
	refuse("norm-epsilon", "-1e-6", "--p4d-norm-epsilon=-1e-6: not a number from 0 to 0.1");
	refuse("norm-epsilon", "", "--p4d-norm-epsilon=: not a number from 0 to 0.1");
	refuse("recompute", "all", "--p4d-recompute=all: not one of none|selective|mlp|full|moe|keep");
	refuse("recompute", "ml", "--p4d-recompute=ml: not one of none|selective|mlp|full|moe|keep");
	refuse("dropout", "1", "--p4d-dropout=1: not one of off|on");
	refuse("model", "", "--p4d-model: empty value");
	refuse("model", "a\nb", "--p4d-model: control character 0x0a at position 2");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	refuse("model", longest, "--p4d-model: 399 characters, at most 255 are accepted");
}

/* A printed number is read back as the same number, and its text is as short as possible. */
static void decimals(void **state)
{
	static const char *const plain[] = {"500000", "1e-05", "0.1", "10000", "1e-06", "12345.678"};
	const double odd = 1.0 / 30;
	p4d_request r = {.gpu = ""}, other = {.gpu = ""};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
		const p4d_option option = strtod(plain[i], NULL) < 1 ? P4D_NORM_EPSILON : P4D_ROPE_THETA;
		assert_int_equal(p4d_request_set(&r, option, plain[i], P4D_BY_USER, NULL), 0);
		assert_string_equal(p4d_request_value_text(&r, option, text, sizeof(text)), plain[i]);
	}
	p4d_request_put_real(&r, P4D_NORM_EPSILON, odd, P4D_BY_USER);
	p4d_request_value_text(&r, P4D_NORM_EPSILON, text, sizeof(text));
	assert_true(strtod(text, NULL) == odd);
	/* values and texts that the request does not set are inherited */
	set_all(&r, "rope-scaling=linear,2");
	set_all(&other, "norm-epsilon=0.01");
	for (int i = 0; i < P4D_OPTIONS; i++)
		p4d_request_inherit(&other, &r, (p4d_option)i, P4D_BY_MODEL);
	assert_string_equal(other.rope_scaling, "linear,2");
	assert_int_equal(other.origin[P4D_ROPE_SCALING], P4D_BY_MODEL);
	assert_true(p4d_request_real(&other, P4D_ROPE_THETA) == p4d_request_real(&r, P4D_ROPE_THETA));
	assert_true(p4d_request_real(&other, P4D_NORM_EPSILON) == 0.01);
	assert_false(p4d_is_set(&other, P4D_TP));
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
	    cmocka_unit_test(decimals),
	    cmocka_unit_test(flags_are_what_was_typed),
	    cmocka_unit_test(any_means_by_the_user),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
