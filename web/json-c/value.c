/* SPDX-License-Identifier: Apache-2.0 */
/* JSON values in memory. */
#include "json-c/value.h"

#include <stdlib.h>
#include <string.h>

static struct json_object *new_value(enum json_type type)
{
	struct json_object *object = calloc(1, sizeof(*object));

	if (object)
		object->type = type;
	return object;
}

static struct json_object *new_text(enum json_type type, const char *text, size_t length)
{
	struct json_object *object = new_value(type);

	if (!object)
		return NULL;
	object->text = malloc(length + 1);
	if (!object->text) {
		free(object);
		return NULL;
	}
	memcpy(object->text, text, length);
	object->text[length] = '\0';
	object->length = length;
	return object;
}

struct json_object *json_object_new_object(void)
{
	return new_value(json_type_object);
}

struct json_object *json_object_new_array(void)
{
	return new_value(json_type_array);
}

struct json_object *json_object_new_boolean(int value)
{
	struct json_object *object = new_value(json_type_boolean);

	if (object)
		object->whole = value != 0;
	return object;
}

struct json_object *json_object_new_int64(int64_t value)
{
	struct json_object *object = new_value(json_type_int);

	if (object)
		object->whole = value;
	return object;
}

struct json_object *json_object_new_int(int32_t value)
{
	return json_object_new_int64(value);
}

struct json_object *json_object_new_uint64(uint64_t value)
{
	struct json_object *object = json_object_new_int64((int64_t)value);

	if (object)
		object->is_unsigned = value > INT64_MAX;
	return object;
}

struct json_object *json_object_new_double(double value)
{
	struct json_object *object = new_value(json_type_double);

	if (object)
		object->real = value;
	return object;
}

struct json_object *json_object_new_double_s(double value, const char *digits)
{
	struct json_object *object = new_text(json_type_double, digits, strlen(digits));

	if (object)
		object->real = value;
	return object;
}

struct json_object *json_object_new_string(const char *text)
{
	return new_text(json_type_string, text, strlen(text));
}

struct json_object *json_object_new_string_len(const char *text, int length)
{
	return new_text(json_type_string, text, (size_t)length);
}

int json_object_put(struct json_object *object)
{
	if (!object)
		return 1;
	for (size_t i = 0; i < object->members; i++) {
		free(object->member[i].key);
		json_object_put(object->member[i].value);
	}
	free(object->member);
	free(object->text);
	free(object->printed);
	free(object);
	return 1;
}

enum json_type json_object_get_type(const struct json_object *object)
{
	return object ? object->type : json_type_null;
}

int json_object_is_type(const struct json_object *object, enum json_type type)
{
	return json_object_get_type(object) == type;
}

int json_object_get_boolean(const struct json_object *object)
{
	switch (json_object_get_type(object)) {
	case json_type_boolean:
	case json_type_int:
		return object->whole != 0;
	case json_type_double:
		return object->real != 0;
	case json_type_string:
		return object->length != 0;
	default:
		return 0;
	}
}

static int64_t to_int64(double value)
{
	if (value >= 0x1p63)
		return INT64_MAX;
	return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t json_object_get_int64(const struct json_object *object)
{
	switch (json_object_get_type(object)) {
	case json_type_boolean:
		return object->whole;
	case json_type_int:
		return object->is_unsigned ? INT64_MAX : object->whole;
	case json_type_double:
		return to_int64(object->real);
	case json_type_string:
		return strtoll(object->text, NULL, 10);
	default:
		return 0;
	}
}

uint64_t json_object_get_uint64(const struct json_object *object)
{
	if (json_object_is_type(object, json_type_int) && object->is_unsigned)
		return (uint64_t)object->whole;
	const int64_t value = json_object_get_int64(object);
	return value < 0 ? 0 : (uint64_t)value;
}

double json_object_get_double(const struct json_object *object)
{
	switch (json_object_get_type(object)) {
	case json_type_double:
		return object->real;
	case json_type_boolean:
	case json_type_int:
		return object->is_unsigned ? (double)(uint64_t)object->whole : (double)object->whole;
	case json_type_string:
		return strtod(object->text, NULL);
	default:
		return 0;
	}
}

const char *json_object_get_string(struct json_object *object)
{
	if (!object)
		return NULL;
	return object->type == json_type_string
		   ? object->text
		   : json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
}

int json_object_get_string_len(const struct json_object *object)
{
	return json_object_is_type(object, json_type_string) ? (int)object->length : 0;
}

static struct json_member *find(const struct json_object *object, const char *key)
{
	for (size_t i = 0; json_object_is_type(object, json_type_object) && i < object->members; i++)
		if (!strcmp(object->member[i].key, key))
			return &object->member[i];
	return NULL;
}

/* Takes key and value, also if there is no memory for them. */
static int append(struct json_object *to, char *key, struct json_object *value)
{
	if (to->members == to->room) {
		const size_t room = to->room ? 2 * to->room : 8;
		struct json_member *more = realloc(to->member, room * sizeof(*more));
		if (!more) {
			free(key);
			json_object_put(value);
			return -1;
		}
		to->member = more;
		to->room = room;
	}
	to->member[to->members++] = (struct json_member){key, value};
	return 0;
}

int json_object_object_add(struct json_object *object, const char *key, struct json_object *value)
{
	struct json_member *member = find(object, key);

	if (member) {
		json_object_put(member->value);
		member->value = value;
		return 0;
	}
	char *copy = strdup(key);
	if (!copy) {
		json_object_put(value);
		return -1;
	}
	return append(object, copy, value);
}

int json_object_array_add(struct json_object *array, struct json_object *value)
{
	return append(array, NULL, value);
}

int json_object_object_get_ex(const struct json_object *object, const char *key, struct json_object **value)
{
	const struct json_member *member = find(object, key);

	if (value)
		*value = member ? member->value : NULL;
	return member != NULL;
}

struct json_object *json_object_object_get(const struct json_object *object, const char *key)
{
	struct json_object *value;

	json_object_object_get_ex(object, key, &value);
	return value;
}

int json_object_object_length(const struct json_object *object)
{
	return (int)object->members;
}

size_t json_object_array_length(const struct json_object *array)
{
	return array->members;
}

struct json_object *json_object_array_get_idx(const struct json_object *array, size_t at)
{
	return at < array->members ? array->member[at].value : NULL;
}

bool json_object_member_at(const struct json_object *object, size_t at, char **key,
			   struct json_object **value)
{
	if (at >= object->members)
		return false;
	*key = object->member[at].key;
	*value = object->member[at].value;
	return true;
}
