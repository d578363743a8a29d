/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/digest.h"
#include "guard/verdict_record.h"
#include "plan/plan_line.h"

/*
 * The approved plan in a job's AdminComment, where users cannot change it: a word among those of other tools,
 * either the record of the verdict (`p4d:DIGEST:...`) or the plan line (`p4d1:...`), as the site's
 * admin_comment wants.
 */
typedef struct p4d_approval {
	char digest[P4D_DIGEST_TEXT]; /* digest of the plan; "": none was approved, or it was overwritten */
	char plan[P4D_PLAN_MAX];      /* "" when only the digest is there */
} p4d_approval;

/* Reads a comment, which may be NULL. A plan that cannot be read gets a digest that no plan has. */
void p4d_approval_read(const char *comment, p4d_approval *approval);

/*
 * Writes the comment without the words that look like p4d's, the words of others as they were, and at the end
 * ours, unless that is "". The caller frees it. NULL: no memory.
 */
char *p4d_approval_write(const char *comment, const char *ours);
