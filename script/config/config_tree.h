/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Configuration files of training programs as one kind of tree, in which every value knows its line. What
 * parses them are libraries that are opened on demand (libp4d-yaml.so, libp4d-toml.so): most submissions name
 * no such file.
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
	const char *key;  /* in a map */
	const char *text; /* of a scalar, without quotes */
	const struct p4d_config_node *first, *next;
} p4d_config_node;

/* Larger files are not read. An alias shares the nodes of its anchor, so that a walk may meet more of them
 * than there are. */
enum { P4D_CONFIG_BYTES = 1 << 20, P4D_CONFIG_NODES = 1 << 16, P4D_CONFIG_DEPTH = 32 };

/* Zero before use. */
typedef struct p4d_config {
	const p4d_config_node *root; /* NULL: empty */
	struct p4d_config_chunk *chunks;
	unsigned nodes;
	uint64_t until_ns; /* time of p4d_config_clock at which to give up; 0: never */
	char why[120];     /* it could not be read */
} p4d_config;

/* Time that this thread has worked, in ns. */
uint64_t p4d_config_clock(void);

/* Reads a text. False, with tree->why, if the text is malformed, too large or too deep, has too many values,
 * or takes too long. */
typedef bool p4d_config_read(p4d_config *tree, const char *text, size_t length);
void p4d_config_free(p4d_config *tree);
