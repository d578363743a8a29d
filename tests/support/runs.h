/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs of p4d-train on a small model. Logs and checkpoints are in the test's directory. Include after
 * support.h. */
#include <unistd.h>

#include "checkpoint/checkpoint_internal.h"
#include "support/launched.h"
#include "support/run_log.h"
#include "support/token_files.h"
#include "support/whole_checkpoint.h"

enum { RANKS = 4, STEPS = 96, SAVE_EVERY = 12, WORDS = 96 };
static const double PATIENCE_SECONDS = 300;

#define MODEL \
	"--model custom --layers 4 --hidden 32 --ffn 64 --heads 4 --kv-heads 2 --head-dim 8 --vocab 257 " \
	"--max-seq-len 32 --norm rmsnorm --glu on --tied off --positions rope --bias none --qk-norm off " \
	"--seq-len 16 --global-batch 8 --lr 1e-3"

/* Starts a run of STEPS steps, with checkpoints in NAME and the log in NAME.jsonl. */
static inline void start(launched *l, const char *layout, const char *name)
{
	const char *build = getenv("P4D_TEST_BUILDDIR");
	char program[4096], text[2048], *argv[WORDS + 1], *save = NULL;
	size_t words = 1;

	snprintf(program, sizeof(program), "%s/p4d-train", build ? build : ".");
	snprintf(text, sizeof(text),
		 MODEL " --steps %d --save-every %d --data %s/text --checkpoint %s/%s --log %s/%s.jsonl %s",
		 STEPS, SAVE_EVERY, test_directory, test_directory, name, test_directory, name, layout);
	argv[0] = program;
	for (char *word = strtok_r(text, " ", &save); word && words < WORDS;
	     word = strtok_r(NULL, " ", &save))
		argv[words++] = word;
	argv[words] = NULL;
	launched_start(l, argv, in_directory("output"), in_directory("errors"));
}

static inline const char *local(const char *layout)
{
	static char text[256];

	snprintf(text, sizeof(text), "--local-ranks %d %s", RANKS, layout);
	return text;
}

static inline const char *errors(void)
{
	static char text[2048];
	FILE *file = fopen(in_directory("errors"), "r");

	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static inline void comes_to_its_end(launched *l)
{
	if (!launched_gone(l, PATIENCE_SECONDS))
		fail_msg("it does not end");
	if (launched_status(l) != 0)
		fail_msg("it ends with %d: %s", launched_status(l), errors());
}

static inline const char *log_of(const char *name)
{
	char file[64];

	snprintf(file, sizeof(file), "%s.jsonl", name);
	return in_directory(file);
}

static inline void shell(const char *command)
{
	char line[1024];

	snprintf(line, sizeof(line), "cd %s && %s", test_directory, command);
	if (system(line) != 0)
		fail_msg("%s", line);
}

static inline uint64_t newest(const char *name)
{
	uint64_t step = 0;
	p4d_error err;
	bool found;

	if (p4d_checkpoint_latest(in_directory(name), UINT64_MAX, &step, &found, &err) < 0)
		fail_msg("%s", err.text);
	return found ? step : 0;
}

static inline bool is_saving(const char *name, uint64_t step)
{
	char path[P4D_PATH];

	assert_int_equal(p4d_checkpoint__partial_path(in_directory(name), step, path, NULL), 0);
	return access(path, F_OK) == 0;
}

/* Checks that each folder with the name of a checkpoint is a complete checkpoint. */
static inline void newest_is_whole(const char *name)
{
	const uint64_t step = newest(name);
	char path[P4D_PATH];
	p4d_error err;

	if (!step)
		return;
	assert_int_equal(p4d_checkpoint_path(in_directory(name), step, path, sizeof(path), NULL), 0);
	if (read_whole_checkpoint(path, &err) < 0)
		fail_msg("%s", err.text);
}

static inline int prepare(void **state)
{
	if (make_quick_directory(state) < 0)
		return -1;
	/* writes a text from which a model can learn */
	FILE *text = fopen(in_directory("text"), "w");
	for (int i = 0; text && i < 300; i++)
		fprintf(text, "line %d: every line says which one it is, and that line %d is another\n", i,
			i * 7 % 300);
	if (!text || fclose(text) != 0)
		return -1;
	setenv("P4D_DATADIR", test_datadir(), 1);
	unsetenv("P4D_PLAN");
	shell("${P4D_TEST_BUILDDIR:-.}/p4d data -o text text >output");
	return 0;
}
