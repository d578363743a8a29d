/* SPDX-License-Identifier: Apache-2.0 */
/* Text under construction: what fits, what is cut off, and what grows. */
#include "support/support.h"

#include "base/text.h"

static void bounded(void **state)
{
	char buf[8 + 1] = "12345678"; /* the last is nobody's */

	(void)state;
	p4d_text text = p4d_text_in(buf, 8);
	assert_string_equal(buf, "");
	p4d_text_add(&text, "");
	p4d_text_print(&text, "%d", 12);
	p4d_text_add_bytes(&text, "345678", 2);
	assert_string_equal(buf, "1234");
	p4d_text_add(&text, "567");
	assert_string_equal(buf, "1234567");
	assert_int_equal(text.length, 7);
	assert_false(text.truncated);
	p4d_text_add(&text, "");
	assert_false(text.truncated);
	p4d_text_add(&text, "8");
	assert_true(text.truncated);
	assert_string_equal(buf, "1234567");
	assert_int_equal(buf[8], '\0');
}

static void cut_off(void **state)
{
	char buf[6];

	(void)state;
	p4d_text text = p4d_text_in(buf, sizeof(buf));
	p4d_text_print(&text, "%s-%d", "abc", 12345);
	assert_true(text.truncated);
	assert_string_equal(buf, "abc-1");
	assert_int_equal(text.length, 5);
	text = p4d_text_in(buf, sizeof(buf));
	p4d_text_add(&text, "abcdefgh");
	assert_true(text.truncated);
	assert_string_equal(buf, "abcde");
	/* nothing stands behind a cut */
	p4d_text_print(&text, "%s", "");
	p4d_text_entry(&text, "", "%s", "");
	assert_string_equal(buf, "abcde");
	text = p4d_text_in(buf, 1);
	p4d_text_add(&text, "a");
	assert_string_equal(buf, "");
	assert_true(text.truncated);
	text = p4d_text_in(NULL, 0);
	p4d_text_add(&text, "a");
	p4d_text_entry(&text, ",", "%d", 1);
	assert_int_equal(text.length, 0);
}

static void entries_are_whole(void **state)
{
	char buf[10];

	(void)state;
	p4d_text text = p4d_text_in(buf, sizeof(buf));
	p4d_text_entry(&text, ", ", "%s", "ab");
	p4d_text_entry(&text, ", ", "%d", 34);
	assert_string_equal(buf, "ab, 34");
	p4d_text_entry(&text, ", ", "%d", 56);
	assert_string_equal(buf, "ab, 34");
	assert_int_equal(text.length, 6);
	assert_true(text.truncated);
	p4d_text_entry(&text, ", ", "7"); /* it would fit, but an entry before it is missing */
	assert_string_equal(buf, "ab, 34");
}

static void grows(void **state)
{
	p4d_text text = {.grows = true};

	(void)state;
	p4d_text_print(&text, "%s", "");
	assert_string_equal(text.at, "");
	for (int i = 0; i < 1000; i++)
		p4d_text_entry(&text, ",", "%03d", i);
	p4d_text_add_bytes(&text, "\0x", 2);
	assert_false(text.truncated);
	assert_int_equal(text.length, 1000 * 4 - 1 + 2);
	assert_memory_equal(text.at + 4 * 999, "999\0x", 6);
	free(text.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bounded),
	    cmocka_unit_test(cut_off),
	    cmocka_unit_test(entries_are_whole),
	    cmocka_unit_test(grows),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
