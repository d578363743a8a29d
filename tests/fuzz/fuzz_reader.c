/* SPDX-License-Identifier: Apache-2.0 */
/* Job scripts, read as bash would run them, for a job and for tasks of an array. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/tasks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *variable(void *context, const char *name)
{
	(void)context;
	return name[0] == 'S' ? p4d_shell_later : name[0] == 'E' ? "8 x" : NULL;
}

/* The input; the script can read it as its own file. */
typedef struct input {
	const char *text;
	size_t length;
} input;

static const char *file(void *context, const char *path, size_t *length)
{
	const input *in = context;

	(void)path;
	*length = in->length;
	return in->text;
}

/* If a script does not end with a letter, the reader gets little memory, so that it can run out of memory
 * anywhere. */
static p4d_shell_limits limits_of(void *memory, size_t most, const uint8_t *data, size_t size)
{
	const unsigned last = size ? data[size - 1] : 0;

	if (last < 0x80)
		return (p4d_shell_limits){memory, most, P4D_SHELL_WORK / 24};
	return (p4d_shell_limits){memory, (size_t)4096 << (last & 7), (uint64_t)16 << (last >> 3 & 15)};
}

static void check(const p4d_reading *r)
{
	if (r->reader && (!r->file || !r->commands))
		abort();
	for (int i = 0; i < (int)P4D_OPTIONS; i++)
		if (r->value[i].file && !memchr(r->value[i].text, 0, sizeof(r->value[i].text)))
			abort();
}

static void read_tasks(const input *in, const char *const *arguments, const p4d_shell_limits *limits)
{
	static p4d_reading reading;
	p4d_read_files files = {.count = 0};
	const p4d_job job = {.array = "0-2,7",
			     .gres = "gpu:8",
			     .min_nodes = 1,
			     .script = in->text,
			     .script_length = in->length};
	const p4d_job_script script = {.job = &job,
				       .name = "job.sh",
				       .arguments = arguments,
				       .directory = "/job",
				       .submitted = true,
				       .files = &files,
				       .inherited = variable,
				       .left = file,
				       .context = (void *)(uintptr_t)in};
	p4d_job_tasks all;

	p4d_job_read(&script, limits, &reading);
	p4d_job_tasks *tasks = p4d_job_tasks_of(&all, &script, limits, &reading);
	check(&reading);
	while (tasks && p4d_job_tasks_next(tasks))
		check(tasks->reading);
	p4d_read_files_free(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MEMORY = 8 << 20 };
	static _Alignas(16) char memory[MEMORY];
	static p4d_reading reading;
	static const char *const arguments[] = {"4", "--x", NULL};
	char *text = malloc(size ? size : 1);

	if (!text)
		abort();
	memcpy(text, data, size); /* a block of exactly this length, so that sanitizers find a read beyond
				   * its end */
	input in = {text, size};
	const p4d_reader_host host = {.shell = {.context = &in, .variable = variable, .file = file}};
	const p4d_shell_limits limits = limits_of(memory, MEMORY, data, size);
	p4d_reader_read(&reading, &host, &limits, "job.sh", text, size, arguments, "/job");
	check(&reading);
	read_tasks(&in, arguments, &limits);
	free(text);
	return 0;
}
