/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a job's output says that GPU memory ran out. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backtest/backtest.h"
#include "base/file.h"
#include "base/text.h"
#include "job/sbatch.h"

enum { END_BYTES = 64 << 10 };

static const char *const words[] = {
    "CUDA out of memory",          "torch.OutOfMemoryError",
    "torch.cuda.OutOfMemoryError", "CUDA error: out of memory",
    "HIP out of memory",           "hipErrorOutOfMemory",
    "cudaErrorMemoryAllocation",   "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",  "No available memory for the cache blocks", /* the second is vLLM's */
};

/* The last line that slurmstepd prints in a run after which Slurm starts the job again. The next run may
 * append to the same file. */
static const char *const ends_of_run[] = {" DUE TO JOB REQUEUE ***", " DUE TO PREEMPTION ***",
					  " DUE TO NODE FAILURE, "};

/* Reads the end of a file. Reads only regular files, and never waits. */
static char *read_end(const char *path)
{
	struct stat status;
	const int file = p4d_file_open(path);
	size_t length;
	char *text = NULL;

	if (file < 0)
		return NULL;
	if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
		char *end = malloc(END_BYTES + 1);
		const off_t from = status.st_size > END_BYTES ? status.st_size - END_BYTES : 0;
		const ssize_t got = end ? pread(file, end, END_BYTES, from) : -1;
		length = got > 0 ? (size_t)got : 0;
		for (size_t i = 0; i < length; i++)
			end[i] = end[i] ? end[i] : ' ';
		if (end)
			end[length] = '\0';
		text = end;
	}
	close(file);
	return text;
}

/* Returns the part of an output that the job's last run wrote. sacct also describes only the last run. */
static const char *last_run(const char *output)
{
	for (size_t i = 0; i < sizeof(ends_of_run) / sizeof(ends_of_run[0]); i++)
		for (const char *end; (end = strstr(output, ends_of_run[i]));)
			output = end + strlen(ends_of_run[i]);
	return output;
}

static bool has_words(const char *path)
{
	char *text = read_end(path);
	const char *run = text ? last_run(text) : "";
	bool has = false;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		has = has || strstr(run, words[i]);
	free(text);
	return has;
}

/* Replaces "%j", "%4A", "%x" and others in a path. Patterns that p4d does not know stay unchanged. */
static void expand(const p4d_accounting_job *job, const char *pattern, p4d_text *path)
{
	const char *task = strchr(job->id, '_');
	char number[32];

	for (const char *at = pattern; *at; at++) {
		const size_t digits = at[0] == '%' ? strspn(at + 1, "0123456789") : 0;
		const int width = digits ? atoi(at + 1) % 11 : 0;
		const char kind = at[0] == '%' ? at[1 + digits] : '\0';
		const char *value = kind == 'j' || kind == 'J' ? job->raw
				    : kind == 'x'              ? job->name
				    : kind == 'u'              ? job->user
				    : kind == '%'              ? "%"
				    : kind == 'A'              ? job->id
				    : kind == 'a' && task      ? task + 1
							       : NULL;
		if (!value) {
			p4d_text_add_bytes(path, at, 1);
			continue;
		}
		snprintf(number, sizeof(number), "%0*lu", width, strtoul(value, NULL, 10));
		p4d_text_add(path, strchr("jJAa", kind) ? number : value);
		at += digits + 1;
	}
}

static bool file_has_words(const p4d_accounting_job *job, const char *pattern)
{
	char path[PATH_MAX];
	p4d_text text = p4d_text_in(path, sizeof(path));

	if (!*pattern)
		return false;
	if (pattern[0] != '/')
		p4d_text_print(&text, "%s/", job->work_dir);
	expand(job, pattern, &text);
	return !text.truncated && has_words(path);
}

/* Searches the output files that the job's options name. Before 24.05, Slurm stores nothing else about
 * them. */
static bool option_has_words(const p4d_backtest_case *c)
{
	const p4d_accounting_job *job = c->job;
	p4d_sbatch sbatch = {.skips_foreign = true};
	p4d_backtest_line line;
	unsigned components;
	p4d_error err;
	int operand;

	const char *usual = strchr(job->id, '_') ? "slurm-%A_%a.out" : "slurm-%j.out";
	if (!c->script)
		return file_has_words(job, usual);
	if (!p4d_backtest__line_read(&line, c))
		return false;
	if (line.script < line.words || line.wrap)
		p4d_sbatch_arguments(&sbatch, line.script, line.word, &operand, &err);
	p4d_sbatch_script(&sbatch, c->script, c->length, 0, &components, &err);
	const char *out = sbatch.value[P4D_SBATCH_OUTPUT], *error = sbatch.value[P4D_SBATCH_ERROR];
	const bool has = file_has_words(job, out ? out : usual) || (error && file_has_words(job, error));
	p4d_sbatch_free(&sbatch);
	p4d_backtest__line_free(&line);
	return has;
}

bool p4d_backtest__says_out_of_memory(const p4d_backtest_case *c)
{
	const p4d_accounting_job *job = c->job;

	if (*job->std_out || *job->std_err)
		return file_has_words(job, job->std_out) || file_has_words(job, job->std_err);
	return option_has_words(c);
}
