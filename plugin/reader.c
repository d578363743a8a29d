/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

static p4d_config_read *config(p4d_config_format format)
{
	char path[4096];

	return p4d_config_open(p4d_module_find(p4d_config_libraries[format].file, path, sizeof(path)),
			       format);
}

static void read_with_configurations(const p4d_job_script *script, const p4d_shell_limits *limits,
				     p4d_reading *reading)
{
	p4d_job_script with = *script;

	with.config = config;
	p4d_job_read(&with, limits, reading);
}

const p4d_reader_calls p4d_reader = {
    .build = P4D_MODULE_BUILD,
    .read = read_with_configurations,
    .free_files = p4d_read_files_free,
    .argument = p4d_reading_argument,
    .takes = p4d_reading_takes,
    .knows = p4d_reading_knows,
    .option = p4d_reading_option,
    .name = p4d_reading_name,
    .say = p4d_reading_say,
    .processes = p4d_reading_processes,
    .assigns = p4d_reading_assigns,
    .beside = p4d_reading_beside,
    .shards = p4d_reading_shards,
    .framework = p4d_reading_framework,
};
