/* SPDX-License-Identifier: Apache-2.0 */
/* Small templates give the text that transformers gives (tests/parity/make_template_pieces.py). Also tests
 * the time limit of templates. */
#include "support/support.h"

#include <time.h>

#include "template/template.h"

static int render_steps(const char *source, struct json_object *variables, uint64_t steps,
			p4d_template_values *values, p4d_template_text *text, p4d_error *err)
{
	const struct tm date = {.tm_year = 126, .tm_mon = 10, .tm_mday = 30, .tm_wday = 1, .tm_yday = 333};
	p4d_template *template;

	p4d_template_values_clear(values);
	p4d_template_values_date(values, &date);
	if (p4d_template_open(&template, "t", source, strlen(source), err) < 0)
		return -1;
	if (variables) {
		json_object_object_foreach(variables, name, value)
		    assert_int_equal(p4d_template_values_set(values, name, value, err), 0);
	}
	const int rc = p4d_template_render(template, values, &steps, text, err);
	p4d_template_close(template);
	return rc;
}

static void check_piece(struct json_object *piece, struct json_object *variables, p4d_template_values *values)
{
	struct json_object *source, *wanted = NULL;
	p4d_template_text text = {.text = ""};
	p4d_error err = {.code = P4D_OK};

	assert_true(json_object_object_get_ex(piece, "template", &source));
	const char *const template = json_object_get_string(source);
	const bool renders = json_object_object_get_ex(piece, "text", &wanted);
	const int rc = render_steps(template, variables, P4D_TEMPLATE_STEPS, values, &text, &err);
	if (renders && rc < 0)
		fail_msg("%s: %s", template, err.text);
	if (!renders && rc == 0)
		fail_msg("%s: transformers refuses this, but there is: %s", template, text.text);
	if (renders && ((size_t)json_object_get_string_len(wanted) != text.length ||
			memcmp(json_object_get_string(wanted), text.text, text.length) != 0))
		fail_msg("%s:\n%.*s\n%s", template, (int)text.length, text.text,
			 json_object_get_string(wanted));
}

static void the_same_as_transformers(void **state)
{
	const char *dir = getenv("P4D_TEST_SRCDIR");
	char path[4096], *line = NULL;
	size_t room = 0, checked = 0;
	struct json_object *variables = NULL;
	p4d_template_values *values;
	p4d_error err;

	(void)state;
	snprintf(path, sizeof(path), "%s/tests/data/templates/pieces.jsonl", dir ? dir : ".");
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(p4d_template_values_open(&values, &err), 0);
	while (getline(&line, &room, file) > 0) {
		struct json_object *parsed = json_tokener_parse(line);
		assert_non_null(parsed);
		if (!variables) {
			variables = parsed;
			continue;
		}
		check_piece(parsed, variables, values);
		json_object_put(parsed);
		checked++;
	}
	assert_within(checked, 1000, 9999);
	json_object_put(variables);
	p4d_template_values_close(values);
	free(line);
	fclose(file);
}

/* The limit counts all work, also work that a template requests with a few steps. Without the limit, each
 * of these templates would take minutes or hours. */
static void work_is_counted(void **state)
{
	static const char long_texts[] =
	    "{% set n = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(14) %}"
	    "{% set n.x = n.x ~ n.x %}{% endfor %}{% set x = n.x %}"
	    "{% set y = x[:131072] ~ 'b' %}";
	static const char *const work[] = {
	    "{{ x.rfind(y) }}",
	    "{{ x.rsplit(y) | length }}",
	    "{{ x.rpartition(y) | length }}",
	    "{{ x.strip(('b' * 90000) ~ 'a') | length }}",
	    "{{ x | trim(('b' * 90000) ~ 'a') | length }}",
	    "{% for i in range(9000) %}{% if x.startswith(x) %}{% endif %}{% endfor %}",
	    "{% for i in range(9000) %}{% set q = x.partition('b') %}{% endfor %}",
	    "{% for i in range(9000) %}{% set q = x.removeprefix(x) %}{% endfor %}",
	    "{% for i in range(999) %}{{ (x[:99] ~ 'b' ~ x[:99]) in x }}{% endfor %}",
	};
	char source[1024];
	p4d_template_values *values;
	p4d_template_text text;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_template_values_open(&values, &err), 0);
	for (size_t i = 0; i < sizeof(work) / sizeof(*work); i++) {
		snprintf(source, sizeof(source), "%s%s", long_texts, work[i]);
		if (render_steps(source, NULL, 2000000, values, &text, &err) == 0)
			fail_msg("%s: %.20s", work[i], text.text);
		assert_non_null(strstr(err.text, "million steps, the limit"));
	}
	p4d_template_values_close(values);
}

/* A date that does not fit must be an error, not an empty text. */
static void dates(void **state)
{
	char source[600] = "{{ strftime_now('%9999d%9999d%9999d%9999d%9999d%9999d%9999d') }}";
	p4d_template_values *values;
	p4d_template_text text;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_template_values_open(&values, &err), 0);
	assert_int_equal(render_steps(source, NULL, P4D_TEMPLATE_STEPS, values, &text, &err), -1);
	assert_non_null(strstr(err.text, "strftime_now: a date of more than"));
	strcpy(source, "{{ strftime_now('");
	for (int i = 0; i < 250; i++)
		strcat(source, "%c");
	strcat(source, "') }}");
	assert_int_equal(render_steps(source, NULL, P4D_TEMPLATE_STEPS, values, &text, &err), 0);
	assert_int_equal(text.length, 250 * strlen("Mon Nov 30 00:00:00 2026"));
	p4d_template_values_close(values);
}

/* An integer of a conversation is printed as it is written there, or is an error. */
static void integers(void **state)
{
	static const struct {
		const char *json, *text; /* text NULL: an error, because the integer needs more than 64
					  * bits */
	} cases[] = {
	    {"9223372036854775807", "9223372036854775807"},
	    {"-9223372036854775807", "-9223372036854775807"},
	    {"9223372036854775808", NULL},
	    {"[{\"a\": 18446744073709551615}]", NULL},
	    {"[123456789012345678901234567890]", NULL},
	    {"{\"a\": [-9223372036854775809]}", NULL},
	};
	p4d_template_values *values;
	p4d_template_text text;
	p4d_error err;

	(void)state;
	assert_int_equal(p4d_template_values_open(&values, &err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct json_object *value = json_tokener_parse(cases[i].json),
				   *all = json_object_new_object();
		json_object_object_add(all, "x", value);
		p4d_template_values_clear(values);
		if (!cases[i].text) {
			assert_int_equal(p4d_template_values_set(values, "x", value, &err), -1);
			assert_string_equal(err.text, "x: an integer exceeds 64 bits");
		} else {
			assert_int_equal(
			    render_steps("{{ x }}", all, P4D_TEMPLATE_STEPS, values, &text, &err), 0);
			assert_string_equal(text.text, cases[i].text);
		}
		json_object_put(all);
	}
	p4d_template_values_close(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_same_as_transformers),
	    cmocka_unit_test(work_is_counted),
	    cmocka_unit_test(dates),
	    cmocka_unit_test(integers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
