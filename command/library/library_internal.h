/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-c/json.h>

/* Makes a reply, which then owns the object. NULL: no memory, or `object` is NULL. */
struct p4d_reply *p4d_library__reply(struct json_object *object, int code);
