/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An item of the list that --export of sbatch and srun takes: "ALL", "NAME" or "NAME=VALUE". Its text belongs
 * to the list. */
typedef struct p4d_exported {
	const char *name;
	size_t name_length;
	const char *value; /* NULL: the item is a name without a value */
	size_t value_length;
} p4d_exported;

/* Returns the item at *at and moves *at to the next item. False: the list has no more. Quotes work as in
 * Slurm: a comma inside quotes separates no items, and quotes around a whole item are not part of it. */
bool p4d_exported_next(const char **at, p4d_exported *item);

/* Whether the item is the word ALL: every variable of the environment. */
bool p4d_exported_is_all(const p4d_exported *item);
