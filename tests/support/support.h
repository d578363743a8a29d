/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions that unit tests share. Include it first, because it includes cmocka and the headers that
 * cmocka needs. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "request/request.h"

/* cmocka also has this comparison, but its name depends on the release. */
static inline void assert_within(uint64_t value, uint64_t least, uint64_t most)
{
	if (value < least || value > most)
		fail_msg("%" PRIu64 " is not from %" PRIu64 " to %" PRIu64, value, least, most);
}

/* Sets options such as "tp=8 pp=2" as a user would. Values have no blanks. */
static inline void set_all(p4d_request *r, const char *assignments)
{
	char text[1024], *save = NULL;
	p4d_error err;

	snprintf(text, sizeof(text), "%s", assignments);
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(word, '=');
		assert_non_null(equals);
		*equals = '\0';
		int option = p4d_request_option_find(word);
		if (option < 0)
			fail_msg("no option %s", word);
		if (p4d_request_set(r, (p4d_option)option, equals + 1, P4D_BY_USER, &err) < 0)
			fail_msg("%s: %s", word, err.text);
	}
}

/* LLaMA 13B with all its sizes, so that no preset is needed. */
#define MODEL_13B \
	"model=llama13b layers=40 hidden=5120 ffn=13824 heads=40 kv-heads=40 head-dim=128 vocab=32000 " \
	"norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off max-seq-len=2048 "

/* Llama 3 70B, as numbers. */
#define MODEL_70B \
	"model=llama3-70b layers=80 hidden=8192 ffn=28672 heads=64 kv-heads=8 head-dim=128 vocab=128256 " \
	"norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off max-seq-len=8192 "

/* DeepSeek V2 with a few layers, and a model of 16 experts without latent attention, with all sizes. */
#define MODEL_LATENT \
	"model=latent layers=8 hidden=5120 ffn=12288 heads=128 kv-heads=128 head-dim=128 vocab=102400 " \
	"norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off max-seq-len=4096 experts=160 " \
	"experts-per-token=6 expert-ffn=1536 shared-ffn=3072 dense-layers=1 kv-lora-rank=512 " \
	"q-lora-rank=1536 rope-head-dim=64 v-head-dim=128 framework=megatron "
#define MODEL_SPARSE \
	"model=sparse layers=16 hidden=4096 ffn=14336 heads=32 kv-heads=8 head-dim=128 vocab=32000 " \
	"norm=rmsnorm glu=on tied=off positions=rope bias=none qk-norm=off max-seq-len=4096 experts=16 " \
	"experts-per-token=2 expert-ffn=4096 framework=megatron "

/* Llama 3.1 405B, as numbers. */
#define MODEL_LLAMA_405B \
	"model=llama3.1-405b layers=126 hidden=16384 ffn=53248 heads=128 kv-heads=8 head-dim=128 " \
	"vocab=128256 norm=rmsnorm " \
	"glu=on tied=off positions=rope bias=none qk-norm=off max-seq-len=131072 "

/* Returns N if a long test should try each Nth case: `few` with P4D_TEST_FEW, 1 with P4D_TEST_ALL, and
 * `usual` otherwise. P4D_TEST_FEW is for builds that repeat the tests with other compiler options. */
static inline size_t test_stride(size_t usual, size_t few)
{
	return getenv("P4D_TEST_ALL") ? 1 : getenv("P4D_TEST_FEW") ? few : usual;
}

/* Skips the test if P4D_TEST_FEW is set. */
static inline void test_skip_where_few(void)
{
	if (getenv("P4D_TEST_FEW"))
		skip();
}

static inline const char *test_datadir(void)
{
	const char *dir = getenv("P4D_TEST_DATADIR");

	return dir ? dir : "etc";
}
