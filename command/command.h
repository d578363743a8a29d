/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "line/line.h"

/*
 * The command `p4d`. Each subcommand is a function that returns the exit status (0, or the number of a p4d
 * code), or -1 with *err filled. If it returns -1, main prints the error (as JSON with --json) and exits
 * with the number of the error's code.
 */

int p4d_command_estimate(const p4d_line *line, p4d_error *err);
int p4d_command_plan(const p4d_line *line, p4d_error *err);
int p4d_command_simulate(const p4d_line *line, p4d_error *err);
int p4d_command_check(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
int p4d_command_read(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
int p4d_command_export(const p4d_subcommand *self, int argc, char *argv[], p4d_error *err);
int p4d_command_job(const p4d_line *line, p4d_error *err);
int p4d_command_conf(const p4d_line *line, p4d_error *err);
int p4d_command_models(const p4d_line *line, p4d_error *err);
int p4d_command_gpus(const p4d_line *line, p4d_error *err);
int p4d_command_explain(const p4d_line *line, p4d_error *err);
int p4d_command_dump_features(const p4d_line *line, p4d_error *err);

/* Input of `p4d check` that libp4d.so passes in memory. A NULL source: the job comes from the command line
 * and the process's environment. */
typedef struct p4d_check_source {
	const char *script; /* the text of the script that the command line names */
	size_t length;
	const char *directory; /* the directory of the submission */
	char **environment;
	bool standard_input; /* true: read standard input if the command line names no script */
} p4d_check_source;
/* Runs `p4d check` for libp4d.so. The answer is JSON. */
int p4d_command_check_from(const p4d_check_source *source, int argc, char *argv[], p4d_error *err);

/* Prints the completion of these commands for a shell. */
int p4d_command_completion(const char *shell, const p4d_subcommand *commands, size_t count, p4d_error *err);

extern const char p4d_check_options[], p4d_read_options[], p4d_export_options[];
