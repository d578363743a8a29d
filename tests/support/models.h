/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests that name a model. */
#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "model/presets.h"

static inline const char *datadir(void)
{
	const char *dir = getenv("P4D_TEST_DATADIR");

	return dir ? dir : "etc";
}

static inline p4d_request named(const char *name)
{
	p4d_request request = {0};
	p4d_error err = {0};

	assert_int_equal(p4d_request_set(&request, P4D_MODEL, name, P4D_BY_USER, &err), 0);
	return request;
}

static inline void resolve(p4d_request *request, p4d_preset *preset)
{
	p4d_error err = {0};

	p4d_request built_in = *request;
	p4d_preset same;

	if (p4d_model_resolve(request, datadir(), preset, &err) < 0)
		fail_msg("%s: %s", request->model, err.text);
	if (p4d_model_resolve(&built_in, NULL, &same, &err) < 0)
		fail_msg("%s, built in: %s", request->model, err.text);
	assert_int_equal(err.code, P4D_OK);
	assert_memory_equal(&built_in, request, sizeof(built_in));
	if (preset)
		assert_memory_equal(&same, preset, sizeof(same));
}

/* The request must fail with this error, and must not change. */
static inline void refuse(const p4d_request *request, p4d_code code, const char *text, const char *fix)
{
	const char *const places[] = {datadir(), NULL};

	for (size_t i = 0; i < 2; i++) {
		p4d_request after = *request;
		p4d_preset preset = {.name = "untouched"};
		p4d_error err = {0};
		assert_int_equal(p4d_model_resolve(&after, places[i], &preset, &err), -1);
		assert_string_equal(err.text, text);
		assert_string_equal(err.fix, fix);
		assert_int_equal(err.code, code);
		assert_memory_equal(&after, request, sizeof(after));
		assert_string_equal(preset.name, "untouched");
		assert_int_equal(p4d_model_resolve(&after, places[i], NULL, NULL), -1);
	}
}
