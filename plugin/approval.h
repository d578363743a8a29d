/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/digest.h"
#include "guard/guard.h"

/*
 * The approved plan in a job's AdminComment, where users cannot change it: a word among those of other tools,
 * either `p4d:DIGEST:SUMMARY` or the plan line (`p4d1:...`), as the site's admin_comment wants.
 */
typedef struct p4d_approval {
	char digest[P4D_DIGEST_TEXT]; /* of the plan; "": none was approved, or it was overwritten */
	char plan[P4D_PLAN_MAX];      /* "" when only the digest is there */
} p4d_approval;

/* Reads a comment, which may be NULL. A plan that cannot be read gets a digest that no plan has. */
void p4d_approval_read(const char *comment, p4d_approval *approval);

/* Characters of a digest with its summary. */
enum { P4D_APPROVAL_SUMMARY = 200 };

/*
 * The word that stands for the plan of a verdict of p4d_guard_verify, a digest of it and what it asks for;
 * "": there is no plan that can be read.
 */
const char *p4d_approval_summary(const p4d_verdict *verdict, char buf[P4D_APPROVAL_SUMMARY + 1]);

/*
 * Writes the comment without the words that look like p4d's, the words of others as they were, and at the end
 * ours, unless that is "". The caller frees it. NULL: no memory.
 */
char *p4d_approval_write(const char *comment, const char *ours);
