/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Reads the record of jobstats (Princeton University) in a job's AdminComment: "JS1:" and a JSON text,
 * compressed by gzip, as base64. used: peak GiB of the job's GPU with the most memory in use. total: the
 * memory of this GPU. Returns false if there is no such record, if it has no GPUs or is damaged, or if
 * this p4d was built without zlib.
 */
bool p4d_jobstats_read(const char *comment, double *used, double *total);

/* Whether this build of p4d can read such records. */
bool p4d_jobstats_is_built(void);
