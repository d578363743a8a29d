/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "reader/reader.h"
#include "site/site.h"
#include "slurm_compat.h"

/*
 * Reads the script of a job that was submitted without p4d's SPANK plugin. It reads only the text, into
 * memory allocated at the start, and for at most a millisecond; if that is not enough, the script counts
 * as not read. NULL: the script starts no training. The caller alone may use the reading, and must always
 * call p4d_script_release.
 */
const p4d_reading *p4d_script_read(const p4d_site *site, p4d_job *job, const job_desc_msg_t *desc);
void p4d_script_release(void);

/* Removes the submitting side's note from a job that has no other p4d variables. */
void p4d_script_remove_note(job_desc_msg_t *desc);
