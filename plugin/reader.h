/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/read_job.h"
#include "module.h"

/*
 * libp4d-reader.so: the readers of job scripts, which most jobs do not need. libp4d-client.so calls them
 * only through this table. They are a separate library because their tables contain pointers, which the
 * loader would otherwise relocate for every job with p4d options.
 */
typedef struct p4d_reader_calls {
	p4d_module_build build;
	/* as in read_job.h and read_files.h; configuration files are parsed by the libraries in the same
	 * directory */
	void (*read)(const p4d_job_script *script, const p4d_shell_limits *limits, p4d_reading *reading);
	void (*free_files)(p4d_read_files *files);
	/* as in reader.h */
	const p4d_read_value *(*argument)(const p4d_reading *reading, const char *argument);
	bool (*takes)(const p4d_reading *reading, const char *argument);
	bool (*knows)(const p4d_reading *reading, const char *argument, const char *value);
	int (*option)(const p4d_reading *reading, const char *argument);
	const char *(*name)(const p4d_reading *reading, p4d_option option);
	bool (*say)(const p4d_reading *reading, const char *argument, p4d_option option, const char *text,
		    char *buf, size_t size);
	const char *(*processes)(const p4d_reading *reading);
	bool (*assigns)(const p4d_reading *reading);
	const char *(*beside)(const p4d_reading *reading, const char *argument, const char *word,
			      const char **value);
	const char *(*shards)(const p4d_reading *reading, const char *framework, int64_t zero_stage,
			      bool *launcher);
	const char *(*framework)(const p4d_reading *reading);
} p4d_reader_calls;

/* The only symbol of the library. */
#pragma GCC visibility push(default)
extern const p4d_reader_calls p4d_reader;
#pragma GCC visibility pop
