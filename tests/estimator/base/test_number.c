/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text, hashes and half floats. */
#include "support/support.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/hash.h"
#include "base/number.h"
#include "base/vector.h"

static void whole(void **state)
{
	static const char *const refused[] = {
	    "", " 1", "1 ", "+1", "-1", "1x", "0x10", "1.0", "18446744073709551616", "99999999999999999999"};
	uint64_t number = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (p4d_number_whole(refused[i], 0, UINT64_MAX, &number))
			fail_msg("\"%s\" is taken", refused[i]);
	assert_false(p4d_number_whole("4", 5, 9, &number));
	assert_false(p4d_number_whole("10", 5, 9, &number));
	assert_int_equal(number, 77);
	assert_true(p4d_number_whole("005", 5, 9, &number));
	assert_int_equal(number, 5);
	assert_true(p4d_number_whole("18446744073709551615", 0, UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
}

static void digits(void **state)
{
	uint64_t number = 77;

	(void)state;
	assert_null(p4d_number_digits("", &number));
	assert_null(p4d_number_digits("x1", &number));
	assert_null(p4d_number_digits("18446744073709551616K", &number));
	assert_int_equal(number, 77);
	assert_string_equal(p4d_number_digits("12,3", &number), ",3");
	assert_int_equal(number, 12);
}

static void hexadecimal(void **state)
{
	uint64_t number = 77;

	(void)state;
	assert_false(p4d_number_hex("", &number));
	assert_false(p4d_number_hex("123", &number));
	assert_false(p4d_number_hex("00000000000000000", &number));
	assert_false(p4d_number_hex("FFFFFFFFFFFFFFFF", &number));
	assert_false(p4d_number_hex("0x00000000000012", &number));
	assert_int_equal(number, 77);
	assert_true(p4d_number_hex("ffffffff00000001", &number));
	assert_true(number == UINT64_C(0xffffffff00000001));
}

static void check_real(void)
{
	static const char *const refused[] = {"",    ".",        " 1",  "1 ",   "+1",    "nan",
					      "inf", "infinity", "1,5", "1.5x", "1e999", "e5"};
	char buf[P4D_NUMBER_TEXT];
	double number = 77;

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (p4d_number_real(refused[i], -DBL_MAX, DBL_MAX, &number))
			fail_msg("\"%s\" is taken", refused[i]);
	assert_false(p4d_number_real("-0", 0, 1, &number));
	assert_false(p4d_number_real("1.1", 0, 1, &number));
	assert_true(number == 77);
	assert_true(p4d_number_real("1.5", 0, 2, &number) && number == 1.5);
	assert_true(p4d_number_real(".5e1", 0, 5, &number) && number == 5);
	assert_true(p4d_number_real("-1.5", -2, 2, &number) && number == -1.5);
	assert_string_equal(p4d_number_text(1234.5678, 6, buf), "1234.57");
	assert_string_equal(p4d_number_integer(0, buf), "0");
	assert_string_equal(p4d_number_integer(-1, buf), "-1");
	assert_string_equal(p4d_number_integer(1024, buf), "1024");
	assert_string_equal(p4d_number_integer(INT64_MAX, buf), "9223372036854775807");
	assert_string_equal(p4d_number_integer(INT64_MIN, buf), "-9223372036854775808");
	assert_string_equal(p4d_number_exact(0.1, buf), "0.1");
	assert_string_equal(p4d_number_exact(3e-4, buf), "0.0003");
	assert_string_equal(p4d_number_exact(0.1 + 0.2, buf), "0.30000000000000004");
	assert_string_equal(p4d_number_exact(-DBL_MAX, buf), "-1.7976931348623157e+308");
}

static void real(void **state)
{
	(void)state;
	check_real();
}

/* Numbers are also read in a locale with a decimal comma. */
static void any_locale(void **state)
{
	char made[] = "/tmp/p4d-locale-XXXXXX", command[160], half[8];

	(void)state;
	assert_non_null(mkdtemp(made));
	snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null", made);
	int status = system(command);
	setenv("LOCPATH", made, 1);
	const bool there = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
	if (there) {
		snprintf(half, sizeof(half), "%.1f", 0.5);
		assert_string_equal(half, "0,5");
		check_real();
	}
	setlocale(LC_ALL, "C");
	snprintf(command, sizeof(command), "rm -r %s", made);
	if (system(command) || status || !there)
		skip(); /* this system has no localedef, or no source of the locale */
}

static void hashes(void **state)
{
	(void)state;
	/* values from the authors' page */
	assert_true(p4d_hash_bytes("", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(p4d_hash_bytes("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(p4d_hash_bytes("foobar", 6) == UINT64_C(0x85944171f73967e8));
	assert_true(p4d_hash_step(p4d_hash_bytes("\xff", 1), 0) == p4d_hash_bytes("\xff", 2));
}

static void halves(void **state)
{
	(void)state;
	assert_true(p4d_from_fp16(0x3c00) == 1 && p4d_from_fp16(0xc100) == -2.5);
	assert_true(p4d_from_fp16(0x7bff) == 65504 && p4d_from_fp16(0x0400) == 0x1p-14f);
	assert_true(p4d_from_fp16(0x0001) == 0x1p-24f && p4d_from_fp16(0x83ff) == -1023 * 0x1p-24f);
	assert_true(p4d_from_fp16(0x8000) == 0 && signbit(p4d_from_fp16(0x8000)));
	assert_true(isinf(p4d_from_fp16(0x7c00)) && p4d_from_fp16(0xfc00) < 0 &&
		    isnan(p4d_from_fp16(0x7c01)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whole),  cmocka_unit_test(digits),     cmocka_unit_test(hexadecimal),
	    cmocka_unit_test(real),   cmocka_unit_test(any_locale), cmocka_unit_test(hashes),
	    cmocka_unit_test(halves),
	};

	return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
