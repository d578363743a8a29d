/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader.h"

/* How an argument is spelt where it stands: on the line that starts the program, or in a configuration
 * file. */

/* Formats of configuration files, by the ending of their names. */
enum { P4D_TOML, P4D_YAML, P4D_YML, P4D_JSON, P4D_FILE_FORMATS };

/*
 * The format, by the file name's ending. A value that only files can hold (DeepSpeed's JSON, a section of
 * accelerate's YAML) has its file's format even if the script passes it on the command line. -1: no
 * configuration file.
 */
int p4d_guard__format_of(const char *file, const char *argument);

/* "job.sh:4", the place of a value's argument, or a file without line numbers. Returns buf. */
const char *p4d_guard__place_of(const p4d_read_value *value, char *buf, size_t size);

/* Writes "micro_batch_size: 1". False: the file is no configuration file. */
bool p4d_guard__write_in_file(const char *file, const char *argument, const char *value, char *buf,
			      size_t size);

/*
 * Writes "--tp 8", "tp=8", or "--zero_stage 3" (of `accelerate launch`). value: "true" for a switch; "": no
 * value.
 */
const char *p4d_guard__on_line(const p4d_reading *reading, const char *argument, const char *value, char *buf,
			       size_t size);

/*
 * Writes the number of processes that the launcher, or the program itself, starts for this many nodes and
 * GPUs: "job.sh:3: --nproc_per_node 4". False: p4d knows no word for it.
 */
bool p4d_guard__write_processes(const p4d_reading *reading, uint32_t nodes, uint32_t gpus_per_node, char *buf,
				size_t size);
