/* SPDX-License-Identifier: Apache-2.0 */
#include "data/normalizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/grow.h"

typedef struct p4d_normalizer_buffer buffer;

static int no_memory(p4d_error *err)
{
	return p4d_fail(err, P4D_E_NO_MEMORY, "no memory for a normalized text");
}

static int add_step(p4d_normalizer *normalizer, p4d_normalizer_step step, p4d_error *err)
{
	p4d_normalizer_step *more = reallocarray(normalizer->steps, normalizer->count + 1, sizeof(*more));

	if (!more)
		return no_memory(err);
	normalizer->steps = more;
	more[normalizer->count++] = step;
	return 0;
}

/* Unicode's normalization forms. */
static int form_of(const char *type)
{
	static const struct {
		const char *type;
		int options;
	} forms[] = {
	    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
	    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
	    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
	    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		if (!strcmp(type, forms[i].type))
			return forms[i].options;
	return 0;
}

static int add_texts(p4d_normalizer *normalizer, struct json_object *from, struct json_object *to,
		     p4d_error *err)
{
	p4d_normalizer_step step = {.kind = from ? P4D_NORMALIZE_REPLACE : P4D_NORMALIZE_PREPEND,
				    .from = from ? strdup(json_object_get_string(from)) : NULL,
				    .to = strdup(json_object_get_string(to))};

	if (!step.to || (from && !step.from) || add_step(normalizer, step, err) < 0) {
		free(step.from);
		free(step.to);
		return no_memory(err);
	}
	return 0;
}

/* Whether the JSON value is a text without NUL, because steps store it as a C string. */
static bool is_text(struct json_object *object)
{
	return json_object_is_type(object, json_type_string) &&
	       strlen(json_object_get_string(object)) == (size_t)json_object_get_string_len(object);
}

int p4d_normalizer__open(p4d_normalizer *normalizer, struct json_object *description, p4d_error *err)
{
	const char *type = json_object_get_string(json_object_object_get(description, "type"));
	struct json_object *list = json_object_object_get(description, "normalizers");
	struct json_object *prefix = json_object_object_get(description, "prepend");
	struct json_object *content = json_object_object_get(description, "content");
	struct json_object *pattern =
	    json_object_object_get(json_object_object_get(description, "pattern"), "String");

	if (!description)
		return 0;
	if (!type)
		return p4d_fail(err, P4D_E_VALUE, "the tokenizer's normalizer has no type");
	if (!strcmp(type, "Sequence") && json_object_is_type(list, json_type_array)) {
		int rc = 0;
		for (size_t i = 0; rc == 0 && i < json_object_array_length(list); i++)
			rc = p4d_normalizer__open(normalizer, json_object_array_get_idx(list, i), err);
		return rc;
	}
	if (form_of(type))
		return add_step(normalizer,
				(p4d_normalizer_step){P4D_NORMALIZE_FORM, form_of(type), NULL, NULL}, err);
	if (!strcmp(type, "Prepend") && is_text(prefix))
		return add_texts(normalizer, NULL, prefix, err);
	if (!strcmp(type, "Replace") && is_text(content) && is_text(pattern) &&
	    json_object_get_string_len(pattern))
		return add_texts(normalizer, pattern, content, err);
	return p4d_fail(err, P4D_E_VALUE, "the tokenizer's normalizer %.60s is not supported",
			json_object_to_json_string(description));
}

void p4d_normalizer__close(p4d_normalizer *normalizer)
{
	for (size_t i = 0; i < normalizer->count; i++) {
		free(normalizer->steps[i].from);
		free(normalizer->steps[i].to);
	}
	free(normalizer->steps);
	free(normalizer->buffer[0].text);
	free(normalizer->buffer[1].text);
	*normalizer = (p4d_normalizer){.count = 0};
}

static int append(buffer *to, const char *text, size_t length, p4d_error *err)
{
	if (!p4d_grow(&to->text, &to->room, to->length + length, sizeof(*to->text)))
		return no_memory(err);
	if (length)
		memcpy(to->text + to->length, text, length);
	to->length += length;
	return 0;
}

static int replace(buffer *to, const p4d_normalizer_step *step, const char *text, size_t length,
		   p4d_error *err)
{
	const size_t from = strlen(step->from), with = strlen(step->to);
	const char *end = text + length, *next;

	while (text < end && (next = memmem(text, (size_t)(end - text), step->from, from)) != NULL) {
		if (append(to, text, (size_t)(next - text), err) < 0 || append(to, step->to, with, err) < 0)
			return -1;
		text = next + from;
	}
	return append(to, text, (size_t)(end - text), err);
}

/*
 * Whether a text is certainly normalized already. For the composed form that is so if all characters are
 * below U+0300, because none of these combines with another. For other forms it must be ASCII, which never
 * changes.
 */
static bool is_normal(int form, const char *text, size_t length)
{
	const uint8_t limit = form == (UTF8PROC_STABLE | UTF8PROC_COMPOSE) ? 0xcc : 0x80;

	for (size_t i = 0; i < length; i++)
		if ((uint8_t)text[i] >= limit)
			return false;
	return true;
}

static int change_form(buffer *to, int form, const char *text, size_t length, p4d_error *err)
{
	utf8proc_uint8_t *changed = NULL;
	const utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length,
						    &changed, (utf8proc_option_t)form);

	if (bytes < 0)
		return p4d_fail(err, bytes == UTF8PROC_ERROR_NOMEM ? P4D_E_NO_MEMORY : P4D_E_VALUE,
				"a text of %zu bytes cannot be normalized: %s", length,
				utf8proc_errmsg(bytes));
	int rc = append(to, (const char *)changed, (size_t)bytes, err);
	free(changed);
	return rc;
}

int p4d_normalizer__apply(p4d_normalizer *normalizer, const char **text, size_t *length, p4d_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && *length && i < normalizer->count; i++) {
		const p4d_normalizer_step *step = &normalizer->steps[i];
		buffer *to = &normalizer->buffer[i % 2];
		to->length = 0;
		if (step->kind == P4D_NORMALIZE_FORM && is_normal(step->form, *text, *length))
			rc = append(to, *text, *length, err);
		else if (step->kind == P4D_NORMALIZE_FORM)
			rc = change_form(to, step->form, *text, *length, err);
		else if (step->kind == P4D_NORMALIZE_REPLACE)
			rc = replace(to, step, *text, *length, err);
		else if ((rc = append(to, step->to, strlen(step->to), err)) == 0)
			rc = append(to, *text, *length, err);
		*text = to->text;
		*length = to->length;
	}
	return rc;
}
