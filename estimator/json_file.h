/* SPDX-License-Identifier: Apache-2.0 */
#ifndef P4D_JSON_FILE_H
#define P4D_JSON_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "error.h"

/*
 * Bounded, strict reading of JSON files: regular files only (never blocks on a FIFO), at most max_bytes, at most 32 levels.
 * The caller releases the object with json_object_put. `what` names the file in messages.
 */
struct json_object *p4d_json_read(const char *path, size_t max_bytes, p4d_error *err);
struct json_object *p4d_json_parse(const char *text, size_t length, const char *what, p4d_error *err);

/* Reads an integer member: absent -> returns 0 and leaves *value; wrong type or range -> -1 with P4D_E_JSON or VALUE. */
int p4d_json_integer(struct json_object *object, const char *key, int64_t min, int64_t max, int64_t *value, p4d_error *err);

#endif
