/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <string.h>

#include "base/json_file.h"

static struct json_object *parse(const char *text, p4d_error *err)
{
	*err = (p4d_error){.code = P4D_OK};
	return p4d_json_parse(text, strlen(text), "f", err);
}

/* Characters of two, three and four bytes in values, in keys, and as escapes. */
static void beyond_ascii(void **state)
{
	static const char *const texts[] = {"\xc2\x80",         "\xc2\xba",         "\xc3\xa9",
					    "\xdf\xbf",         "\u0800",           "\xe2\x96\x81",
					    "\xef\xbf\xbd",     "\uffff",           "\U00010000",
					    "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9\xe2\x96\x81z"};
	struct json_object *member;
	char text[96];
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		snprintf(text, sizeof(text), "{\"%s\":\"\\\\%s\"}", texts[i], texts[i]);
		struct json_object *object = parse(text, &err);
		assert_non_null(object);
		assert_true(json_object_object_get_ex(object, texts[i], &member));
		assert_int_equal(json_object_get_string_len(member), 1 + strlen(texts[i]));
		assert_string_equal(json_object_get_string(member) + 1, texts[i]);
		json_object_put(object);
	}
}

/* The error names the right byte of the text, whatever comes before it. */
static void refused(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
	    {"{\"a\":\"\xff\"}", "f: malformed JSON at byte 7: invalid utf-8 string"},
	    {"{\"\xc3\xa9\":\"\xff\"}", "f: malformed JSON at byte 8: invalid utf-8 string"},
	    {"{\"\xf0\x9f\x98\x80\":1,}", "f: malformed JSON at byte 11: unexpected character"},
	    {"{\"\xf0\x9f\x98\x80\":1,\"\xf0\x9f\x98\x80\":2}",
	     "f: field \"\xf0\x9f\x98\x80\" is given twice"},
	    {"{\"\xc3\xa9\":1,\"\\u00e9\":2}", "f: a field is given twice"},
	};
	/* overlong, half a surrogate pair, beyond the last code point, truncated, and in an escape */
	static const char *const others[] = {
	    "\xc0\xaf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80",  "\xf4\x90\x80\x80", "\xe2\x96",
	    "\xc3",     "\x80",         "\\\xc3\xa9",       "\\\\\\\xc3\xa9"};
	char text[32];
	p4d_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_null(parse(cases[i].text, &err));
		assert_string_equal(err.text, cases[i].message);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		snprintf(text, sizeof(text), "{\"a\":\"%s\"}", others[i]);
		assert_null(parse(text, &err));
		assert_int_equal(err.code, P4D_E_JSON);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(beyond_ascii),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
