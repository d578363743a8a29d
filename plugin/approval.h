/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/digest.h"
#include "guard/verdict_record.h"
#include "plan/plan_line.h"

/*
 * The approved plan in a job's AdminComment, which users cannot change. The comment may also have words of
 * other tools. The site's admin_comment decides which word p4d adds: the record of the verdict
 * (`p4d:DIGEST:...`) or the plan line (`p4d1:...`).
 */
typedef struct p4d_approval {
	char digest[P4D_DIGEST_TEXT]; /* digest of the plan; "": no plan was approved, or the word was
				       * overwritten */
	char plan[P4D_PLAN_MAX];      /* the plan line; "" if only the digest is stored */
} p4d_approval;

/* Reads a comment (may be NULL). If the plan cannot be read, the digest becomes one that no plan has. */
void p4d_approval_read(const char *comment, p4d_approval *approval);

/* Writes the comment without the words that look like p4d's, and then p4d's new word unless it is "".
 * Words of other tools stay unchanged. The caller frees the result. NULL: no memory. */
char *p4d_approval_write(const char *comment, const char *ours);
