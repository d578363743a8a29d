/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The part of json-c's interface that p4d uses, for WebAssembly, where Debian has no json-c. json.c prints as
 * json-c 0.16 does. A value has one owner: there are no reference counts.
 */
struct json_object;
struct json_tokener;

enum json_type {
	json_type_null,
	json_type_boolean,
	json_type_double,
	json_type_int,
	json_type_object,
	json_type_array,
	json_type_string
};

/* In the order of `descriptions` in parse.c. */
enum json_tokener_error {
	json_tokener_success,
	json_tokener_continue,
	json_tokener_error_depth,
	json_tokener_error_parse_unexpected,
	json_tokener_error_parse_number,
	json_tokener_error_parse_string,
	json_tokener_error_memory
};

enum {
	JSON_C_TO_STRING_PLAIN = 0,
	JSON_C_TO_STRING_PRETTY = 2,
	JSON_C_TO_STRING_NOSLASHESCAPE = 16,
	JSON_TOKENER_STRICT = 1,
	JSON_TOKENER_VALIDATE_UTF8 = 16,
};

struct json_object *json_object_new_object(void);
struct json_object *json_object_new_array(void);
struct json_object *json_object_new_boolean(int value);
struct json_object *json_object_new_int(int32_t value);
struct json_object *json_object_new_int64(int64_t value);
struct json_object *json_object_new_uint64(uint64_t value);
struct json_object *json_object_new_double(double value);
/* digits: the text that is printed for the value. */
struct json_object *json_object_new_double_s(double value, const char *digits);
struct json_object *json_object_new_string(const char *text);
struct json_object *json_object_new_string_len(const char *text, int length);
/* Frees a value and all values in it. Returns 1. */
int json_object_put(struct json_object *object);

enum json_type json_object_get_type(const struct json_object *object);
int json_object_is_type(const struct json_object *object, enum json_type type);
int json_object_get_boolean(const struct json_object *object);
int64_t json_object_get_int64(const struct json_object *object);
uint64_t json_object_get_uint64(const struct json_object *object);
double json_object_get_double(const struct json_object *object);
/* The text of a string; the JSON text of anything else. The object owns it. */
const char *json_object_get_string(struct json_object *object);
int json_object_get_string_len(const struct json_object *object);

/* These functions become the owner of the value. A member that replaces another one frees the old value.
 * They return 0, or -1 without memory. */
int json_object_object_add(struct json_object *object, const char *key, struct json_object *value);
int json_object_array_add(struct json_object *array, struct json_object *value);
struct json_object *json_object_object_get(const struct json_object *object, const char *key);
/* Whether the object has the member; value may be NULL. */
int json_object_object_get_ex(const struct json_object *object, const char *key, struct json_object **value);
int json_object_object_length(const struct json_object *object);
size_t json_object_array_length(const struct json_object *array);
struct json_object *json_object_array_get_idx(const struct json_object *array, size_t at);
/* Not in json-c: the member at this place. False: there are no more. */
bool json_object_member_at(const struct json_object *object, size_t at, char **key,
			   struct json_object **value);

#define json_object_object_foreach(object, key, value) \
	char *key = NULL; \
	struct json_object *value = NULL; \
	for (size_t key##_at = 0; json_object_member_at(object, key##_at, &key, &value); key##_at++)

/* The object owns the text until it is printed again. NULL without memory. */
const char *json_object_to_json_string_ext(struct json_object *object, int flags);
const char *json_object_to_json_string(struct json_object *object);

struct json_tokener *json_tokener_new_ex(int depth);
void json_tokener_set_flags(struct json_tokener *tokener, int flags);
struct json_object *json_tokener_parse_ex(struct json_tokener *tokener, const char *text, int length);
enum json_tokener_error json_tokener_get_error(struct json_tokener *tokener);
size_t json_tokener_get_parse_end(struct json_tokener *tokener);
const char *json_tokener_error_desc(enum json_tokener_error error);
void json_tokener_free(struct json_tokener *tokener);
