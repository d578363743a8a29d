/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * What Slurm's accounting knows about users, accounts and QOSes, and the defaults of a job that names none.
 * Filled once by code that can ask Slurm, then read-only: may be shared between threads. Look-ups take
 * logarithmic time and allocate nothing.
 */
typedef struct p4d_associations p4d_associations;

/* Resources that Slurm limits. */
typedef enum p4d_limit { P4D_LIMIT_NODES, P4D_LIMIT_GPUS, P4D_LIMITS } p4d_limit;

/* Strings are copied. NULL or "": none. */
typedef struct p4d_association {
	const char *user; /* none: a row about the account itself */
	uint32_t uid;
	const char *account;
	const char *parent;        /* parent of an account */
	const char *partition;     /* none: the row applies to all partitions */
	const char *qos;           /* the user's default QOS */
	const char *qoses;         /* the QOSes that the user may use, "normal,large"; none: unknown */
	bool is_default;           /* the account is the user's default account */
	uint32_t most[P4D_LIMITS]; /* limits of one job, or of all jobs of an account; 0: no limit */
} p4d_association;

enum { P4D_ASSOCIATIONS = 1 << 20 }; /* maximum number of rows */

/* The stricter of two limits; 0: none. */
static inline uint32_t p4d_association_limit(uint32_t a, uint32_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Returns NULL without memory. */
p4d_associations *p4d_associations_new(void);
/* NULL is accepted. */
void p4d_associations_free(p4d_associations *all);

/* Add entries with these functions, then call p4d_associations_ready. Errors: NO_MEMORY, VALUE (too many). */
int p4d_associations_add(p4d_associations *all, const p4d_association *one, p4d_error *err);
/* Adds a QOS's limits for a job. first: these limits have priority over those of the partition's QOS. */
int p4d_associations_add_qos(p4d_associations *all, const char *qos, const uint32_t most[P4D_LIMITS],
			     bool first, p4d_error *err);
/* Adds a partition whose jobs get a QOS. */
int p4d_associations_add_partition(p4d_associations *all, const char *partition, const char *qos,
				   p4d_error *err);
/* Adds a user of whom only the name is known. */
int p4d_associations_add_user(p4d_associations *all, uint32_t uid, const char *user, p4d_error *err);
/* Ends the additions: sorts the tables, so that look-ups work. */
void p4d_associations_ready(p4d_associations *all);

/* In the functions below, unknown strings are NULL, also as arguments. *all owns the results. */

/* Whether Slurm has accounting. Otherwise p4d cannot verify what users type. */
bool p4d_associations_known(const p4d_associations *all);
const char *p4d_associations_user(const p4d_associations *all, uint32_t uid);
bool p4d_associations_has(const p4d_associations *all, const char *user, const char *account);
const char *p4d_associations_default_account(const p4d_associations *all, const char *user);
const char *p4d_associations_default_qos(const p4d_associations *all, const char *user, const char *account,
					 const char *partition, size_t length);
/* False if it is certain that the user may not use this QOS with this account. */
bool p4d_associations_may_have(const p4d_associations *all, const char *user, const char *account,
			       const char *qos);
const char *p4d_associations_parent(const p4d_associations *all, const char *account);
const char *p4d_associations_partition_qos(const p4d_associations *all, const char *partition, size_t length);

/*
 * The maximum number of nodes or GPUs of a job, if slurmctld enforces limits: from the partition's QOS, else
 * the job's QOS, else the association and the accounts above it. 0: no limit.
 */
uint32_t p4d_associations_most(const p4d_associations *all, p4d_limit of, const char *user,
			       const char *account, const char *partition, const char *qos);
