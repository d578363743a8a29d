/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include <json-c/json.h>
#include <math.h>

#include "base/json_text.h"

static void structure(void **state)
{
	char buf[256];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	(void)state;
	p4d_json_text_open(&text, NULL, '{');
	p4d_json_text_string(&text, "event", "step");
	p4d_json_text_whole(&text, "step", UINT64_MAX);
	p4d_json_text_open(&text, "none", '{');
	p4d_json_text_close(&text, '}');
	p4d_json_text_open(&text, "list", '[');
	p4d_json_text_whole(&text, NULL, 0);
	p4d_json_text_string(&text, NULL, "{[");
	p4d_json_text_bool(&text, NULL, false);
	p4d_json_text_open(&text, NULL, '{');
	p4d_json_text_null(&text, "a");
	p4d_json_text_close(&text, '}');
	p4d_json_text_close(&text, ']');
	p4d_json_text_bool(&text, "on", true);
	p4d_json_text_close(&text, '}');
	assert_string_equal(buf, "{\"event\":\"step\",\"step\":18446744073709551615,\"none\":{},"
				 "\"list\":[0,\"{[\",false,{\"a\":null}],\"on\":true}");
	assert_false(text.truncated);
}

static void numbers(void **state)
{
	char buf[256];
	p4d_text text = p4d_text_in(buf, sizeof(buf));

	(void)state;
	p4d_json_text_open(&text, NULL, '[');
	p4d_json_text_real(&text, NULL, 2.5);
	p4d_json_text_real(&text, NULL, -1.0 / 3e300);
	p4d_json_text_real(&text, NULL, NAN);
	p4d_json_text_real(&text, NULL, -INFINITY);
	p4d_json_text_close(&text, ']');
	assert_string_equal(buf, "[2.5,-3.33333333e-301,null,null]");
}

/* For every byte that a text can contain, the output is json-c's, and json-c reads it back. */
static void escapes(void **state)
{
	char every[256], buf[2048];

	(void)state;
	for (int c = 1; c < 256; c++)
		every[c - 1] = (char)c;
	every[255] = '\0';
	p4d_text text = p4d_text_in(buf, sizeof(buf));
	p4d_json_text_quote(&text, every);
	struct json_object *object = json_object_new_string(every);
	assert_string_equal(buf, json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
									    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
	text = p4d_text_in(buf, sizeof(buf));
	p4d_json_text_quote(&text, "");
	assert_string_equal(buf, "\"\"");
	text = p4d_text_in(buf, 7);
	p4d_json_text_quote(&text, "ab\n\ncd");
	assert_true(text.truncated);
	assert_string_equal(buf, "\"ab\\n\\");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(structure),
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(escapes),
	};

	return cmocka_run_group_tests_name("JSON text", tests, NULL, NULL);
}
