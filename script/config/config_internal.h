/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/config_library.h"

/* Number of bytes that are parsed between two checks of the clock: about 0.3 ms. */
enum { P4D_CONFIG_PIECE = 1 << 14 };

/* The sequence of entries to which the parser adds. */
typedef struct p4d_config_entries {
	p4d_config_node *owner, *last;
} p4d_config_entries;

/* Allocates a node. NULL: there are too many nodes, or there is no memory; tree->why says which. */
p4d_config_node *p4d_config__node(p4d_config *tree, p4d_config_kind kind, size_t line);
void p4d_config__add(p4d_config_entries *entries, p4d_config_node *node);
/* Whether the time limit is exceeded; tree->why then says so. */
bool p4d_config__late(p4d_config *tree);
/* A copy of a text in the tree's memory. It ends at the text's first zero byte. NULL: no memory. */
const char *p4d_config__text(p4d_config *tree, const char *text, size_t length);
bool p4d_config__fail(p4d_config *tree, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
extern const p4d_config_module p4d_config__yaml, p4d_config__toml;
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
