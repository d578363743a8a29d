/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chat template, a zero byte, and the template's variables as JSON. Without JSON, the variables are a
 * conversation. The output has a limit, and an error names the template. The test also changes each input
 * at random a few times.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS = 20000, CHANGES = 24, LONGEST = 1 << 16 };

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": "
    "\"u\\u00fc\"}, "
    "{\"role\": \"assistant\", \"content\": \"<think>t</think>a\", \"tool_calls\": [{\"id\": \"abcdefghi\", "
    "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null, "
    "true]}}}]}, "
    "{\"role\": \"tool\", \"content\": \"r\"}], \"tools\": [{\"type\": \"function\", \"function\": "
    "{\"name\": \"f\", "
    "\"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": "
    "\"array\"}}}}}], \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true}";

static void check(int right)
{
	if (!right)
		abort();
}

/* Checks that an error is one that a template may cause. */
static void check_error(const p4d_error *err)
{
	check((err->code == P4D_E_VALUE && !strncmp(err->text, "fuzzed:", 7)) ||
	      err->code == P4D_E_NO_MEMORY);
}

static void check_text(const p4d_template_text *text, uint64_t steps)
{
	uint64_t sum = 0;

	check(steps <= STEPS && text->length < (size_t)STEPS * 4096);
	/* reads all of it, so that sanitizers find missing bytes */
	for (size_t i = 0; i < text->length; i++)
		sum += (uint8_t)text->text[i];
	check(sum <= 255 * (uint64_t)text->length);
	for (size_t i = 0; i < text->spans; i++)
		check(text->generated[i].from <= text->generated[i].to &&
		      text->generated[i].to <= text->length);
}

static void render(const p4d_template *template, struct json_object *variables)
{
	p4d_template_values *values;
	p4d_template_text text;
	p4d_error err = {.code = P4D_OK};
	uint64_t steps = STEPS;
	struct tm date = {.tm_year = 126, .tm_mon = 10, .tm_mday = 30};

	check(p4d_template_values_open(&values, &err) == 0);
	p4d_template_values_date(values, &date);
	int rc = 0;
	json_object_object_foreach(variables, name, value) rc =
	    rc < 0 ? rc : p4d_template_values_set(values, name, value, &err);
	if (rc < 0)
		check(err.code == P4D_E_VALUE && strstr(err.text, "exceeds 64 bits") != NULL);
	else if (p4d_template_render(template, values, &steps, &text, &err) == 0)
		check_text(&text, steps);
	else
		check_error(&err);
	p4d_template_values_close(values);
}

static void look_at(const uint8_t *data, size_t size)
{
	const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
	const size_t length = zero ? (size_t)(zero - data) : size;
	struct json_tokener *tokener = json_tokener_new_ex(32);
	struct json_object *variables = NULL;
	p4d_template *template = NULL;
	p4d_error err = {.code = P4D_OK};

	check(tokener != NULL);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	variables = zero ? json_tokener_parse_ex(tokener, (const char *)zero + 1, (int)(size - length - 1))
			 : json_tokener_parse_ex(tokener, conversation, (int)strlen(conversation));
	if (p4d_template_open(&template, "fuzzed", (const char *)data, length, &err) < 0)
		check_error(&err);
	else if (json_object_is_type(variables, json_type_object))
		render(template, variables);
	p4d_template_close(template);
	json_object_put(variables);
	json_tokener_free(tokener);
}

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
static uint32_t draw(uint32_t *state, uint32_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state % below;
}

/* Replaces a few bytes by a word of Jinja. */
static size_t change(uint8_t *data, size_t size, uint32_t *state)
{
	static const char *const words[] = {
	    "{%",
	    "%}",
	    "{{",
	    "}}",
	    "-%}",
	    "{%-",
	    "{#",
	    "#}",
	    "(",
	    ")",
	    "[",
	    "]",
	    "|",
	    ".",
	    ":",
	    ",",
	    "~",
	    "'",
	    "\"",
	    "\\",
	    " if ",
	    " else ",
	    " for ",
	    " in ",
	    " is ",
	    " not ",
	    "{% endif %}",
	    "{% endfor %}",
	    "{% set x = x ~ x %}",
	    "{% macro m(a, b=1) %}",
	    "{% endmacro %}",
	    "{{ m(m) }}",
	    "[::-1]",
	    "[1:",
	    "|tojson(indent=2)",
	    "|join(',')",
	    "|map(attribute='x')",
	    "|selectattr('role', 'in', 'user')",
	    ".split('<')",
	    ".items()",
	    "messages",
	    "loop.last",
	    "range(99999)",
	    " * 9",
	    " ** 9",
	    "{% generation %}",
	    "{% endgeneration %}",
	    "9223372036854775807",
	    "\n",
	    "\xc3",
	    "",
	};
	const char *word = words[draw(state, sizeof(words) / sizeof(*words))];
	const size_t at = draw(state, (uint32_t)size + 1), length = strlen(word);
	size_t cut = draw(state, 8);

	cut = cut < size - at ? cut : size - at;
	if (size - cut + length > LONGEST)
		return size;
	memmove(data + at + length, data + at + cut, size - at - cut);
	memcpy(data + at, word, length);
	return size - cut + length;
}

static void look_at_changed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(LONGEST);
	uint32_t state = 2463534242U ^ (uint32_t)size;

	check(copy != NULL);
	for (int i = 0; size <= LONGEST && i < CHANGES; i++) {
		size_t now = size;
		if (size)
			memcpy(copy, data, size);
		for (uint32_t times = 1 + draw(&state, 4); times; times--)
			now = change(copy, now, &state);
		look_at(copy, now);
	}
	free(copy);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	look_at(data, size);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	look_at_changed(data, size);
#endif
	return 0;
}
