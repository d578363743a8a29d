/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Configuration files of training programs as trees. Every format gives the same kind of tree, and every
 * value knows its line number. The parsers are libraries that p4d opens on demand (libp4d-yaml.so,
 * libp4d-toml.so), because most submissions need no such file.
 */

typedef enum p4d_config_kind {
	P4D_CONFIG_NULL,
	P4D_CONFIG_SCALAR,
	P4D_CONFIG_LIST,
	P4D_CONFIG_MAP
} p4d_config_kind;

typedef struct p4d_config_node {
	p4d_config_kind kind;
	uint32_t line;
	const char *key;  /* the entry's name, if the node is an entry of a map */
	const char *text; /* text of a scalar, without quotes */
	const struct p4d_config_node *first, *next;
} p4d_config_node;

/* p4d does not read larger files. An alias shares the nodes of its anchor, so a walk over the tree may
 * visit more nodes than the limit. */
enum { P4D_CONFIG_BYTES = 1 << 20, P4D_CONFIG_NODES = 1 << 16, P4D_CONFIG_DEPTH = 32 };

/* Zero it before use. */
typedef struct p4d_config {
	const p4d_config_node *root; /* NULL: the file is empty */
	struct p4d_config_chunk *chunks;
	unsigned nodes;
	uint64_t until_ns; /* value of p4d_config_clock at which the parser gives up; 0: never */
	char why[120];     /* reason why the file could not be parsed */
} p4d_config;

/* CPU time of this thread, in ns. */
uint64_t p4d_config_clock(void);

/* Parses a text. False: the text is malformed, too large or too deep, it has too many values, or parsing
 * takes too long; tree->why says which. */
typedef bool p4d_config_read(p4d_config *tree, const char *text, size_t length);
void p4d_config_free(p4d_config *tree);
