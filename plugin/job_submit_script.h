/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "reader/reader.h"
#include "site/site.h"
#include "slurm_compat.h"

/*
 * Reads the script of a job that came without p4d's SPANK plugin: its text alone, in memory that is there
 * from the start, and not longer than a millisecond, else it counts as not read. NULL: no training is in it.
 * Only the caller may use the reading. The caller must always call p4d_script_release.
 */
const p4d_reading *p4d_script_read(const p4d_site *site, p4d_job *job, const job_desc_msg_t *desc);
void p4d_script_release(void);

/* Takes the note of the submitting side out of a job that has nothing else of p4d's. */
void p4d_script_remove_note(job_desc_msg_t *desc);
