/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reader/reader.h"

/* An argument in the words of the place where it stands: the line that starts the program, or a file of its
 * configuration. */

/* Configuration files, by the ending of their names. */
enum { P4D_TOML, P4D_YAML, P4D_YML, P4D_JSON, P4D_FILE_FORMATS };

/*
 * By the ending of its name. What only files say, DeepSpeed's JSON and the sections of accelerate's YAML, is
 * of one, wherever that is written. -1: it is none.
 */
int p4d_guard__format_of(const char *file, const char *argument);

/* "micro_batch_size: 1"; false: the file is no configuration file. */
bool p4d_guard__write_in_file(const char *file, const char *argument, const char *value, char *buf,
			      size_t size);

/* "--tp 8", "tp=8"; "--zero_stage 3" of `accelerate launch`. value: "true" for a switch; "": no value. */
const char *p4d_guard__on_line(const p4d_reading *reading, const char *argument, const char *value, char *buf,
			       size_t size);
