/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives libp4d-client.so access to the readers of job scripts, in a separate library that is opened for the
 * first script that may start a training. Without that library, p4d reads no scripts and refuses no job
 * because of its script.
 */
#include "client_option.h"
#include "reader.h"

static const p4d_reader_calls *reader;

static const p4d_reader_calls *open_reader(void)
{
	char path[4096];
	const char *why;

	if (reader)
		return reader;
	reader = p4d_module_open("libp4d-reader.so", "p4d_reader", path, sizeof(path), &why);
	if (reader)
		return reader;
	if (p4d_client_talks())
		slurm_spank_log(
		    "p4d: cannot use %s, so p4d did not read the job script: reinstall p4d (-v shows why)",
		    path);
	slurm_verbose("p4d: %s", why);
	return NULL;
}

void p4d_job_read(const p4d_job_script *script, const p4d_shell_limits *limits, p4d_reading *reading)
{
	const p4d_reader_calls *calls = open_reader();

	reading->reader = NULL;
	reading->comment[0] = '\0';
	if (calls)
		calls->read(script, limits, reading);
}

void p4d_read_files_free(p4d_read_files *files)
{
	if (reader)
		reader->free_files(files);
}

const p4d_read_value *p4d_reading_argument(const p4d_reading *reading, const char *argument)
{
	return reader->argument(reading, argument);
}

bool p4d_reading_takes(const p4d_reading *reading, const char *argument)
{
	return reader->takes(reading, argument);
}

bool p4d_reading_knows(const p4d_reading *reading, const char *argument, const char *value)
{
	return reader->knows(reading, argument, value);
}

int p4d_reading_option(const p4d_reading *reading, const char *argument)
{
	return reader->option(reading, argument);
}

const char *p4d_reading_name(const p4d_reading *reading, p4d_option option)
{
	return reader->name(reading, option);
}

bool p4d_reading_say(const p4d_reading *reading, const char *argument, p4d_option option, const char *text,
		     char *buf, size_t size)
{
	return reader->say(reading, argument, option, text, buf, size);
}

const char *p4d_reading_processes(const p4d_reading *reading)
{
	return reader->processes(reading);
}

bool p4d_reading_assigns(const p4d_reading *reading)
{
	return reader->assigns(reading);
}

const char *p4d_reading_beside(const p4d_reading *reading, const char *argument, const char *word,
			       const char **value)
{
	return reader->beside(reading, argument, word, value);
}

const char *p4d_reading_shards(const p4d_reading *reading, const char *framework, int64_t zero_stage,
			       bool *launcher)
{
	return reader->shards(reading, framework, zero_stage, launcher);
}

const char *p4d_reading_framework(const p4d_reading *reading)
{
	return reader->framework(reading);
}
