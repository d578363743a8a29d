/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "json-c/json.h"

struct json_member {
	char *key; /* NULL in an array */
	struct json_object *value;
};

struct json_object {
	enum json_type type;
	bool is_unsigned; /* for json_type_int: the number is above INT64_MAX */
	int64_t whole;    /* json_type_int, json_type_boolean */
	double real;
	char *text; /* text of a string; digits of a double, or NULL. Owned */
	size_t length;
	struct json_member *member; /* members of objects and arrays, in their order. Owned */
	size_t members, room;
	char *printed; /* owned */
};
