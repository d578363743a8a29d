/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * Bounded, strict reading of JSON files: regular files only (never blocks on a FIFO), at most max_bytes, at
 * most 32 levels, one object at the top, no field given twice, nothing after it. The caller releases the
 * object with json_object_put. `what` names the file in messages.
 */
struct json_object *p4d_json_read(const char *path, size_t max_bytes, p4d_error *err);
struct json_object *p4d_json_parse(const char *text, size_t length, const char *what, p4d_error *err);

/* The bytes of such a file, NUL-terminated; the caller frees. NULL with P4D_E_IO or P4D_E_NO_MEMORY. */
char *p4d_text_read(const char *path, size_t max_bytes, size_t *length, p4d_error *err);

/*
 * Members of an object. Absent or null -> returns 0 and leaves the output; wrong type, range or length -> -1
 * with P4D_E_JSON or P4D_E_VALUE. A number written with a fraction of zero (4096.0) counts as an integer.
 * Strings hold no control characters; a list of strings is joined with commas, which its entries must not
 * contain.
 */
int p4d_json_integer(struct json_object *object, const char *key, int64_t min, int64_t max, int64_t *value,
		     p4d_error *err);
int p4d_json_number(struct json_object *object, const char *key, double min, double max, double *value,
		    p4d_error *err);
int p4d_json_string(struct json_object *object, const char *key, char *buf, size_t size, p4d_error *err);
int p4d_json_list(struct json_object *object, const char *key, char *buf, size_t size, p4d_error *err);

/* Refuses an unknown member; returns -1. */
int p4d_json_unknown_field(const char *key, p4d_error *err);
