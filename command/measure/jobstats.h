/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * What jobstats (Princeton University) leaves in a job's AdminComment: "JS1:" and a JSON text, compressed by
 * gzip, as base64. used: GiB of the job's fullest GPU, over time; total: what that GPU has. False: there is
 * no such record, it says nothing of GPUs, is damaged, or this p4d was built without zlib.
 */
bool p4d_jobstats_read(const char *comment, double *used, double *total);

/* Whether it can read them. */
bool p4d_jobstats_is_built(void);
