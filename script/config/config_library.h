/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/config_tree.h"

/* version of p4d */
typedef enum p4d_config_format { P4D_CONFIG_YAML, P4D_CONFIG_TOML, P4D_CONFIG_FORMATS } p4d_config_format;

/* The only symbol of such a library, which parses one format. */
typedef struct p4d_config_module {
	const char *version; /* version of p4d that it was built with */
	p4d_config_read *read;
} p4d_config_module;

typedef struct p4d_config_library {
	const char *file, *symbol;
	const char *language; /* name of the format, as users write it */
} p4d_config_library;
extern const p4d_config_library p4d_config_libraries[P4D_CONFIG_FORMATS];

/*
 * The format by the ending of a file's name. JSON counts as YAML, of which it is a subset. False: p4d does
 * not read this format.
 */
bool p4d_config_format_of(const char *path, p4d_config_format *format);
/* Opens the library at a path. NULL: it cannot be used. */
p4d_config_read *p4d_config_open(const char *path, p4d_config_format format);
