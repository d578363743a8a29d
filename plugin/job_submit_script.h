/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "job/job.h"
#include "reader/reader.h"
#include "site/site.h"
#include "slurm_compat.h"

/*
 * Reads the script of a job that was submitted without p4d's SPANK plugin: only its text, in memory allocated
 * at the start, and for at most a millisecond; beyond that, it counts as not read. NULL: the script starts no
 * training. Only the caller may use the reading, and it must always call p4d_script_release.
 */
const p4d_reading *p4d_script_read(const p4d_site *site, p4d_job *job, const job_desc_msg_t *desc);
void p4d_script_release(void);

/* Removes the submitting side's note from a job that has no other p4d variables. */
void p4d_script_remove_note(job_desc_msg_t *desc);
