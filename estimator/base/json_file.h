/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <json-c/json.h>

#include "base/error.h"

/*
 * Strict and bounded reading of JSON files. Only regular files are read, so a FIFO never blocks. A file has
 * at most max_bytes and at most 32 levels, and holds one object with nothing after it. No member may appear
 * twice. The caller releases the object with json_object_put. `what` names the file in messages.
 */
struct json_object *p4d_json_read(const char *path, size_t max_bytes, p4d_error *err);
struct json_object *p4d_json_parse(const char *text, size_t length, const char *what, p4d_error *err);

/* The text of such a file, NUL-terminated; the caller frees it. NULL with P4D_E_IO or P4D_E_NO_MEMORY. */
char *p4d_text_read(const char *path, size_t max_bytes, size_t *length, p4d_error *err);

/*
 * Members of an object. If a member is absent or null, these return 0 and leave the output unchanged. If its
 * type, range or length is wrong, they return -1 with P4D_E_JSON or P4D_E_VALUE. A number with a zero
 * fraction (4096.0) counts as an integer. Strings must not hold control characters. A list of strings becomes
 * one text joined with commas, so its entries must not contain commas.
 */
int p4d_json_integer(struct json_object *object, const char *key, int64_t min, int64_t max, int64_t *value,
		     p4d_error *err);
int p4d_json_number(struct json_object *object, const char *key, double min, double max, double *value,
		    p4d_error *err);
int p4d_json_boolean(struct json_object *object, const char *key, bool *value, p4d_error *err);
int p4d_json_string(struct json_object *object, const char *key, char *buf, size_t size, p4d_error *err);
int p4d_json_list(struct json_object *object, const char *key, char *buf, size_t size, p4d_error *err);

/* Fails if the object has an unknown member; returns -1. */
int p4d_json_unknown_field(const char *key, p4d_error *err);
