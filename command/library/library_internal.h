/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

/* A reply that takes over the object; NULL: no memory, or there is no object. */
struct p4d_reply *p4d_library__reply(struct json_object *object, int code);
