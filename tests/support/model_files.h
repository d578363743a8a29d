/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Model files that a test writes. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "model/model.h"

static char dir[] = "/tmp/p4d-test-XXXXXX";
static char path[96]; /* DIR/config.json, the file a test writes */

static inline const char *datadir(void)
{
	const char *from_make = getenv("P4D_TEST_DATADIR");

	return from_make ? from_make : "etc";
}

static inline int make_directory(void **state)
{
	(void)state;
	if (!mkdtemp(dir) || chmod(dir, 0755))
		return -1;
	snprintf(path, sizeof(path), "%s/config.json", dir);
	return 0;
}

static inline int remove_directory(void **state)
{
	(void)state;
	return rmdir(dir);
}

static inline p4d_request named(const char *name)
{
	p4d_request request = {0};
	p4d_error err = {0};

	assert_int_equal(p4d_request_set(&request, P4D_MODEL, name, P4D_BY_USER, &err), 0);
	return request;
}

#define LLAMA "{\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":2,\"vocab_size\":100,"
#define REST "\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4"
