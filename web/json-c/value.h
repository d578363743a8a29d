/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json-c/json.h"

struct json_member {
	char *key; /* NULL in an array */
	struct json_object *value;
};

struct json_object {
	enum json_type type;
	bool is_unsigned; /* of json_type_int: the number is above INT64_MAX */
	int64_t whole;    /* json_type_int, json_type_boolean */
	double real;
	char *text; /* of a string; of a double: its digits, or NULL. Owned */
	size_t length;
	struct json_member *member; /* of objects and arrays, in their order. Owned */
	size_t members, room;
	char *printed; /* owned */
};
