/* SPDX-License-Identifier: Apache-2.0 */
/* Text under construction: text that fits, text that is cut off, and text that grows. */
#include "support/support.h"

#include "base/error.h"
#include "base/text.h"

static void bounded(void **state)
{
	char buf[8 + 1] = "12345678"; /* the last byte does not belong to the text */

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
	/* nothing is added to a text that was cut off */
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
	p4d_text_entry(&text, ", ", "7"); /* an entry is not added after an entry that did not fit */
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

static const char *escaped(const char *string)
{
	static char buf[256];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	p4d_text_escaped(&text, string);
	return buf;
}

static void what_others_wrote(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
	    {"a b\\\"~", "a b\\\"~"},
	    {"x\n\r\t\x1b[2J\x7f", "x\\x0a\\x0d\\x09\\x1b[2J\\x7f"},
	    {"M\xc3\xbcller \xe6\xa8\xa1 \xf0\x9f\x98\x80", "M\xc3\xbcller \xe6\xa8\xa1 \xf0\x9f\x98\x80"},
	    {"\xc2\x9b", "\\xc2\\x9b"},                            /* CSI */
	    {"\xe2\x80\xae", "\\xe2\\x80\\xae"},                   /* right to left */
	    {"\xc0\x8a\xe0\x80\x8a", "\\xc0\\x8a\\xe0\\x80\\x8a"}, /* a newline in too many bytes */
	    {"\xf8\xff\xc3", "\\xf8\\xff\\xc3"},
	    {"\xe6\xa8", "\\xe6\\xa8"},
	    {"", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(escaped(cases[i].in), cases[i].out);

	char buf[64];
	p4d_text text = p4d_text_in(buf, sizeof(buf));
	p4d_text_quoted(&text, "a\"b\\c\n");
	assert_string_equal(buf, "\"a\\\"b\\\\c\\x0a\"");

	/* an error never has a second line */
	p4d_error err;
	p4d_fail(&err, P4D_E_VALUE, "%s", "x\nsbatch: p4d: all is well");
	p4d_fix(&err, "%s", "--a=\x1b");
	assert_string_equal(err.text, "x\\x0asbatch: p4d: all is well");
	assert_string_equal(err.fix, "--a=\\x1b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bounded),           cmocka_unit_test(cut_off),
	    cmocka_unit_test(entries_are_whole), cmocka_unit_test(grows),
	    cmocka_unit_test(what_others_wrote),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
